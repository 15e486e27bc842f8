"""Stop and return to the last single-owner state, at a real API server: every fault that DOMAIN.md section 4 names.

In both directions the old plugin does not leave, the new one does not come up, allocatable does not converge, or a
first workload does not start. Each time: what is refused meanwhile, what stays possible, and the way back to its end,
with exactly what the procedure saved. No write of an operator, a kubelet or a controller may be refused.
"""

from collections.abc import Iterator

import pytest

from tests.controlplane.plane import ControlPlane
from tests.guard.procedure import (
    CTL,
    DIRECT,
    HAMI_CR,
    HAMI_DAEMON_SET,
    NATIVE_DAEMON_SET,
    NATIVE_OFF,
    NATIVE_ON,
    SHARED,
    SWIFT,
    Done,
    Procedure,
    allowed,
    denied,
    installed_procedure,
    without,
)
from tests.products import samples
from tests.products.helm_operator import FINALIZER
from tests.products.loop import Fault
from tests.products.observe import policy_writes, until_crashed
from tests.products.products import Setup
from tests.waiting import eventually

pytestmark = pytest.mark.integration

SWITCH_OFF = ("patch", *CTL, "--type=merge", "-p", NATIVE_OFF)
SWITCH_ON = ("patch", *CTL, "--type=merge", "-p", NATIVE_ON)
REMOVE_HAMI = ("delete", *HAMI_CR, "--wait=false")


@pytest.fixture(scope="module")
def procedure(control_plane: ControlPlane) -> Iterator[Procedure]:
    with installed_procedure(control_plane, SWIFT, Setup(hami_makes_runtime_class=True)) as walked:
        yield walked


@pytest.fixture
def native(procedure: Procedure) -> Iterator[Procedure]:
    """A cluster where the native plugin has settled. A test must bring it back there."""
    yield from back_again(procedure, "settled(native)")


@pytest.fixture
def hami(procedure: Procedure) -> Iterator[Procedure]:
    """A cluster where HAMi has settled. A test must bring it back there."""
    yield from back_again(procedure, "settled(hami)")


def back_again(procedure: Procedure, stage: str) -> Iterator[Procedure]:
    procedure.reach(stage)
    yield procedure
    for loop in procedure.products.loops:
        loop.switch_off()
    refused = list(procedure.products.refused)
    if procedure.phase() != stage:
        procedure.start_over()
    assert refused == [], refused


def until_settled(procedure: Procedure, owner: str) -> None:
    """Wait until NPU Pods of this owner are admitted, and nothing of the other is left."""
    eventually(lambda: procedure.may_start(DIRECT if owner == "native" else SHARED))
    assert procedure.phase() == f"settled({owner})"
    assert procedure.is_gone("hami" if owner == "native" else "native")


def no_npu_pod(procedure: Procedure, phase: str, *seen: str) -> None:
    """Neither owner's Pods are admitted; the message tells the phase and what was seen."""
    for resource in (DIRECT, SHARED):
        denied(procedure.create(samples.workload("train", resource)), "mid-switch", phase, *seen)


def stale(done: Done) -> None:
    """The API server itself refused an old resourceVersion, before anybody was asked."""
    assert done.returncode != 0
    assert "the object has been modified" in done.stderr
    assert "admission webhook" not in done.stderr


def ask_native_back(procedure: Procedure, saved: str, verb: str) -> None:
    """The saved NPUOperatorCtl as it is carries an old resourceVersion; without that one line it is admitted."""
    stale(procedure.kubectl("replace", "-f", "-", stdin=saved))
    procedure.once_allowed(verb, "-f", "-", stdin=without(saved, "resourceVersion"))


def test_what_was_saved_before_a_change_is_refused_by_the_api_server_alone(native: Procedure) -> None:
    saved = native.save(*CTL)
    allowed(native.kubectl("annotate", *CTL, "note=any", "--overwrite"))
    for verb in ("apply", "replace"):
        stale(native.kubectl(verb, "-f", "-", stdin=saved))
        allowed(native.kubectl(verb, "-f", "-", stdin=without(saved, "resourceVersion")))


OLD_NATIVE_STAYS = [
    ("helm_operator", Fault.POLICY_STAYS_TRUE, "NPUClusterPolicy cluster spec.devicePlugin.managed is true", "apply"),
    ("npu_operator", Fault.DAEMONSET_STAYS, "DaemonSet kube-system/ascend-device-plugin exists", "replace"),
    ("kubelet", Fault.POD_STAYS, "is on node node-a", "apply"),
]


