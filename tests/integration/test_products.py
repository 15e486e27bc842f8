"""The stand-ins behave as DOMAIN.md describes the products, on a real control plane."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.controlplane.plane import ControlPlane
from tests.products import samples
from tests.products.api import Api, path_of
from tests.products.helm_operator import FINALIZER
from tests.products.kubelet import is_ready
from tests.products.loop import Fault
from tests.products.nodes import ascend_node, create_nodes
from tests.products.observe import (
    AML,
    CTL,
    HAMI,
    HAMI_CR,
    NATIVE,
    POLICY,
    RUNTIME_CLASS,
    devices,
    field,
    plugin_pods,
    until_advertised,
    until_gone,
)
from tests.products.plugin import SOCKETS
from tests.products.products import Products, Setup
from tests.waiting import eventually

pytestmark = pytest.mark.integration

NODES = ("node-a1", "node-a2")
DIRECT = {"huawei.com/Ascend910": "8"}
SHARED = {"huawei.com/Ascend910B4": "32"}


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Iterator[Products]:
    with Products(control_plane.kubeconfig, Setup(aml=True, linger=2.0)) as products:
        yield products


@pytest.fixture
def products(installed: Products) -> Iterator[Products]:
    create_nodes(installed.admin, *(ascend_node(name) for name in NODES))
    yield installed
    refused = list(installed.refused)
    installed.reset()
    assert refused == []


@pytest.fixture
def admin(products: Products) -> Api:
    return products.admin


def enable(admin: Api, enabled: bool) -> None:
    """The administrator's merge patch of the procedure's second step."""
    admin.merge(CTL, {"spec": {"devicePlugin": {"enabled": enabled}}})


def throughout(look: Callable[[], object], seconds: float = 1.5) -> None:
    """Fail as soon as `look` is not true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert look()
        time.sleep(0.1)


def policy_writes(admin: Api) -> float:
    """How many times a NPUClusterPolicy was updated, in the API server's own count."""
    marks = ("apiserver_request_total{", 'verb="PUT"', 'resource="npuclusterpolicies"', 'code="200"', 'subresource=""')
    lines = admin.text("GET", "/metrics").decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if all(mark in line for mark in marks))


def test_each_operator_writes_under_the_identity_of_its_product(installed: Products) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    operators = [loop for loop in installed.loops if loop is not installed.kubelet]
    users = [loop.api.request("POST", path, review)["status"]["userInfo"]["username"] for loop in operators]
    assert users == [loop.identity for loop in operators]
    assert users == [
        "system:serviceaccount:npu-operator:npu-operator-controller-manager",
        "system:serviceaccount:npu-operator:npu-operator",
        "system:serviceaccount:hami-system:hami-device-operator",
        "system:serviceaccount:aml-operator:aml-operator",
    ]


def test_a_custom_resource_that_says_nothing_makes_the_whole_native_chain(admin: Api) -> None:
    admin.create(samples.npuoperatorctl())
    until_advertised(admin, DIRECT, *NODES)
    assert devices(admin, "node-a1", "capacity") == DIRECT

    assert field(admin, POLICY, "spec", "devicePlugin") == {"managed": True}
    assert field(admin, POLICY, "spec", "driver") == {"managed": True, "version": "25.5.0"}
    assert field(admin, POLICY, "spec", "nodeD") == {"managed": False}
    notes = field(admin, POLICY, "metadata", "annotations")
    assert notes["operator-sdk/primary-resource"] == "npu-operator/npuoperatorctl-sample"
    assert notes["operator-sdk/primary-resource-type"] == "NPUOperatorCtl.npu-operator.alauda.io"

    (owner,) = field(admin, NATIVE, "metadata", "ownerReferences")
    assert (owner["kind"], owner["uid"]) == ("NPUClusterPolicy", field(admin, POLICY, "metadata", "uid"))
    template = field(admin, NATIVE, "spec", "template", "spec")
    assert template["nodeSelector"] == {"workerselector": "dls-worker-node"}
    assert SOCKETS in [volume["hostPath"]["path"] for volume in template["volumes"]]
    assert {pod["spec"]["nodeName"] for pod in plugin_pods(admin, "native")} == set(NODES)
    assert field(admin, RUNTIME_CLASS, "handler") == "ascend"

    assert field(admin, CTL, "metadata", "finalizers") == [FINALIZER]
    conditions = eventually(lambda: field(admin, CTL, "status", "conditions"))
    assert [(c["type"], c["status"]) for c in conditions] == [("Initialized", "True"), ("Deployed", "True")]
    eventually(lambda: field(admin, POLICY, "status"))


