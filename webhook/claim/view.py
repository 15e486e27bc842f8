"""What a replica knows of the Lease at any moment: read once a second, apart from the watches (DESIGN.md section 6)."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from webhook.claim.course import Failed
from webhook.claim.lease import Leases
from webhook.ownership.memory import Memory, Release
from webhook.ownership.settings import Freshness

log = logging.getLogger(__name__)

MIN_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class _Read:
    memory: Memory
    began: float


class ClaimView:
    """Polls the Lease in a thread. A Pod is admitted only on a read that began recently enough."""

    def __init__(self, leases: Leases, freshness: Freshness, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`monotonic` is this replica's clock, in seconds; it never leaves it."""
        self._leases = leases
        self._poll = freshness.claim_poll.total_seconds()
        self._max_age = freshness.claim_max_age.total_seconds()
        self._monotonic = monotonic
        self._latest: _Read | None = None
        self._failure = ""
        self.when_released: Callable[[Release], None] = lambda _: None
        """Called with each release by hand that is seen to happen (not with one that was there before)."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="claim-view", daemon=True)

    def start(self) -> None:
        """Begin to poll."""
        self._thread.start()

    def stop(self) -> None:
        """End the polling."""
        self._stopping.set()

    @property
    def synced(self) -> bool:
        """Whether the Lease has been read once."""
        return self._latest is not None

    @property
    def fresh(self) -> bool:
        """Whether what is known began to be read less than `freshness.claimMaxAge` ago."""
        latest = self._latest
        return latest is not None and self._monotonic() - latest.began < self._max_age

    def current(self) -> Memory:
        """Return what the Lease said, without any I/O; one that was read too long ago tells so by its `problem`."""
        latest = self._latest
        if latest is None:
            return Memory(decides=True, problem=self._failure or "it has not been read yet")
        age = self._monotonic() - latest.began
        if age < self._max_age:
            return latest.memory
        why = f" ({self._failure})" if self._failure else ""
        return Memory(decides=True, problem=f"it was read {age:.0f} s ago{why}")

    def poll(self) -> None:
        """Read the Lease once. What cannot be read leaves what is known in place, to age."""
        began = self._monotonic()
        read = self._leases.read(self._max_age)
        if isinstance(read, Failed):
            if read.reason != self._failure:
                log.warning("The claim's Lease cannot be read: %s", read.reason)
            self._failure = read.reason
            return
        self._failure = ""
        before, self._latest = self._latest, _Read(read.memory, began)
        released = read.memory.released
        if before is not None and released is not None and released != before.memory.released:
            self.when_released(released)

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = self._monotonic()
            self.poll()
            self._stopping.wait(max(MIN_PAUSE_SECONDS, self._poll - (self._monotonic() - began)))
