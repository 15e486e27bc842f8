"""Writes into the Lease what the facts show: an owner that has been rolled out has settled (DESIGN.md section 6)."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from webhook.claim.course import Compare, Failed, Held, ReadLease, Swap, remember
from webhook.claim.lease import Leases
from webhook.claim.protocol import adopt, forget, settle
from webhook.claim.stored import stored
from webhook.ownership.facts import Facts
from webhook.ownership.holders import holders, serves
from webhook.ownership.memory import Memory
from webhook.ownership.owners import Owner
from webhook.ownership.settings import Settings
from webhook.ownership.situation import Situation, rolled_out, situation

log = logging.getLogger(__name__)

LIVE_SECONDS = 10.0


class Settler:
    """Looks at the cached facts now and then; before it writes it reads them again, live, and after the Lease."""

    def __init__(
        self,
        leases: Leases,
        settings: Settings,
        cached: Callable[[], Facts],
        read_live: Callable[[float], Facts],
        remembered: Callable[[], Memory],
    ) -> None:
        """`cached` and `read_live` are the facts, `remembered` what the Lease was last seen to say."""
        self._leases = leases
        self._settings = settings
        self._cached = cached
        self._read_live = read_live
        self._remembered = remembered
        self._failing = ""
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
        while not self._stopping.wait(pause):
            self.look()

    def look(self) -> None:
        """Write what the facts show and the Lease does not say, if the cached facts show any such thing."""
        memory = self._remembered()
        cached = replace(self._cached(), memory=memory)
        if memory.problem or due(cached, self._settings) == memory:
            return
        course = remember()
        answer: object = None
        while True:
            try:
                step = course.send(answer)
            except StopIteration:
                return
            match step:
                case ReadLease():
                    answer = self._told(self._leases.read())
                case Compare(held, now):
                    answer = self._due_now(held, now)
                case Swap(before, after):
                    answer = self._told(self._leases.swap(before, after), after)
                case _:
                    answer = Failed("nobody asks for anything here")

    def _due_now(self, memory: Memory, now: datetime) -> Memory:
        return due(replace(self._read_live(LIVE_SECONDS), memory=memory, now=now), self._settings)

    def _told(self, answer: Held | Failed | None, written: Memory | None = None) -> Held | Failed | None:
        """Pass `answer` on, and log what it means: each failure once, and what was written."""
        failure = answer.reason if isinstance(answer, Failed) else ""
        if failure and failure != self._failing:
            log.warning("What has settled cannot be written: %s", failure)
        self._failing = failure
        if written is not None and isinstance(answer, Held):
            log.info("Settled by now: %s.", ", ".join(sorted(written.settled)) or "nobody")
        return answer


def due(facts: Facts, settings: Settings) -> Memory:
    """Return what the Lease should say by these facts, whose memory and `now` are the Lease's of just before.

    An owner that is not alone in its pool any more, or not asked for, is not settled. One that has been rolled out is,
    and so is one that had settled and whose giving up has come to nothing; not while a claim of giving it up may still
    become true. Without any Lease, an owner whose chips a workload uses was there before the guard; where none is seen
    and chips are advertised and used all the same, it is a foreign one that nobody sees.
    """
    memory = facts.memory
    standing = situation(facts, settings)
    if standing.unknown is not None:
        return memory
    pools, timeout = settings.scope.mode == "selectors", settings.claim.timeout
    wanted = _wanted(standing)
    for owner in memory.settled - wanted:
        memory = forget(memory, owner)
    complete = rolled_out(facts, settings)
    for owner in sorted(wanted):
        claim = memory.claim_of(owner)
        if claim is not None and claim.given_up_recently(facts.now, timeout):
            continue
        had_settled = claim is not None and claim.state == "leaving" and claim.settled
        if owner in complete or owner in memory.settled or had_settled:
            memory = settle(memory, owner, stored(facts), facts.now, timeout, pools=pools)
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
    running = [
        one for one in holders(standing.facts, standing.settings) if one.pod.phase == "Running" and one.hold == "holds"
    ]
    for pool in standing.pools:
        owner = pool.phase.owner
        if owner is None or pool.phase.name != "starting":
            continue
        if any(one.pod.node in pool.nodes and serves(owner, one) for one in running):
            found.append(owner)
    serving = {node.name for node in standing.facts.nodes.values() if node.ready and any(node.allocatable.values())}
    if not standing.active and any(one.pod.node in serving for one in running):
        found.append(Owner.FOREIGN)
    return tuple(found)