def test_switched_off_the_plugin_leaves_and_the_base_stays(admin: Api) -> None:
    admin.create(samples.npuoperatorctl(enabled=True))
    until_advertised(admin, DIRECT, *NODES)
    enable(admin, False)
    until_advertised(admin, {"huawei.com/Ascend910": "0"}, *NODES)
    assert devices(admin, "node-a1", "capacity") == DIRECT
    assert field(admin, POLICY, "spec", "devicePlugin", "managed") is False
    assert admin.get(NATIVE) is None
    assert plugin_pods(admin, "native") == []
    until_advertised(admin, {}, *NODES)
    assert devices(admin, "node-a1", "capacity") == {}
    assert field(admin, POLICY, "spec", "driver", "managed") is True
    assert admin.get(RUNTIME_CLASS) is not None

    enable(admin, True)
    until_advertised(admin, DIRECT, *NODES)


def test_a_deleted_custom_resource_is_held_until_its_operator_has_uninstalled_the_stack(products: Products) -> None:
    admin = products.admin
    admin.create(samples.npuoperatorctl())
    until_advertised(admin, DIRECT, *NODES)
    products.helm_operator.switch_on(Fault.HANGS)
    admin.delete(CTL)
    throughout(lambda: field(admin, CTL, "metadata", "deletionTimestamp") and admin.get(POLICY))
    products.helm_operator.switch_off()
    until_gone(admin, CTL, POLICY, NATIVE, RUNTIME_CLASS)
    until_advertised(admin, {}, *NODES)


def test_the_policy_is_written_again_and_again_without_a_change(admin: Api) -> None:
    admin.create(samples.npuoperatorctl())
    until_advertised(admin, DIRECT, *NODES)
    eventually(lambda: field(admin, POLICY, "status"))
    version, before = field(admin, POLICY, "metadata", "resourceVersion"), policy_writes(admin)
    eventually(lambda: policy_writes(admin) >= before + 2)
    assert field(admin, POLICY, "metadata", "resourceVersion") == version
    admin.merge(POLICY, {"spec": {"devicePlugin": {"managed": False}}})
    eventually(lambda: field(admin, POLICY, "spec", "devicePlugin", "managed"))


def test_an_edited_or_deleted_daemonset_is_restored(admin: Api) -> None:
    admin.create(samples.npuoperatorctl())
    until_advertised(admin, DIRECT, *NODES)
    keys = ("spec", "template", "spec", "nodeSelector")
    admin.merge(NATIVE, {"spec": {"template": {"spec": {"nodeSelector": {"parked": "true"}}}}})
    eventually(lambda: field(admin, NATIVE, *keys) == {"workerselector": "dls-worker-node"})
    uid = field(admin, NATIVE, "metadata", "uid")
    admin.delete(NATIVE)
    eventually(lambda: field(admin, NATIVE, "metadata", "uid") not in (None, uid))
    until_advertised(admin, DIRECT, *NODES)


def test_hami_serves_the_nodes_that_its_selector_names_and_leaves_with_its_custom_resource(admin: Api) -> None:
    create_nodes(admin, ascend_node("node-b1", labels={"ascend": None}))
    admin.create(samples.hamiascenddeviceplugin())
    until_advertised(admin, SHARED, *NODES)
    assert devices(admin, "node-b1") == {}
    (owner,) = field(admin, HAMI, "metadata", "ownerReferences")
    assert (owner["kind"], owner["uid"]) == ("HAMiAscendDevicePlugin", field(admin, HAMI_CR, "metadata", "uid"))
    assert field(admin, HAMI, "metadata", "labels", "app.kubernetes.io/name") == "ascend-device-plugin"
    assert field(admin, HAMI, "spec", "template", "spec", "serviceAccountName") == "hami-ascend"
    assert field(admin, HAMI_CR, "metadata", "finalizers") == [FINALIZER]
    eventually(lambda: field(admin, HAMI_CR, "status", "conditions"))
    assert admin.get(RUNTIME_CLASS) is None

    admin.delete(HAMI_CR)
    until_gone(admin, HAMI_CR, HAMI)
    until_advertised(admin, {"huawei.com/Ascend910B4": "0"}, *NODES)
    until_advertised(admin, {}, *NODES)


