"""The switch in both directions, walked with kubectl as an administrator would (DOMAIN.md section 4)."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import NAMESPACE, InstalledGuard
from tests.products import observe, samples
from tests.products.loop import Fault
from tests.products.nodes import ascend_node, create_nodes
from tests.products.products import Products, Setup
from tests.waiting import eventually
from webhook.ownership.memory import LEASE_NAME

Done = subprocess.CompletedProcess[str]

NATIVE_OFF = '{"spec":{"devicePlugin":{"enabled":false}}}'
NATIVE_ON = '{"spec":{"devicePlugin":{"enabled":true}}}'
CTL = ("-n", "npu-operator", "npuoperatorctl", samples.CTL)
NATIVE_DAEMON_SET = ("-n", "kube-system", "daemonset", "ascend-device-plugin")
HAMI_CR = ("-n", "hami-system", "hamiascenddeviceplugin.hami.io", "hami-ascend-device-plugin")
HAMI_DAEMON_SET = ("-n", "hami-system", "daemonset", "hami-ascend-device-plugin")
DIRECT, SHARED = "huawei.com/Ascend910", "huawei.com/Ascend910B4"

STAGES = (
    "unowned-before",
    "settled(native)",
    "leaving(native)",
    "unowned",
    "starting(hami)",
    "settled(hami)",
    "leaving(hami)",
    "unowned-after-hami",
    "starting(native)",
    "settled(native)-again",
)

SWIFT = {
    "claim": {"timeout": "2s"},
    "freshness": {"claimPoll": "200ms", "claimMaxAge": "1500ms", "landing": "300ms"},
}
"""The guard's configuration where a test changes owners many times: the protocol is the same, its pauses are short."""


class Procedure:
    """A cluster with the products and the guard, brought to the stage a test is about.

    Stages are reached in order by the documented steps alone, as the user alice; a test that needs an earlier stage
    than the present one starts from a fresh installation of the products.
    """

    def __init__(
        self, plane: ControlPlane, products: Products, guard: InstalledGuard, fresh: Callable[[], None]
    ) -> None:
        self.plane = plane
        self.products = products
        self.guard = guard
        self._fresh = fresh
        self._stage = 0

    def reach(self, stage: str) -> None:
        """Bring the cluster to `stage`, one of STAGES."""
        wanted = STAGES.index(stage)
        if wanted < self._stage:
            self.start_over()
        steps = (
            self._settle_native,
            self._give_native_up,
            self._let_native_leave,
            self._create_hami,
            self._settle_hami,
            self._give_hami_up,
            self._let_hami_leave,
            self._enable_native,
            self._settle_native_again,
        )
        while self._stage < wanted:
            steps[self._stage]()
            self._stage += 1

    def start_over(self) -> None:
        """Begin again with freshly installed products, wherever the cluster stands; until now none was refused."""
        refused = list(self.products.refused)
        self._fresh()
        self._stage = 0
        assert refused == [], refused

    def kubectl(self, *arguments: str, stdin: str | None = None) -> Done:
        """kubectl as alice, who may do everything that the guard allows. Never raises."""
        return self.plane.kubectl(*arguments, stdin=stdin, as_user="alice", as_groups=("system:masters",), check=False)

    def apply(self, item: dict[str, Any], *options: str) -> Done:
        """`kubectl apply -f -` as alice."""
        return self.kubectl("apply", *options, "-f", "-", stdin=json.dumps(item))

    def create(self, item: dict[str, Any], *options: str) -> Done:
        """`kubectl create -f -` as alice."""
        return self.kubectl("create", *options, "-f", "-", stdin=json.dumps(item))

    def get(self, *arguments: str, path: str = "") -> str:
        """`kubectl get`: the names of what there is, or what the JSON path says; empty for what is absent."""
        output = f"jsonpath={path}" if path else "name"
        return self.kubectl("get", *arguments, "--ignore-not-found", "-o", output).stdout

    def save(self, *arguments: str) -> str:
        """What `kubectl get … -o yaml` prints: the configuration as the procedure tells to save it."""
        return allowed(self.kubectl("get", *arguments, "-o", "yaml")).stdout

    def phase(self) -> str:
        """The phase, as the audit record of a probe tells it: a plugin of a third owner, which changes nothing."""
        before = len(self._probes())
        self.create(_PROBE, "--dry-run=server")
        return str(eventually(lambda: self._probes()[before:])[-1]["phase"])

    def _probes(self) -> list[dict[str, Any]]:
        return [record for record in self.guard.audit_lines() if record["name"] == _PROBE["metadata"]["name"]]

    def is_gone(self, owner: str) -> bool:
        """Whether no Pod and no DaemonSet of `native` or `hami` is left, and no custom resource of HAMi's."""
        admin = self.products.admin
        paths = (observe.NATIVE,) if owner == "native" else (observe.HAMI, observe.HAMI_CR)
        return not any(map(admin.get, paths)) and not observe.plugin_pods(admin, owner)

    def once_allowed(self, *arguments: str, stdin: str | None = None) -> Done:
        """Repeat a command for as long as the guard says to wait: what was claimed just before may be on its way."""

        def tried() -> list[Done]:
            done = self.kubectl(*arguments, stdin=stdin)
            if done.returncode:
                assert "has just claimed" in done.stderr, done.stderr
                assert "Next: wait " in done.stderr, done.stderr
            return [] if done.returncode else [done]

        return eventually(tried, every=0.3)[0]

    def run_by_kubelet(self, pod: dict[str, Any], node: str) -> Done:
        """Let a node's kubelet report this Pod as a static one of its own: nobody is asked before it runs."""
        mirror = {"kubernetes.io/config.mirror": "any", "kubernetes.io/config.source": "file"}
        static = {
            **pod,
            "metadata": {**pod["metadata"], "annotations": mirror},
            "spec": {**pod["spec"], "nodeName": node},
        }
        groups = ("system:nodes", "system:masters")  # the second stands for the Node authorizer
        item, user = json.dumps(static), f"system:node:{node}"
        return self.plane.kubectl("create", "-f", "-", stdin=item, as_user=user, as_groups=groups, check=False)

    def may_start(self, resource: str) -> bool:
        """Whether a Pod that asks for `resource` would be admitted now."""
        alice = self.products.admin.impersonating("alice", "system:masters")
        pod = samples.workload("would-it", resource)
        return alice.answer("POST", "/api/v1/namespaces/default/pods", pod, dryRun="All").status == 201

    def _settle_native(self) -> None:
        allowed(self.apply(samples.npuoperatorctl(enabled=True)))
        eventually(lambda: self.may_start(DIRECT))

    def _give_native_up(self) -> None:
        # The plugin is kept from leaving, so that there is time to look.
        self.products.npu_operator.switch_on(Fault.DAEMONSET_STAYS)
        allowed(self.kubectl("patch", *CTL, "--type=merge", "-p", NATIVE_OFF))
        eventually(
            lambda: (
                self.kubectl("get", "npuclusterpolicy", "cluster", "-o", "jsonpath={.spec.devicePlugin.managed}").stdout
                == "false"
            )
        )
        eventually(lambda: not self.may_start(DIRECT))

    def _let_native_leave(self) -> None:
        self.products.npu_operator.switch_off(Fault.DAEMONSET_STAYS)
        eventually(lambda: self.is_gone("native"))

    def _create_hami(self) -> None:
        # Its Pods are kept from becoming Ready, so that there is time to look.
        self.products.hami_operator.switch_on(Fault.NEVER_READY)
        allowed(self.apply(samples.hamiascenddeviceplugin()))
        eventually(
            lambda: (
                "hami-ascend"
                in self.kubectl("-n", "hami-system", "get", "daemonset", "-o", "name", "--ignore-not-found").stdout
            )
        )

    def _settle_hami(self) -> None:
        self.products.hami_operator.switch_off(Fault.NEVER_READY)
        eventually(lambda: self.may_start(SHARED), timeout=60)

    def _give_hami_up(self) -> None:
        self.products.hami_operator.switch_on(Fault.DAEMONSET_STAYS)
        allowed(self.kubectl("delete", *HAMI_CR, "--wait=false"))
        eventually(lambda: not self.may_start(SHARED))

    def _let_hami_leave(self) -> None:
        self.products.hami_operator.switch_off(Fault.DAEMONSET_STAYS)
        eventually(lambda: self.is_gone("hami"))

    def _enable_native(self) -> None:
        self.products.npu_operator.switch_on(Fault.NEVER_READY)
        allowed(self.kubectl("patch", *CTL, "--type=merge", "-p", NATIVE_ON))
        eventually(lambda: self.get(*NATIVE_DAEMON_SET))

    def _settle_native_again(self) -> None:
        self.products.npu_operator.switch_off(Fault.NEVER_READY)
        eventually(lambda: self.may_start(DIRECT), timeout=60)


