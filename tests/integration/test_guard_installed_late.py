"""The guard is installed late, into every state that a cluster may be in: it says where that is and how it goes on.

Nobody watched how the state came about, and no Lease tells it. What the next step of a denial says is then done: each
command that a message names is accepted as it is printed there.
"""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import NAMESPACE, InstalledGuard
from tests.guard.procedure import (
    CTL,
    DIRECT,
    HAMI_CR,
    NATIVE_OFF,
    NATIVE_ON,
    SHARED,
    SWIFT,
    Procedure,
    allowed,
    control_node,
    denied,
)
from tests.products import samples
from tests.products.api import path_of
from tests.products.loop import Fault
from tests.products.nodes import ascend_node, create_nodes
from tests.products.observe import CTL as CTL_PATH
from tests.products.observe import (
    HAMI,
    NATIVE,
    RUNTIME_CLASS,
    devices,
    field,
    until_advertised,
    until_crashed,
    until_gone,
)
from tests.products.observe import HAMI_CR as HAMI_CR_PATH
from tests.products.products import Products
from tests.waiting import eventually
from webhook.ownership.memory import ADOPTED, LEASE_NAME, SETTLED

pytestmark = pytest.mark.integration

NODES = ("node-a", "node-b")
SERVED = {"native": {DIRECT: "8"}, "hami": {SHARED: "32"}}
RESOURCE = {"native": DIRECT, "hami": SHARED}
SWITCH_OFF = ("patch", *CTL, "--type=merge", "-p", NATIVE_OFF)
SWITCH_ON = ("patch", *CTL, "--type=merge", "-p", NATIVE_ON)


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Iterator[Products]:
    with control_node(control_plane), Products(control_plane.kubeconfig) as products:
        yield products


@pytest.fixture
def products(installed: Products) -> Iterator[Products]:
    """Freshly installed products and two Ascend nodes, without any guard."""
    create_nodes(installed.admin, *(ascend_node(name) for name in NODES))
    yield installed
    # Between its installation and its first answer the guard cannot be asked: operators try again, and get through.
    refused = [refusal for refusal in installed.refused if "failed calling webhook" not in refusal.message]
    installed.reset()
    assert refused == []


@contextmanager
def late(plane: ControlPlane, products: Products) -> Iterator[Procedure]:
    """Install the guard now. Its Pods would be nothing but kwok's, and their namespace slow to go: there are none."""
    with InstalledGuard(plane, {"config": SWIFT, "replicas": 0}) as guard:
        yield Procedure(plane, products, guard, lambda: None)


def bring_in(products: Products, owner: str) -> None:
    """Let an owner's custom resource ask for it: the NPUOperatorCtl is there in any case."""
    if products.admin.get(CTL_PATH) is None:
        products.admin.create(samples.npuoperatorctl(enabled=owner == "native"))
        eventually(lambda: products.admin.get(RUNTIME_CLASS))
    if owner == "hami":
        products.admin.create(samples.hamiascenddeviceplugin())
    eventually(lambda: products.admin.get(NATIVE if owner == "native" else HAMI))


def run_workload(products: Products, owner: str) -> None:
    """A workload that holds a chip of this owner on node-a."""
    item = samples.workload("train", RESOURCE[owner])
    item["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-a"}
    products.admin.create(item)
    path = path_of("v1", "Pod", "train", "default")
    eventually(lambda: field(products.admin, path, "status", "phase") == "Running")


def remembered(procedure: Procedure) -> dict[str, str]:
    """The annotations of the guard's Lease."""
    lease = procedure.kubectl("-n", NAMESPACE, "get", "lease", LEASE_NAME, "--ignore-not-found", "-o", "json").stdout
    return dict(json.loads(lease)["metadata"].get("annotations", {})) if lease else {}


def closed(procedure: Procedure, phase: str, *seen: str) -> str:
    """NPU Pods are refused in this phase, which no Lease calls settled. Returns what the denial says."""
    assert procedure.phase() == phase
    assert SETTLED not in remembered(procedure)
    for resource in (DIRECT, SHARED):
        said = denied(procedure.create(samples.workload("probe", resource)), "mid-switch", phase, *seen)
    return said


