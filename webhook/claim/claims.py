"""Owner changes of a live cluster: the steps of `webhook.claim.course`, done at an API server."""

import time
from collections.abc import Callable
from dataclasses import replace

from webhook.claim.course import (
    LEASE_SECONDS,
    Compare,
    Course,
    Failed,
    Look,
    Opinion,
    Outcome,
    ReadLease,
    Swap,
    Wait,
    change_owner,
)
from webhook.claim.lease import Leases
from webhook.claim.stored import stored
from webhook.ownership.change import Change, Claiming
from webhook.ownership.facts import Facts
from webhook.ownership.giving_up import losses
from webhook.ownership.memory import LEASE_NAME, Claim, Override, Relabel
from webhook.ownership.objects import Node
from webhook.ownership.owners import Owner
from webhook.ownership.request import Request
from webhook.ownership.scope import Selector
from webhook.ownership.settings import Settings
from webhook.ownership.situation import owners_of_labels, selectors_by_owner, situation
from webhook.ownership.verdict import Finding, Judged, Observation, Verdict
from webhook.rules.break_glass import note_of, plea_of

Judge = Callable[[Request, Facts, Settings], Verdict]
ReadLive = Callable[[float], Facts]


class Claims:
    """Judges owner changes of a live cluster. Thread-safe: all that is shared is the Lease."""

    def __init__(
        self, leases: Leases, settings: Settings, judge: Judge, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._leases = leases
        self._settings = settings
        self._judge = judge
        self._sleep = sleep

    def decide(self, request: Request, read_live: ReadLive, left: Callable[[], float]) -> Verdict:
        """Return the verdict on an owner change, swapped into the Lease before it is given.

        `read_live` reads the facts within so many seconds; `left` tells the seconds that remain for everything.
        """
        course: Course[Outcome[Verdict]] = change_owner(self._settings)
        answer: object = None
        while True:
            try:
                step = course.send(answer)
            except StopIteration as end:
                return _final(end.value, request, self._settings)
            match step:
                case ReadLease():
                    answer = self._leases.read(min(LEASE_SECONDS, left()))
                case Look():
                    answer = self._look(step, request, read_live, left)
                case Swap(held, memory):
                    answer = self._leases.swap(held, memory, min(LEASE_SECONDS, left()))
                case Wait(seconds):
                    self._sleep(seconds)
                    answer = None
                case Compare():
                    answer = Failed("an owner change does not settle anybody")

    def _look(self, step: Look, request: Request, read_live: ReadLive, left: Callable[[], float]) -> Opinion[Verdict]:
        read = read_live(left())
        facts = replace(read, memory=step.memory, now=step.now or read.now)
        return opinion(request, self._judge(request, facts, self._settings), facts, self._settings, left())


def opinion(request: Request, verdict: Verdict, facts: Facts, settings: Settings, left: float) -> Opinion[Verdict]:
    """Return `verdict` with what the request needs to write into the Lease by these facts. A dry run needs nothing.

    Through a subresource no owner comes or goes; a node's labels change through its status, too.
    """
    if request.dry_run:
        return Opinion(verdict, verdict.allowed)
    change = Change(request, settings)
    if request.sub_resource:
        return Opinion(verdict, verdict.allowed, relabel=_relabel(change, facts, settings))
    given_up = next((loss.owner for loss in losses(change, facts, settings) if loss.whole), None)
    return Opinion(
        verdict,
        verdict.allowed,
        tuple(_claim(change, one.owner, one.selector, facts) for one in (*change.activated, *change.moved)),
        _claim(change, given_up, _selector(change.claimed_before, given_up), facts) if given_up else None,
        _note(change, verdict, facts),
        _relabel(change, facts, settings),
        stored(facts),
        left,
    )


def _relabel(change: Change, facts: Facts, settings: Settings) -> Relabel | None:
    """What is to be remembered of a node whose owners change with its labels.

    In mode `selectors` an owner that comes and a node that changes its pool must not both be admitted, each on a
    picture without the other. So both swap the Lease, and of two that read the same one of them loses. If the owner was
    first, the label is judged by its claim (`selectors_by_owner`); if the label was first, the owner is judged by what
    is remembered here, until that write has landed or never will.

    Not remembered is a change that leaves the node with the owners it had, or without any: of two owners one selector
    contradicts the other, so that a node which one of them selects cannot come under another one that is not known yet.
    A node that another owner's plugin Pod has not left is remembered, whoever selects it. And nothing is in mode
    `cluster`: one owner alone is there, to whom a label brings a node or takes it away. That may spoil the placement of
    a HAMi that is created meanwhile, as the same label does a moment later, when nobody denies it.
    """
    before, after = change.before, change.after
    if settings.scope.mode == "cluster" or not isinstance(before, Node) or not isinstance(after, Node):
        return None
    old, new = before.meta.labels, after.meta.labels
    if old == new:
        return None
    selectors = selectors_by_owner(situation(facts, settings))
    selected = owners_of_labels(new, selectors)
    left = any(pod.node == after.name and owner not in selected for owner, pod in facts.plugin_pods)
    if not left and owners_of_labels(old, selectors) == selected:
        return None
    changed = tuple((key, new.get(key)) for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key))
    return Relabel(after.name, changed, change.request.user.name, facts.now)


def _note(change: Change, verdict: Verdict, facts: Facts) -> Override | None:
    """What is to be remembered of a granted break-glass annotation; a deletion only uses what was remembered."""
    plea = plea_of(change, facts) if verdict.break_glass and change.request.operation != "DELETE" else None
    return note_of(change, plea.text, facts) if plea is not None else None


def _selector(claimed: tuple[Claiming, ...], owner: Owner) -> Selector:
    return next((one.selector for one in claimed if one.owner is owner), Selector())


def _claim(change: Change, owner: Owner, selector: Selector, facts: Facts) -> Claim:
    request = change.request
    return Claim(owner, "activating", change.ref.slashed, selector, request.uid, request.user.name, facts.now)


def _final(outcome: Outcome[Verdict], request: Request, settings: Settings) -> Verdict:
    """The verdict to give: no, whatever the rules say, where the Lease was not won."""
    if not outcome.refusal:
        return outcome.verdict
    finding = Finding(
        "second-owner",
        "deny",
        f"{Change(request, settings).ref} did not win the Lease that changes of owner are decided on",
        (Observation(f"Lease {LEASE_NAME}", "", outcome.refusal),),
        "wait a few seconds and look who owns the chips, then repeat this if it is still right",
    )
    return replace(outcome.verdict, denials=(Judged(finding, "enforce"), *outcome.verdict.denials))
