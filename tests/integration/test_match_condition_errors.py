"""No request makes a matchCondition fail: an error would refuse the request without asking anybody."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.generated_pods import workload_of
from tests.guard.entries import NAMESPACE, PODS, entries, entries_alone, errors, failures, pod, send
from tests.products.api import Api
from tests.products.products import crds
from tests.waiting import eventually

pytestmark = pytest.mark.integration

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
HAMI = f"/apis/hami.io/v1alpha1/namespaces/{NAMESPACE}/hamiascenddeviceplugins"


@pytest.fixture(scope="module")
def installed() -> Iterator[tuple[ControlPlane, Api]]:
    with entries_alone() as found:
        yield found


def _define(admin: Api) -> None:
    for file in ("npu-operator-crds", "hami-crds", "aml-crds"):
        for crd in crds(file, "npu.openfuyao.com"):
            admin.apply(crd)
    eventually(lambda: admin.answer("GET", HAMI).status == 200)


@pytest.mark.parametrize(
    "name, spec", [("absent", {}), ("null", {"spec": None}), ("empty", {"spec": {}}), ("odd", {"spec": [1]})]
)
def test_little_in_a_custom_resource_fails_no_condition(
    installed: tuple[ControlPlane, Api], name: str, spec: Object
) -> None:
    """Every change is sent until it is being deleted; then all but the removal of finalizers."""
    plane, admin = installed
    _define(admin)
    metadata: Object = {"name": name, "labels": {} if name == "empty" else None, "ownerReferences": None}
    metadata["finalizers"] = ["tests/hold"]
    item = {"apiVersion": "hami.io/v1alpha1", "kind": "HAMiAscendDevicePlugin", "metadata": metadata, **spec}
    created = admin.answer("POST", HAMI, item)
    assert entries(created) == {"owners"}, created.message
    for going in (False, True):
        if going:
            assert entries(admin.answer("DELETE", f"{HAMI}/{name}")) == {"owners"}
        for change in (
            {"spec": {"a": 1}},
            {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"annotations": {"a": "b"}}},
            {"metadata": {"finalizers": None, "labels": {"a": "b"}}},
        ):
            assert entries(admin.answer("PATCH", f"{HAMI}/{name}", change, MERGE, dryRun="All")) == {"owners"}
    freed = admin.answer("PATCH", f"{HAMI}/{name}", {"metadata": {"finalizers": None}}, MERGE)
    assert freed.status == 200, freed.message
    assert entries(freed) == set()
    assert errors(plane) == []


def test_little_in_a_workload_fails_no_condition(installed: tuple[ControlPlane, Api]) -> None:
    plane, admin = installed
    bare = {"containers": [{"name": "c", "image": "i"}]}
    empty = {**bare, "volumes": [], "initContainers": None}
    for kind in ("DaemonSet", "Deployment", "StatefulSet", "ReplicaSet"):
        for spec in (bare, empty):
            workload = workload_of({"metadata": {"name": "any"}, "spec": spec}, kind)
            if kind == "StatefulSet":
                workload["spec"]["serviceName"] = "any"
            assert entries(send(admin, workload)) == {"templates"}
    job = {"template": {"spec": {**bare, "restartPolicy": "Never"}}}
    sent = send(admin, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "any"}, "spec": job})
    assert entries(sent) == {"templates"}
    admin.request("POST", PODS, {**pod(), "metadata": {"name": "deleted", "labels": None}})
    assert entries(admin.answer("DELETE", f"{PODS}/deleted", dryRun="All")) == set()
    containers: list[Object] = [{"resources": {}}, {"resources": {"limits": None}}, {"env": []}, {"volumeMounts": None}]
    for container in containers:
        assert entries(send(admin, pod(container, initContainers=[], volumes=None, resourceClaims=[]))) == set()
    assert errors(plane) == []


def test_little_in_what_else_is_asked_about_fails_no_condition(installed: tuple[ControlPlane, Api]) -> None:
    plane, admin = installed
    admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}})
    node = "/api/v1/nodes/bare"
    assert entries(admin.answer("PATCH", node, {"metadata": {"annotations": {"a": "b"}}}, MERGE)) == set()
    for label in ("b", None):
        for path in (node, node + "/status"):
            changed = admin.answer("PATCH", path, {"metadata": {"labels": {"a": label}}}, MERGE, dryRun="All")
            assert changed.status == 200, changed.message
    assert entries(admin.answer("PATCH", node, {"metadata": {"labels": {"a": "b"}}}, MERGE)) == {"nodes"}
    runtime_classes = "/apis/node.k8s.io/v1/runtimeclasses"
    assert entries(admin.answer("DELETE", f"{runtime_classes}/ascend", dryRun="All")) == {"runtime-class"}
    assert entries(admin.answer("DELETE", f"{runtime_classes}/nvidia", dryRun="All")) == set()
    _define(admin)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    guarded = admin.answer("DELETE", f"{definitions}/npuclusterpolicies.npu.openfuyao.com", dryRun="All")
    assert entries(guarded) == {"definitions"}
    assert entries(admin.answer("DELETE", f"/api/v1/namespaces/{NAMESPACE}", dryRun="All")) == {"namespaces"}
    target = {"apiVersion": "v1", "kind": "Node", "name": "bare"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "debugged"}, "target": target}
    admin.apply({**pod(), "metadata": {"name": "debugged", "namespace": NAMESPACE}})
    assert entries(admin.answer("POST", f"{PODS}/debugged/binding", binding, dryRun="All")) == {"bindings"}
    assert errors(plane) == []


def test_a_condition_is_evaluated_for_the_largest_pods_too(installed: tuple[ControlPlane, Api]) -> None:
    """What costs too much is an error, and an error would refuse the Pod of somebody who has no NPU."""
    plane, admin = installed
    variables = [{"name": f"VARIABLE_{index}", "value": "x" * 100} for index in range(150)]
    mounts = [{"name": f"v{index}", "mountPath": f"/m/{index}", "subPath": "a/b"} for index in range(60)]
    container = {"image": "example/any:1", "env": variables, "volumeMounts": mounts, "args": ["--any-argument"] * 50}
    volumes: list[Object] = [{"name": f"v{index}", "hostPath": {"path": f"/data/{index}"}} for index in range(59)]
    volumes.append({"name": "v59", "hostPath": {"path": "/var/lib/kubelet"}})
    large = pod(container, volumes=volumes, initContainers=[{**container, "name": f"i{index}"} for index in range(40)])
    assert entries(send(admin, large)) == set()
    assert entries(send(admin, workload_of(large, "DaemonSet"))) == {"templates"}
    large["spec"]["initContainers"][39]["resources"] = {"limits": {"huawei.com/Ascend910": "1"}}
    assert entries(send(admin, large)) == {"pods"}
    assert errors(plane) == []


def test_the_count_of_failed_conditions_is_one_that_counts(installed: tuple[ControlPlane, Api]) -> None:
    """A condition that cannot be evaluated is seen in the metric that the other tests find empty."""
    plane, admin = installed
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    webhook = {
        "name": "broken.example.io",
        "clientConfig": {"url": "https://localhost:1/"},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{**rule, "scope": "Namespaced"}],
        "matchConditions": [{"name": "broken", "expression": "object.spec.absent == 1"}],
    }
    group = "admissionregistration.k8s.io/v1"
    configuration = {"apiVersion": group, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "broken"}}
    path = f"/apis/{group}/validatingwebhookconfigurations"
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any"}}
    admin.request("POST", path, {**configuration, "webhooks": [webhook]})
    try:
        eventually(lambda: send(admin, item) and any("broken.example.io" in line for line in failures(plane)))
    finally:
        admin.delete(f"{path}/broken")
    assert errors(plane) == []
