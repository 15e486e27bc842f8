"""The scenarios of tests/cases at a real API server with the companion policy alone: what a request alone decides.

A request alone decides where the rule generated-object, asked with an empty cluster, says what it says with the
scenario's. Every other scenario about a generated object is listed here by name, and the policy lets it pass.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import CHART, NAME, NAMESPACE
from tests.products.api import Api, Object
from tests.products.plugin import HAMI_LABELS, daemonset
from tests.products.products import crds
from tests.replay.request import Replay, Reply
from tests.replay.stage import Stage
from tests.waiting import eventually
from webhook.cli.scenarios import Scenario, load
from webhook.ownership.facts import Facts
from webhook.ownership.verdict import Finding
from webhook.rules import judge

pytestmark = pytest.mark.integration

CASES = Path(__file__).parents[1] / "cases"
RULE = "generated-object"
KINDS = ("NPUClusterPolicy", "DaemonSet")

MARK = "nothing in it says so: an owner's custom resource exists"
COMES_BACK = (
    "Step 2 the wrong way: a native plugin Pod is deleted while the plugin is settled (only a warning: it comes back)"
)
PHASE = "a Pod of the plugin: it depends on the phase"
HELD = "what the namespace holds goes with it"
STATE = {
    "Step 2 the wrong way: the generated policy is edited": MARK,
    "kubectl delete daemonset --all: one request an object, without a name": MARK,
    "The native DaemonSet is parked on a label that no node has": MARK,
    "A ServiceAccount of the right name in the wrong namespace": MARK,
    "The native DaemonSet is deleted by hand under a workload: generated-object": MARK,
    "A reason to break the glass does not open the generated policy": MARK,
    "identities.nativeOperator: the default operator is a stranger then": MARK,
    "The generated DaemonSet is restarted with kubectl rollout restart": MARK,
    COMES_BACK: PHASE,
    "Step 3 the wrong way: a native plugin Pod is deleted by hand in the middle of the switch": PHASE,
    "A crash-looping native plugin Pod is deleted while the plugin starts": PHASE,
    "A native plugin Pod whose DaemonSet is gone is deleted": PHASE,
    "A native plugin Pod is evicted in the middle of a switch: only a warning": PHASE,
    "identities.systemControllers: by default that controller may not": PHASE,
    "The DaemonSet of a HAMi that leaves already is deleted by hand": MARK,
    "A namespace is deleted with a DaemonSet of HAMi whose custom resource is elsewhere": HELD,
}
"""What needs the state of the cluster, and so the webhook."""

NEXT_BY_STATE = ("A generated policy whose NPUOperatorCtl is gone is not edited by hand",)
"""What is refused by the request alone, and only the webhook knows the better next step."""


def findings(scenario: Scenario, facts: Facts) -> list[Finding]:
    verdict = judge(scenario.request, facts, scenario.settings)
    said = (one.finding for one in (*verdict.denials, *verdict.warnings, *verdict.audited))
    return [one for one in said if one.rule == RULE]


def by_request_alone(scenario: Scenario) -> list[Finding]:
    """What the rule says without any state; of a Pod nothing, since there the phase decides."""
    return findings(scenario, Facts.of([], now=datetime.now(UTC))) if scenario.request.kind in KINDS else []


def by_the_cluster(scenario: Scenario) -> list[Finding]:
    return findings(scenario, scenario.facts)


SCENARIOS = list(load(CASES))
DECIDED = [one for one in SCENARIOS if by_request_alone(one)]
NAMESPACED = "A NPUClusterPolicy of the unrelated group npu.ai"  # no kind that this API server serves
ADMITTED = [
    one for one in SCENARIOS if one.request.kind in KINDS and not by_the_cluster(one) and one.name != NAMESPACED
]
BY_STATE = [one for one in SCENARIOS if by_the_cluster(one) and not by_request_alone(one)]


def test_what_needs_state_is_listed_by_name() -> None:
    assert {one.name for one in BY_STATE} == STATE.keys()


def test_the_rest_of_what_the_rule_says_is_replayed() -> None:
    assert len(DECIDED) >= 3
    assert len(ADMITTED) >= 20
    for scenario in DECIDED:
        assert [one.what for one in by_request_alone(scenario)] == [one.what for one in by_the_cluster(scenario)]


def config_of() -> dict[tuple[str, str], str]:
    """The configuration of each scenario, as text."""
    return {
        (file.name, document["name"]): json.dumps(document.get("config") or {}, sort_keys=True)
        for file in sorted(CASES.glob("*.yaml"))
        for document in yaml.load_all(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    }


CONFIG = config_of()


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(controllers=False) as plane:
        admin = Api.from_kubeconfig(plane.kubeconfig)
        for file in ("npu-operator-crds", "hami-crds", "aml-crds"):
            for crd in crds(file, "npu.openfuyao.com"):
                admin.apply(crd)
        yield plane


@contextmanager
def policy(plane: ControlPlane, config: str) -> Iterator[None]:
    """The companion policy as the chart renders it for a configuration, and nothing else of the chart."""
    values = plane.folder / "replayed.yaml"
    values.write_text(yaml.safe_dump({"config": json.loads(config)}))
    command = ("template", NAME, str(CHART), "-n", NAMESPACE, "-f", str(values), "-s", "templates/policy.yaml")
    rendered = plane.helm(*command).stdout
    admin = Api.from_kubeconfig(plane.kubeconfig)
    plane.kubectl("apply", "-f", "-", stdin=rendered)
    eventually(lambda: _refuses(admin))
    try:
        yield
    finally:
        plane.kubectl("delete", "-f", "-", stdin=rendered)
        eventually(lambda: not _refuses(admin))


def _refuses(admin: Api) -> bool:
    """Whether the policy is in force: by a dry run of a person's that no scenario makes."""
    owner = {"apiVersion": "hami.io/v1", "kind": "HAMiAscendDevicePlugin", "metadata": {"name": "any", "uid": "any"}}
    item = daemonset("in-force", "default", HAMI_LABELS, {}, "/driver", owner)
    answer = admin.answer("POST", "/apis/apps/v1/namespaces/default/daemonsets", item, dryRun="All")
    return f"[{RULE}]" in answer.message if answer.status >= 300 else False


