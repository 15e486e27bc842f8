"""Two changes at the same instant, on two API servers and three replicas of the guard: never two owners.

`N=500 make race` runs more pairs than `make test` does.
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import NAMESPACE, InstalledGuard
from tests.products import samples
from tests.products.api import Answer, Api
from tests.products.products import crds
from tests.replay.stage import Stage, path_to
from tests.waiting import eventually
from webhook.cli.scenarios import load

pytestmark = pytest.mark.integration

PAIRS = int(os.environ.get("N", "25"))
TIMES = {
    "claim": {"timeout": "1s"},
    "freshness": {"claimPoll": "100ms", "claimMaxAge": "600ms", "landing": "200ms"},
}
CONTROLLER = "system:kube-controller-manager"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/ascend-owner-guard"
SETTLED = "Step 2: the native plugin is given up once no workload is left"
HAMI = samples.hamiascenddeviceplugin()


@dataclass
class Arena:
    """Two API servers, three replicas, and a random source that a failure can be repeated with."""

    plane: ControlPlane
    guard: InstalledGuard
    stage: Stage
    chance: random.Random

    def users(self) -> list[Api]:
        """alice at the first API server, bob at the second."""
        return [
            Api.from_kubeconfig(config).impersonating(user, "system:masters")
            for user, config in zip(("alice", "bob"), self.plane.kubeconfigs, strict=True)
        ]

    @property
    def exempt(self) -> Api:
        """Somebody whom the entries never ask about."""
        return Api.from_kubeconfig(self.plane.kubeconfig).impersonating(CONTROLLER, "system:masters")

    def both(self, one: Callable[[Api], Answer], other: Callable[[Api], Answer], spread: float) -> list[Answer]:
        """Send both requests at once, each after a random delay of up to `spread` seconds."""
        answers: list[Answer | None] = [None, None]

        def send(index: int, call: Callable[[Api], Answer], user: Api, delay: float) -> None:
            time.sleep(delay)
            answers[index] = call(user)

        threads = [
            threading.Thread(target=send, args=(index, call, user, self.chance.uniform(0, spread)))
            for index, (call, user) in enumerate(zip((one, other), self.users(), strict=True))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [answer for answer in answers if answer is not None]

    def disturb(self, turn: int) -> None:
        """Kill a replica, or restart an API server, now and then."""
        if turn % 10 == 4:
            self.guard.kill(turn // 10 % 3)
        elif turn % 10 == 7:
            self.guard.start()
        elif turn % 20 == 13:
            self.plane.restart_apiserver(1)
            eventually(lambda: self.users()[1].answer("GET", "/readyz").status == 200)

    def undisturbed(self) -> None:
        """Everything runs again, and no claim is young: now somebody must be able to go on."""
        self.guard.start()
        time.sleep(1.1)


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    with ControlPlane(servers=2, controllers=False) as plane:
        admin = Api.from_kubeconfig(plane.kubeconfig)
        for file in ("npu-operator-crds", "hami-crds"):
            for crd in crds(file, "npu.openfuyao.com"):
                admin.apply(crd)
        with InstalledGuard(plane, {"config": TIMES}, replicas=3) as guard:
            yield Arena(plane, guard, Stage(admin), random.Random(20261201))


def enable(enabled: bool) -> Callable[[Api], Answer]:
    """Set devicePlugin.enabled of the scenario's NPUOperatorCtl."""
    path = "/apis/npu-operator.alauda.io/v1/namespaces/npu-operator/npuoperatorctls/npuctl-main"
    patch = {"spec": {"devicePlugin": {"enabled": enabled}}}
    return lambda user: user.answer("PATCH", path, patch, "application/merge-patch+json")


def create(item: dict[str, Any], **query: str) -> Callable[[Api], Answer]:
    """Create an object; `query` may say dryRun="All"."""
    return lambda user: user.answer("POST", path_to(item, collection=True), item, **query)


