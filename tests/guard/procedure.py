"""The switch from direct allocation to HAMi, walked with kubectl as an administrator would (DOMAIN.md section 4)."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import InstalledGuard
from tests.products import samples
from tests.products.loop import Fault
from tests.products.products import Products
from tests.waiting import eventually

Done = subprocess.CompletedProcess[str]

NATIVE_OFF = '{"spec":{"devicePlugin":{"enabled":false}}}'
NATIVE_ON = '{"spec":{"devicePlugin":{"enabled":true}}}'
CTL = ("-n", "npu-operator", "npuoperatorctl", samples.CTL)
NATIVE_DAEMON_SET = ("-n", "kube-system", "daemonset", "ascend-device-plugin")

STAGES = ("unowned-before", "settled(native)", "leaving(native)", "unowned", "starting(hami)", "settled(hami)")


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
            self._fresh()
            self._stage = 0
        steps = (
            self._settle_native,
            self._give_native_up,
            self._let_native_leave,
            self._create_hami,
            self._settle_hami,
        )
        while self._stage < wanted:
            steps[self._stage]()
            self._stage += 1

    def kubectl(self, *arguments: str, stdin: str | None = None) -> Done:
        """kubectl as alice, who may do everything that the guard allows. Never raises."""
        return self.plane.kubectl(*arguments, stdin=stdin, as_user="alice", as_groups=("system:masters",), check=False)

    def apply(self, item: dict[str, Any], *options: str) -> Done:
        """`kubectl apply -f -` as alice."""
        return self.kubectl("apply", *options, "-f", "-", stdin=json.dumps(item))

    def create(self, item: dict[str, Any], *options: str) -> Done:
        """`kubectl create -f -` as alice."""
        return self.kubectl("create", *options, "-f", "-", stdin=json.dumps(item))

    def may_start(self, resource: str) -> bool:
        """Whether a Pod that asks for `resource` would be admitted now."""
        return self.create(samples.workload("would-it", resource), "--dry-run=server").returncode == 0

    def _settle_native(self) -> None:
        allowed(self.apply(samples.npuoperatorctl(enabled=True)))
        eventually(lambda: self.may_start("huawei.com/Ascend910"))

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
        eventually(lambda: not self.may_start("huawei.com/Ascend910"))

    def _let_native_leave(self) -> None:
        self.products.npu_operator.switch_off(Fault.DAEMONSET_STAYS)
        eventually(
            lambda: (
                self.kubectl("get", "pods", "-A", "-l", "name=ascend-device-plugin-ds", "-o", "name").stdout == ""
                and self.kubectl("get", *NATIVE_DAEMON_SET, "--ignore-not-found", "-o", "name").stdout == ""
            )
        )

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
        eventually(lambda: self.may_start("huawei.com/Ascend910B4"), timeout=60)


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