def commands(said: str, verb: str) -> list[list[str]]:
    """The arguments of each kubectl command in a message whose verb is this one."""
    next_step = said.rpartition("Next: ")[2]
    found = [shlex.split(part) for part in re.findall(r"kubectl (.+?)(?=\)|; |,? or |, then |\.?\n|\.?$)", next_step)]
    return [arguments for arguments in found if verb in arguments]


def accepted(procedure: Procedure, said: str, verb: str, *options: str) -> str:
    """Run the one command of this verb that a message names, as it is. Returns its warnings."""
    (command,) = commands(said, verb)
    return allowed(procedure.kubectl(*command, *options)).stderr


@pytest.mark.parametrize("owner", ["native", "hami"])
def test_a_cluster_in_operation_is_adopted_although_one_node_is_broken(
    control_plane: ControlPlane, products: Products, owner: str
) -> None:
    admin, resource = products.admin, RESOURCE[owner]
    bring_in(products, owner)
    until_advertised(admin, SERVED[owner], *NODES)
    run_workload(products, owner)
    products.kubelet.broken.add("node-b")
    eventually(lambda: devices(admin, "node-b").get(resource, "0") == "0")
    with late(control_plane, products) as procedure:
        eventually(lambda: SETTLED in remembered(procedure))
        notes = remembered(procedure)
        assert notes[SETTLED] == owner
        assert notes[ADOPTED].endswith("Z")
        assert procedure.phase() == f"settled({owner})"
        done = eventually(lambda: procedure.create(samples.workload("next", resource), "--dry-run=server"))
        assert "Warning: [mid-switch] not served at present: node-b" in allowed(done).stderr
        pinned = samples.workload("pinned", resource)
        pinned["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-b"}
        denied(procedure.create(pinned), "mid-switch", "Node node-b")

        give_up = SWITCH_OFF if owner == "native" else ("delete", *HAMI_CR, "--wait=false")
        said = denied(procedure.kubectl(*give_up), "workloads-running", "Pod default/train")
        accepted(procedure, said, "delete", "--now")
        allowed(procedure.kubectl(*give_up))
        eventually(lambda: procedure.is_gone(owner))
        assert procedure.phase() == "unowned"
        assert SETTLED not in remembered(procedure)


def test_hami_that_serves_every_node_has_settled_without_being_adopted(
    control_plane: ControlPlane, products: Products
) -> None:
    bring_in(products, "hami")
    until_advertised(products.admin, SERVED["hami"], *NODES)
    with late(control_plane, products) as procedure:
        eventually(lambda: procedure.may_start(SHARED))
        assert procedure.phase() == "settled(hami)"
        assert remembered(procedure) == {SETTLED: "hami"}
        said = denied(procedure.kubectl(*SWITCH_ON), "second-owner", "HAMiAscendDevicePlugin hami-system/")
        accepted(procedure, said, "delete")
        eventually(lambda: procedure.is_gone("hami"))
        closed(procedure, "unowned")
        procedure.once_allowed(*SWITCH_ON)
        eventually(lambda: procedure.may_start(DIRECT))


def test_native_leaves(control_plane: ControlPlane, products: Products) -> None:
    bring_in(products, "native")
    until_advertised(products.admin, SERVED["native"], *NODES)
    products.npu_operator.switch_on(Fault.DAEMONSET_STAYS)
    products.admin.merge(CTL_PATH, {"spec": {"devicePlugin": {"enabled": False}}})
    with late(control_plane, products) as procedure:
        said = closed(procedure, "leaving(native)", "DaemonSet kube-system/ascend-device-plugin exists")
        denied(procedure.apply(samples.hamiascenddeviceplugin()), "second-owner", "wait until nothing of native is")
        accepted(procedure, said, "patch", "--dry-run=server")
        look, status = commands(said, "get")
        assert allowed(procedure.kubectl(*status)).stdout.startswith("apiVersion: npu-operator.alauda.io")
        assert "ascend-device-plugin" in procedure.kubectl(*look).stdout
        products.npu_operator.switch_off()
        eventually(lambda: "No resources found" in procedure.kubectl(*look).stderr and procedure.is_gone("native"))
        allowed(procedure.apply(samples.hamiascenddeviceplugin()))
        eventually(lambda: procedure.may_start(SHARED))


