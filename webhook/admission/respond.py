"""AdmissionReview v1 out: a verdict to the bytes of the answer. HTTP status 200 goes with each of them.

Users see `status.message` of a denial and every warning in their terminal, so control characters are written out.
Warnings keep to what the API server passes on: 256 characters each, 4,096 together, one line, one subject each.
Audit annotations (keys without a prefix: the API server adds the webhook's name) tell the story in its own audit log.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import orjson

from webhook.ownership.verdict import Finding, Judged, Verdict

MAX_MESSAGE = 4096
MAX_WARNING = 256
MAX_WARNINGS = 4096
MAX_CAUSES = 20
MAX_ANNOTATION = 256

_CONTROL = (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029)
_ESCAPED = {code: f"\\u{code:04x}" for code in _CONTROL}
_ESCAPED_IN_LINES = {code: text for code, text in _ESCAPED.items() if code != ord("\n")}
_ESCAPED_IN_ONE_LINE = {**_ESCAPED, ord("\n"): " "}


def respond(uid: str, verdict: Verdict) -> bytes:
    """Return the AdmissionReview that answers the request with this `uid`."""
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = _status(verdict)
    if verdict.warnings:
        response["warnings"] = warnings(verdict.warnings)
    if verdict.subject != "none":
        response["auditAnnotations"] = _annotations(verdict)
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def warnings(judged: Iterable[Judged]) -> list[str]:
    """Return one text a warning, the most important first: what would have been denied, then the order of the rules.

    What does not fit into the 4,096 characters is counted in a last text.
    """
    ordered = sorted(judged, key=lambda one: one.finding.effect != "deny")
    texts = list(dict.fromkeys(_warning(one) for one in ordered))
    kept: list[str] = []
    room = MAX_WARNINGS - MAX_WARNING
    for text in texts:
        room -= len(text)
        if room < 0:
            return [*kept, f"[warnings] {len(texts) - len(kept)} more: see the guard's audit record."]
        kept.append(text)
    return kept


def _warning(one: Judged) -> str:
    finding = one.finding
    if one.lifted:
        return _cut(
            f"[{finding.rule}] lifted by break-glass: {finding.what}.".translate(_ESCAPED_IN_ONE_LINE), MAX_WARNING
        )
    if finding.effect == "deny":
        full = f"[{finding.rule}] would be denied (the rule's mode is {one.mode}): {finding.what}."
    else:
        full = next(
            (text for text in _shorter(finding) if len(text) <= MAX_WARNING), f"[{finding.rule}] {finding.what}."
        )
    if finding.next_step and finding.next_step not in full:
        with_next = f"{full} Next: {finding.next_step}."
        full = with_next if len(with_next) <= MAX_WARNING else full
    return _cut(full.translate(_ESCAPED_IN_ONE_LINE), MAX_WARNING)


def _shorter(finding: Finding) -> Iterator[str]:
    """The whole message, and the same without the next step."""
    yield finding.message()
    yield replace(finding, next_step="").message()


def _status(verdict: Verdict) -> dict[str, Any]:
    invalid = verdict.code == 422
    fields = dict.fromkeys((cause, one.finding.what) for one in verdict.denials for cause in one.finding.causes)
    causes = [
        {
            "reason": "FieldValueInvalid" if invalid else "FieldValueForbidden",
            "message": _cut(what.translate(_ESCAPED_IN_ONE_LINE), MAX_WARNING),
            "field": _cut(field.translate(_ESCAPED_IN_ONE_LINE), MAX_WARNING),
        }
        for field, what in fields
    ]
    status: dict[str, Any] = {
        "status": "Failure",
        "code": verdict.code,
        "reason": "Invalid" if invalid else "Forbidden",
        "message": _cut(verdict.message.translate(_ESCAPED_IN_LINES), MAX_MESSAGE),
    }
    if causes:
        status["details"] = {"causes": causes[:MAX_CAUSES]}
    return status


def _annotations(verdict: Verdict) -> dict[str, str]:
    values = {
        "decision": verdict.decision,
        "rule": verdict.rule,
        "phase": verdict.phase,
        "break-glass": verdict.break_glass,
    }
    return {key: _cut(value.translate(_ESCAPED_IN_ONE_LINE), MAX_ANNOTATION) for key, value in values.items() if value}


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
