"""With every replica down: owner changes and NPU Pods are refused, everything else goes on."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import InstalledGuard
from tests.guard.procedure import CTL, NATIVE_DAEMON_SET, NATIVE_OFF, Procedure, allowed
from tests.products import samples
from tests.products.nodes import ascend_node, create_nodes
from tests.products.products import Products, Setup
from tests.waiting import eventually

pytestmark = pytest.mark.integration

CALL_FAILED = "failed calling webhook"


@pytest.fixture(scope="module")
def down(control_plane: ControlPlane) -> Iterator[Procedure]:
    """A cluster where native has settled, a HAMi resource is not there, and the guard has just been killed."""
    plain = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "control", "labels": {"kubernetes.io/os": "linux"}},
    }
    control_plane.apply(plain)
    with Products(control_plane.kubeconfig, Setup()) as products, InstalledGuard(control_plane) as guard:
        create_nodes(products.admin, ascend_node("node-a"))
        procedure = Procedure(control_plane, products, guard, lambda: None)
        procedure.reach("settled(native)")
        guard.kill()
        yield procedure
    control_plane.kubectl("delete", "node", "control")


def pod(name: str, spec: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    body = {"name": "c", "image": "example/any:1", **container}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [body], **(spec or {})},
    }


def mounting(path: str, kind: str = "DaemonSet", name: str = "agent") -> dict[str, Any]:
    """A workload whose Pods mount a path of the host."""
    labels = {"app": name}
    spec = {
        "containers": [{"name": "c", "image": "example/a:1", "volumeMounts": [{"name": "v", "mountPath": "/host"}]}],
        "volumes": [{"name": "v", "hostPath": {"path": path}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


NPU = {"limits": {"huawei.com/Ascend910": "1"}}
CHIP = {
    "volumes": [{"name": "chip", "hostPath": {"path": "/dev/davinci0"}}],
}


@pytest.mark.parametrize(
    "item",
    [
        samples.hamiascenddeviceplugin(),
        mounting("/var/lib/kubelet/device-plugins"),
        mounting("/var/lib/kubelet/plugins_registry", name="npu-dra-kubeletplugin"),
        mounting("/var/lib/kubelet/device-plugins", kind="Deployment"),
        mounting("/opt/any", name="ascend-device-plugin"),
        pod("by-resource", resources=NPU),
        pod("by-name-in-lower-case", resources={"limits": {"huawei.com/ascend910": "1"}}),
        pod("in-an-init-container", {"initContainers": [{"name": "i", "image": "example/i:1", "resources": NPU}]}),
        pod("by-ids", env=[{"name": "ASCEND_VISIBLE_DEVICES", "value": "0"}]),
        pod("by-chip", CHIP, volumeMounts=[{"name": "chip", "mountPath": "/dev/davinci0"}]),
    ],
    ids=lambda item: f"{item['kind']} {item['metadata']['name']}",
)
def test_what_decides_ownership_or_reaches_an_npu_is_refused(down: Procedure, item: dict[str, Any]) -> None:
    done = down.create(item, "--dry-run=server")
    assert done.returncode != 0
    assert CALL_FAILED in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("patch", *CTL, "--type=merge", "-p", NATIVE_OFF),
        ("delete", *CTL),
        ("label", "npuclusterpolicy", "cluster", "by-hand=yes"),
        ("delete", *NATIVE_DAEMON_SET),
        ("-n", "kube-system", "delete", "pods", "-l", "name=ascend-device-plugin-ds"),
        ("delete", "runtimeclass", "ascend"),
    ],
    ids=lambda command: " ".join(command)[:50],
)
def test_what_exists_of_the_owners_is_not_changed(down: Procedure, command: tuple[str, ...]) -> None:
    done = down.kubectl(*command, "--dry-run=server")
    assert done.returncode != 0
    assert CALL_FAILED in done.stderr


@pytest.mark.parametrize(
    "item",
    [
        pod("plain"),
        pod("with-an-empty-variable", env=[{"name": "ASCEND_VISIBLE_DEVICES", "value": ""}]),
        pod("that-asks-for-cpu", resources={"limits": {"cpu": "1", "memory": "1Gi"}}),
        pod("of-another-vendor", resources={"limits": {"nvidia.com/gpu": "1"}}),
        pod("with-weak-evidence", {"volumes": [{"name": "d", "hostPath": {"path": "/dev"}}]}),
        mounting("/etc/cni/net.d", name="cni"),
        mounting("/lib/modules", name="kube-proxy"),
        mounting("/var/lib/kubelet/plugins_registry", name="csi-node"),
        mounting("/opt/any", kind="Deployment", name="web"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any", "namespace": "default"}},
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "gvisor"}, "handler": "runsc"},
    ],
    ids=lambda item: f"{item['kind']} {item['metadata']['name']}",
)
def test_everything_else_goes_on(down: Procedure, item: dict[str, Any]) -> None:
    allowed(down.create(item, "--dry-run=server"))


def test_plain_pods_are_scheduled_and_run(down: Procedure) -> None:
    allowed(down.create(pod("runs", {"tolerations": [{"operator": "Exists"}]})))
    eventually(lambda: down.kubectl("get", "pod", "runs", "-o", "jsonpath={.status.phase}").stdout == "Running")
    allowed(down.kubectl("annotate", "pod", "runs", "any=thing"))
    allowed(down.kubectl("delete", "pod", "runs", "--now"))


def test_nodes_are_labelled_cordoned_and_beat_on(down: Procedure) -> None:
    allowed(down.kubectl("label", "node", "node-a", "rack=7", "--overwrite"))
    allowed(down.kubectl("cordon", "node-a"))
    allowed(down.kubectl("uncordon", "node-a"))
    status = '{"status":{"conditions":[{"type":"Any","status":"True"}]}}'
    allowed(down.kubectl("patch", "node", "node-a", "--subresource=status", "--type=strategic", "-p", status))


def test_finalizers_of_terminating_owners_are_removed_and_status_is_written(down: Procedure) -> None:
    """An NPUOperatorCtl that began to leave while the guard still answered."""
    down.guard.start()
    name = "npuoperatorctl-leaving"
    leaving = samples.npuoperatorctl(enabled=False, name=name)
    leaving["metadata"]["finalizers"] = ["helm.sdk.operatorframework.io/uninstall-release"]
    allowed(down.apply(leaving))
    allowed(down.kubectl("-n", "npu-operator", "delete", "npuoperatorctl", name, "--wait=false"))
    down.guard.kill()
    target = ("-n", "npu-operator", "npuoperatorctl", name)
    allowed(down.kubectl("patch", *target, "--subresource=status", "--type=merge", "-p", '{"status":{"any":"thing"}}'))
    done = down.kubectl("patch", *target, "--type=merge", "-p", json.dumps({"spec": {"driver": {"enabled": False}}}))
    assert CALL_FAILED in done.stderr
    down.kubectl("patch", *target, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    eventually(lambda: down.kubectl("get", *target, "--ignore-not-found", "-o", "name").stdout == "")


def test_a_namespace_with_npu_pods_finishes_terminating(down: Procedure) -> None:
    down.guard.start()
    allowed(down.kubectl("create", "namespace", "team-going"))
    npu = pod("train", resources=NPU)
    npu["metadata"]["namespace"] = "team-going"
    eventually(lambda: down.create(npu).returncode == 0)
    down.guard.kill()
    allowed(down.kubectl("delete", "namespace", "team-going", "--timeout=60s"))


def test_it_is_enforced_again_as_soon_as_a_replica_answers(down: Procedure) -> None:
    down.guard.start()
    done = down.apply(samples.hamiascenddeviceplugin())
    assert "[second-owner]" in done.stderr
    down.guard.kill()
