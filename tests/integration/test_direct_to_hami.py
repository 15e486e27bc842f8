"""The switch from direct allocation to HAMi at a real API server: each step where it belongs, each shortcut refused.

The products' stand-ins write under their own identities all the while; not one of their writes may be refused.
"""

import json
from collections.abc import Iterator

import pytest

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import InstalledGuard
from tests.guard.procedure import CTL, NATIVE_DAEMON_SET, NATIVE_ON, Procedure, allowed, denied
from tests.products import samples
from tests.products.nodes import ascend_node, create_nodes
from tests.products.products import Products, Setup
from tests.waiting import eventually

pytestmark = pytest.mark.integration

NODES = ("node-a", "node-b")


@pytest.fixture(scope="module")
def procedure(control_plane: ControlPlane) -> Iterator[Procedure]:
    plain = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "control", "labels": {"kubernetes.io/os": "linux"}},
    }
    control_plane.apply(plain)
    setup = Setup(counts={"native": "8", "hami": "32"})
    with Products(control_plane.kubeconfig, setup) as products, InstalledGuard(control_plane) as guard:

        def fresh() -> None:
            products.reset()
            create_nodes(products.admin, *(ascend_node(name) for name in NODES))

        create_nodes(products.admin, *(ascend_node(name) for name in NODES))
        walked = Procedure(control_plane, products, guard, fresh)
        yield walked
        assert products.refused == []
    control_plane.kubectl("delete", "node", "control")


def npu_pod(name: str = "train", **container: object) -> dict[str, object]:
    body = {"name": "c", "image": "example/train:1", **container}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [body]},
    }


def test_before_the_switch_direct_workloads_run(procedure: Procedure) -> None:
    procedure.reach("settled(native)")
    allowed(procedure.create(samples.workload("direct", "huawei.com/Ascend910")))
    eventually(lambda: procedure.kubectl("get", "pod", "direct", "-o", "jsonpath={.status.phase}").stdout == "Running")
    allowed(procedure.kubectl("delete", "pod", "direct", "--now"))


def test_hami_is_refused_while_the_native_plugin_is_settled(procedure: Procedure) -> None:
    procedure.reach("settled(native)")
    said = denied(
        procedure.apply(samples.hamiascenddeviceplugin()),
        "second-owner",
        "NPUOperatorCtl npu-operator/npuoperatorctl-sample spec.devicePlugin.enabled is true",
        "kubectl -n npu-operator patch npuoperatorctl npuoperatorctl-sample --type merge",
    )
    assert 'admission webhook "owners.ascend-owner-guard.io" denied the request' in said


@pytest.mark.parametrize(
    "shortcut",
    [
        ("patch", "npuclusterpolicy", "cluster", "--type=merge", "-p", '{"spec":{"devicePlugin":{"managed":false}}}'),
        (
            "patch",
            "npuclusterpolicy",
            "cluster",
            "--type=json",
            "-p",
            '[{"op":"replace","path":"/spec/devicePlugin/managed","value":false}]',
        ),
        ("label", "npuclusterpolicy", "cluster", "by-hand=yes"),
        ("delete", "npuclusterpolicy", "cluster"),
        ("delete", "npuclusterpolicy", "--all"),
        ("patch", *NATIVE_DAEMON_SET, "-p", '{"spec":{"template":{"spec":{"nodeSelector":{"parked":"true"}}}}}'),
        ("delete", *NATIVE_DAEMON_SET),
        ("delete", "-n", "kube-system", "daemonset", "--all"),
        ("-n", "kube-system", "set", "image", "daemonset/ascend-device-plugin", "*=example/other:1"),
        ("-n", "kube-system", "rollout", "restart", "daemonset/ascend-device-plugin"),
    ],
    ids=lambda shortcut: " ".join(shortcut)[:60],
)
def test_what_the_operator_generates_is_not_written_by_hand(procedure: Procedure, shortcut: tuple[str, ...]) -> None:
    procedure.reach("settled(native)")
    denied(procedure.kubectl(*shortcut), "generated-object")


