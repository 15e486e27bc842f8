"""With every replica down: owner changes and NPU Pods are refused, everything else goes on."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import guard
from tests.controlplane.plane import ControlPlane
from tests.guard.installed import InstalledGuard
from tests.guard.procedure import CTL, NATIVE_DAEMON_SET, NATIVE_OFF, Procedure, allowed
from tests.products import samples
from tests.products.helm_operator import FINALIZER
from tests.products.loop import Fault
from tests.products.nodes import ascend_node, create_nodes
from tests.products.products import Products, Setup
from tests.waiting import eventually
from webhook.ownership.settings import Settings

pytestmark = pytest.mark.integration

CALL_FAILED = "failed calling webhook"
BY_POLICY = "[generated-object]"  # the companion policy's own words
CONTROLLER = "system:kube-controller-manager"
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def down(control_plane: ControlPlane) -> Iterator[Procedure]:
    """A cluster where native has settled, a HAMi resource is not there, and the guard has just been killed."""
    plain = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "control", "labels": {"kubernetes.io/os": "linux"}},
    }
    control_plane.apply(plain)
    with Products(control_plane.kubeconfig, Setup()) as products, InstalledGuard(control_plane) as installed:
        create_nodes(products.admin, ascend_node("node-a"))
        procedure = Procedure(control_plane, products, installed, lambda: None)
        procedure.reach("settled(native)")
        installed.kill()
        yield procedure
        products.hami_operator.switch_off()
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


NEIGHBOURS = list(yaml.safe_load_all((Path(guard.__file__).parent / "neighbours.yaml").read_text(encoding="utf-8")))
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
    "command, said",
    [
        (("patch", *CTL, "--type=merge", "-p", NATIVE_OFF), CALL_FAILED),
        (("delete", *CTL), CALL_FAILED),
        (("label", "npuclusterpolicy", "cluster", "by-hand=yes"), BY_POLICY),
        (("delete", *NATIVE_DAEMON_SET), BY_POLICY),
        (("-n", "kube-system", "delete", "pods", "-l", "name=ascend-device-plugin-ds"), CALL_FAILED),
        (("delete", "runtimeclass", "ascend"), CALL_FAILED),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, tuple) else "",
)
def test_what_exists_of_the_owners_is_not_changed(down: Procedure, command: tuple[str, ...], said: str) -> None:
    done = down.kubectl(*command, "--dry-run=server")
    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.parametrize(
    "item",
    [
        pod("plain"),
        pod("with-an-empty-variable", env=[{"name": "ASCEND_VISIBLE_DEVICES", "value": ""}]),
        pod("that-asks-for-cpu", resources={"limits": {"cpu": "1", "memory": "1Gi"}}),
        pod("of-another-vendor", resources={"limits": {"nvidia.com/gpu": "1"}}),
        pod("with-weak-evidence", {"volumes": [{"name": "d", "hostPath": {"path": "/dev"}}]}),
        *NEIGHBOURS,
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


def test_a_namespace_with_npu_pods_and_a_hami_resource_finishes_terminating(down: Procedure) -> None:
    """The resource waits for HAMi's operator, which takes its finalizer away under its own identity."""
    operator, name = down.products.hami_operator, "team-going"
    operator.switch_on(Fault.HANGS)
    hami = samples.hamiascenddeviceplugin()
    hami["metadata"] |= {"namespace": name, "finalizers": [FINALIZER]}
    allowed(down.kubectl("create", "namespace", name))
    path = ("-n", name, "hamiascenddeviceplugin", hami["metadata"]["name"], "--ignore-not-found")
    # As if they had been there before: nobody asks the guard about these identities.
    allowed(as_controller(down, "create", "-f", "-", stdin=json.dumps(hami)))
    for npu in (pod("waits", {"nodeSelector": {"no-such": "node"}}, resources=NPU), pod("runs", resources=NPU)):
        npu["metadata"]["namespace"] = name
        allowed(as_kubelet(down, "create", "-f", "-", stdin=json.dumps(npu)))
    allowed(down.kubectl("delete", "namespace", name, "--wait=false"))
    eventually(lambda: down.kubectl("get", *path, "-o", "jsonpath={.metadata.deletionTimestamp}").stdout)
    assert down.kubectl("get", *path, "-o", "name").stdout
    operator.switch_off()
    eventually(lambda: down.kubectl("get", "namespace", name, "--ignore-not-found", "-o", "name").stdout == "")


def as_controller(down: Procedure, *arguments: str, stdin: str | None = None, user: str = CONTROLLER) -> Done:
    """kubectl as a system controller that may do everything."""
    return down.plane.kubectl(*arguments, stdin=stdin, as_user=user, as_groups=("system:masters",), check=False)


