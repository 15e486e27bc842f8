"""The byte test lets every Pod pass that decides something."""

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.generated_pods import pods
from webhook.cluster.needles import matters, needles
from webhook.ownership.reading import read
from webhook.ownership.settings import Resources, Settings


def container(**fields: object) -> dict[str, object]:
    return {"containers": [{"name": "main", "image": "busybox", **fields}]}


def host_path(path: str) -> dict[str, object]:
    return {**container(), "volumes": [{"name": "v", "hostPath": {"path": path}}]}


def picked(path: str, **mount: str) -> dict[str, object]:
    volumes = [{"name": "v", "hostPath": {"path": path}}]
    return {**container(volumeMounts=[{"name": "v", "mountPath": "/m", **mount}]), "volumes": volumes}


def line(spec: dict[str, object], labels: dict[str, str] | None = None) -> bytes:
    # A running Pod as the API server sends it: the kubelet's name is in every one of them.
    metadata = {
        "name": "input-reader",
        "namespace": "team-cpu",
        "uid": "1",
        "labels": labels or {},
        "managedFields": [{"manager": "kubelet"}],
    }
    item = {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": "node-1", **spec}}
    return orjson.dumps({"type": "ADDED", "object": item})


@pytest.mark.parametrize(
    "spec",
    [
        container(resources={"limits": {"huawei.com/Ascend910": "1"}}),
        container(resources={"limits": {"HUAWEI.COM/NPU": "1"}}),
        container(resources={"limits": {"huawei.com/vnpu-cores": "0"}}),
        container(resources={"limits": {"npu.huawei.com/NPU": "1"}}),
        container(resources={"limits": {"huawei.com/ascend-1980": "1"}}),
        container(env=[{"name": "ASCEND_VISIBLE_DEVICES", "value": "0"}]),
        host_path("/dev/davinci0"),
        host_path("/dev/./vdavinci1"),
        host_path("/dev/devmm_svm"),
        host_path("/dev/hisi_hdc"),
        host_path("/dev"),
        host_path("/"),
        host_path("/usr/local//Ascend/driver"),
        host_path("/var/lib/kubelet/./device-plugins"),
        host_path("/var/lib/./kubelet/"),
        {**container(), "resourceClaims": [{"name": "npu", "resourceClaimName": "x"}]},
        {**container(), "runtimeClassName": "ascend"},
        container(resources={"limits": {"deviceclass.resource.kubernetes.io/mine": "1"}}),
        container(image="registry.example/npu-dra-kubeletplugin:1"),
        host_path("//dev"),
        host_path("/./dev/."),
        host_path("dev"),
        host_path("/."),
        host_path("//dev/../any"),
        picked("/var/lib", subPath="kubelet/device-plugins"),
        picked("/var/lib", subPath="./kubelet"),
        picked("/", subPathExpr="$(CHIP)"),
        picked("/var/lib", subPathExpr="kube$(LET)"),
        container(resources={"requests": {"deviceclass.resource.kubernetes.io/mine": "1"}}),
    ],
    ids=str,
)
def test_a_pod_that_may_reach_an_npu_is_decoded(spec: dict[str, object]) -> None:
    assert matters(line(spec), needles(Settings()))


@pytest.mark.parametrize("label", ["ascend-device-plugin-ds", "hami-ascend-device-plugin", "npu-device-plugin"])
def test_a_device_plugin_is_decoded_for_its_label(label: str) -> None:
    assert matters(line(container(), {"name": label}), needles(Settings()))


@pytest.mark.parametrize("part", ["limits", "requests"])
def test_what_a_device_class_may_hand_out_is_decoded_while_its_pod_waits(part: str) -> None:
    spec = container(resources={part: {"cpu": "1", "example.com/chip": "1"}})
    assert not matters(line(spec), needles(Settings()))  # bound
    item = {"kind": "Pod", "metadata": {"name": "any"}, "spec": spec}
    assert matters(orjson.dumps({"type": "ADDED", "object": item}), needles(Settings()))
    bound = {**item, "status": {"extendedResourceClaimStatus": {"resourceClaimName": "made"}}}
    assert matters(orjson.dumps({"type": "ADDED", "object": bound}), needles(Settings()))


def test_an_ordinary_pod_is_not_decoded() -> None:
    ordinary = container(
        resources={"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}, env=[{"name": "INPUT", "value": "/dev/null"}]
    )
    assert not matters(line({**ordinary, **{"securityContext": {"runAsUser": 1}}}), needles(Settings()))
    assert not matters(line(host_path("/var/lib/containerd")), needles(Settings()))


@pytest.mark.parametrize(
    "glob, name",
    [
        ("acme.example/chip", "acme.example/chip"),
        ("acme.example/CHIP-[0-9]*c*", "acme.example/chip-8c"),
        ("*/chip", "acme.example/chip"),
        ("acme?example/*", "acme.example/anything"),
        ("*", "acme.example/anything"),
    ],
)
def test_a_configured_resource_is_looked_for_whatever_its_pattern(glob: str, name: str) -> None:
    settings = Settings(resources=Resources(other=(glob,)))
    assert matters(line(container(resources={"limits": {name: "1"}})), needles(settings))


def test_a_configured_kubelet_folder_is_looked_for() -> None:
    settings = Settings(kubelet_paths=("/data/k8s/",))
    assert matters(line(host_path("/data//k8s/plugins_registry")), needles(settings))
    assert not matters(line(host_path("/var/lib/kubelet/plugins_registry")), needles(settings))


def test_a_configured_driver_tree_is_looked_for() -> None:
    assert matters(line(host_path("/opt//chipdriver/lib")), needles(Settings(driver_paths=("/opt/chipdriver",))))


NAMES = st.sampled_from(("any", "my-npu", "input", "npu", "chip_npu"))
BELOW = st.sampled_from(("kubelet", "kubelet/plugins_registry", "./kubelet//device-plugins", "kube$(X)", "$(X)", "dev"))
UNUSUAL_RESOURCES = st.sampled_from(
    ("example.com/chip", "deviceclass.resource.kubernetes.io/mine", "huawei.com/NPU", "cpu", "kubernetes.io/any")
)


@st.composite
def unusual_pods(draw: st.DrawFn) -> dict[str, Any]:
    """Pods in which next to nothing says what they are: a path in some spelling, a claim, a resource, a word."""
    path = draw(
        st.lists(st.sampled_from(("/", "//", "/./", "dev", "var", "lib", "kubelet", "Ascend", ".")), max_size=6)
    )
    mount = draw(st.sampled_from(("subPath", "subPathExpr", "x")))
    resources = {draw(st.sampled_from(("limits", "requests"))): {draw(UNUSUAL_RESOURCES): "1"}}
    body = {
        "name": "c",
        "image": f"example/{draw(NAMES)}:1",
        "volumeMounts": [{"name": "v", "mountPath": "/m", mount: draw(BELOW)}],
        **({"resources": resources} if draw(st.booleans()) else {}),
    }
    spec = {"containers": [body], "volumes": [{"name": "v", "hostPath": {"path": "".join(path)}}]}
    status = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "y"}]} if draw(st.booleans()) else {}
    bound = {"nodeName": "node-1"} if draw(st.booleans()) else {}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": draw(NAMES)},
        "spec": {**spec, **bound},
        "status": status,
    }


@given(item=pods() | pods(plugin=True) | unusual_pods())
@settings(max_examples=3000, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_every_generated_pod_that_the_recogniser_counts_is_decoded(item: dict[str, Any]) -> None:
    if read(item, Settings()) is not None:
        assert matters(orjson.dumps({"type": "ADDED", "object": item}), needles(Settings()))
