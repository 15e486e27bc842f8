"""Two changes at the same instant, on two API servers and three replicas of the guard: never two owners.

Between the pairs, and in the middle of some, replicas are killed and an API server is restarted. After each race
somebody can go on soon: no scope stays locked. `N=500 make race` runs more pairs than `make test` does.
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
LANDS = 5
"""claim.timeout in seconds where no race waits for it: a write must land within it, on however busy a machine."""
A_LITTLE = 3
"""Seconds that a lock may last beyond claim.timeout: the API server's clock tells whole ones."""
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/ascend-owner-guard"
SETTLED = "Step 2: the native plugin is given up once no workload is left"
HAMI = samples.hamiascenddeviceplugin()


@dataclass(frozen=True)
class Sent:
    """What came of a request, and between which instants of the monotonic clock it was under way."""

    answer: Answer
    began: float
    ended: float

    @property
    def admitted(self) -> bool:
        """Whether it was done."""
        return self.answer.status < 300

    @property
    def judged(self) -> bool:
        """Whether a replica had a say in it: it may have been killed before."""
        return "failed calling webhook" not in self.answer.message


@dataclass
class Arena:
    """Two API servers, three replicas, and a random source that a failure can be repeated with."""

    plane: ControlPlane
    guard: InstalledGuard
    stage: Stage
    chance: random.Random
    claim_timeout: float = 1

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
        return [sent.answer for sent in self.race(one, other, spread)]

    def race(
        self, one: Callable[[Api], Answer], other: Callable[[Api], Answer], spread: float, turn: int = 0
    ) -> tuple[Sent, Sent]:
        """Send both requests at once, as `both` does; in some turns a replica is killed meanwhile."""
        found: dict[int, Sent] = {}

        def send(index: int, call: Callable[[Api], Answer], user: Api, delay: float) -> None:
            time.sleep(delay)
            began = time.monotonic()
            answer = call(user)
            found[index] = Sent(answer, began, time.monotonic())

        def kill(replica: int, delay: float) -> None:
            time.sleep(delay)
            self.guard.kill(replica)

        threads = [
            threading.Thread(target=send, args=(index, call, user, self.chance.uniform(0, spread)))
            for index, (call, user) in enumerate(zip((one, other), self.users(), strict=True))
        ]
        if turn % 10 == 6:
            threads.append(threading.Thread(target=kill, args=((turn // 10 + 1) % 3, self.chance.uniform(0, 0.06))))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found[0], found[1]

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

    def never_locked(self, *calls: Callable[[Api], Answer]) -> None:
        """After a race each of these is admitted, one after the other and from now on soon, by an undisturbed guard."""
        self.guard.start()
        for call in calls:
            deadline = time.monotonic() + self.claim_timeout + A_LITTLE
            while (answer := call(self.users()[1])).status >= 300:
                assert time.monotonic() < deadline, answer.message
                time.sleep(0.1)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(servers=2, controllers=False) as plane:
        admin = Api.from_kubeconfig(plane.kubeconfig)
        for file in ("npu-operator-crds", "hami-crds"):
            for crd in crds(file, "npu.openfuyao.com"):
                admin.apply(crd)
        yield plane


@pytest.fixture(scope="module")
def arena(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Arena]:
    """The guard in scope mode `cluster`, or in the one that a test is parametrized with."""
    mode = getattr(request, "param", "cluster")
    timeout = 1 if mode == "cluster" else LANDS
    values = {"config": {**TIMES, "scope": {"mode": mode}, "claim": {"timeout": f"{timeout}s"}}}
    with InstalledGuard(plane, values, replicas=3) as guard:
        stage = Stage(Api.from_kubeconfig(plane.kubeconfig))
        yield Arena(plane, guard, stage, random.Random(20261201), timeout)


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


def label(node: str, key: str, value: str | None, sub: str = "") -> Callable[[Api], Answer]:
    """Set a label of a node, None takes it away; `sub` may say "/status"."""
    patch = {"metadata": {"labels": {key: value}}}
    return lambda user: user.answer("PATCH", f"/api/v1/nodes/{node}{sub}", patch, "application/merge-patch+json")


def unowned() -> list[dict[str, Any]]:
    """Two Ascend nodes with HAMi's label, and nobody owns them."""
    return scenario_objects("Step 4: HAMi is created when nothing of the native plugin is left")


def test_of_enabling_native_and_creating_hami_at_most_one_is_admitted(arena: Arena) -> None:
    arena.stage.build(unowned(), CONTROLLER)
    arena.stage.account_for(dict(HAMI))
    counts: Counter[str] = Counter()
    try:
        for turn in range(PAIRS):
            pair = arena.race(enable(True), create(HAMI), 0.02, turn)
            admitted = sum(sent.admitted for sent in pair)
            counts[f"{admitted} admitted"] += 1
            assert admitted <= 1, [sent.answer.message for sent in pair]
            enable(False)(arena.exempt)
            arena.exempt.delete(path_to(HAMI))
            arena.disturb(turn)
            time.sleep(1.1)  # claim.timeout: from then on nobody may be locked out
        print(f"\nenable native || create HAMi: {dict(counts)}")
        arena.never_locked(create(HAMI))
        arena.exempt.delete(path_to(HAMI))
        arena.never_locked(enable(True))
    finally:
        arena.stage.clear()
        arena.exempt.delete(LEASE)
    assert counts["1 admitted"] >= PAIRS // 2


def test_two_users_who_enable_the_same_owner_do_not_lock_each_other_out(arena: Arena) -> None:
    arena.stage.build(unowned(), CONTROLLER)
    arena.stage.account_for(dict(HAMI))
    counts: Counter[str] = Counter()
    try:
        for turn in range(PAIRS):
            pair = arena.race(enable(True), enable(True), 0.02, turn)
            counts[f"{sum(sent.admitted for sent in pair)} admitted"] += 1
            assert any(sent.admitted or not sent.judged for sent in pair), [sent.answer.message for sent in pair]
            enable(False)(arena.exempt)
            arena.exempt.delete(LEASE)
            arena.disturb(turn)
        print(f"\nenable native || enable native: {dict(counts)}")
        arena.never_locked(enable(True), enable(False), create(HAMI))
    finally:
        arena.exempt.delete(path_to(HAMI))
        arena.stage.clear()
        arena.exempt.delete(LEASE)
    assert counts["1 admitted"] + counts["2 admitted"] >= PAIRS // 2


def test_no_npu_pod_slips_into_a_switch_while_native_is_given_up(arena: Arena) -> None:
    arena.stage.build(scenario_objects(SETTLED), CONTROLLER)
    counts: Counter[str] = Counter()
    pod = samples.workload("slips-in", "huawei.com/Ascend910", namespace="team-race")
    arena.stage.account_for(dict(pod))
    try:
        for turn in range(PAIRS):
            eventually(lambda: _settled(arena) == "native", timeout=15)
            eventually(lambda: create(pod, dryRun="All")(arena.users()[0]).status < 300, timeout=10)
            pair = arena.race(enable(False), create(pod), 1.0, turn)
            given_up, slipped = (sent.admitted for sent in pair)
            counts[f"given up {given_up}, Pod {slipped}"] += 1
            assert not (given_up and slipped), [sent.answer.message for sent in pair]
            arena.exempt.delete(path_to(pod), gracePeriodSeconds=0)
            enable(True)(arena.exempt)
            if turn < PAIRS - 1:
                arena.exempt.delete(LEASE)
            arena.disturb(turn)
        print(f"\ngive native up || create an NPU Pod: {dict(counts)}")
        arena.never_locked(create(pod, dryRun="All"), enable(False))
    finally:
        arena.stage.clear()
        arena.exempt.delete(LEASE)
    assert sum(counts.values()) == PAIRS


CPU_NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-cpu"}}
SPOILS = (("node-cpu", None, "on"), ("node-a2", "on", None))
"""Node, HAMi's label before, and after: it would be no Ascend node that is selected, or one that is not."""


def test_hami_is_never_created_after_a_label_that_spoils_its_placement(arena: Arena) -> None:
    """In one scope a label brings no second owner. A label after HAMi is nobody's denial, one before it is: where both
    are under way at once, either order may be what comes out; an order that nobody saw must not."""
    arena.stage.build([*unowned(), CPU_NODE], CONTROLLER)
    arena.stage.account_for(dict(HAMI))
    counts: Counter[str] = Counter()
    try:
        for turn in range(PAIRS):
            node, before, after = SPOILS[turn % len(SPOILS)]
            came, labelled = arena.race(create(HAMI), label(node, "ascend", after), 0.02, turn)
            counts[f"HAMi {came.admitted}, label {labelled.admitted}"] += 1
            if came.admitted and labelled.admitted:
                assert came.began < labelled.ended
            elif labelled.admitted and came.judged:
                assert "[placement]" in came.answer.message or "Lease" in came.answer.message, came.answer.message
            arena.exempt.delete(path_to(HAMI))
            label(node, "ascend", before)(arena.exempt)
            arena.exempt.delete(LEASE)
            arena.disturb(turn)
        print(f"\ncreate HAMi || label a node, one scope: {dict(counts)}")
        arena.never_locked(create(HAMI), label("node-cpu", "ascend", "on"))
        arena.exempt.delete(path_to(HAMI))
        assert "[placement]" in create(HAMI)(arena.users()[0]).message
    finally:
        arena.stage.clear()
        arena.exempt.delete(LEASE)
    assert counts["HAMi True, label True"] + counts["HAMi False, label True"] >= PAIRS // 2


def _settled(arena: Arena) -> str:
    lease = arena.exempt.get(LEASE) or {}
    return str((lease.get("metadata", {}).get("annotations") or {}).get("ascend-owner-guard/settled", ""))


POOL, MARKER = "npu-pool", {"accelerator": "huawei-Ascend910"}
SHARED = samples.hamiascenddeviceplugin(nodeSelector={POOL: "shared"})
SOCKETS = {
    "containers": [
        {"name": "p", "image": "x", "volumeMounts": [{"name": "s", "mountPath": "/var/lib/kubelet/device-plugins"}]}
    ],
    "volumes": [{"name": "s", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
}


def native_on(nodes: dict[str, str | None]) -> list[dict[str, Any]]:
    """Native for the pool `direct`, and its Pods on `nodes` (name and pool), whether it selects them any more or not:
    there is no controller that would take them away."""
    labels = {"name": "ascend-device-plugin-ds"}
    template = {"metadata": {"labels": labels}, "spec": {"nodeSelector": {POOL: "direct"}, **SOCKETS}}
    plugin = {"name": "ascend-device-plugin", "namespace": "kube-system", "uid": "ds", "labels": labels}
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": plugin["name"], "uid": "ds", "controller": True}
    ctl = samples.npuoperatorctl(True, daemonsets={"nodeSelector": {POOL: "direct"}})
    found: list[dict[str, Any]] = [
        {**ctl, "metadata": {**ctl["metadata"], "name": "npuctl-main"}},
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": plugin,
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
    ]
    for node, pool in nodes.items():
        meta = {"name": node, "labels": {POOL: pool, **MARKER} if pool else {}}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        found.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": ready})
        metadata = {
            "name": f"plugin-{node}",
            "namespace": "kube-system",
            "labels": labels,
            "ownerReferences": [reference],
        }
        spec = {"nodeName": node, **SOCKETS}
        found.append(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
        )
    return found


MOVES = (("moved", "direct", "/status"), ("left", None, ""))
"""A node of native goes to HAMi's pool, by its status; one that native's Pod has not left yet comes into it (without a
marker: an Ascend node of no pool is one that HAMi's placement misses)."""


@pytest.mark.parametrize("arena", ["selectors"], indirect=True)
def test_no_node_with_a_pod_of_native_comes_into_the_pool_of_hami_while_that_is_created(arena: Arena) -> None:
    spare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "spare", "labels": {POOL: "shared", **MARKER}}}
    arena.stage.build([*native_on({node: pool for node, pool, _ in MOVES}), spare], CONTROLLER)
    arena.stage.account_for(dict(SHARED))
    counts: Counter[str] = Counter()
    try:
        for turn in range(PAIRS):
            node, pool, sub = MOVES[turn % len(MOVES)]
            pair = arena.race(create(SHARED), label(node, POOL, "shared", sub), 0.02, turn)
            came, moved = (sent.admitted for sent in pair)
            counts[f"HAMi {came}, {node} {moved}"] += 1
            assert not (came and moved), [f"{sent.ended - sent.began:.1f} s: {sent.answer.message}" for sent in pair]
            arena.exempt.delete(path_to(SHARED))
            label(node, POOL, pool)(arena.exempt)
            arena.exempt.delete(LEASE)
            arena.disturb(turn)
        print(f"\ncreate HAMi || label a node into its pool: {dict(counts)}")
        for node, pool, sub in MOVES:
            arena.never_locked(create(SHARED))
            assert "[node-relabel]" in label(node, POOL, "shared", sub)(arena.users()[0]).message
            arena.exempt.delete(path_to(SHARED))
            arena.never_locked(label(node, POOL, "shared", sub))
            assert "[second-owner]" in create(SHARED)(arena.users()[0]).message
            label(node, POOL, pool)(arena.exempt)
    finally:
        arena.stage.clear()
        arena.exempt.delete(LEASE)
    for node, _, _ in MOVES:
        assert counts[f"HAMi True, {node} False"] + counts[f"HAMi False, {node} True"] >= PAIRS // 4
