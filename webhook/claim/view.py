"""What a replica knows of the Lease at any moment: read once a second, apart from the watches (DESIGN.md section 6)."""

import logging
import threading
import time
from dataclasses import dataclass

from webhook.claim.lease import LeaseStore
from webhook.cluster.errors import ApiError
from webhook.ownership.memory import Memory
from webhook.ownership.settings import Freshness

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Read:
    memory: Memory
    began: float


class ClaimView:
    """Polls the Lease in a thread. A Pod is admitted only on a read that began recently enough."""

    def __init__(self, store: LeaseStore, freshness: Freshness) -> None:
        self._store = store
        self._poll = freshness.claim_poll.total_seconds()
        self._max_age = freshness.claim_max_age.total_seconds()
        self._latest: _Read | None = None
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

    def current(self) -> Memory:
        """Return what the Lease said, without any I/O; one that was read too long ago tells so by its `problem`."""
        latest = self._latest
        if latest is None:
            return Memory(decides=True, problem="it has not been read yet")
        age = time.monotonic() - latest.began
        if age > self._max_age:
            return Memory(decides=True, problem=f"it was read {age:.0f} s ago")
        return latest.memory

    def _run(self) -> None:
        failing = ""
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._latest = _Read(self._store.read(self._max_age).memory, began)
                failing = ""
            except ApiError as error:
                if str(error) != failing:
                    log.warning("The claim's Lease cannot be read: %s", error)
                failing = str(error)
            self._stopping.wait(max(0.05, self._poll - (time.monotonic() - began)))