@pytest.mark.parametrize("product, fault, seen, verb", OLD_NATIVE_STAYS, ids=lambda value: str(value)[:40])
def test_the_native_plugin_does_not_leave_and_is_asked_back(
    native: Procedure, product: str, fault: Fault, seen: str, verb: str
) -> None:
    saved = native.save(*CTL)
    getattr(native.products, product).switch_on(fault)
    allowed(native.kubectl(*SWITCH_OFF))
    if fault is Fault.POD_STAYS:
        eventually(lambda: not native.get(*NATIVE_DAEMON_SET))
    no_npu_pod(native, "leaving(native)", seen)
    denied(native.apply(samples.hamiascenddeviceplugin()), "second-owner", seen, "wait until nothing of native is left")
    denied(native.kubectl("label", "npuclusterpolicy", "cluster", "by-hand=yes"), "generated-object")

    ask_native_back(native, saved, verb)
    getattr(native.products, product).switch_off()
    until_settled(native, "native")
    assert FINALIZER in native.get(*CTL, path="{.metadata.finalizers}")


NEW_HAMI_FAILS = [
    ("hami_operator", Fault.NEVER_READY, "is not served: Pod hami-system/hami-ascend-device-plugin", "apply"),
    ("kubelet", Fault.ALLOCATABLE_STAYS, "Node node-a status.allocatable has no resource of hami", "replace"),
]


@pytest.mark.parametrize("product, fault, seen, verb", NEW_HAMI_FAILS, ids=lambda value: str(value)[:40])
def test_hami_does_not_come_up_and_native_comes_back(
    native: Procedure, product: str, fault: Fault, seen: str, verb: str
) -> None:
    saved = native.save(*CTL)
    getattr(native.products, product).switch_on(fault)
    allowed(native.kubectl(*SWITCH_OFF))
    eventually(lambda: native.is_gone("native"))
    native.once_allowed("apply", "-f", "-", stdin=samples.as_json(samples.hamiascenddeviceplugin()))
    if fault is Fault.NEVER_READY:
        until_crashed(native.products.admin, "hami", "node-a", "node-b")
    eventually(lambda: seen in native.create(samples.workload("train", SHARED)).stderr)

    no_npu_pod(native, "starting(hami)", seen)
    for way in (SWITCH_ON, (verb, "-f", "-")):
        back = native.kubectl(*way, stdin=without(saved, "resourceVersion"))
        denied(back, "second-owner", "kubectl -n hami-system delete hamiascenddeviceplugin.hami.io")
    denied(native.kubectl("delete", *HAMI_DAEMON_SET), "generated-object")

    allowed(native.run_by_kubelet(samples.workload("static", SHARED), "node-a"))
    done = allowed(native.kubectl(*REMOVE_HAMI))
    warned_about(native, done, "static")
    eventually(lambda: native.is_gone("hami"))
    denied(native.kubectl(*SWITCH_ON), "workloads-running", "Pod default/static")
    allowed(native.kubectl("delete", "pod", "static", "--now"))
    ask_native_back(native, saved, verb)
    until_settled(native, "native")


def warned_about(procedure: Procedure, done: Done, name: str) -> None:
    """What would be a denial in a settled scope is a warning on the way back, with the list in the audit record."""
    assert "Warning: [workloads-running]" in done.stderr
    records = [one for one in procedure.guard.audit_lines() if "workloads-running" in one["rules"]]
    assert records[-1]["decision"] == "warned"
    assert f"Pod default/{name}" in records[-1]["message"]


def first_workloads(procedure: Procedure, resource: str, give_up: tuple[str, ...]) -> None:
    """A first workload waits, runs or fails: the first two are stopped before the owner is given up, by name."""
    for name, count, phase in (("first-waits", 1000, "Pending"), ("first-runs", 1, "Running")):
        allowed(procedure.create(samples.workload(name, resource, count=count)))
        eventually(lambda name=name, phase=phase: procedure.get("pod", name, path="{.status.phase}") == phase)  # type: ignore[misc]
        denied(procedure.kubectl(*give_up), "workloads-running", f"Pod default/{name}")
        allowed(procedure.kubectl("delete", "pod", name, "--now"))
    procedure.products.kubelet.switch_on(Fault.WORKLOAD_FAILS)
    allowed(procedure.create(samples.workload("first-fails", resource)))
    eventually(lambda: procedure.get("pod", "first-fails", path="{.status.phase}") == "Failed")
    allowed(procedure.kubectl(*give_up))
    procedure.products.kubelet.switch_off()
    allowed(procedure.kubectl("delete", "pod", "first-fails", "--now"))


