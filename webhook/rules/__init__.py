"""The rules: one file each, listed here in the order of the table in DESIGN.md section 4.

A rule is a module with an `ID` and one function `judge(change, standing)` that yields findings. Adding one touches its
own file, the table below and its cases.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from webhook.ownership.change import Change
from webhook.ownership.facts import Facts
from webhook.ownership.request import Request
from webhook.ownership.settings import Settings
from webhook.ownership.situation import Pool, Situation, situation
from webhook.ownership.verdict import Finding, Judged, Verdict
from webhook.rules import generated_object, mid_switch, never_denied, second_owner
from webhook.rules.concern import subject_of

__all__ = ["RULES", "judge", "subject_of"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its id, and the function that judges."""

    id: str
    judge: Callable[[Change, Situation], Iterator[Finding]]


RULES: tuple[Rule, ...] = (
    Rule(second_owner.ID, second_owner.judge),
    Rule(generated_object.ID, generated_object.judge),
    Rule(mid_switch.ID, mid_switch.judge),
)


def judge(request: Request, facts: Facts, settings: Settings) -> Verdict:
    """Return the verdict of all rules on `request`, each in its configured mode.

    Every rule is asked and every denial reported; what is never denied is answered without asking any.
    """
    subject = subject_of(request, settings)
    change = Change(request, settings)
    if subject == "none" or never_denied.passes(change):
        return Verdict(subject)
    standing = situation(facts, settings)
    judged = [Judged(finding, settings.rules.of(rule.id)) for rule in RULES for finding in rule.judge(change, standing)]
    pool = _pool(change, standing)
    return Verdict(
        subject,
        denials=tuple(one for one in judged if one.finding.effect == "deny" and one.mode == "enforce"),
        warnings=tuple(
            one for one in judged if one.mode == "warn" or (one.finding.effect == "warn" and one.mode == "enforce")
        ),
        audited=tuple(one for one in judged if one.mode == "audit"),
        phase=str(pool.phase),
        evidence=pool.phase.evidence,
        owner_change=_changes_owner(change),
    )


def _pool(change: Change, standing: Situation) -> Pool:
    for claiming in (*change.claimed_after, *change.claimed_before):
        return standing.pool_for(claiming.owner, (claiming.selector,))
    return standing.pools[0]


def _changes_owner(change: Change) -> bool:
    """Whether the request brings an owner in, gives one up, or moves one: such a write is always recorded."""
    before = {claiming.owner for claiming in change.claimed_before}
    after = {claiming.owner for claiming in change.claimed_after}
    return before != after or bool(change.moved)