def test_both_products_serve_a_310p_under_one_name(admin: Api) -> None:
    create_nodes(admin, ascend_node("node-p1", "huawei-Ascend310P"))
    admin.create(samples.npuoperatorctl())
    until_advertised(admin, {"huawei.com/Ascend310P": "8"}, "node-p1")
    enable(admin, False)
    until_gone(admin, NATIVE)
    admin.create(samples.hamiascenddeviceplugin())
    until_advertised(admin, {"huawei.com/Ascend310P": "32"}, "node-p1")


def test_amlcluster_writes_the_npuoperatorctl_while_it_manages_it(admin: Api) -> None:
    admin.create(samples.amlcluster())
    until_advertised(admin, DIRECT, *NODES)
    enable(admin, False)
    eventually(lambda: field(admin, CTL, "spec", "devicePlugin", "enabled"))
    admin.merge(AML, samples.amlcluster("Unmanaged"))
    eventually(lambda: field(admin, AML, "status", "components", "npuOperator", "managementState") == "Unmanaged")
    enable(admin, False)
    until_gone(admin, NATIVE)
    assert field(admin, CTL, "spec", "devicePlugin", "enabled") is False
    admin.merge(AML, samples.amlcluster("Removed"))
    until_gone(admin, CTL, POLICY)


def test_mindcluster_is_plain_daemonsets(products: Products) -> None:
    create_nodes(products.admin, ascend_node("node-s1", "huawei-Ascend310P", {"servertype": "soc"}))
    products.mindcluster()
    until_advertised(products.admin, DIRECT, *NODES)
    until_advertised(products.admin, {"huawei.com/Ascend310P": "8"}, "node-s1")


