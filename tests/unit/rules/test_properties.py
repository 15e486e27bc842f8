"""What holds for every verdict, over the clusters and requests of all scenarios."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webhook.cli.scenarios import Scenario, load
from webhook.ownership.facts import Facts
from webhook.ownership.reading import read
from webhook.ownership.situation import situation
from webhook.ownership.verdict import Verdict
from webhook.rules import judge

SCENARIOS = [one for one in load(Path(__file__).parents[2] / "cases") if not one.facts.missing and not one.facts.age]

MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _item(version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **place}, **rest}


READY = {"conditions": [{"type": "Ready", "status": "True"}]}
PLAIN = {"containers": [{"name": "c", "image": "example/web:1"}]}
UNRELATED: tuple[dict[str, Any], ...] = (
    _item("v1", "ConfigMap", "settings", "team-z"),
    _item("v1", "Pod", "web", "team-z", spec=PLAIN),
    _item("apps/v1", "DaemonSet", "kube-proxy", "kube-system", spec={"template": {"spec": PLAIN}}),
    _item("v1", "Node", "cpu-node", status=READY),
    _item("npu.ai/v1", "NPUClusterPolicy", "cluster", spec={"devicePlugin": {"managed": True}}),
    _item("node.k8s.io/v1", "RuntimeClass", "gvisor", handler="runsc"),
)


def _facts(scenario: Scenario, items: list[dict[str, Any]]) -> Facts:
    records = [record for item in items if (record := read(item, scenario.settings)) is not None]
    return Facts.of(records, now=scenario.facts.now, absent=scenario.facts.absent)


def _essence(verdict: Verdict) -> tuple[Any, ...]:
    return (
        verdict.allowed,
        verdict.phase,
        tuple(one.finding.rule for one in verdict.denials),
        verdict.message,
        frozenset(one.finding.message() for one in verdict.warnings),
    )


@MANY
@given(st.sampled_from(SCENARIOS), st.randoms(use_true_random=False))
def test_the_order_of_objects_never_changes_a_verdict(scenario: Scenario, chance: random.Random) -> None:
    items = list(scenario.cluster)
    before = judge(scenario.request, _facts(scenario, items), scenario.settings)
    chance.shuffle(items)
    assert _essence(judge(scenario.request, _facts(scenario, items), scenario.settings)) == _essence(before)


@MANY
@given(st.sampled_from(SCENARIOS), st.sets(st.sampled_from(range(len(UNRELATED))), min_size=1))
def test_unrelated_objects_never_change_a_verdict(scenario: Scenario, chosen: set[int]) -> None:
    items = list(scenario.cluster)
    before = judge(scenario.request, _facts(scenario, items), scenario.settings)
    items += [UNRELATED[index] for index in sorted(chosen)]
    assert _essence(judge(scenario.request, _facts(scenario, items), scenario.settings)) == _essence(before)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[f"{one.file}: {one.name}" for one in SCENARIOS])
def test_what_is_allowed_never_makes_a_second_owner(scenario: Scenario) -> None:
    """Applied to the cluster, an allowed change leaves no more active owners in one scope than there were."""
    if any(mode != "enforce" for mode in (scenario.settings.rules.second_owner, scenario.settings.rules.mid_switch)):
        return  # the rule that forbids it is configured not to
    verdict = judge(scenario.request, scenario.facts, scenario.settings)
    if not verdict.allowed or scenario.request.sub_resource or scenario.settings.scope.mode != "cluster":
        return
    before = set(situation(scenario.facts, scenario.settings).active)
    after = set(situation(_facts(scenario, _applied(scenario)), scenario.settings).active)
    assert len(after) <= max(1, len(before)), f"{before} -> {after}"


def _applied(scenario: Scenario) -> list[dict[str, Any]]:
    request = scenario.request
    subject = request.subject

    def same(item: dict[str, Any]) -> bool:
        ours, theirs = subject.get("metadata") or {}, item["metadata"]
        keys = ("name", "namespace")
        return item["kind"] == subject.get("kind") and all(ours.get(key) == theirs.get(key) for key in keys)

    items = [item for item in scenario.cluster if not same(item)]
    return items if request.operation == "DELETE" else [*items, dict(subject)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[f"{one.file}: {one.name}" for one in SCENARIOS])
def test_every_denial_says_why_and_what_next(scenario: Scenario) -> None:
    verdict = judge(scenario.request, scenario.facts, scenario.settings)
    for judged in verdict.denials:
        finding = judged.finding
        assert finding.next_step, finding
        assert finding.because or finding.code == 422, finding
        assert "\n" not in finding.message()


@MANY
@given(st.sampled_from(SCENARIOS))
def test_old_facts_never_turn_a_denial_of_a_second_owner_into_a_pass(scenario: Scenario) -> None:
    fresh = judge(scenario.request, scenario.facts, scenario.settings)
    if not any(judged.finding.rule == "second-owner" for judged in fresh.denials):
        return
    old = replace(scenario.facts, age=scenario.settings.freshness.max_age * 2)
    assert not judge(scenario.request, old, scenario.settings).allowed
