"""The record of one decision (DESIGN.md section 9): who wanted what, what was answered, and what that rests on.

Identity and paths only, never an object's content. Everything that a user can choose is bounded in size and written in
ASCII with escapes, so that no name, however long or odd, can break a line, hide one, or reach a terminal.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from webhook.ownership.memory import LEASE_NAME, Release
from webhook.ownership.request import Request
from webhook.ownership.verdict import Verdict

MAX_NAME = 512
MAX_TEXT = 4096
MAX_GROUPS = 32

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the audit trail.

    `time` is RFC 3339 in UTC, `decision` as `Verdict.decision` has it, `rule`, `mode` and `next_step` are those of the
    finding that decided, `rules` names the rules of all findings, `latency_ms` is from the last byte of the review to
    the verdict. `break_glass` is the rule that somebody lifted, with the reason that was given.
    """

    time: str
    uid: str
    decision: str
    rule: str
    mode: str
    rules: tuple[str, ...]
    user: str
    groups: tuple[str, ...]
    operation: str
    group: str
    version: str
    kind: str
    sub_resource: str
    namespace: str
    name: str
    dry_run: bool
    subject: str
    phase: str
    evidence: tuple[str, ...]
    message: str
    next_step: str
    break_glass: str
    latency_ms: float
    guard_version: str
    traceparent: str

    def line(self) -> str:
        """Return the record as one line of JSON, in ASCII, without the line's end."""
        return json.dumps(asdict(self), separators=(",", ":")).replace("\x7f", "\\u007f")


def is_recorded(verdict: Verdict) -> bool:
    """Whether a decision leaves a record: denials, warnings, findings of mode audit, allowed changes of owner,
    and every use of break-glass."""
    return verdict.decision != "allowed" or verdict.owner_change or bool(verdict.break_glass)


def record_of(
    request: Request,
    verdict: Verdict,
    *,
    now: datetime,
    latency: float,
    guard_version: str,
    traceparent: str,
    max_evidence: int,
) -> Record:
    """Return the record of a decision taken at `now` after `latency` seconds, with `max_evidence` observations."""
    judged = (*verdict.denials, *verdict.warnings, *verdict.audited)
    first = judged[0] if judged else None
    return Record(
        time=now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        uid=_cut(request.uid, MAX_NAME),
        decision=verdict.decision,
        rule=verdict.rule,
        mode=first.mode if first else "",
        rules=tuple(dict.fromkeys(one.finding.rule for one in judged)),
        user=_cut(request.user.name, MAX_NAME),
        groups=_bounded(sorted(request.user.groups), MAX_GROUPS),
        operation=request.operation,
        group=_cut(request.group, MAX_NAME),
        version=_cut(request.version, MAX_NAME),
        kind=_cut(request.kind, MAX_NAME),
        sub_resource=_cut(request.sub_resource, MAX_NAME),
        namespace=_cut(request.namespace, MAX_NAME),
        name=_cut(request.object_name, MAX_NAME),
        dry_run=request.dry_run,
        subject=verdict.subject,
        phase=_cut(verdict.phase, MAX_NAME),
        evidence=_bounded((str(observation) for observation in verdict.evidence), max_evidence),
        message=_cut("\n".join(one.finding.message() for one in judged), MAX_TEXT),
        next_step=_cut(first.finding.next_step if first else "", MAX_TEXT),
        break_glass=_cut(verdict.break_glass, MAX_NAME),
        latency_ms=round(latency * 1000, 3),
        guard_version=guard_version,
        traceparent=traceparent if _TRACEPARENT.fullmatch(traceparent) else "",
    )


def record_of_release(release: Release, *, namespace: str, guard_version: str) -> Record:
    """Return the record of what somebody took out of the guard's Lease in `namespace` by hand."""
    stamp = release.time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Record(
        time=stamp,
        uid=_cut(release.uid, MAX_NAME),
        decision="released",
        rule="",
        mode="",
        rules=(),
        user=_cut(release.user, MAX_NAME),
        groups=(),
        operation="UPDATE",
        group="coordination.k8s.io",
        version="v1",
        kind="Lease",
        sub_resource="",
        namespace=namespace,
        name=LEASE_NAME,
        dry_run=False,
        subject="other",
        phase="",
        evidence=(),
        message=_cut(f"{release.what} was released: {release.reason}", MAX_TEXT),
        next_step="",
        break_glass="",
        latency_ms=0.0,
        guard_version=guard_version,
        traceparent="",
    )


def _bounded(texts: Iterable[str], count: int) -> tuple[str, ...]:
    every = list(texts)
    kept = tuple(_cut(text, MAX_NAME) for text in every[:count])
    return kept if len(every) <= count else (*kept, f"… {len(every) - count} more")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