@pytest.mark.parametrize("user", Settings().identities.system_controllers)
def test_the_system_controllers_clear_away_what_nobody_else_may(down: Procedure, user: str) -> None:
    pods = down.kubectl("-n", "kube-system", "get", "pods", "-l", "name=ascend-device-plugin-ds", "-o", "name")
    plugin_pod = pods.stdout.split()[0]
    for command in (("-n", "kube-system", "delete", plugin_pod), ("delete", *NATIVE_DAEMON_SET), ("delete", *CTL)):
        refused = down.kubectl(*command, "--dry-run=server").stderr
        assert CALL_FAILED in refused or BY_POLICY in refused
        allowed(as_controller(down, *command, "--dry-run=server", user=user))


def test_the_garbage_collector_removes_the_pods_of_a_plugin_that_is_gone(down: Procedure) -> None:
    left = pod("plugin-left-over", {"nodeSelector": {"no-such": "node"}})
    left["metadata"]["labels"] = {"name": "ascend-device-plugin-ds"}
    gone = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ascend-device-plugin", "uid": "no-such-uid"}
    left["metadata"]["ownerReferences"] = [gone]
    allowed(down.create(left))
    eventually(lambda: not down.kubectl("get", "pod", "plugin-left-over", "--ignore-not-found", "-o", "name").stdout)


def test_a_kubelet_reports_static_pods_ends_pods_and_beats(down: Procedure) -> None:
    static = pod("static-node-a", {"nodeName": "node-a", **CHIP}, resources=NPU)
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "abc", "kubernetes.io/config.source": "file"}
    create = ("create", "--dry-run=server", "-f", "-")
    allowed(as_kubelet(down, *create, stdin=json.dumps(static)))
    assert CALL_FAILED in as_kubelet(down, *create, stdin=json.dumps(static), groups=("system:masters",)).stderr
    plugin = (
        "-n",
        "kube-system",
        "delete",
        "pods",
        "-l",
        "name=ascend-device-plugin-ds",
        "--grace-period=0",
        "--force",
    )
    allowed(as_kubelet(down, *plugin, "--dry-run=server"))
    status = '{"status":{"conditions":[{"type":"Any","status":"True","reason":"Beat"}]}}'
    beat = ("patch", "node", "node-a", "--subresource=status", "--type=strategic", "-p", status)
    allowed(as_kubelet(down, *beat))


def as_kubelet(
    down: Procedure,
    *arguments: str,
    stdin: str | None = None,
    groups: tuple[str, ...] = ("system:nodes", "system:masters"),
) -> Done:
    """kubectl as node-a's kubelet; the second group stands for the Node authorizer, which this cluster lacks."""
    return down.plane.kubectl(*arguments, stdin=stdin, as_user="system:node:node-a", as_groups=groups, check=False)


def test_evictions_and_changes_of_metadata_go_on_for_plugin_and_npu_pods(down: Procedure) -> None:
    pods = down.kubectl("-n", "kube-system", "get", "pods", "-l", "name=ascend-device-plugin-ds", "-o", "name")
    name = pods.stdout.split()[0].removeprefix("pod/")
    metadata = {"name": name, "namespace": "kube-system"}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    path = f"/api/v1/namespaces/kube-system/pods/{name}"
    answer = down.products.admin.answer("POST", f"{path}/eviction", eviction, dryRun="All")
    assert answer.status == 201, answer.message
    allowed(down.kubectl("-n", "kube-system", "annotate", "pod", name, "hami.io/any=thing", "--overwrite"))
    allowed(down.kubectl("-n", "kube-system", "label", "pod", name, "any=thing", "--overwrite"))


def test_an_ephemeral_container_is_refused_with_ids_and_passes_without(down: Procedure) -> None:
    debugged = pod("debugged", {"nodeSelector": {"no-such": "node"}})
    allowed(down.create(debugged))
    path = "/api/v1/namespaces/default/pods/debugged"
    plain: dict[str, Any] = {"name": "debugger", "image": "example/sh:1"}
    naming = {**plain, "env": [{"name": "ASCEND_VISIBLE_DEVICES", "value": "0-3"}]}
    for container, status in ((plain, 200), (naming, 500)):
        patch = {"spec": {"ephemeralContainers": [container]}}
        strategic = "application/strategic-merge-patch+json"
        admin = down.products.admin
        answer = admin.answer("PATCH", f"{path}/ephemeralcontainers", patch, strategic, dryRun="All")
        assert answer.status == status, answer.message
    allowed(down.kubectl("delete", "pod", "debugged", "--now"))


def test_it_is_enforced_again_as_soon_as_a_replica_answers(down: Procedure) -> None:
    down.guard.start()
    done = down.apply(samples.hamiascenddeviceplugin())
    assert "[second-owner]" in done.stderr
    down.guard.kill()
