"""break-glass: somebody who may do so lifts one rule for one write (DESIGN.md section 12).

The annotation `ascend-owner-guard/break-glass: <rule id>: <reason>` on an object asks for it. It counts only in the
write that adds or changes it, and for the deletion of the object by the same user within `breakGlass.window` of that
write; only for a user who may `override` the resource `rules.ascend-owner-guard` of the rule's name; never on Pods, and
never for `generated-object`. What it lifts becomes a warning, and is always recorded.

Whether the user may is asked by `webhook.claim.overrides`, since it takes a call to the API server.
"""

from dataclasses import dataclass, replace

from webhook.ownership.change import Change
from webhook.ownership.facts import Facts
from webhook.ownership.fields import at, text, texts
from webhook.ownership.memory import Override
from webhook.ownership.request import Object
from webhook.ownership.settings import RuleModes, Settings
from webhook.ownership.verdict import Finding, Judged, Observation, Verdict

ID = "break-glass"
ANNOTATION = "ascend-owner-guard/break-glass"
GROUP, RESOURCE, VERB = "ascend-owner-guard", "rules", "override"

_NEVER = "generated-object"
_WRITE = f"write {ANNOTATION}: '<rule id>: <reason>'"
_MAX_TEXT = 300


@dataclass(frozen=True, slots=True)
class Plea:
    """That a write asks to lift `rule` for `reason`; `text` is the annotation. `problem` tells why it does not count,
    whoever asks."""

    rule: str
    reason: str
    text: str
    problem: str = ""


def plea_of(change: Change, facts: Facts) -> Plea | None:
    """Return what the write asks for, None when it asks for nothing."""
    request, settings = change.request, change.settings
    if request.resource in ("pods", "bindings"):
        return None
    new, old = _annotation(request.object), _annotation(request.old_object)
    asked = old if request.operation == "DELETE" else new if new != old else ""
    if not asked:
        return None
    rule, _, reason = (part.strip() for part in asked.partition(":"))
    return Plea(
        rule[:_MAX_TEXT], reason[:_MAX_TEXT], asked[:_MAX_TEXT], _problem(rule, reason, change, facts, settings)
    )


def _annotation(item: Object | None) -> str:
    return texts(at(item, "metadata.annotations")).get(ANNOTATION, "").strip()


def _problem(rule: str, reason: str, change: Change, facts: Facts, settings: Settings) -> str:
    if not settings.break_glass.enabled:
        return "breakGlass.enabled is false"
    if rule not in {field.alias for field in RuleModes.model_fields.values()}:
        return f"{rule[:40]!r} is the id of no rule; {_WRITE}"
    if rule == _NEVER:
        return f"{_NEVER} is never lifted"
    if not reason:
        return f"it gives no reason; {_WRITE}"
    if change.request.operation == "DELETE" and not _is_noted(change, facts, settings):
        minutes = settings.break_glass.window.total_seconds() / 60
        return f"{change.request.user.name} did not write it within the last {minutes:g} minutes"
    return ""


def _is_noted(change: Change, facts: Facts, settings: Settings) -> bool:
    this = note_of(change, _annotation(change.request.old_object), facts)
    return any(
        (one.object, one.uid, one.text, one.user) == (this.object, this.uid, this.text, this.user)
        and facts.now - one.time < settings.break_glass.window
        for one in facts.memory.overrides
    )


def note_of(change: Change, asked: str, facts: Facts) -> Override:
    """Return what is to be remembered of a write with this annotation, for the deletion that may follow it."""
    uid = text(at(change.request.subject, "metadata.uid"))
    return Override(change.ref.slashed, uid, asked[:_MAX_TEXT], change.request.user.name, facts.now)


def lift(verdict: Verdict, plea: Plea, change: Change) -> Verdict:
    """Return `verdict` with the denials of the plea's rule as warnings; where there are none it says what it is for."""
    lifted = tuple(replace(one, lifted=True) for one in verdict.denials if one.finding.rule == plea.rule)
    kept = tuple(one for one in verdict.denials if one.finding.rule != plea.rule)
    said = lifted
    if not lifted and change.request.operation != "DELETE":
        minutes = change.settings.break_glass.window.total_seconds() / 60
        user = change.request.user.name
        what = f"{plea.rule} is lifted for the deletion of {change.ref} by {user}, within {minutes:g} minutes"
        said = (Judged(Finding(ID, "warn", what), "enforce"),)
    return replace(
        verdict, denials=kept, warnings=(*said, *verdict.warnings), break_glass=f"{plea.rule}: {plea.reason}"
    )


def refuse(verdict: Verdict, plea: Plea, problem: str, change: Change) -> Verdict:
    """Return `verdict`, which tells why the annotation does not count: where its rule denies, or where it is set."""
    seen = Observation(f"annotation {ANNOTATION}", "", f"does not count: {problem}")
    if any(one.finding.rule == plea.rule for one in verdict.denials):
        denials = tuple(_with(one, seen) if one.finding.rule == plea.rule else one for one in verdict.denials)
        return replace(verdict, denials=denials)
    if change.request.operation == "DELETE":
        return verdict
    told = Judged(Finding(ID, "warn", f"{change.ref}: {seen}"), "enforce")
    return replace(verdict, warnings=(told, *verdict.warnings))


def _with(one: Judged, seen: Observation) -> Judged:
    return replace(one, finding=replace(one.finding, because=(seen, *one.finding.because)))
