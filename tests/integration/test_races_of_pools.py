"""Pools: an owner comes at the instant in which a node changes its pool, while the old owner's Pod is still there.

Never does the node go from one owner to another in one write.

`make race` runs more pairs than `make test` does.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import InstalledGuard
from tests.integration.test_races import CONTROLLER, LEASE, PAIRS, TIMES, Arena, create
from tests.products.api import Answer, Api
from tests.products.products import crds
from tests.replay.stage import Stage, path_to
from tests.waiting import eventually
from webhook.cli.scenarios import load

pytestmark = pytest.mark.integration

CASES = Path(__file__).parents[1] / "cases" / "94-relabels.yaml"
SCENARIO = "HAMi comes to a pool that a node is on its way to, and that write is not stored yet"
HAMI = {
    "apiVersion": "hami.io/v1alpha1",
    "kind": "HAMiAscendDevicePlugin",
    "metadata": {"name": "hami", "namespace": "hami-system"},
    "spec": {"nodeSelector": {"npu-pool": "shared"}, "driverHostPath": "/var/lib/Ascend/driver"},
}


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    with ControlPlane(servers=2, controllers=False) as plane:
        admin = Api.from_kubeconfig(plane.kubeconfig)
        for file in ("npu-operator-crds", "hami-crds"):
            for crd in crds(file, "npu.openfuyao.com"):
                admin.apply(crd)
        values = {"config": {**TIMES, "scope": {"mode": "selectors"}}}
        with InstalledGuard(plane, values, replicas=3) as guard:
            yield Arena(plane, guard, Stage(admin), random.Random(20261202))


PLUGIN_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "ascend-device-plugin-1",
        "namespace": "kube-system",
        "labels": {"name": "ascend-device-plugin-ds"},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "name": "ascend-device-plugin",
                "uid": "ds",
                "controller": True,
            }
        ],
    },
    "spec": {
        "nodeName": "node-1",
        "containers": [
            {
                "name": "p",
                "image": "x",
                "volumeMounts": [{"name": "s", "mountPath": "/var/lib/kubelet/device-plugins"}],
            }
        ],
        "volumes": [{"name": "s", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
    },
    "status": {"phase": "Running"},
}
"""It leaves when its controller sees the new label; here there is none, so that it is there all the while."""


def pool(name: str) -> Callable[[Api], Answer]:
    """Label node-1 into this pool."""
    patch = {"metadata": {"labels": {"npu-pool": name}}}
    return lambda user: user.answer("PATCH", "/api/v1/nodes/node-1", patch, "application/merge-patch+json")


def test_no_node_goes_from_one_owner_to_another_while_one_comes(arena: Arena) -> None:
    scenario = next(one for one in load(CASES) if one.name == SCENARIO)
    objects = [dict(item) for item in scenario.cluster if item["kind"] != "Lease"]
    arena.stage.build([*objects, PLUGIN_POD], CONTROLLER)
    arena.stage.account_for(dict(HAMI))
    kubelet = Api.from_kubeconfig(arena.plane.kubeconfig).impersonating(
        "system:node:node-1", "system:nodes", "system:masters"
    )
    counts: Counter[str] = Counter()
    try:
        for turn in range(PAIRS):
            came, moved = arena.both(create(HAMI), pool("shared"), 0.02)
            outcome = (came.status < 300, moved.status < 300)
            counts[f"HAMi {outcome[0]}, label {outcome[1]}"] += 1
            assert outcome != (True, True)
            arena.exempt.delete(path_to(HAMI))
            pool("direct")(kubelet)
            arena.disturb(turn)
            time.sleep(1.1)  # claim.timeout: from then on nobody may be locked out
        arena.undisturbed()
        eventually(lambda: create(HAMI)(arena.users()[0]).status < 300, timeout=10)
        assert "[node-relabel]" in pool("shared")(arena.users()[1]).message
        arena.exempt.delete(path_to(HAMI))
        time.sleep(1.1)
        eventually(lambda: pool("shared")(arena.users()[1]).status < 300, timeout=10)
    finally:
        arena.stage.clear()
        arena.exempt.delete(LEASE)
    print(f"\ncreate HAMi || label a node into its pool: {dict(counts)}")
    assert counts["HAMi True, label False"] + counts["HAMi False, label True"] >= PAIRS // 2