@contextmanager
def installed_procedure(
    plane: ControlPlane,
    config: dict[str, Any] | None = None,
    setup: Setup | None = None,
    nodes: tuple[str, ...] = ("node-a", "node-b"),
) -> Iterator[Procedure]:
    """Products, Ascend nodes and a guard with this configuration; at the end no stand-in may have been refused."""
    with (
        control_node(plane),
        Products(plane.kubeconfig, setup) as products,
        InstalledGuard(plane, {"config": config or {}}) as guard,
    ):

        def fresh() -> None:
            products.reset()
            plane.kubectl("-n", NAMESPACE, "delete", "lease", LEASE_NAME, "--ignore-not-found")
            create_nodes(products.admin, *(ascend_node(name) for name in nodes))

        create_nodes(products.admin, *(ascend_node(name) for name in nodes))
        yield Procedure(plane, products, guard, fresh)
        assert products.refused == []


@contextmanager
def control_node(plane: ControlPlane) -> Iterator[None]:
    """A node without NPUs, for the guard's own Pods."""
    labels = {"kubernetes.io/os": "linux"}
    plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "control", "labels": labels}})
    yield
    plane.kubectl("delete", "node", "control")


def _probe() -> dict[str, Any]:
    labels = {"name": "ascend-device-plugin-ds"}
    mount = {"name": "sockets", "mountPath": "/var/lib/kubelet/device-plugins"}
    spec = {
        "nodeSelector": {"workerselector": "dls-worker-node"},
        "containers": [{"name": "plugin", "image": "example/ascend-k8sdeviceplugin:1", "volumeMounts": [mount]}],
        "volumes": [{"name": "sockets", "hostPath": {"path": mount["mountPath"]}}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "which-phase-is-it", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


_PROBE = _probe()


def allowed(done: Done) -> Done:
    """Assert that a command was admitted."""
    assert done.returncode == 0, done.stderr
    return done


def denied(done: Done, rule: str, *said: str) -> str:
    """Assert that a command was refused by `rule` with all of `said`, and return what it printed."""
    assert done.returncode != 0, f"expected a denial by {rule}, got: {done.stdout}"
    assert f"[{rule}]" in done.stderr, done.stderr
    for part in ("Next: ", *said):
        assert part in done.stderr, f"{part!r} is not in: {done.stderr}"
    return done.stderr


def without(saved: str, *fields: str) -> str:
    """A saved configuration without these fields of its metadata, as one takes them out with an editor."""
    item = yaml.safe_load(saved)
    for field in fields:
        item["metadata"].pop(field, None)
    return str(yaml.safe_dump(item))
