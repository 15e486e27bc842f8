"""What is known of one kind in one API group: its records, and how good that knowledge is."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from webhook.cluster.errors import ApiError
from webhook.ownership.kinds import FactKind
from webhook.ownership.objects import Record


@dataclass(frozen=True, slots=True)
class ViewStatistics:
    """Numbers about one view for metrics and status; `age` in seconds since it was last confirmed complete."""

    kind: str
    group: str
    records: int
    age: float
    lists: int
    watches: int
    events: int
    errors: int
    problem: str


class View:
    """Written by one watcher, read by any thread.

    It is *confirmed* by a list, an event, a bookmark, a watch that opens, and, while the kind is absent, by discovery
    that says so again. A refusal (403 and its like) makes it missing at once; any other trouble only lets it age, and
    makes it missing as long as it has never been read. `version` changes with everything that facts are made of.
    """

    def __init__(self, kind: FactKind, group: str) -> None:
        self.kind = kind
        self.group = group
        self.version = 0
        self.absent = False
        self.problem = ""
        self.tried = False
        self._lock = threading.Lock()
        self._records: dict[str, Record] = {}
        self._read = False
        self._refused = False
        self._confirmed = time.monotonic()
        self._lists = self._watches = self._events = self._errors = 0

    @property
    def missing(self) -> str:
        """Why this kind cannot be judged, "" when it can."""
        if self._read and not self._refused:
            return ""
        return self.problem or "it has not been read yet"

    @property
    def age(self) -> float:
        """Seconds since it was last confirmed complete (before that: since it was made)."""
        return time.monotonic() - self._confirmed

    def records(self) -> list[Record]:
        """Return a copy of the records."""
        with self._lock:
            return list(self._records.values())

    def statistics(self) -> ViewStatistics:
        """Return the numbers."""
        return ViewStatistics(
            kind=self.kind.id,
            group=self.group,
            records=len(self._records),
            age=self.age,
            lists=self._lists,
            watches=self._watches,
            events=self._events,
            errors=self._errors,
            problem=self.problem,
        )

    def replace(self, records: Mapping[str, Record], at: float) -> None:
        """Take a complete list that was asked for at `at` (monotonic clock)."""
        with self._lock:
            self._records = dict(records)
        self._lists += 1
        self._known(absent=False, at=at, changed=True)

    def gone(self) -> None:
        """The API server says that it does not serve the kind."""
        with self._lock:
            self._records = {}
        self._known(absent=True, at=time.monotonic(), changed=not self.absent)

    def opened(self) -> None:
        """A watch that continues from what is known has been accepted."""
        self._watches += 1
        self._known(absent=False, at=time.monotonic(), changed=False)

    def put(self, key: str, record: Record | None) -> Record | None:
        """Store a record, or with None forget it. Returns what was there before."""
        with self._lock:
            before = self._records.get(key)
            if record is None:
                self._records.pop(key, None)
            else:
                self._records[key] = record
        if before != record:
            self.version += 1
        return before

    def heard(self) -> None:
        """The watch has delivered something: nothing older is outstanding."""
        self._events += 1
        self._confirmed = time.monotonic()

    def failed(self, error: ApiError) -> None:
        """Remember trouble. A refusal, or trouble before the first reading, counts as missing."""
        before = self.missing
        self._errors += 1
        self.problem = str(error)
        self._refused = error.refused
        self.tried = self.tried or error.refused
        if self.missing != before:
            self.version += 1

    def _known(self, *, absent: bool, at: float, changed: bool) -> None:
        changed = changed or bool(self.missing)
        self.absent, self.problem, self._refused, self._read, self.tried = absent, "", False, True, True
        self._confirmed = max(self._confirmed, at)
        if changed:
            self.version += 1