def scenario_objects(name: str) -> list[dict[str, Any]]:
    cases = Path(__file__).parents[1] / "cases" / "01-direct-to-hami.yaml"
    return [dict(item) for item in next(one for one in load(cases) if one.name == name).cluster]


def test_of_enabling_native_and_creating_hami_at_most_one_is_admitted(arena: Arena) -> None:
    objects = scenario_objects("Step 4: HAMi is created when nothing of the native plugin is left")
    arena.stage.build(objects, CONTROLLER)
    arena.stage.account_for(dict(HAMI))
    counts: Counter[str] = Counter()
    try:
        for turn in range(PAIRS):
            answers = arena.both(enable(True), create(HAMI), 0.02)
            admitted = [answer.status < 300 for answer in answers]
            counts[f"{sum(admitted)} admitted"] += 1
            assert sum(admitted) <= 1, [answer.message for answer in answers]
            enable(False)(arena.exempt)
            arena.exempt.delete(path_to(HAMI))
            arena.disturb(turn)
            time.sleep(1.1)  # claim.timeout: from then on nobody may be locked out
        arena.undisturbed()
        eventually(lambda: create(HAMI)(arena.users()[0]).status < 300, timeout=10)
        arena.exempt.delete(path_to(HAMI))
    finally:
        arena.stage.clear()
        arena.exempt.delete(LEASE)
    print(f"\nenable native || create HAMi: {dict(counts)}")
    assert counts["1 admitted"] >= PAIRS // 2


def test_two_users_who_enable_the_same_owner_do_not_lock_each_other_out(arena: Arena) -> None:
    objects = scenario_objects("Step 4: HAMi is created when nothing of the native plugin is left")
    arena.stage.build(objects, CONTROLLER)
    counts: Counter[str] = Counter()
    try:
        for turn in range(PAIRS):
            answers = arena.both(enable(True), enable(True), 0.02)
            counts[f"{sum(answer.status < 300 for answer in answers)} admitted"] += 1
            enable(False)(arena.exempt)
            arena.exempt.delete(LEASE)
            arena.disturb(turn)
        arena.undisturbed()
        eventually(lambda: enable(True)(arena.users()[0]).status < 300, timeout=10)
    finally:
        arena.stage.clear()
        arena.exempt.delete(LEASE)
    print(f"\nenable native || enable native: {dict(counts)}")
    assert counts["0 admitted"] == 0


def test_no_npu_pod_slips_into_a_switch_while_native_is_given_up(arena: Arena) -> None:
    arena.stage.build(scenario_objects(SETTLED), CONTROLLER)
    counts: Counter[str] = Counter()
    pod = samples.workload("slips-in", "huawei.com/Ascend910", namespace="team-race")
    arena.stage.account_for(dict(pod))
    try:
        for turn in range(PAIRS):
            arena.disturb(turn)
            eventually(lambda: _settled(arena) == "native", timeout=15)
            eventually(lambda: create(pod, dryRun="All")(arena.users()[0]).status < 300, timeout=10)
            give_up, slip = arena.both(enable(False), create(pod), 1.0)
            outcome = (give_up.status < 300, slip.status < 300)
            counts[f"given up {outcome[0]}, Pod {outcome[1]}"] += 1
            assert outcome != (True, True), (give_up.message, slip.message)
            arena.exempt.delete(path_to(pod), gracePeriodSeconds=0)
            enable(True)(arena.exempt)
            arena.exempt.delete(LEASE)
        arena.undisturbed()
        eventually(lambda: enable(False)(arena.users()[0]).status < 300, timeout=15)
    finally:
        arena.stage.clear()
        arena.exempt.delete(LEASE)
    print(f"\ngive native up || create an NPU Pod: {dict(counts)}")
    assert sum(counts.values()) == PAIRS


def _settled(arena: Arena) -> str:
    lease = arena.exempt.get(LEASE) or {}
    return str((lease.get("metadata", {}).get("annotations") or {}).get("ascend-owner-guard/settled", ""))
