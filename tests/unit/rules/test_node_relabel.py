"""A node on its way from one pool to another: what is denied, and what the Lease remembers of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from webhook.claim.claims import opinion
from webhook.cli.requests import request_for
from webhook.cluster.files import read_records
from webhook.ownership.facts import Facts
from webhook.ownership.memory import Memory, Relabel
from webhook.ownership.request import Request, User
from webhook.ownership.settings import Settings
from webhook.ownership.verdict import Verdict
from webhook.rules import judge

NOW = datetime(2026, 12, 2, 1, 0, tzinfo=UTC)
POOLS = Settings.model_validate({"scope": {"mode": "selectors"}})
ALICE = User("alice", frozenset())
CONTROLLER = User("system:serviceaccount:kube-system:daemon-set-controller", frozenset())
SOCKETS: dict[str, Any] = {
    "containers": [
        {"name": "p", "image": "x", "volumeMounts": [{"name": "s", "mountPath": "/var/lib/kubelet/device-plugins"}]}
    ],
    "volumes": [{"name": "s", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
}
LABELS = {
    "native": {"name": "ascend-device-plugin-ds"},
    "hami": {"app.kubernetes.io/component": "hami-ascend-device-plugin"},
}


def item(version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def node(name: str, pool: str | None, **labels: str) -> dict[str, Any]:
    found = {**({"npu-pool": pool} if pool else {}), **labels}
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    return item("v1", "Node", name, metadata={"labels": found}, status=status)


def plugin(owner: str, pool: str) -> dict[str, Any]:
    labels = LABELS[owner]
    template = {"metadata": {"labels": labels}, "spec": {"nodeSelector": {"npu-pool": pool}, **SOCKETS}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return item("apps/v1", "DaemonSet", owner, "plugins", metadata={"uid": owner, "labels": labels}, spec=spec)


def pod(owner: str, on: str) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner, "uid": owner, "controller": True}
    metadata = {"labels": LABELS[owner], "ownerReferences": [reference]}
    running = {"phase": "Running"}
    return item(
        "v1", "Pod", f"{owner}-{on}", "plugins", metadata=metadata, spec={"nodeName": on, **SOCKETS}, status=running
    )


def native(*, enabled: bool = True) -> dict[str, Any]:
    spec = {"devicePlugin": {"enabled": enabled}, "daemonsets": {"nodeSelector": {"npu-pool": "direct"}}}
    return item("npu-operator.alauda.io/v1", "NPUOperatorCtl", "npu", "npu-operator", spec=spec)


HAMI = item(
    "hami.io/v1alpha1", "HAMiAscendDevicePlugin", "hami", "hami-system",
    spec={"nodeSelector": {"npu-pool": "shared"}, "driverHostPath": "/var/lib/Ascend/driver"},
)  # fmt: skip
NATIVE_SERVES = (native(), plugin("native", "direct"), node("base", "direct"), pod("native", "base"))
HAMI_SERVES = (HAMI, plugin("hami", "shared"), node("spare", "shared"), pod("hami", "spare"))


def facts(*items: dict[str, Any], relabels: tuple[Relabel, ...] = ()) -> Facts:
    read = Facts.of(read_records(list(items), POOLS), now=NOW, absent=frozenset({"resourceslices"}))
    return replace(read, memory=Memory(exists=True, decides=True, relabels=relabels))


def relabel(before: dict[str, Any], after: dict[str, Any], sub_resource: str = "") -> Request:
    asked = request_for("UPDATE", ALICE, item=after, old_item=before, uid="u")
    return replace(asked, sub_resource=sub_resource)


def enable(user: User = ALICE) -> Request:
    return request_for("UPDATE", user, item=native(), old_item=native(enabled=False), uid="u")


def remembered(asked: Request, picture: Facts, settings: Settings = POOLS) -> Relabel | None:
    return opinion(asked, Verdict("node"), picture, settings, 10).relabel


def test_a_node_that_another_owners_pod_has_not_left_does_not_come_into_a_pool() -> None:
    left, shared = node("n", None), node("n", "shared")
    verdict = judge(relabel(left, shared), facts(*NATIVE_SERVES, *HAMI_SERVES, left, pod("native", "n")), POOLS)
    (denial,) = verdict.denials
    assert denial.finding.rule == "node-relabel"
    assert "Node n would come under hami while another owner's Pod is on it" in verdict.message
    assert "Pod plugins/native-n is on node n" in verdict.message
    for there in ((), (pod("hami", "n"),), ({**pod("native", "n"), "status": {"phase": "Succeeded"}},)):
        assert judge(relabel(left, shared), facts(*NATIVE_SERVES, *HAMI_SERVES, left, *there), POOLS).allowed


@pytest.mark.parametrize("sub_resource", ["", "status"])
def test_a_node_that_changes_its_pool_is_remembered_through_its_status_too(sub_resource: str) -> None:
    before, after = node("n", "direct", zone="1"), node("n", "shared", zone="1")
    found = remembered(relabel(before, after, sub_resource), facts(*NATIVE_SERVES, before))
    assert found == Relabel("n", (("npu-pool", "shared"),), "alice", NOW)


def test_a_label_on_a_node_that_another_owners_pod_has_not_left_is_remembered_whoever_selects_it() -> None:
    before, after = node("n", None, old="1"), node("n", "shared")
    asked = relabel(before, after)
    found = remembered(asked, facts(*NATIVE_SERVES, before, pod("native", "n")))
    assert found == Relabel("n", (("npu-pool", "shared"), ("old", None)), "alice", NOW)
    assert remembered(asked, facts(*NATIVE_SERVES, before)) is None


@pytest.mark.parametrize(
    ("asked", "settings"),
    [
        (relabel(node("n", "direct"), node("n", "direct", zone="1")), POOLS),
        (relabel(node("n", "direct"), node("n", "direct"), "status"), POOLS),
        (replace(relabel(node("n", "direct"), node("n", "shared")), dry_run=True), POOLS),
        (relabel(node("n", "direct"), node("n", "shared")), Settings()),
        (replace(relabel(native(), native()), sub_resource="status"), POOLS),
    ],
    ids=["other label", "no label", "dry run", "one scope", "status of an owner"],
)
def test_nothing_else_is_remembered(asked: Request, settings: Settings) -> None:
    assert remembered(asked, facts(*NATIVE_SERVES, node("n", "direct"), pod("native", "n")), settings) is None


def on_its_way(node: str = "n", pool: str | None = "direct", age: int = 10) -> Relabel:
    return Relabel(node, (("npu-pool", pool),), "bob", NOW - timedelta(seconds=age))


LEFT_BY_HAMI = (*HAMI_SERVES, node("n", None), pod("hami", "n"))


def test_an_owner_does_not_come_while_a_node_with_anothers_pod_is_on_its_way_into_its_pool() -> None:
    verdict = judge(enable(), facts(native(enabled=False), *LEFT_BY_HAMI, relabels=(on_its_way(),)), POOLS)
    (denial,) = verdict.denials
    assert denial.finding.rule == "node-relabel"
    for said in (
        "bring in native on Node n",
        "by bob 10 s ago, so that npu-pool=direct selects it",
        "hami-n is on node n",
    ):
        assert said in verdict.message


@pytest.mark.parametrize(
    "one, user, items",
    [
        (on_its_way(age=60), ALICE, LEFT_BY_HAMI),
        (on_its_way(pool="third"), ALICE, LEFT_BY_HAMI),
        (on_its_way(node="gone"), ALICE, LEFT_BY_HAMI),
        (on_its_way(), ALICE, (*HAMI_SERVES, node("n", None))),
        (on_its_way(), CONTROLLER, LEFT_BY_HAMI),
    ],
    ids=["long ago", "another pool", "no such node", "nobody is on it", "by a system controller"],
)
def test_else_it_comes(one: Relabel, user: User, items: tuple[dict[str, Any], ...]) -> None:
    assert judge(enable(user), facts(native(enabled=False), *items, relabels=(one,)), POOLS).allowed