def test_nobody_owns_the_chips(control_plane: ControlPlane, products: Products) -> None:
    products.admin.create(samples.npuoperatorctl(enabled=False))
    eventually(lambda: field(products.admin, CTL_PATH, "status", "conditions"))
    with late(control_plane, products) as procedure:
        said = closed(procedure, "unowned", "create the HAMiAscendDevicePlugin")
        allowed(procedure.apply(samples.hamiascenddeviceplugin(), "--dry-run=server"))
        accepted(procedure, said, "patch")
        eventually(lambda: procedure.may_start(DIRECT))
        assert procedure.phase() == "settled(native)"


@pytest.mark.parametrize("owner", ["native", "hami"])
def test_an_owner_starts(control_plane: ControlPlane, products: Products, owner: str) -> None:
    operator = products.npu_operator if owner == "native" else products.hami_operator
    operator.switch_on(Fault.NEVER_READY)
    bring_in(products, owner)
    until_crashed(products.admin, owner, *NODES)
    with late(control_plane, products) as procedure:
        said = closed(procedure, f"starting({owner})", "Node node-a is not served", "cordoning a broken node")
        other = samples.npuoperatorctl(enabled=True) if owner == "hami" else samples.hamiascenddeviceplugin()
        wrong = denied(procedure.apply(other), "second-owner")
        for denial in (wrong, said):
            accepted(procedure, denial, "patch" if owner == "native" else "delete", "--dry-run=server")
        operator.switch_off()
        accepted(procedure, said, "rollout")
        eventually(lambda: procedure.may_start(RESOURCE[owner]))
        assert procedure.phase() == f"settled({owner})"
        assert remembered(procedure) == {SETTLED: owner}


@pytest.mark.parametrize("removed", ["native", "hami"])
def test_two_owners_fight_and_either_may_be_removed(
    control_plane: ControlPlane, products: Products, removed: str
) -> None:
    bring_in(products, "native")
    bring_in(products, "hami")
    until_advertised(products.admin, SERVED["native"] | SERVED["hami"], *NODES)
    run_workload(products, removed)
    with late(control_plane, products) as procedure:
        said = closed(procedure, "conflict", "NPUOperatorCtl npu-operator/", "HAMiAscendDevicePlugin hami-system/")
        for verb in ("patch", "delete"):
            accepted(procedure, said, verb, "--dry-run=server")
        warned = accepted(procedure, said, "patch" if removed == "native" else "delete")
        assert "Warning: [workloads-running]" in warned
        kept = "hami" if removed == "native" else "native"
        eventually(lambda: procedure.is_gone(removed))
        eventually(lambda: procedure.may_start(RESOURCE[kept]))
        assert procedure.phase() == f"settled({kept})"


def test_native_is_asked_for_while_hami_still_leaves(control_plane: ControlPlane, products: Products) -> None:
    admin = products.admin
    bring_in(products, "hami")
    until_advertised(admin, SERVED["hami"], *NODES)
    products.hami_operator.switch_on(Fault.DAEMONSET_STAYS)
    admin.delete(HAMI_CR_PATH)
    admin.merge(CTL_PATH, {"spec": {"devicePlugin": {"enabled": True}}})
    eventually(lambda: admin.get(NATIVE))
    with late(control_plane, products) as procedure:
        said = closed(procedure, "conflict", "metadata.deletionTimestamp is set")
        assert commands(said, "delete") == []
        accepted(procedure, said, "patch", "--dry-run=server")
        denied(procedure.kubectl("-n", "hami-system", "delete", "daemonset", "--all"), "generated-object")
        products.hami_operator.switch_off()
        until_gone(admin, HAMI_CR_PATH, HAMI)
        eventually(lambda: procedure.may_start(DIRECT))
        assert procedure.phase() == "settled(native)"