def replayed(plane: ControlPlane, scenarios: list[Scenario]) -> Iterator[tuple[Scenario, Reply]]:
    admin = Api.from_kubeconfig(plane.kubeconfig)
    stage = Stage(admin)
    configs = {CONFIG[one.file, one.name] for one in scenarios}
    for config in sorted(configs):
        with policy(plane, config):
            for scenario in scenarios:
                if CONFIG[scenario.file, scenario.name] == config:
                    old = scenario.request.old_object
                    try:
                        if old is not None:
                            stage.make(dict(old))
                        yield scenario, Replay(admin, stage).send(scenario, dry_run=True)
                    finally:
                        stage.clear()


def test_what_a_request_alone_decides_is_refused_in_the_same_words(plane: ControlPlane) -> None:
    seen = 0
    for scenario, reply in replayed(plane, DECIDED):
        (finding,) = by_the_cluster(scenario)
        assert not reply.allowed, scenario.name
        assert (reply.denying, reply.code) == ((RULE,), 403), scenario.name
        assert f"[{RULE}] {finding.what}. Because: " in reply.text, (scenario.name, reply.text)
        if scenario.name not in NEXT_BY_STATE:
            assert [part for part in scenario.expect.message if part not in reply.text] == []
        seen += 1
    assert seen == len(DECIDED)


def test_what_the_rule_does_not_deny_passes(plane: ControlPlane) -> None:
    """The operators, the system controllers, other owners' plugins, and what other rules deny."""
    for scenario, reply in replayed(plane, ADMITTED):
        assert reply.allowed, (scenario.name, reply.text)


def test_what_operators_and_controllers_write_passes_when_it_is_marked_as_theirs(plane: ControlPlane) -> None:
    sent = [_marked(one) for one in ADMITTED if one.request.user.name != "alice"]
    assert len(sent) >= 10
    for scenario, reply in replayed(plane, sent):
        assert reply.allowed, (scenario.name, reply.text)


def test_what_needs_state_is_left_to_the_webhook(plane: ControlPlane) -> None:
    sent = [one for one in BY_STATE if STATE[one.name] is MARK]
    for scenario, reply in replayed(plane, sent):
        assert reply.allowed, (scenario.name, reply.text)


def test_with_its_mark_what_needs_state_needs_none(plane: ControlPlane) -> None:
    """The same scenarios, their objects marked as the operators mark them: refused in the webhook's words."""
    sent = [_marked(one) for one in BY_STATE if STATE[one.name] is MARK]
    for scenario, reply in replayed(plane, sent):
        (finding,) = by_the_cluster(scenario)
        assert f"[{RULE}] {finding.what}. Because: " in reply.text, (scenario.name, reply.text)


def _marked(scenario: Scenario) -> Scenario:
    request = scenario.request
    objects = {"object": request.object, "old_object": request.old_object}
    marked: Any = {name: _with_mark(dict(item)) for name, item in objects.items() if item is not None}
    return replace(scenario, request=replace(request, **marked))


def _with_mark(item: Object) -> Object:
    mark: Object = {"annotations": {"operator-sdk/primary-resource": "npu-operator/npuctl-main"}}
    if item["kind"] == "DaemonSet":
        owner = {"apiVersion": "npu.openfuyao.com/v1", "kind": "NPUClusterPolicy", "name": "cluster", "uid": "any"}
        if "hami" in item["metadata"]["name"]:
            owner |= {"apiVersion": "hami.io/v1", "kind": "HAMiAscendDevicePlugin", "name": "hami"}
        mark = {"ownerReferences": [owner]}
    return {**item, "metadata": {**mark, **item["metadata"]}}