@pytest.mark.parametrize("command", ["replace", "apply --server-side", "apply --server-side --force-conflicts", "edit"])
def test_the_generated_policy_is_refused_by_whichever_way_it_is_written(procedure: Procedure, command: str) -> None:
    procedure.reach("settled(native)")
    policy = json.loads(procedure.kubectl("get", "npuclusterpolicy", "cluster", "-o", "json").stdout)
    policy["spec"]["devicePlugin"]["managed"] = False
    policy["metadata"].pop("managedFields", None)
    policy["metadata"].pop("resourceVersion", None)
    if command == "edit":
        done = procedure.plane.kubectl(
            "edit",
            "npuclusterpolicy",
            "cluster",
            as_user="alice",
            as_groups=("system:masters",),
            check=False,
            environment={"KUBE_EDITOR": "sed -i s/managed:.true/managed:\\ false/"},
        )
        assert "[generated-object]" in done.stderr
        return
    verb, *options = command.split()
    if "--force-conflicts" not in options and verb == "apply":
        options.append("--force-conflicts")
    denied(procedure.kubectl(verb, *options, "-f", "-", stdin=json.dumps(policy)), "generated-object", "npuoperatorctl")


def test_a_native_plugin_pod_comes_back_and_its_deletion_only_warns(procedure: Procedure) -> None:
    procedure.reach("settled(native)")
    pods = procedure.kubectl("get", "pods", "-A", "-l", "name=ascend-device-plugin-ds", "-o", "name").stdout.split()
    done = allowed(procedure.kubectl("-n", "kube-system", "delete", pods[0], "--dry-run=server"))
    assert "Warning: [generated-object]" in done.stderr


def test_unrelated_objects_pass_in_the_middle_of_the_switch(procedure: Procedure) -> None:
    procedure.reach("leaving(native)")
    done = allowed(procedure.create(npu_pod("plain"), "--dry-run=server"))
    assert done.stderr == ""
    allowed(procedure.kubectl("create", "configmap", "anything", "--dry-run=server"))
    allowed(procedure.kubectl("create", "deployment", "web", "--image=example/web:1", "--dry-run=server"))
    allowed(procedure.kubectl("label", "node", "node-a", "rack=7"))


@pytest.mark.parametrize(
    "pod",
    [
        npu_pod(resources={"limits": {"huawei.com/Ascend910": "1"}}),
        npu_pod(env=[{"name": "ASCEND_VISIBLE_DEVICES", "value": "0"}]),
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "example/t:1",
                        "volumeMounts": [{"name": "chip", "mountPath": "/dev/davinci0"}],
                    }
                ],
                "volumes": [{"name": "chip", "hostPath": {"path": "/dev/davinci0"}}],
            },
        },
    ],
    ids=["resource", "environment", "hostPath"],
)
def test_no_npu_pod_in_the_middle_of_the_switch(procedure: Procedure, pod: dict[str, object]) -> None:
    procedure.reach("leaving(native)")
    denied(procedure.create(pod), "mid-switch", "leaving(native)", "wait until nothing of native is left")


def test_a_deployment_of_npu_pods_is_warned_about_and_its_pods_are_refused(procedure: Procedure) -> None:
    procedure.reach("leaving(native)")
    labels = {"app": "infer"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "infer", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": npu_pod(resources={"limits": {"huawei.com/Ascend910": "1"}})["spec"],
            },
        },
    }
    done = allowed(procedure.apply(deployment))
    assert "Warning: [mid-switch]" in done.stderr
    try:
        eventually(
            lambda: "[mid-switch]" in procedure.kubectl("get", "events", "-o", "jsonpath={.items[*].message}").stdout
        )
        assert procedure.kubectl("get", "pods", "-l", "app=infer", "-o", "name").stdout == ""
    finally:
        allowed(procedure.kubectl("delete", "deployment", "infer"))


def test_hami_is_refused_while_the_native_plugin_leaves(procedure: Procedure) -> None:
    procedure.reach("leaving(native)")
    denied(
        procedure.apply(samples.hamiascenddeviceplugin()),
        "second-owner",
        "DaemonSet kube-system/ascend-device-plugin",
        "wait until nothing of native is left",
    )


