"""The answer is an AdmissionReview v1 that the API server passes on as it is."""

import json
from typing import Any

from webhook.admission.respond import respond, warnings
from webhook.ownership.settings import Mode
from webhook.ownership.verdict import Effect, Finding, Judged, Observation, Verdict


def judged(
    what: str = "this is refused",
    rule: str = "mid-switch",
    effect: Effect = "deny",
    mode: Mode = "enforce",
    next_step: str = "wait",
    causes: tuple[str, ...] = (),
    code: int = 403,
) -> Judged:
    because = (Observation("Pod a/b", "", "is on node n"),)
    return Judged(Finding(rule, effect, what, because, next_step, causes, code), mode)


def response(verdict: Verdict) -> dict[str, Any]:
    answer = json.loads(respond("u-1", verdict))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    inner: dict[str, Any] = answer["response"]
    assert inner["uid"] == "u-1"
    return inner


def test_what_is_not_ours_passes_without_a_word() -> None:
    assert response(Verdict("none")) == {"uid": "u-1", "allowed": True}


def test_an_allowed_pod_carries_its_phase_for_the_audit_log() -> None:
    assert response(Verdict("pod", phase="settled(native)")) == {
        "uid": "u-1",
        "allowed": True,
        "auditAnnotations": {"decision": "allowed", "phase": "settled(native)"},
    }


def test_a_denial_says_why_and_which_field() -> None:
    denial = judged(causes=("spec.devicePlugin.enabled", "spec.nodeSelector"))
    answer = response(Verdict("owner", denials=(denial,), phase="leaving(native)"))
    assert answer["allowed"] is False
    status = answer["status"]
    assert (status["status"], status["code"], status["reason"]) == ("Failure", 403, "Forbidden")
    assert status["message"] == "[mid-switch] this is refused. Because: Pod a/b is on node n. Next: wait."
    assert [cause["field"] for cause in status["details"]["causes"]] == [
        "spec.devicePlugin.enabled",
        "spec.nodeSelector",
    ]
    assert answer["auditAnnotations"] == {"decision": "denied", "rule": "mid-switch", "phase": "leaving(native)"}


def test_several_denials_are_one_paragraph_each_and_the_first_gives_the_rule() -> None:
    answer = response(Verdict("owner", denials=(judged(rule="second-owner"), judged("that too"))))
    assert [line.split()[0] for line in answer["status"]["message"].splitlines()] == ["[second-owner]", "[mid-switch]"]
    assert answer["auditAnnotations"]["rule"] == "second-owner"


def test_a_malformed_value_is_invalid_not_forbidden() -> None:
    status = response(Verdict("owner", denials=(judged(code=422, causes=("spec.x",)),)))["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["details"]["causes"][0]["reason"] == "FieldValueInvalid"


def test_control_characters_reach_no_terminal() -> None:
    evil = "x\x1b[31m\r\n\x7f\x9b\u202e\u2066\u2028y"
    answer = response(Verdict("pod", denials=(judged(evil),), warnings=(judged(evil, mode="warn"),), phase=evil))
    message = answer["status"]["message"]
    assert not set(message) & set("\x1b\r\x7f\x9b\u202e\u2066\u2028")
    assert "\\u001b[31m" in message
    assert "\n" not in answer["warnings"][0] + answer["auditAnnotations"]["phase"]


def test_sizes_are_bounded() -> None:
    long = judged("x" * 1_000_000, causes=tuple(f"spec.a{number}" for number in range(1000)))
    answer = response(Verdict("pod", denials=(long,) * 50, warnings=(long,) * 50, phase="p" * 1_000_000))
    assert len(answer["status"]["message"]) == 4096
    assert len(answer["status"]["details"]["causes"]) == 20
    assert len(json.dumps(answer)) < 30_000


def test_a_warning_of_a_softened_denial_says_that_it_would_have_been_denied() -> None:
    answer = response(Verdict("pod", warnings=(judged(mode="warn"),)))
    assert answer["allowed"] is True
    assert answer["warnings"] == [
        "[mid-switch] would be denied (the rule's mode is warn): this is refused. Next: wait."
    ]
    assert answer["auditAnnotations"]["decision"] == "warned"


def test_a_plain_warning_is_the_finding_itself_as_far_as_it_fits() -> None:
    assert warnings([judged(effect="warn")]) == [
        "[mid-switch] this is refused. Because: Pod a/b is on node n. Next: wait."
    ]
    assert warnings([judged("w" * 220, effect="warn")]) == [f"[mid-switch] {'w' * 220}. Next: wait."]
    assert warnings([judged("w" * 235, effect="warn")]) == [f"[mid-switch] {'w' * 235}."]
    assert [len(text) for text in warnings([judged("w" * 999, effect="warn")])] == [256]


def test_the_most_important_warnings_come_first_and_each_is_said_once() -> None:
    plain, softened = judged("plain", effect="warn"), judged("softened", mode="warn")
    assert [text.split(".")[0][-8:] for text in warnings([plain, softened, plain])] == ["softened", "ch] plain"[-8:]]


def test_warnings_are_4096_characters_together_and_the_rest_is_counted() -> None:
    texts = warnings([judged(f"{number:03} " + "w" * 300, effect="warn") for number in range(100)])
    assert sum(len(text) for text in texts) <= 4096
    assert all(len(text) <= 256 for text in texts)
    assert texts[-1] == f"[warnings] {100 - len(texts) + 1} more: see the guard's audit record."


def test_what_is_only_audited_is_allowed_silently_but_for_the_audit_log() -> None:
    answer = response(Verdict("pod", audited=(judged(mode="audit"),)))
    assert (answer["allowed"], answer.get("warnings")) == (True, None)
    assert answer["auditAnnotations"] == {"decision": "audited", "rule": "mid-switch"}
