"""The rules: one file each, listed here in the order of the table in DESIGN.md section 4.

A rule is a module with an `ID` and one function `judge(change, standing)` that yields findings. Adding one touches its
own file, the table below and its cases.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from webhook.ownership.change import Change
from webhook.ownership.containers import deletions_in, holds_others
from webhook.ownership.facts import Facts
from webhook.ownership.git_sync import sync_of
from webhook.ownership.pods import pods_of_templates
from webhook.ownership.reading import read_meta
from webhook.ownership.request import Request
from webhook.ownership.settings import Mode, Settings
from webhook.ownership.situation import Pool, Situation, situation
from webhook.ownership.verdict import Finding, Judged, Verdict
from webhook.rules import (
    base_stack,
    generated_object,
    hazards,
    mid_switch,
    never_denied,
    node_relabel,
    overlapping_maintenance,
    placement,
    resource_mismatch,
    second_owner,
    unaccounted_access,
    workloads_running,
)
from webhook.rules.concern import rests_on_phase, subject_of

__all__ = ["RULES", "judge", "rests_on_phase", "subject_of"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its id, and the function that judges. `only_warns` is one without a mode of its own."""

    id: str
    judge: Callable[[Change, Situation], Iterator[Finding]]
    only_warns: bool = False

    def mode(self, settings: Settings) -> Mode:
        """Return the configured mode."""
        return "warn" if self.only_warns else settings.rules.of(self.id)


RULES: tuple[Rule, ...] = (
    Rule(second_owner.ID, second_owner.judge),
    Rule(generated_object.ID, generated_object.judge),
    Rule(mid_switch.ID, mid_switch.judge),
    Rule(workloads_running.ID, workloads_running.judge),
    Rule(base_stack.ID, base_stack.judge),
    Rule(overlapping_maintenance.ID, overlapping_maintenance.judge),
    Rule(placement.ID, placement.judge),
    Rule(node_relabel.ID, node_relabel.judge),
    Rule(unaccounted_access.ID, unaccounted_access.judge),
    Rule(resource_mismatch.ID, resource_mismatch.judge),
    Rule(hazards.ID, hazards.judge, only_warns=True),
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
    judged = list(_templates(change, standing) if subject == "template" else _judge(change, standing))
    if subject == "owner":
        judged = _with_sync_suspended(change, judged)
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
        owner_change=any(_changes_owner(one) for one in _changes(change, standing)),
    )


def _changes(change: Change, standing: Situation) -> tuple[Change, ...]:
    """The changes that a request stands for: itself, or the deletions of what a deleted CRD or namespace holds."""
    return tuple(deletions_in(change, standing.facts)) if holds_others(change) else (change,)


def _judge(change: Change, standing: Situation) -> Iterator[Judged]:
    seen: set[tuple[str, str, str]] = set()
    for rule in RULES:
        for one in _changes(change, standing):
            for finding in rule.judge(one, standing):
                key = (finding.rule, finding.effect, finding.what)
                if key not in seen:
                    seen.add(key)
                    yield Judged(finding, rule.mode(standing.settings))


def _with_sync_suspended(change: Change, judged: list[Judged]) -> list[Judged]:
    """Tell whoever reads the log of a Git controller that its sync must be suspended, else it asks again and again."""
    denial = next((one for one in judged if one.finding.effect == "deny"), None)
    sync = sync_of(read_meta(change.request.subject)) if change.request.user.is_service_account else None
    if denial is None or sync is None:
        return judged
    finding = denial.finding
    step = f"{sync.suspend}, since it writes this again and again; {finding.next_step}".removesuffix("; ")
    told = replace(denial, finding=replace(finding, next_step=step))
    return [told if one is denial else one for one in judged]


def _templates(change: Change, standing: Situation) -> Iterator[Judged]:
    """What is enforced on Pods is a warning at their template: the first denial of each rule."""
    told: set[str] = set()
    for path, pod in pods_of_templates(change):
        for judged in _judge(pod, standing):
            finding = judged.finding
            if finding.effect != "deny" or judged.mode == "audit" or finding.rule in told:
                continue
            told.add(finding.rule)
            what = f"{change.ref} would make Pods from {path} that are denied now: {finding.what}"
            yield Judged(Finding(finding.rule, "warn", what, next_step=finding.next_step), judged.mode)


def _pool(change: Change, standing: Situation) -> Pool:
    for claiming in (*change.claimed_after, *change.claimed_before):
        return standing.pool_for(claiming.owner, (claiming.selector,))
    return standing.pools[0]


def _changes_owner(change: Change) -> bool:
    """Whether the request brings an owner in, gives one up, or moves one: such a write is always recorded."""
    before = {claiming.owner for claiming in change.claimed_before}
    after = {claiming.owner for claiming in change.claimed_after}
    return before != after or bool(change.moved)