def test_a_write_that_admission_denies_is_recorded_and_tried_again(products: Products) -> None:
    admin = products.admin
    spec = {"hard": {"count/daemonsets.apps": "0"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": "hami-system"}}
    admin.create(quota | {"spec": spec})
    admin.create(samples.hamiascenddeviceplugin())
    refusal = eventually(lambda: products.refused)[0]
    assert refusal.identity == "system:serviceaccount:hami-system:hami-device-operator"
    assert (refusal.verb, refusal.status) == ("POST", 403)
    assert "quota" in refusal.message
    assert admin.get(HAMI) is None
    admin.delete(path_of("v1", "ResourceQuota", "none", "hami-system"))
    until_advertised(admin, SHARED, *NODES)
    products.hami_operator.refused.clear()


def test_a_stand_in_cannot_have_the_fault_of_another(installed: Products) -> None:
    with pytest.raises(ValueError, match="cannot have the fault POD_STAYS"):
        installed.hami_operator.switch_on(Fault.POD_STAYS)


@pytest.mark.parametrize("stage", ["helm_operator", "npu_operator", "kubelet"])
def test_the_chain_stops_where_a_stand_in_hangs_and_goes_on_afterwards(products: Products, stage: str) -> None:
    admin, loop = products.admin, getattr(products, stage)
    loop.switch_on(Fault.HANGS)
    admin.create(samples.npuoperatorctl())
    throughout(lambda: devices(admin, "node-a1") == {})
    assert (admin.get(POLICY) is None) == (stage == "helm_operator")
    assert (admin.get(NATIVE) is None) == (stage != "kubelet")
    loop.switch_off(Fault.HANGS)
    until_advertised(admin, DIRECT, *NODES)


def test_hamis_operator_hangs(products: Products) -> None:
    products.hami_operator.switch_on(Fault.HANGS)
    products.admin.create(samples.hamiascenddeviceplugin())
    throughout(lambda: field(products.admin, HAMI_CR, "metadata", "finalizers") is None)
    products.hami_operator.switch_off()
    until_advertised(products.admin, SHARED, *NODES)


def test_fault_the_policy_stays_true(products: Products) -> None:
    admin = products.admin
    admin.create(samples.npuoperatorctl())
    until_advertised(admin, DIRECT, *NODES)
    products.helm_operator.switch_on(Fault.POLICY_STAYS_TRUE)
    enable(admin, False)
    throughout(lambda: field(admin, POLICY, "spec", "devicePlugin", "managed") and admin.get(NATIVE))
    products.helm_operator.switch_off()
    until_gone(admin, NATIVE)


def test_fault_the_native_daemonset_stays(products: Products) -> None:
    admin = products.admin
    admin.create(samples.npuoperatorctl())
    until_advertised(admin, DIRECT, *NODES)
    products.npu_operator.switch_on(Fault.DAEMONSET_STAYS)
    enable(admin, False)
    eventually(lambda: field(admin, POLICY, "spec", "devicePlugin", "managed") is False)
    throughout(lambda: admin.get(NATIVE) and devices(admin, "node-a1") == DIRECT)
    products.npu_operator.switch_off()
    until_gone(admin, NATIVE)


def test_fault_hamis_daemonset_stays_and_with_it_the_custom_resource(products: Products) -> None:
    admin = products.admin
    admin.create(samples.hamiascenddeviceplugin())
    until_advertised(admin, SHARED, *NODES)
    products.hami_operator.switch_on(Fault.DAEMONSET_STAYS)
    admin.delete(HAMI_CR)
    throughout(lambda: admin.get(HAMI) and field(admin, HAMI_CR, "metadata", "finalizers") == [FINALIZER])
    products.hami_operator.switch_off()
    until_gone(admin, HAMI_CR, HAMI)


def test_fault_the_plugin_never_becomes_ready(products: Products, control_plane: ControlPlane) -> None:
    admin = products.admin
    products.hami_operator.switch_on(Fault.NEVER_READY)
    admin.create(samples.hamiascenddeviceplugin())
    eventually(lambda: len([p for p in plugin_pods(admin, "hami") if p["spec"].get("nodeName")]) == len(NODES))
    eventually(lambda: not any(is_ready(pod) for pod in plugin_pods(admin, "hami")))
    arguments = ("-n", "hami-system", "rollout", "status", "daemonset/hami-ascend-device-plugin", "--timeout=2s")
    assert control_plane.kubectl(*arguments, check=False).returncode != 0
    assert devices(admin, "node-a1") == {}
    products.hami_operator.switch_off()
    until_advertised(admin, SHARED, *NODES)
    control_plane.kubectl(*arguments)


def test_fault_a_plugin_that_was_ready_crashes(products: Products) -> None:
    admin = products.admin
    admin.create(samples.npuoperatorctl())
    until_advertised(admin, DIRECT, *NODES)
    products.npu_operator.switch_on(Fault.NEVER_READY)
    until_advertised(admin, {"huawei.com/Ascend910": "0"}, *NODES)
    assert not any(is_ready(pod) for pod in plugin_pods(admin, "native"))
    products.npu_operator.switch_off()
    until_advertised(admin, DIRECT, *NODES)


def test_fault_the_plugins_pods_stay(products: Products) -> None:
    admin = products.admin
    admin.create(samples.npuoperatorctl())
    until_advertised(admin, DIRECT, *NODES)
    products.kubelet.switch_on(Fault.POD_STAYS)
    enable(admin, False)
    until_gone(admin, NATIVE)
    throughout(lambda: len(plugin_pods(admin, "native")) == len(NODES) and devices(admin, "node-a1") == DIRECT)
    assert all("deletionTimestamp" in pod["metadata"] for pod in plugin_pods(admin, "native"))
    products.kubelet.switch_off()
    eventually(lambda: plugin_pods(admin, "native") == [])
    until_advertised(admin, {}, *NODES)


def test_fault_allocatable_does_not_converge(products: Products) -> None:
    admin = products.admin
    admin.create(samples.npuoperatorctl())
    until_advertised(admin, DIRECT, *NODES)
    products.kubelet.switch_on(Fault.ALLOCATABLE_STAYS)
    enable(admin, False)
    until_gone(admin, NATIVE)
    admin.create(samples.hamiascenddeviceplugin())
    eventually(lambda: all(map(is_ready, plugin_pods(admin, "hami"))) and plugin_pods(admin, "hami"))
    throughout(lambda: devices(admin, "node-a1") == DIRECT)
    products.kubelet.switch_off()
    until_advertised(admin, SHARED, *NODES)


def test_fault_a_first_workload_fails(products: Products) -> None:
    admin, phase = products.admin, ("status", "phase")
    admin.create(samples.npuoperatorctl())
    until_advertised(admin, DIRECT, *NODES)
    admin.create(samples.workload("before", "huawei.com/Ascend910"))
    before, first = path_of("v1", "Pod", "before", "default"), path_of("v1", "Pod", "first", "default")
    eventually(lambda: field(admin, before, *phase) == "Running")
    admin.delete(before)
    until_gone(admin, before)
    products.kubelet.switch_on(Fault.WORKLOAD_FAILS)
    admin.create(samples.workload("first", "huawei.com/Ascend910"))
    eventually(lambda: field(admin, first, *phase) == "Failed")
