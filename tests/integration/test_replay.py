"""The scenarios of tests/cases at a real API server: what they say offline is what happens live."""

import json
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import NAMESPACE, InstalledGuard
from tests.products.api import Api, Object
from tests.products.products import crds
from tests.replay.request import Replay, Reply
from tests.replay.stage import NotReplayableError, Stage
from webhook.cli.scenarios import Scenario, load
from webhook.ownership.situation import situation

pytestmark = pytest.mark.integration

CASES = Path(__file__).parents[1] / "cases"
PATIENCE = 4.0
MOST_UNREPLAYABLE = 0.1


def _documents() -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (path.name, document["name"]): document
        for path in sorted(CASES.glob("*.yaml"))
        for document in yaml.load_all(path.read_text(), yaml.CSafeLoader)
    }


def test_every_scenario_is_answered_live_as_it_is_offline(make_control_plane: Callable[..., ControlPlane]) -> None:
    plane = make_control_plane(controllers=False)
    admin = Api.from_kubeconfig(plane.kubeconfig)
    for file in ("npu-operator-crds", "hami-crds", "aml-crds"):
        for crd in crds(file, "npu.openfuyao.com"):
            admin.apply(crd)
    for crd in crds("npu-operator-crds", "npu.ai"):
        admin.apply(crd)  # another product's kind of the same name
    documents = _documents()
    groups: dict[str, list[Scenario]] = defaultdict(list)
    for scenario in load(CASES):
        groups[json.dumps(documents[scenario.file, scenario.name].get("config") or {}, sort_keys=True)].append(scenario)
    wrong: list[str] = []
    impossible: list[str] = []
    passed = 0
    for config, scenarios in sorted(groups.items(), key=lambda entry: -len(entry[1])):
        quick = {"claimPoll": "200ms", **json.loads(config).get("freshness", {})}
        values = {
            "config": {"adopt": False, **json.loads(config), "freshness": quick},
            "companionPolicy": {"enabled": False},  # it is replayed alone, in test_companion_replay
        }
        with InstalledGuard(plane, values) as guard:
            stage = Stage(admin)
            for scenario in scenarios:
                title = f"{scenario.file}: {scenario.name}"
                document = documents[scenario.file, scenario.name]
                try:
                    difference = _replay(admin, stage, scenario, document)
                except NotReplayableError as reason:
                    impossible.append(f"{title}: {reason}")
                    continue
                finally:
                    stage.clear()
                    admin.delete(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/ascend-owner-guard")
                if difference:
                    wrong.append(f"{title}: {difference}")
                else:
                    passed += 1
            assert guard.is_ready()
    print(f"\n{passed} replayed alike, {len(wrong)} differ, {len(impossible)} cannot be replayed:")
    print("\n".join([*impossible, "", *wrong]))
    assert wrong == []
    assert len(impossible) <= MOST_UNREPLAYABLE * len(documents)


def _replay(admin: Api, stage: Stage, scenario: Scenario, document: dict[str, Any]) -> str:
    """Return how the live answer differs from what the scenario expects, empty when it does not."""
    if "facts" in document:
        raise NotReplayableError("its facts are made old or missing")
    if scenario.facts.absent and any(
        item["kind"] == "DaemonSet" and "dra" in item["metadata"]["name"] for item in scenario.cluster
    ):
        raise NotReplayableError("its API server serves no ResourceSlices, and a real one does")
    stage.build(_shifted(scenario, document), scenario.settings.identities.system_controllers[-1])
    _wait_until_settled(admin, scenario)
    replay = Replay(admin, stage)
    deadline = time.monotonic() + PATIENCE
    while True:
        # The snapshot follows the watches: what was created just now is looked at again until it is seen.
        reply = replay.send(scenario, dry_run=True)
        difference = _difference(scenario, reply)
        if not difference or time.monotonic() > deadline:
            return difference
        time.sleep(0.1)


def _shifted(scenario: Scenario, document: dict[str, Any]) -> list[Object]:
    """The scenario's objects, a Lease's times moved from the scenario's now to the present."""
    items = [dict(item) for item in scenario.cluster]
    now = document.get("now")
    for item in items:
        if item["kind"] != "Lease":
            continue
        if now is not None:
            then = now if isinstance(now, datetime) else datetime.fromisoformat(str(now))
            then = then if then.tzinfo is not None else then.replace(tzinfo=UTC)
            shift = datetime.now(UTC) - then
            text = json.dumps(item["metadata"]["annotations"])
            for stamp in sorted(set(_stamps(text))):
                moved = datetime.fromisoformat(stamp) + shift
                text = text.replace(stamp, moved.isoformat().replace("+00:00", "Z"))
            item["metadata"] = {**item["metadata"], "annotations": json.loads(text)}
            item["spec"] = {key: value for key, value in item.get("spec", {}).items() if key != "renewTime"}
    return items


def _stamps(text: str) -> list[str]:
    return [
        part for part in text.replace("\\", "").split('"') if len(part) >= 20 and part[4] == "-" and part[10] == "T"
    ]


def _wait_until_settled(admin: Api, scenario: Scenario) -> None:
    """Wait until a replica remembers what the facts show, as far as they show an owner settled."""
    owners = {
        str(pool.phase.owner)
        for pool in situation(scenario.facts, scenario.settings).pools
        if pool.phase.name == "settled" and pool.phase.owner is not None
    }
    if not owners or scenario.facts.memory.exists:
        return
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        lease = admin.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/ascend-owner-guard")
        settled = ((lease or {}).get("metadata", {}).get("annotations") or {}).get("ascend-owner-guard/settled", "")
        if owners <= set(settled.split(",")):
            return
        time.sleep(0.05)


def _difference(scenario: Scenario, reply: Reply) -> str:
    expect = scenario.expect
    if reply.allowed != expect.allowed:
        return f"expected allowed={expect.allowed}: {reply.text[:600]}"
    if expect.rule is not None and expect.rule not in reply.denying:
        return f"expected a denial by {expect.rule}, got {reply.denying}: {reply.text[:300]}"
    if expect.warns is not None and not set(expect.warns) <= set(reply.warning):
        return f"expected the warnings {expect.warns}, got {reply.warning}"
    if expect.warns == () and reply.warning:
        return f"expected no warning, got {reply.text[:300]}"
    if expect.code is not None and reply.code != expect.code:
        return f"expected status {expect.code}, got {reply.code}"
    missing = [part for part in expect.message if part not in reply.text]
    return f"{missing} not in: {reply.text[:600]}" if missing else ""