def test_a_first_workload_does_not_start_under_hami_and_native_comes_back(native: Procedure) -> None:
    saved = native.save(*CTL)
    allowed(native.kubectl(*SWITCH_OFF))
    eventually(lambda: native.is_gone("native"))
    native.once_allowed("apply", "-f", "-", stdin=samples.as_json(samples.hamiascenddeviceplugin()))
    until_settled(native, "hami")
    first_workloads(native, SHARED, REMOVE_HAMI)
    eventually(lambda: native.is_gone("hami"))
    ask_native_back(native, saved, "apply")
    until_settled(native, "native")


OLD_HAMI_STAYS = [
    ("hami_operator", Fault.HANGS, "hami-system/hami-ascend-device-plugin metadata.deletionTimestamp is set", "apply"),
    ("hami_operator", Fault.DAEMONSET_STAYS, "DaemonSet hami-system/hami-ascend-device-plugin exists", "create"),
    ("kubelet", Fault.POD_STAYS, "is on node node-a", "replace --force"),
]


@pytest.mark.parametrize("product, fault, seen, verb", OLD_HAMI_STAYS, ids=lambda value: str(value)[:40])
def test_hami_does_not_leave_and_is_asked_back(
    hami: Procedure, product: str, fault: Fault, seen: str, verb: str
) -> None:
    saved = hami.save(*HAMI_CR)
    getattr(hami.products, product).switch_on(fault)
    allowed(hami.kubectl(*REMOVE_HAMI))
    if fault is Fault.POD_STAYS:
        eventually(lambda: not hami.get(*HAMI_CR) and not hami.get(*HAMI_DAEMON_SET))
    no_npu_pod(hami, "leaving(hami)", seen)
    denied(hami.kubectl(*SWITCH_ON), "second-owner", seen, "wait until nothing of hami is left")

    if fault is not Fault.POD_STAYS:
        # What is being deleted cannot be kept: the API server alone says so, and a write without a change passes.
        stale(hami.kubectl("replace", "-f", "-", stdin=saved))
        allowed(hami.kubectl("replace", "-f", "-", stdin=without(saved, "resourceVersion")))
        assert "AlreadyExists" in hami.kubectl("create", "-f", "-", stdin=saved).stderr
        denied(hami.kubectl("delete", *HAMI_DAEMON_SET), "generated-object")
        getattr(hami.products, product).switch_off()
        eventually(lambda: not hami.get(*HAMI_CR))
    give_hami_back(hami, saved, verb)
    getattr(hami.products, product).switch_off()
    until_settled(hami, "hami")


def give_hami_back(procedure: Procedure, saved: str, verb: str) -> None:
    """The saved resource as it is: whatever creates it forgets uid and resourceVersion; `replace` alone finds nothing.

    Its finalizer comes with it.
    """
    done = procedure.kubectl("replace", "-f", "-", stdin=saved)
    assert "(NotFound)" in done.stderr
    procedure.once_allowed(*verb.split(), "-f", "-", stdin=saved)
    assert FINALIZER in procedure.get(*HAMI_CR, path="{.metadata.finalizers}")


NEW_NATIVE_FAILS = [
    ("npu_operator", Fault.NEVER_READY, "is not served: Pod kube-system/ascend-device-plugin", "apply"),
    ("kubelet", Fault.ALLOCATABLE_STAYS, "Node node-a status.allocatable has no resource of native", "create"),
]


@pytest.mark.parametrize("product, fault, seen, verb", NEW_NATIVE_FAILS, ids=lambda value: str(value)[:40])
def test_native_does_not_come_up_and_hami_comes_back(
    hami: Procedure, product: str, fault: Fault, seen: str, verb: str
) -> None:
    saved = hami.save(*HAMI_CR)
    getattr(hami.products, product).switch_on(fault)
    allowed(hami.kubectl(*REMOVE_HAMI))
    eventually(lambda: hami.is_gone("hami"))
    hami.once_allowed(*SWITCH_ON)
    if fault is Fault.NEVER_READY:
        until_crashed(hami.products.admin, "native", "node-a", "node-b")
    eventually(lambda: seen in hami.create(samples.workload("train", DIRECT)).stderr)

    no_npu_pod(hami, "starting(native)", seen)
    for way in ("apply", "create"):
        back = hami.kubectl(way, "-f", "-", stdin=saved)
        denied(back, "second-owner", "patch npuoperatorctl npuoperatorctl-sample --type merge -p", '"enabled":false')
    denied(hami.kubectl("delete", *NATIVE_DAEMON_SET), "generated-object")
    denied(hami.kubectl("delete", "npuclusterpolicy", "cluster"), "generated-object")

    allowed(hami.run_by_kubelet(samples.workload("static", DIRECT), "node-a"))
    done = allowed(hami.kubectl(*SWITCH_OFF))
    warned_about(hami, done, "static")
    eventually(lambda: hami.is_gone("native"))
    denied(hami.kubectl("create", "-f", "-", stdin=saved), "workloads-running", "Pod default/static")
    allowed(hami.kubectl("delete", "pod", "static", "--now"))
    give_hami_back(hami, saved, verb)
    until_settled(hami, "hami")


