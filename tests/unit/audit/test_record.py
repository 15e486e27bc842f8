"""One line a decision; nothing that a user chooses can break it, hide one, or make it large."""

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from webhook.audit.record import Record, is_recorded, record_of
from webhook.audit.trail import AuditTrail
from webhook.ownership.request import Request, User
from webhook.ownership.verdict import Finding, Judged, Observation, Verdict

NOW = datetime(2026, 12, 1, 8, 30, tzinfo=UTC)
DENIAL = Judged(Finding("mid-switch", "deny", "refused", next_step="wait"), "enforce")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def request(**changes: Any) -> Request:
    given: dict[str, Any] = {
        "uid": "u-1",
        "operation": "CREATE",
        "group": "",
        "version": "v1",
        "kind": "Pod",
        "resource": "pods",
        "user": User("alice", frozenset({"dev", "admin"})),
        "namespace": "team",
        "name": "web",
        "object": {"metadata": {"name": "web"}, "spec": {"secret": "s3cret"}},
    }
    return Request(**{**given, **changes})


def record(asked: Request | None = None, verdict: Verdict | None = None, trace: str = TRACE, most: int = 50) -> Record:
    return record_of(
        asked or request(),
        verdict or Verdict("pod", denials=(DENIAL,), phase="leaving(native)"),
        now=NOW,
        latency=0.00123456,
        guard_version="1.2.3",
        traceparent=trace,
        max_evidence=most,
    )


def test_a_line_tells_the_whole_story() -> None:
    seen = Verdict(
        "pod", denials=(DENIAL,), phase="leaving(native)", evidence=(Observation("Pod a/b", "", "is there"),)
    )
    assert json.loads(record(verdict=seen).line()) == {
        "time": "2026-12-01T08:30:00.000Z",
        "uid": "u-1",
        "decision": "denied",
        "rule": "mid-switch",
        "mode": "enforce",
        "rules": ["mid-switch"],
        "user": "alice",
        "groups": ["admin", "dev"],
        "operation": "CREATE",
        "group": "",
        "version": "v1",
        "kind": "Pod",
        "sub_resource": "",
        "namespace": "team",
        "name": "web",
        "dry_run": False,
        "subject": "pod",
        "phase": "leaving(native)",
        "evidence": ["Pod a/b is there"],
        "message": "[mid-switch] refused. Next: wait.",
        "next_step": "wait",
        "break_glass": "",
        "latency_ms": 1.235,
        "guard_version": "1.2.3",
        "traceparent": TRACE,
    }


def test_the_object_is_never_recorded() -> None:
    assert "s3cret" not in record().line()


@pytest.mark.parametrize(
    "evil",
    ["a\nb", "a\r\nb", "\x1b[2J", "\x00", "\x7f", "\x9b31m", "\u2028", "\u202e", '"}\n{"decision":"allowed"', "名"],
)
def test_no_name_breaks_a_line_or_reaches_a_terminal(evil: str) -> None:
    line = record(request(name=evil, namespace=evil, user=User(evil, frozenset({evil})), kind=evil)).line()
    assert all(" " <= character <= "~" for character in line)
    assert json.loads(line)["user"] == evil


def test_a_line_stays_small_whatever_comes() -> None:
    huge = "x" * 1024 * 1024
    user = User(huge, frozenset(f"{number}{huge}" for number in range(100)))
    asked = request(name=huge, namespace=huge, kind=huge, uid=huge, user=user)
    finding = Judged(Finding("mid-switch", "deny", huge, next_step=huge), "enforce")
    evidence = tuple(Observation(huge, huge, huge) for _ in range(100))
    line = record(asked, Verdict("pod", denials=(finding,) * 9, phase=huge, evidence=evidence), trace=huge).line()
    assert len(line) < 64 * 1024
    assert json.loads(line)["groups"][-1] == "… 68 more"


def test_evidence_is_cut_where_the_configuration_says() -> None:
    evidence = tuple(Observation(f"Pod {number}", "", "") for number in range(5))
    seen = json.loads(record(verdict=Verdict("pod", denials=(DENIAL,), evidence=evidence), most=2).line())["evidence"]
    assert (len(seen), seen[-1]) == (3, "… 3 more")


def test_a_trace_that_is_none_is_left_out() -> None:
    assert record(trace="00-evil\n").traceparent == ""


@pytest.mark.parametrize(
    "verdict, recorded",
    [
        (Verdict("pod"), False),
        (Verdict("pod", denials=(DENIAL,)), True),
        (Verdict("pod", warnings=(DENIAL,)), True),
        (Verdict("pod", audited=(DENIAL,)), True),
        (Verdict("owner", owner_change=True), True),
        (Verdict("owner"), False),
    ],
)
def test_what_leaves_a_record(verdict: Verdict, recorded: bool) -> None:
    assert is_recorded(verdict) is recorded


def test_an_allowed_change_of_owner_is_recorded_as_allowed() -> None:
    seen = record(verdict=Verdict("owner", owner_change=True, phase="unowned"))
    assert (seen.decision, seen.rule, seen.mode, seen.message) == ("allowed", "", "", "")


def test_a_trail_is_whole_lines() -> None:
    stream = io.StringIO()
    trail = AuditTrail(stream)
    trail.write(record())
    trail.write(record(request(name="a\nb")))
    assert [json.loads(line)["name"] for line in stream.getvalue().splitlines()] == ["web", "a\nb"]


class FullDisk(io.StringIO):
    def write(self, _text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_loses_the_record_and_counts_it() -> None:
    trail = AuditTrail(FullDisk())
    trail.write(record())
    closed = io.StringIO()
    closed.close()
    also = AuditTrail(closed)
    also.write(record())
    assert (trail.lost, also.lost) == (1, 1)
