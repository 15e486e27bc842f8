"""One kind's life in the cache: look for it, list it, watch it, and begin again after every kind of trouble."""

import logging
import random
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from webhook.cluster.connection import Connection, Stream
from webhook.cluster.discovery import Served, find
from webhook.cluster.errors import ApiError
from webhook.cluster.listing import pages
from webhook.cluster.needles import matters, needles
from webhook.cluster.view import View
from webhook.ownership.decoding import decode
from webhook.ownership.objects import Record
from webhook.ownership.reading import read
from webhook.ownership.settings import Settings

log = logging.getLogger(__name__)

_OBJECT_EVENTS = (b'{"type":"ADDED"', b'{"type":"MODIFIED"', b'{"type":"DELETED"')
_UID = re.compile(rb'"uid":"([^"]+)"')


@dataclass(frozen=True, slots=True)
class Pace:
    """How often and how long, in seconds.

    `look_again`: between two looks for a kind that is not installed. `watch`: how long a watch is asked to last; the
    API server sends a bookmark shortly before it ends, so a quiet kind is confirmed at least that often. `silence`: how
    much longer than that a watch may be silent before the connection counts as dead. `call`: for each other request.
    Pauses after trouble grow from `first_pause` to `longest_pause`. `page`: objects in one page of a list.
    """

    look_again: float = 10.0
    watch: float = 40.0
    silence: float = 10.0
    call: float = 30.0
    first_pause: float = 0.5
    longest_pause: float = 30.0
    page: int = 250

    @classmethod
    def for_age(cls, max_age: timedelta) -> "Pace":
        """Return the pace at which a quiet cluster is confirmed several times before its picture is too old."""
        seconds = max_age.total_seconds()
        return cls(watch=min(40.0, max(1.0, seconds / 3)), look_again=min(10.0, max(0.5, seconds / 6)))


class Watcher:
    """Keeps one `View` up to date in a thread of its own."""

    def __init__(self, connection: Connection, view: View, settings: Settings, pace: Pace) -> None:
        self._connection = connection
        self._view = view
        self._settings = settings
        self._pace = pace
        self._needles = needles(settings) if view.kind.many else ()
        self._uids: set[bytes] = set()
        self._served: Served | None = None
        self._position = ""  # the resourceVersion to watch from; "" asks for a list first
        self._failures = 0  # in a row, since a watch last delivered something
        self._begun_again = False  # at once, because what we knew was too old; once between two such deliveries
        self._stopping = threading.Event()
        self._stream: Stream | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch-{view.kind.id}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end: a stream that is being read is cut."""
        self._stopping.set()
        stream = self._stream
        if stream is not None:
            stream.cut()

    def join(self, timeout: float) -> None:
        """Wait for the end, at most `timeout` seconds."""
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                pause = self._step()
            except ApiError as error:
                pause = self._failed(error)
            except Exception as error:  # the thread must live on; the picture ages meanwhile
                log.exception("watching %s failed unexpectedly", self._view.kind.id)
                self._position = ""
                pause = self._failed(ApiError(0, f"an unexpected {type(error).__name__}"))
            self._stopping.wait(pause)

    def _step(self) -> float:
        """Do the next thing and return the seconds to wait after it."""
        if self._served is None:
            self._served = find(self._connection, self._view.kind, self._view.group, timeout=self._pace.call)
            if self._served is None:
                self._failures = 0
                self._view.gone()
                return self._pace.look_again
        if not self._position:
            self._list(self._served)
        self._watch(self._served)
        return 0

    def _failed(self, error: ApiError) -> float:
        """Decide how to go on, and return the seconds to wait before that."""
        if self._stopping.is_set():
            return 0
        self._failures += 1
        if error.status == 404:
            self._served = None
        if error.status == 404 or error.gone:
            self._position = ""
            if not self._begun_again:
                self._begun_again = True
                return 0
        if str(error) != self._view.problem:
            log.warning("%s: %s", self._view.kind.id, error)
        self._view.failed(error)
        longest = min(self._pace.longest_pause, self._pace.first_pause * 2.0 ** min(self._failures - 1, 16))
        return longest * random.uniform(0.5, 1)  # noqa: S311 - spreads the load, no secret

    def _list(self, served: Served) -> None:
        asked = time.monotonic()
        records: dict[str, Record] = {}
        position = ""
        for page in pages(self._connection, served, limit=self._pace.page, timeout=self._pace.call):
            for item in page.objects:
                record = read(item, self._settings)
                if record is not None:
                    records[_key(item)] = record
            position = page.resource_version
            if self._stopping.is_set():
                return
        if not position:
            raise ApiError(0, "the API server's list has no resourceVersion")
        self._uids = {record.meta.uid.encode() for record in records.values()}
        self._view.replace(records, asked)
        self._position = position

    def _watch(self, served: Served) -> None:
        lasting = max(1, round(self._pace.watch * random.uniform(0.75, 1)))  # noqa: S311 - spreads the load, no secret
        query: dict[str, str | int] = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._position,
            "timeoutSeconds": lasting,
            **served.filter,
        }
        heard = False
        opened = time.monotonic()
        with self._connection.stream(served.path, query, idle=lasting + self._pace.silence) as stream:
            self._stream = stream
            self._view.opened()
            for line in stream:
                if self._stopping.is_set():
                    return
                self._take(line)
                heard = True
                self._failures, self._begun_again = 0, False
        self._stream = None
        if not heard and time.monotonic() - opened < 1 and not self._stopping.is_set():
            raise ApiError(0, "the API server closed the watch at once")
        self._failures, self._begun_again = 0, False

    def _take(self, line: bytes) -> None:
        """Apply one line of the watch. Raises ApiError for what says that the watch is over."""
        if self._needles and line.startswith(_OBJECT_EVENTS) and not self._concerns_us(line):
            self._view.heard()
            return
        try:
            event = decode(line)
        except ValueError as error:
            self._position = ""
            raise ApiError(0, "a line of the watch is no JSON") from error
        item = event.get("object") if isinstance(event, dict) else None
        if not isinstance(item, dict):
            self._position = ""
            raise ApiError(0, "a line of the watch is no event")
        kind = event.get("type")
        if kind == "ERROR":
            self._position = ""
            code = item.get("code")
            raise ApiError(code if isinstance(code, int) else 0, f"the watch ended: {item.get('message')}")
        if kind != "BOOKMARK":
            self._apply(item, deleted=kind == "DELETED")
        self._position = _metadata(item, "resourceVersion") or self._position
        self._view.heard()

    def _apply(self, item: Mapping[str, Any], *, deleted: bool) -> None:
        record = None if deleted else read(item, self._settings)
        before = self._view.put(_key(item), record)
        if before is not None:
            self._uids.discard(before.meta.uid.encode())
        if record is not None:
            self._uids.add(record.meta.uid.encode())

    def _concerns_us(self, line: bytes) -> bool:
        """Whether the object matters now, or did before: a label that made it matter may have been taken away."""
        return matters(line, self._needles) or not self._uids.isdisjoint(_UID.findall(line))


def _metadata(item: Mapping[str, Any], field: str) -> str:
    metadata = item.get("metadata")
    value = metadata.get(field) if isinstance(metadata, Mapping) else None
    return value if isinstance(value, str) else ""


def _key(item: Mapping[str, Any]) -> str:
    return f"{_metadata(item, 'namespace')}/{_metadata(item, 'name')}"
