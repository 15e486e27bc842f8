"""Owner changes in the order that makes them safe: Lease, facts and rules, swap, admit (DESIGN.md section 6)."""

import time
from collections.abc import Callable
from dataclasses import replace

from webhook.claim.lease import Held, LeaseStore
from webhook.claim.protocol import activate, give_up
from webhook.cluster.errors import ApiError
from webhook.ownership.change import Change
from webhook.ownership.facts import Facts
from webhook.ownership.giving_up import losses
from webhook.ownership.memory import Claim, Memory
from webhook.ownership.owners import Owner
from webhook.ownership.request import Request
from webhook.ownership.scope import Selector
from webhook.ownership.settings import Settings
from webhook.ownership.verdict import Finding, Judged, Observation, Verdict

Judge = Callable[[Request, Facts, Settings], Verdict]
ReadLive = Callable[[float], Facts]

_LEASE_SECONDS = 2.0


class Claims:
    """Judges owner changes of a live cluster. Thread-safe: all that is shared is the Lease."""

    def __init__(self, store: LeaseStore, settings: Settings, judge: Judge) -> None:
        self._store = store
        self._settings = settings
        self._judge = judge

    def decide(self, request: Request, read_live: ReadLive, left: Callable[[], float]) -> Verdict:
        """Return the verdict on an owner change, swapped into the Lease before it is given.

        `read_live` reads the facts within so many seconds; `left` tells the seconds that remain for everything.
        """
        try:
            held = self._store.read(min(_LEASE_SECONDS, left()))
        except ApiError as error:
            memory = Memory(decides=True, problem=str(error))
            return self._judge(request, replace(read_live(left()), memory=memory), self._settings)
        facts = replace(read_live(left()), memory=held.memory)
        verdict = self._judge(request, facts, self._settings)
        change = Change(request, self._settings)
        if not verdict.allowed or request.dry_run or request.sub_resource:
            return verdict
        lost = [loss for loss in losses(change, facts, self._settings) if loss.whole]
        try:
            if change.activated or change.moved:
                return self._activate(change, held, verdict, facts, left)
            if lost:
                return self._give_up(change, lost[0].owner, held, verdict, facts, read_live, left)
        except ApiError as error:
            return _refused(verdict, change, f"the Lease cannot be written: {error}")
        return verdict

    def _activate(
        self, change: Change, held: Held, verdict: Verdict, facts: Facts, left: Callable[[], float]
    ) -> Verdict:
        memory = held.memory
        for claiming in (*change.activated, *change.moved):
            memory = activate(memory, _claim(change, claiming.owner, claiming.selector, facts), pools=self._pools)
        if self._store.swap(held, memory, min(_LEASE_SECONDS, left())) is None:
            return _refused(verdict, change, self._who_was_faster(left))
        return verdict

    def _give_up(
        self,
        change: Change,
        owner: Owner,
        held: Held,
        verdict: Verdict,
        facts: Facts,
        read_live: ReadLive,
        left: Callable[[], float],
    ) -> Verdict:
        """End the memory of `owner`, wait until every replica refuses Pods, and look for Pods once more.

        Only a settled owner has Pods admitted; one that starts, leaves or is in conflict needs no wait.
        """
        selector = next((one.selector for one in change.claimed_before if one.owner is owner), Selector())
        leaving = give_up(held.memory, _claim(change, owner, selector, facts), pools=self._pools)
        written = self._store.swap(held, leaving, min(_LEASE_SECONDS, left()))
        if written is None:
            return _refused(verdict, change, self._who_was_faster(left))
        if owner not in held.memory.settled:
            return verdict
        freshness = self._settings.freshness
        time.sleep(max(0.0, min((freshness.claim_max_age + freshness.landing).total_seconds(), left() - 1.0)))
        again = self._judge(change.request, replace(read_live(left()), memory=held.memory), self._settings)
        now = self._store.read(min(_LEASE_SECONDS, max(0.5, left())))
        if now.version != written.version:
            return _refused(verdict, change, "somebody else changed the owner meanwhile")
        if not again.allowed:
            self._store.swap(now, replace(held.memory, exists=True), _LEASE_SECONDS)
        return again

    def _who_was_faster(self, left: Callable[[], float]) -> str:
        memory = self._store.read(min(_LEASE_SECONDS, max(0.5, left()))).memory
        said = "; ".join(f"{one.user} is {one.state} {one.owner} with {one.object}" for one in memory.claims)
        return said or "somebody else changed the owner at the same moment"

    @property
    def _pools(self) -> bool:
        return self._settings.scope.mode == "selectors"


def _claim(change: Change, owner: Owner, selector: Selector, facts: Facts) -> Claim:
    request = change.request
    return Claim(owner, "activating", change.ref.slashed, selector, request.uid, request.user.name, facts.now)


def _refused(verdict: Verdict, change: Change, why: str) -> Verdict:
    finding = Finding(
        "second-owner",
        "deny",
        f"{change.ref} is one of two changes of owner at the same moment",
        (Observation("Lease ascend-owner-guard", "", why),),
        "look who owns the chips now, then repeat this if it is still right",
    )
    return replace(verdict, denials=(Judged(finding, "enforce"), *verdict.denials))
