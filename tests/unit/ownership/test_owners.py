"""Whose device plugin an object is, by structure (DOMAIN.md section 3)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from webhook.ownership.facts import Facts
from webhook.ownership.makers import makers_of
from webhook.ownership.objects import CustomResource, DaemonSet
from webhook.ownership.owners import Owner, plugin_owner
from webhook.ownership.reading import read
from webhook.ownership.settings import Resources, Settings
from webhook.ownership.traces import daemon_set_is_generated, policy_is_generated

SETTINGS = Settings()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOCKETS = "/var/lib/kubelet/device-plugins"
REGISTRY = "/var/lib/kubelet/plugins_registry"
WHOLE = "/var/lib/kubelet"


def plugin(
    name: str = "any",
    path: str = SOCKETS,
    *,
    labels: dict[str, str] | None = None,
    image: str = "example/any:1",
    owner: tuple[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    account: str = "",
    mount: dict[str, Any] | None = None,
    **container: Any,
) -> dict[str, Any]:
    body = {
        "name": "c",
        "image": image,
        "volumeMounts": [{"name": "v", "mountPath": "/v", **(mount or {})}],
        **container,
    }
    spec: dict[str, Any] = {"containers": [body], "volumes": [{"name": "v", "hostPath": {"path": path}}]}
    if account:
        spec["serviceAccountName"] = account
    metadata: dict[str, Any] = {"name": name, "namespace": "any", "annotations": annotations or {}}
    if owner is not None:
        metadata["ownerReferences"] = [{"apiVersion": owner[0], "kind": owner[1], "name": "x", "uid": "u"}]
    template = {"metadata": {"labels": labels or {}}, "spec": spec}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": {"template": template}}


NATIVE_LABEL = {"name": "ascend-device-plugin-ds"}
HAMI_LABEL = {"app.kubernetes.io/component": "hami-ascend-device-plugin"}
POLICY = ("npu.openfuyao.com/v1", "NPUClusterPolicy")


@pytest.mark.parametrize(
    ("workload", "owner"),
    [
        (plugin("ascend-device-plugin"), Owner.NATIVE),
        (plugin("ascend-device-plugin", labels=HAMI_LABEL), Owner.HAMI),
        (plugin(labels=HAMI_LABEL, image="example/x"), Owner.HAMI),
        (plugin(account="hami-ascend"), Owner.HAMI),
        (plugin(account="hami-ascend", labels=NATIVE_LABEL), Owner.MINDCLUSTER),
        (plugin(image="projecthami/ascend-device-plugin:v1"), Owner.HAMI),
        (plugin(owner=("hami.io/v1", "HAMiAscendDevicePlugin")), Owner.HAMI),
        (plugin(owner=("other.io/v1", "HAMiAscendDevicePlugin")), None),
        (plugin("ascend-device-plugin-daemonset"), Owner.MINDCLUSTER),
        (plugin("ascend-device-plugin3-daemonset-310p-1usoc"), Owner.MINDCLUSTER),
        (plugin("ascend-device-plugin310p-daemonset"), Owner.MINDCLUSTER),
        (plugin(labels=NATIVE_LABEL), Owner.MINDCLUSTER),
        (plugin(labels=NATIVE_LABEL, owner=POLICY), Owner.NATIVE),
        (plugin(labels=NATIVE_LABEL, owner=("npu.ai/v1", "NPUClusterPolicy")), Owner.MINDCLUSTER),
        (plugin("my-device-plugin", owner=POLICY), Owner.NATIVE),
        (plugin("my-device-plugin", owner=("npu.ai/v1", "NPUClusterPolicy")), None),
        (plugin(image="registry.example:5000/a/ascend-k8sdeviceplugin:v26@sha256:00"), Owner.MINDCLUSTER),
        (plugin("npu-device-plugin-daemonset", image="example/npu-plugin"), Owner.VNPU),
        (plugin("npu-device-plugin-daemonset"), None),
        (plugin("npu-dra-kubeletplugin", REGISTRY), Owner.DRA),
        (plugin("ascend-dra-driver-kubeletplugin", REGISTRY), Owner.DRA),
        (plugin("csi-npu-node", REGISTRY, image="example/csi"), None),
        (plugin("any", REGISTRY), None),
        (plugin(args=["--resource=huawei.com/ascend-1980"]), Owner.FOREIGN),
        (plugin(args=["--resource=huawei.com/vnpu-cores"]), Owner.FOREIGN),
        (plugin(args=["--resource=huawei.com/Ascend310P"]), Owner.FOREIGN),
        (plugin(env=[{"name": "R", "value": "npu.huawei.com/NPU"}]), Owner.FOREIGN),
        (plugin(args=["--device=/dev/davinci0"]), Owner.FOREIGN),
        (plugin(args=["--resource=nvidia.com/gpu"]), None),
        (plugin(args=["--resource=myhuawei.com/ascend-1980"]), None),
        (plugin("rdma-shared-dp-ds", args=["huawei.com/ub_rdma"]), None),
        (plugin("any", labels=HAMI_LABEL, mount={"readOnly": True}), None),
        (plugin("hami-ascend-device-plugin", "/var/lib/kubelet/pods", labels=HAMI_LABEL), None),
    ],
)
def test_the_owner_of_a_plugin(workload: dict[str, Any], owner: Owner | None) -> None:
    assert plugin_owner(workload, SETTINGS) is owner


@pytest.mark.parametrize(
    ("workload", "owner"),
    [
        (plugin("ascend-device-plugin", WHOLE, labels=NATIVE_LABEL), Owner.NATIVE),
        (plugin("ascend-device-plugin-daemonset", WHOLE), Owner.MINDCLUSTER),
        (plugin(path=WHOLE, labels=HAMI_LABEL), Owner.HAMI),
        (plugin("npu-dra-kubeletplugin", WHOLE), Owner.DRA),
        (plugin("npu-kubeletplugin", WHOLE), Owner.DRA),
        (plugin("ascend-device-plugin", WHOLE, image="example/ascend-dra-driver:1"), Owner.DRA),
        (plugin("ascend-device-plugin", WHOLE, args=["--driver=npu.huawei.com"]), Owner.DRA),
        (plugin("ascend-device-plugin", WHOLE, args=["--hydra"]), Owner.NATIVE),
        (plugin("ascend-device-plugin", WHOLE, env=[{"name": "D", "value": "ascend.project-hami.io"}]), Owner.DRA),
        (plugin("any", WHOLE, image="x/ascend-k8sdeviceplugin:1"), Owner.MINDCLUSTER),
        (plugin("any", WHOLE, labels=NATIVE_LABEL, owner=POLICY), Owner.NATIVE),
        (plugin("ascend-dra-driver-kubeletplugin", WHOLE, labels=HAMI_LABEL), Owner.HAMI),
        (plugin("npu-device-plugin-daemonset", WHOLE, image="example/npu-plugin"), Owner.VNPU),
        (plugin("npu-device-plugin-daemonset", WHOLE, image="example/npu-dra"), Owner.DRA),
        (plugin("any", WHOLE, args=["--resource=huawei.com/ascend-1980"]), Owner.FOREIGN),
    ],
)
def test_one_that_mounts_the_kubelets_whole_folder_is_told_by_its_marks(workload: dict[str, Any], owner: Owner) -> None:
    assert plugin_owner(workload, SETTINGS) is owner


@pytest.mark.parametrize(
    ("path", "mount", "seen"),
    [
        ("/var/lib", {"subPathExpr": "kubelet/device-plugins"}, True),
        ("/var/lib", {"subPathExpr": "kubelet/$(FOLDER)"}, True),
        ("/var/lib/kubelet", {"subPathExpr": "device-$(REST)"}, True),
        ("/var/lib/kubelet", {"subPathExpr": "$(FOLDER)"}, True),
        ("/var/lib/kubelet", {"subPathExpr": "pods/$(UID)"}, False),
        ("/var/log", {"subPathExpr": "$(POD)"}, False),
        ("/var/lib/kubelet", {"subPath": "pods"}, False),
        (SOCKETS, {"readOnly": True}, False),
    ],
)
def test_a_part_of_a_volume_that_is_picked_by_an_expression(path: str, mount: dict[str, Any], seen: bool) -> None:
    found = plugin_owner(plugin("ascend-device-plugin", path, mount=mount), SETTINGS)
    assert (found is not None) is seen


def test_a_plugin_is_seen_in_whatever_makes_its_pods() -> None:
    template = plugin(labels=NATIVE_LABEL)["spec"]["template"]
    for spec in (
        {"jobTemplate": {"spec": {"template": template}}},
        {"tasks": [{"template": {"spec": {"containers": [{"name": "c"}]}}}, {"template": template}]},
        {"template": template},
    ):
        item = {"apiVersion": "x.io/v1", "kind": "Any", "metadata": {"name": "any"}, "spec": spec}
        assert plugin_owner(item, SETTINGS) is Owner.MINDCLUSTER


def test_a_configured_group_makes_an_owner_reference_count() -> None:
    settings = Settings.model_validate(
        {"kinds": {"hamiAscendDevicePlugin": {"groups": ["other.io"], "plural": "hamiascenddeviceplugins"}}}
    )
    assert plugin_owner(plugin(owner=("other.io/v1", "HAMiAscendDevicePlugin")), settings) is Owner.HAMI
    assert plugin_owner(plugin(owner=("hami.io/v1", "HAMiAscendDevicePlugin")), settings) is None


def test_a_plugin_that_mounts_both_folders_by_themselves_is_told_by_its_marks_as_well() -> None:
    for name, marks, owner in (
        ("ascend-device-plugin", {}, Owner.NATIVE),
        ("ascend-dra-driver-kubeletplugin", {}, Owner.DRA),
        ("any", HAMI_LABEL, Owner.HAMI),
    ):
        item = plugin(name, labels=marks)
        spec = item["spec"]["template"]["spec"]
        spec["volumes"].append({"name": "r", "hostPath": {"path": REGISTRY}})
        spec["containers"][0]["volumeMounts"].append({"name": "r", "mountPath": "/r"})
        assert plugin_owner(item, SETTINGS) is owner


@pytest.mark.parametrize(
    ("reference", "owner"),
    [
        ({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ascend-device-plugin"}, Owner.NATIVE),
        ({"apiVersion": "other.io/v1", "kind": "DaemonSet", "name": "ascend-device-plugin"}, None),
        ({"apiVersion": "apps", "kind": "DaemonSet", "name": "ascend-device-plugin"}, None),
        ({"apiVersion": 1, "kind": "DaemonSet", "name": "ascend-device-plugin"}, None),
        ({"apiVersion": "hami.io/v1alpha1", "kind": "HAMiAscendDevicePlugin", "name": "any"}, Owner.HAMI),
        ({"apiVersion": "npu.ai/v1", "kind": "HAMiAscendDevicePlugin", "name": "any"}, None),
    ],
)
def test_what_a_pod_belongs_to_is_told_by_group_and_kind(reference: dict[str, Any], owner: Owner | None) -> None:
    template = plugin()["spec"]["template"]
    metadata = {"name": "any-x7k2p", "ownerReferences": [{**reference, "uid": "u", "controller": True}]}
    item = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    assert plugin_owner(item, SETTINGS) is owner


@pytest.mark.parametrize(
    ("glob", "said", "seen"),
    [
        ("acme.example/chip", "--serve=acme.example/chip", True),
        ("acme.example/CHIP-[0-9]*c*", "--serve=acme.example/chip-8c", True),
        ("acme.example/ch?p", "--serve=acme.example/chip", True),
        ("*/chip", "--serve=acme.example/chip", True),
        ("*", "--serve=acme.example/chip", False),
        ("acme.example/chip", "--serve=notacme.example/chip", False),
    ],
)
def test_a_foreign_plugin_says_the_beginning_of_a_configured_resource(glob: str, said: str, seen: bool) -> None:
    settings = Settings(resources=Resources(other=(glob,)))
    assert plugin_owner(plugin(args=[said]), settings) is (Owner.FOREIGN if seen else None)


PRODUCTS = ("NPUOperatorCtl", "NPUClusterPolicy", "HAMiAscendDevicePlugin")


@pytest.mark.parametrize("kind", PRODUCTS)
@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("npu-operator.alauda.io/v1", {"NPUOperatorCtl"}),
        ("npu.openfuyao.com/v1", {"NPUClusterPolicy"}),
        ("openfuyao.com/v1beta1", {"NPUClusterPolicy"}),
        ("hami.io/v9", {"HAMiAscendDevicePlugin"}),
        ("npu.ai/v1", set()),
        ("v1", set()),
        ("", set()),
        (None, set()),
    ],
)
def test_an_owner_reference_counts_with_its_group(kind: str, version: str | None, known: set[str]) -> None:
    reference = {"apiVersion": version, "kind": kind, "name": "any", "uid": "u"}
    expected = {kind} & known
    assert makers_of({"ownerReferences": [reference]}, SETTINGS) == expected
    written = f"{kind}.{version.rpartition('/')[0]}" if version else kind
    assert makers_of({"annotations": {"operator-sdk/primary-resource-type": written}}, SETTINGS) == expected
    policy = read_policy([reference])
    assert policy_is_generated(policy, Facts(now=NOW)) is (expected == {"NPUOperatorCtl"})


def read_policy(references: list[dict[str, Any]]) -> CustomResource:
    metadata = {"name": "cluster", "ownerReferences": references}
    item = {"apiVersion": "npu.openfuyao.com/v1", "kind": "NPUClusterPolicy", "metadata": metadata}
    policy = read(item, SETTINGS)
    assert isinstance(policy, CustomResource)
    return policy


@pytest.mark.parametrize(
    ("owner", "generated"),
    [(POLICY, True), (("npu.ai/v1", "NPUClusterPolicy"), False), (("npu.openfuyao.com/v1", "Other"), False)],
)
def test_a_plugin_is_generated_by_who_owns_it_and_not_by_its_name(owner: tuple[str, str], generated: bool) -> None:
    daemon_set = read(plugin("ascend-device-plugin", labels=NATIVE_LABEL, owner=owner), SETTINGS)
    assert isinstance(daemon_set, DaemonSet)
    assert daemon_set_is_generated(daemon_set, Facts(now=NOW)) is generated
