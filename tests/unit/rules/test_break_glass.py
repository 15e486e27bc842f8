"""Break-glass lifts one rule for one write, of somebody who may; the question is put to an API server by a double."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from webhook.claim.claims import opinion
from webhook.claim.overrides import Overrides
from webhook.cli.requests import request_for
from webhook.cluster.access import AccessReviews
from webhook.cluster.connection import Answer
from webhook.cluster.files import read_records
from webhook.ownership.facts import Facts
from webhook.ownership.memory import Memory, read_memory, write_memory
from webhook.ownership.request import Request, User
from webhook.ownership.settings import Settings
from webhook.ownership.verdict import Verdict
from webhook.rules.break_glass import ANNOTATION

NOW = datetime(2026, 12, 2, 1, 0, tzinfo=UTC)
SETTINGS = Settings()
HAMI = {
    "apiVersion": "hami.io/v1alpha1",
    "kind": "HAMiAscendDevicePlugin",
    "metadata": {"name": "hami", "namespace": "hami-system", "uid": "u-1"},
    "spec": {"nodeSelector": {"ascend": "on"}, "driverHostPath": "/var/lib/Ascend/driver"},
}
MISPLACED = {**HAMI, "spec": {"nodeSelector": {"ascend": "on"}, "driverHostPath": "/opt/elsewhere"}}
POLICY = {
    "apiVersion": "npu.openfuyao.com/v1",
    "kind": "NPUClusterPolicy",
    "metadata": {"name": "cluster"},
    "spec": {"devicePlugin": {"managed": True}},
}
CTL = {
    "apiVersion": "npu-operator.alauda.io/v1",
    "kind": "NPUOperatorCtl",
    "metadata": {"name": "npu", "namespace": "npu-operator"},
    "spec": {"devicePlugin": {"enabled": True}},
}


class Authorizer:
    """In a connection's place: answers access reviews, and remembers the questions."""

    def __init__(self, *may: str) -> None:
        self.may = may
        self.asked: list[dict[str, Any]] = []

    def send(self, method: str, path: str, body: dict[str, Any], *, timeout: float) -> Answer:
        assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
        self.asked.append(body["spec"])
        allowed = body["spec"]["user"] in self.may
        return Answer(b'{"status": {"allowed": %s}}' % (b"true" if allowed else b"false"), NOW)


def marked(item: dict[str, Any], text: str) -> dict[str, Any]:
    return {**item, "metadata": {**item["metadata"], "annotations": {ANNOTATION: text}}}


def create(item: dict[str, Any], user: str = "bob") -> Request:
    return request_for("CREATE", User(user, frozenset({"ops"}), "u", (("scope", ("a",)),)), item=item, old_item=None)


def update(old: dict[str, Any], new: dict[str, Any], user: str = "bob") -> Request:
    return request_for("UPDATE", User(user), item=new, old_item=old)


def delete(item: dict[str, Any], user: str = "bob") -> Request:
    return request_for("DELETE", User(user), item=None, old_item=item)


def facts(*objects: dict[str, Any], memory: Memory | None = None) -> Facts:
    return replace(Facts.of(read_records(objects, SETTINGS), now=NOW), memory=memory or Memory(exists=True))


def judged(request: Request, picture: Facts, authorizer: Authorizer, settings: Settings = SETTINGS) -> Verdict:
    return Overrides(AccessReviews(authorizer)).judge(request, picture, settings)  # type: ignore[arg-type]


def rules_of(verdict: Verdict) -> set[str]:
    return {one.finding.rule for one in verdict.denials}


NATIVE = facts(CTL)


def test_somebody_who_may_lifts_the_rule_that_was_named() -> None:
    authorizer = Authorizer("bob")
    assert rules_of(judged(create(MISPLACED), NATIVE, authorizer)) == {"second-owner", "placement"}
    assert authorizer.asked == []
    verdict = judged(create(marked(MISPLACED, "second-owner: disk swap, INC-7")), NATIVE, authorizer)
    assert rules_of(verdict) == {"placement"}
    assert verdict.warnings[0].lifted
    assert verdict.break_glass == "second-owner: disk swap, INC-7"
    assert authorizer.asked == [
        {
            "user": "bob",
            "groups": ["ops"],
            "uid": "u",
            "extra": {"scope": ["a"]},
            "resourceAttributes": {
                "verb": "override",
                "group": "ascend-owner-guard",
                "resource": "rules",
                "name": "second-owner",
            },
        }
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("second-owner: reason", "alice may not override rules.ascend-owner-guard second-owner"),
        ("second-owner", "it gives no reason"),
        ("second-owner:  ", "it gives no reason"),
    ],
)
def test_what_does_not_count_is_said_in_the_denial(text: str, why: str) -> None:
    verdict = judged(create(marked(MISPLACED, text), "alice"), NATIVE, Authorizer("bob"))
    assert rules_of(verdict) == {"second-owner", "placement"}
    assert f"annotation {ANNOTATION} does not count: {why}" in verdict.message
    assert verdict.break_glass == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [("no-rule: x", "'no-rule' is the id of no rule"), ("*: x", "'*' is the id of no rule"), ("x", "is the id of no")],
)
def test_an_unknown_rule_is_told_where_it_is_written(text: str, why: str) -> None:
    verdict = judged(create(marked(MISPLACED, text)), NATIVE, Authorizer("bob"))
    assert rules_of(verdict) == {"second-owner", "placement"}
    assert why in verdict.warnings[0].finding.message()