def test_a_first_workload_does_not_start_under_native_and_hami_comes_back(hami: Procedure) -> None:
    saved = hami.save(*HAMI_CR)
    allowed(hami.kubectl(*REMOVE_HAMI))
    eventually(lambda: hami.is_gone("hami"))
    hami.once_allowed(*SWITCH_ON)
    until_settled(hami, "native")
    first_workloads(hami, DIRECT, SWITCH_OFF)
    eventually(lambda: hami.is_gone("native"))
    give_hami_back(hami, saved, "apply")
    until_settled(hami, "hami")


@pytest.mark.parametrize("stage", ["leaving(native)", "unowned", "starting(hami)"])
def test_the_helm_operators_repeated_writes_pass_in_the_middle_of_a_switch(procedure: Procedure, stage: str) -> None:
    procedure.reach(stage)
    before = policy_writes(procedure.products.admin)
    eventually(lambda: policy_writes(procedure.products.admin) >= before + 2)
    assert procedure.products.refused == []


def test_the_warning_on_the_way_back_names_the_workload(procedure: Procedure) -> None:
    procedure.reach("starting(hami)")
    allowed(procedure.run_by_kubelet(samples.workload("static", SHARED), "node-a"))
    done = allowed(procedure.kubectl(*REMOVE_HAMI, "--dry-run=server"))
    allowed(procedure.kubectl("delete", "pod", "static", "--now"))
    assert "Warning: [workloads-running]" in done.stderr
    assert "static" in done.stderr  # DESIGN.md section 4: it warns with the same list


def test_the_whole_stack_is_uninstalled_through_its_finalizer_once_hami_is_gone(procedure: Procedure) -> None:
    procedure.reach("settled(hami)")
    denied(procedure.kubectl("delete", *CTL), "base-stack", "HAMiAscendDevicePlugin hami-system")
    allowed(procedure.kubectl(*REMOVE_HAMI))
    eventually(lambda: procedure.is_gone("hami"))
    assert procedure.get("runtimeclass", "ascend"), "HAMi's operator took away what it had not made"
    allowed(procedure.kubectl("delete", *CTL))
    left = ("npuoperatorctls,npuclusterpolicies,runtimeclasses", "-A")
    eventually(lambda: not procedure.get(*left))
    procedure.start_over()


def test_a_namespace_goes_with_hami_once_its_deletion_is_allowed(procedure: Procedure) -> None:
    procedure.start_over()
    item = samples.hamiascenddeviceplugin()
    item["metadata"]["namespace"] = "team-hami"
    goes_with_its_owner(procedure, "team-hami", item, SHARED)
    assert not procedure.get("runtimeclass", "ascend"), "HAMi's operator leaves behind what it made"


def test_a_namespace_goes_with_the_npu_operator_once_its_deletion_is_allowed(procedure: Procedure) -> None:
    procedure.start_over()
    item = samples.npuoperatorctl(enabled=True)
    item["metadata"]["namespace"] = "team-npu"
    goes_with_its_owner(procedure, "team-npu", item, DIRECT)
    assert not procedure.get("npuclusterpolicies")


def goes_with_its_owner(procedure: Procedure, namespace: str, owner: dict[str, object], resource: str) -> None:
    """Refused under a workload; afterwards the cascade and the operator's clean-up run to their end."""
    allowed(procedure.kubectl("create", "namespace", namespace))
    procedure.once_allowed("create", "-f", "-", stdin=samples.as_json(owner))
    eventually(lambda: procedure.may_start(resource))
    allowed(procedure.create(samples.workload("inside", resource, namespace=namespace)))
    denied(procedure.kubectl("delete", "namespace", namespace), "workloads-running", f"Pod {namespace}/inside")
    allowed(procedure.kubectl("-n", namespace, "delete", "pod", "inside", "--now"))
    # DESIGN.md section 4, small print: HAMi's generated DaemonSet goes with its owner's namespace.
    allowed(procedure.kubectl("delete", "namespace", namespace, "--wait=false"))
    eventually(lambda: not procedure.get("namespace", namespace), timeout=60)
    # Where a namespace ends nothing is created any more, by the API server's own word; operators try all the same.
    refused = [one for loop in procedure.products.loops for one in loop.refused]
    assert [one for one in refused if "because it is being terminated" not in one.message] == []
    for loop in procedure.products.loops:
        loop.refused.clear()
    assert procedure.phase() == "unowned"
