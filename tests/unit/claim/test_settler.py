"""What the Lease should say by the facts: who has settled, who has not any more, and whom a late guard adopts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from webhook.claim.settler import due
from webhook.cluster.files import read_records
from webhook.ownership.facts import Facts
from webhook.ownership.memory import Claim, Memory
from webhook.ownership.owners import Owner
from webhook.ownership.scope import Selector
from webhook.ownership.settings import Settings

NOW = datetime(2026, 12, 2, 1, 0, tzinfo=UTC)
SETTINGS = Settings()
NOBODY = Memory(exists=True, decides=True)
NO_LEASE = Memory(decides=True)
SOCKETS = {
    "containers": [
        {"name": "p", "image": "x", "volumeMounts": [{"name": "s", "mountPath": "/var/lib/kubelet/device-plugins"}]}
    ],
    "volumes": [{"name": "s", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
}
LABELS = {"name": "ascend-device-plugin-ds"}


def ctl(enabled: bool = True) -> dict[str, Any]:
    spec = {"devicePlugin": {"enabled": enabled}}
    return {
        "apiVersion": "npu-operator.alauda.io/v1",
        "kind": "NPUOperatorCtl",
        "metadata": {"name": "npu", "namespace": "npu-operator"},
        "spec": spec,
    }


DAEMON_SET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "ascend-device-plugin", "namespace": "kube-system", "uid": "ds", "labels": LABELS},
    "spec": {"template": {"metadata": {"labels": LABELS}, "spec": {"nodeSelector": {"npu": "on"}, **SOCKETS}}},
}


def node(name: str, npus: int = 8, ready: bool = True) -> dict[str, Any]:
    status = {
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "allocatable": {"huawei.com/Ascend910": str(npus)},
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"npu": "on"}}, "status": status}


def plugin_pod(on: str) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "ds", "controller": True}
    metadata = {"name": f"p-{on}", "namespace": "kube-system", "labels": LABELS, "ownerReferences": [reference]}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**SOCKETS, "nodeName": on},
        "status": status,
    }


def workload(on: str, phase: str = "Running") -> dict[str, Any]:
    container = {"name": "c", "resources": {"limits": {"huawei.com/Ascend910": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": phase},
    }


NATIVE = (ctl(), DAEMON_SET, node("a"), node("b"), plugin_pod("a"), plugin_pod("b"))
ONE_BROKEN = (ctl(), DAEMON_SET, node("a"), node("b", npus=0), plugin_pod("a"))


def said(memory: Memory, *objects: dict[str, Any], settings: Settings = SETTINGS, **more: Any) -> Memory:
    facts = Facts.of(read_records(objects, settings), now=NOW, **more)
    return due(replace(facts, memory=memory), settings)


def remembered(*owners: Owner) -> Memory:
    return replace(NOBODY, settled=frozenset(owners))


def test_an_owner_that_is_rolled_out_has_settled() -> None:
    assert said(NOBODY, *NATIVE).settled == {Owner.NATIVE}
    assert said(NO_LEASE, *NATIVE).settled == {Owner.NATIVE}


def test_one_that_is_not_rolled_out_everywhere_has_not_and_stays_so_once_it_had() -> None:
    assert said(NOBODY, *ONE_BROKEN).settled == frozenset()
    assert said(remembered(Owner.NATIVE), *ONE_BROKEN).settled == {Owner.NATIVE}


def test_what_the_facts_contradict_is_forgotten() -> None:
    assert said(remembered(Owner.HAMI), *NATIVE).settled == {Owner.NATIVE}
    assert said(remembered(Owner.NATIVE), ctl(enabled=False), node("a")).settled == frozenset()


def test_facts_that_are_missing_or_old_change_nothing() -> None:
    assert said(remembered(Owner.HAMI), *NATIVE, missing={"pods": "403"}) == remembered(Owner.HAMI)
    assert said(remembered(Owner.HAMI), *NATIVE, age=timedelta(hours=1)) == remembered(Owner.HAMI)


@pytest.mark.parametrize(("age", "settled"), [(5, frozenset()), (61, frozenset({Owner.NATIVE}))])
def test_an_owner_that_is_being_given_up_settles_again_only_when_that_came_to_nothing(
    age: int, settled: frozenset[Owner]
) -> None:
    time = NOW - timedelta(seconds=age)
    claim = Claim(Owner.NATIVE, "leaving", "NPUOperatorCtl/n/x", Selector(), "u", "alice", time, settled=True)
    assert said(replace(NOBODY, claims=(claim,)), *ONE_BROKEN).settled == settled


@pytest.mark.parametrize(
    ("memory", "objects", "adopt", "owner"),
    [
        (NO_LEASE, (*ONE_BROKEN, workload("a")), True, Owner.NATIVE),
        (NO_LEASE, (*ONE_BROKEN, workload("a")), False, None),
        (NOBODY, (*ONE_BROKEN, workload("a")), True, None),
        (NO_LEASE, (*ONE_BROKEN, workload("a", phase="Pending")), True, None),
        (NO_LEASE, (*ONE_BROKEN, workload("a", phase="Succeeded")), True, None),
        (NO_LEASE, ONE_BROKEN, True, None),
        (NO_LEASE, (node("a"), workload("a")), True, Owner.FOREIGN),
        (NO_LEASE, (ctl(enabled=False), node("a"), workload("a")), True, Owner.FOREIGN),
        (NO_LEASE, (node("a", npus=0), workload("a")), True, None),
        (NO_LEASE, (node("a", ready=False), workload("a")), True, None),
        (NO_LEASE, (node("a"), node("b", npus=0), workload("b")), True, None),
        (NO_LEASE, (node("a"),), True, None),
        (NOBODY, (node("a"), workload("a")), True, None),
    ],
    ids=[
        "a broken node in a cluster in operation",
        "adoption is off",
        "a Lease is there",
        "nobody runs yet",
        "nobody runs any more",
        "no workload",
        "chips are used and no owner is seen",
        "chips are used and the known owner is off",
        "used, and advertised no more",
        "on a node that is not Ready",
        "on another node than the one that advertises",
        "advertised and not used",
        "a Lease is there, and no owner is seen",
    ],
)
def test_a_guard_that_comes_late_adopts_who_is_at_work(
    memory: Memory, objects: tuple[dict[str, Any], ...], adopt: bool, owner: Owner | None
) -> None:
    after = said(memory, *objects, settings=Settings(adopt=adopt))
    assert after.settled == ({owner} if owner is not None else frozenset())
    assert after.adopted == ("2026-12-02T01:00:00Z" if owner is not None else "")


def test_an_adopted_owner_that_no_object_shows_stays_while_a_node_advertises() -> None:
    adopted = said(NO_LEASE, node("a"), workload("a"))
    assert said(adopted, node("a")) == adopted
    assert said(adopted, node("a", npus=0)).settled == frozenset()
    assert said(adopted, *NATIVE).settled == {Owner.NATIVE}