def test_the_leaving_plugin_is_not_stopped_by_deleting_its_pods(procedure: Procedure) -> None:
    procedure.reach("leaving(native)")
    done = procedure.kubectl("-n", "kube-system", "delete", "pods", "-l", "name=ascend-device-plugin-ds")
    denied(done, "generated-object", "leaving(native)")


def test_the_native_plugin_may_be_asked_back_while_it_leaves(procedure: Procedure) -> None:
    procedure.reach("leaving(native)")
    allowed(procedure.kubectl("patch", *CTL, "--type=merge", "-p", NATIVE_ON, "--dry-run=server"))


def test_no_npu_pod_while_nobody_owns_the_chips(procedure: Procedure) -> None:
    procedure.reach("unowned")
    done = procedure.create(npu_pod(resources={"limits": {"huawei.com/Ascend910": "1"}}))
    denied(done, "mid-switch", "unowned", "enable one owner")


def test_hami_is_allowed_once_nothing_of_native_is_left_and_native_is_refused_then(procedure: Procedure) -> None:
    procedure.reach("starting(hami)")
    denied(
        procedure.kubectl("patch", *CTL, "--type=merge", "-p", NATIVE_ON),
        "second-owner",
        "HAMiAscendDevicePlugin hami-system/hami-ascend-device-plugin",
        "kubectl -n hami-system delete hamiascenddeviceplugin.hami.io hami-ascend-device-plugin",
    )
    denied(
        procedure.create(npu_pod(resources={"limits": {"huawei.com/Ascend910B4": "1"}})),
        "mid-switch",
        "starting(hami)",
        "rollout status daemonset/hami-ascend-device-plugin",
    )


def test_after_the_switch_hami_workloads_run_and_native_stays_refused(procedure: Procedure) -> None:
    procedure.reach("settled(hami)")
    allowed(procedure.create(samples.workload("share", "huawei.com/Ascend910B4")))
    eventually(lambda: procedure.kubectl("get", "pod", "share", "-o", "jsonpath={.status.phase}").stdout == "Running")
    allowed(procedure.kubectl("delete", "pod", "share", "--now"))
    denied(procedure.kubectl("patch", *CTL, "--type=merge", "-p", NATIVE_ON), "second-owner")


def test_every_denial_left_an_audit_line(procedure: Procedure) -> None:
    procedure.reach("settled(hami)")
    denied(procedure.kubectl("patch", *CTL, "--type=merge", "-p", NATIVE_ON), "second-owner")
    record = procedure.guard.audit_lines()[-1]
    assert record["rule"] == "second-owner"
    assert record["decision"] == "denied"
    assert record["user"] == "alice"
    assert record["phase"] == "settled(hami)"
    assert record["name"] == samples.CTL
    assert "HAMiAscendDevicePlugin hami-system/hami-ascend-device-plugin" in json.dumps(record["evidence"])


def test_the_api_server_counts_our_denials_as_denials_and_no_call_as_failed(procedure: Procedure) -> None:
    procedure.reach("settled(hami)")
    # What other tests of the same control plane have counted with no guard there stays counted; nothing may come now.
    failed_before = _counted(procedure, "apiserver_admission_webhook_fail_open_count")
    broken_before = _broken(procedure)
    denied(procedure.kubectl("patch", *CTL, "--type=merge", "-p", NATIVE_ON), "second-owner")
    rejections = _counted(procedure, "apiserver_admission_webhook_rejection_count")
    assert [
        line for line in rejections if 'name="owners.ascend-owner-guard.io"' in line and 'error_type="no_error"' in line
    ]
    assert _broken(procedure) == broken_before
    assert _counted(procedure, "apiserver_admission_webhook_fail_open_count") == failed_before


def _broken(procedure: Procedure) -> list[str]:
    rejections = _counted(procedure, "apiserver_admission_webhook_rejection_count")
    return [line for line in rejections if "calling_webhook_error" in line or "apiserver_internal_error" in line]


def _counted(procedure: Procedure, metric: str) -> list[str]:
    """The samples of an API server metric that are about our webhook's entries."""
    metrics = procedure.plane.kubectl("get", "--raw", "/metrics").stdout
    return [line for line in metrics.splitlines() if line.startswith(metric + "{") and "ascend-owner-guard.io" in line]
