"""Writes into the Lease what the facts show: an owner that has been rolled out has settled (DESIGN.md section 6)."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from webhook.claim.lease import Held, LeaseStore
from webhook.claim.protocol import adopt, forget, settle
from webhook.cluster.errors import ApiError
from webhook.ownership.facts import Facts
from webhook.ownership.holders import holders, serves
from webhook.ownership.memory import Memory
from webhook.ownership.owners import Owner
from webhook.ownership.settings import Settings
from webhook.ownership.situation import Situation, rolled_out, situation

log = logging.getLogger(__name__)

_LIVE_SECONDS = 10.0
_LEASE_SECONDS = 2.0


class Settler:
    """Looks at the cached facts now and then; before it writes it reads them again, live, and after the Lease."""

    def __init__(
        self,
        store: LeaseStore,
        settings: Settings,
        cached: Callable[[], Facts],
        read_live: Callable[[float], Facts],
        remembered: Callable[[], Memory],
    ) -> None:
        """`cached` and `read_live` are the facts, `remembered` what the Lease was last seen to say."""
        self._store = store
        self._settings = settings
        self._cached = cached
        self._read_live = read_live
        self._remembered = remembered
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="settler", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End the looking."""
        self._stopping.set()

    def _run(self) -> None:
        pause = self._settings.freshness.claim_poll.total_seconds() / 2
        failing = ""
        while not self._stopping.wait(pause):
            try:
                self.look()
                failing = ""
            except ApiError as error:
                if str(error) != failing:
                    log.warning("What has settled cannot be written: %s", error)
                failing = str(error)

    def look(self) -> None:
        """Write what the facts show and the Lease does not say. Raises ApiError."""
        memory = self._remembered()
        if memory.problem:
            return
        if self._due(replace(self._cached(), memory=memory)) == memory:
            return
        held = self._store.read(_LEASE_SECONDS)
        due = self._due(replace(self._read_live(_LIVE_SECONDS), memory=held.memory))
        if due != held.memory:
            self._write(held, due)

    def _write(self, held: Held, memory: Memory) -> None:
        if self._store.swap(held, memory, _LEASE_SECONDS) is not None:
            settled = ", ".join(sorted(memory.settled)) or "nobody"
            log.info("Settled by now: %s.", settled)

    def _due(self, facts: Facts) -> Memory:
        """What the Lease should say by these facts."""
        memory, settings = facts.memory, self._settings
        standing = situation(facts, settings)
        if standing.unknown is not None or memory.problem:
            return memory
        pools = settings.scope.mode == "selectors"
        for owner in memory.settled - _wanted(standing):
            memory = forget(memory, owner)
        for owner in sorted(rolled_out(facts, settings) - memory.settled):
            claim = memory.claim_of(owner)
            leaving = claim is not None and claim.state == "leaving"
            if claim is None or not leaving or not claim.is_young(facts.now, settings.claim.timeout):
                memory = settle(memory, owner, pools=pools)
        if not facts.memory.exists and memory == facts.memory and settings.adopt:
            for owner in _in_operation(standing):
                memory = adopt(memory, owner, facts.now)
        return memory


def _wanted(standing: Situation) -> frozenset[Owner]:
    """The owners that are alone in their pool and asked for: only these can be settled."""
    return frozenset(
        pool.phase.owner
        for pool in standing.pools
        if pool.phase.owner is not None and pool.phase.name in ("settled", "starting")
    )


def _in_operation(standing: Situation) -> tuple[Owner, ...]:
    """The owners that start by the facts while a workload runs on their chips: the guard came late, not a switch."""
    found: list[Owner] = []
    running = [one for one in holders(standing.facts, standing.settings) if one.pod.phase == "Running"]
    for pool in standing.pools:
        owner = pool.phase.owner
        if owner is None or pool.phase.name != "starting":
            continue
        if any(one.hold == "holds" and one.pod.node in pool.nodes and serves(owner, one) for one in running):
            found.append(owner)
    return tuple(found)