def test_generated_object_is_never_lifted() -> None:
    verdict = judged(update(POLICY, marked(POLICY, "generated-object: x")), facts(CTL, POLICY), Authorizer("bob"))
    assert rules_of(verdict) == {"generated-object"}
    assert "generated-object is never lifted" in verdict.message


def test_it_counts_only_in_the_write_that_adds_or_changes_it() -> None:
    authorizer = Authorizer("bob")
    off = {**CTL, "spec": {"devicePlugin": {"enabled": False}}}
    picture = facts(HAMI)
    there = judged(update(marked(off, "second-owner: x"), marked(CTL, "second-owner: x")), picture, authorizer)
    assert rules_of(there) == {"second-owner"}
    assert authorizer.asked == []
    changed = judged(update(marked(off, "second-owner: x"), marked(CTL, "second-owner: y")), picture, authorizer)
    assert rules_of(changed) == set()


def test_it_is_ignored_on_pods() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"huawei.com/Ascend910": "1"}}}]},
    }
    authorizer = Authorizer("bob")
    assert rules_of(judged(create(marked(pod, "mid-switch: x")), facts(), authorizer)) == {"mid-switch"}
    assert authorizer.asked == []


def test_it_can_be_switched_off() -> None:
    settings = Settings.model_validate({"breakGlass": {"enabled": False}})
    verdict = judged(create(marked(HAMI, "second-owner: x")), NATIVE, Authorizer("bob"), settings)
    assert "breakGlass.enabled is false" in verdict.message


def test_a_question_that_cannot_be_asked_lifts_nothing() -> None:
    class Broken(Authorizer):
        def send(self, method: str, path: str, body: dict[str, Any], *, timeout: float) -> Answer:
            return Answer(b"no JSON", NOW)

    verdict = judged(create(marked(HAMI, "second-owner: x")), NATIVE, Broken("bob"))
    assert "could not be asked" in verdict.message


WORKLOAD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "team"},
    "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"limits": {"huawei.com/Ascend910B4": "1"}}}]},
    "status": {"phase": "Running"},
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"ascend": "on"}},
    "status": {"allocatable": {"huawei.com/Ascend910B4": "8"}},
}
SETTLED = read_memory({"metadata": {"annotations": {"ascend-owner-guard/settled": "hami"}}}, decides=True)
TEXT = "workloads-running: the node is dead, INC-7"


def noted(by: str = "bob", age: timedelta = timedelta()) -> Memory:
    """The Lease after `by` wrote the annotation, `age` ago."""
    picture = facts(HAMI, WORKLOAD, NODE, memory=SETTLED)
    asked = update(HAMI, marked(HAMI, TEXT), by)
    verdict = judged(asked, picture, Authorizer("bob", "carol"))
    assert verdict.allowed
    assert "is lifted for the deletion of HAMiAscendDevicePlugin hami-system/hami" in (
        verdict.warnings[0].finding.message()
    )
    note = opinion(asked, verdict, picture, SETTINGS, 10).note
    assert note is not None
    memory = SETTLED.noted(replace(note, time=NOW - age), SETTINGS.break_glass.window)
    again = read_memory({"metadata": {"annotations": write_memory(memory)}}, decides=True)
    assert again == memory
    return again


@pytest.mark.parametrize(
    ("memory", "user", "passes"),
    [
        (noted(), "bob", True),
        (noted(age=timedelta(minutes=9)), "bob", True),
        (noted(age=timedelta(minutes=11)), "bob", False),
        (noted(), "carol", False),
        (noted("carol"), "bob", False),
        (SETTLED, "bob", False),
    ],
    ids=["at once", "in time", "too late", "by another", "of another", "not noted"],
)
def test_for_a_deletion_it_counts_when_the_same_user_wrote_it_a_moment_ago(
    memory: Memory, user: str, passes: bool
) -> None:
    picture = facts(marked(HAMI, TEXT), WORKLOAD, NODE, memory=memory)
    verdict = judged(delete(marked(HAMI, TEXT), user), picture, Authorizer("bob", "carol"))
    assert verdict.allowed is passes
    assert passes or "did not write it within the last 10 minutes" in verdict.message


def test_another_object_of_the_same_name_does_not_inherit_it() -> None:
    again = marked({**HAMI, "metadata": {**HAMI["metadata"], "uid": "u-2"}}, TEXT)  # type: ignore[dict-item]
    picture = facts(again, WORKLOAD, NODE, memory=noted())
    assert not judged(delete(again), picture, Authorizer("bob")).allowed


def test_a_dry_run_remembers_nothing() -> None:
    picture = facts(HAMI, WORKLOAD, NODE, memory=SETTLED)
    asked = replace(update(HAMI, marked(HAMI, TEXT)), dry_run=True)
    verdict = judged(asked, picture, Authorizer("bob"))
    assert opinion(asked, verdict, picture, SETTINGS, 10).note is None


def test_what_was_remembered_is_forgotten_in_time_and_bounded() -> None:
    memory = noted(age=timedelta(minutes=11))
    (old,) = memory.overrides
    window = SETTINGS.break_glass.window
    for number in range(30):
        memory = memory.noted(replace(old, object=f"Kind/{number}", time=NOW), window)
    assert len(memory.overrides) == 20
    assert old not in memory.overrides


def test_what_cannot_be_read_of_it_lifts_nothing_and_spoils_nothing() -> None:
    for raw in ("{", "[1]", '[{"object": 1}]', "[" * 100_000):
        memory = read_memory({"metadata": {"annotations": {"ascend-owner-guard/break-glass": raw}}})
        assert (memory.overrides, memory.problem) == ((), "")
