"""The kubelet's part on Ascend nodes, written as `system:node:<name>`; kwok does the rest of a kubelet's work.

DOMAIN.md section 5: a Ready plugin Pod makes its resource appear in capacity and allocatable; when it dies allocatable
falls to 0 at once, and the key vanishes later. Capacity keeps its count until then, as the kubelet's device manager
does it: capacity counts unhealthy devices too.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import ClassVar

from tests.products.api import Api, ApiError, Object, path_of, path_to
from tests.products.loop import Fault, Loop
from tests.products.plugin import owner_of
from tests.waiting import eventually

# Chip, by the node's label `accelerator` -> owner -> the resource that its plugin registers (DOMAIN.md section 5).
RESOURCES: Mapping[str, Mapping[str, str]] = {
    "huawei-Ascend910": {"native": "huawei.com/Ascend910", "hami": "huawei.com/Ascend910B4"},
    "huawei-Ascend310P": {"native": "huawei.com/Ascend310P", "hami": "huawei.com/Ascend310P"},
}
_VENDOR = "huawei.com/"

# manifests/kubelet.yaml lets nobody but this user take this finalizer from a Pod.
_HOLD = "products.example/the-pod-stays"
_HAND_OF_THE_FAULT = "products:hand-of-the-fault"


def is_ready(thing: Object) -> bool:
    """Whether a Pod or a Node has the condition Ready = True."""
    found = thing.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in found)


def _state(pod: Object, ready: bool) -> Object:
    """A status in which the plugin's container runs, or waits to be started again after a crash."""
    running = {"running": {"startedAt": pod["status"]["startTime"]}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    containers = [
        {"name": c["name"], "image": c["image"], "imageID": "", "restartCount": 0, "ready": ready}
        | {"state": running if ready else waiting}
        for c in pod["spec"]["containers"]
    ]
    conditions = [
        {**condition, "status": str(ready)} if condition["type"] in ("Ready", "ContainersReady") else condition
        for condition in pod["status"]["conditions"]
    ]
    return {"containerStatuses": containers, "conditions": conditions}


def has_crashed(pod: Object) -> bool:
    """Whether a container of a Pod waits to be started again after a crash."""
    states = [container.get("state", {}) for container in pod["status"].get("containerStatuses", [])]
    return any(state.get("waiting", {}).get("reason") == "CrashLoopBackOff" for state in states)


def asks_for_npu(pod: Object) -> bool:
    """Whether a Pod asks for a resource of the vendor's."""
    containers = pod["spec"]["containers"]
    return any(name.startswith(_VENDOR) for c in containers for name in c.get("resources", {}).get("limits", {}))


class Kubelet(Loop):
    """The kubelets of all nodes that wear the label `accelerator`.

    `counts` says how many devices each owner's plugin registers on a node (HAMi's: chips x share factor). `linger` is
    how many seconds a resource's key stays after it fell to 0 (a real kubelet: 300). `operators` holds each owner's
    stand-in: the Pods of one that has the fault NEVER_READY crash here. On `broken` nodes every plugin's Pod does.
    """

    possible: ClassVar[frozenset[Fault]] = frozenset(
        {Fault.HANGS, Fault.POD_STAYS, Fault.ALLOCATABLE_STAYS, Fault.WORKLOAD_FAILS}
    )

    def __init__(self, api: Api, counts: Mapping[str, str], linger: float, period: float) -> None:
        super().__init__("system:nodes", api, period)
        self.operators: dict[str, Loop] = {}
        self.broken: set[str] = set()
        self._hand_of_the_fault = api.impersonating(_HAND_OF_THE_FAULT, "system:masters")
        self._counts = counts
        self._linger = linger
        self._zero_since: dict[tuple[str, str], float] = {}
        self._pods: dict[str, list[Object]] = {}

    def objects(self) -> Iterable[Object | None]:
        """Every Ascend node, with the Pods bound to it read beside."""
        pods: dict[str, list[Object]] = defaultdict(list)
        for pod in self.api.items("/api/v1/pods"):
            pods[pod["spec"].get("nodeName", "")].append(pod)
        self._pods = pods
        return self.api.items("/api/v1/nodes", labelSelector="accelerator")

    def reconcile(self, thing: Object | None) -> None:
        """One node: its Pods first, then what it advertises."""
        assert thing is not None
        name = thing["metadata"]["name"]
        node = self.api.impersonating(f"system:node:{name}", "system:nodes")
        pods = self._pods.get(name, [])
        for pod in pods:
            if owner_of(pod):
                self._tend_plugin(node, pod)
            elif Fault.WORKLOAD_FAILS in self.faults and asks_for_npu(pod):
                self._fail(node, pod)
        if Fault.ALLOCATABLE_STAYS not in self.faults:
            serving = {owner_of(pod) for pod in pods if is_ready(pod) and not self._crashes(pod)}
            self._advertise(node, thing, serving - {""})

    def _tend_plugin(self, node: Api, pod: Object) -> None:
        meta, status = pod["metadata"], path_to(pod) + "/status"
        held = _HOLD in meta.get("finalizers", [])
        if Fault.POD_STAYS in self.faults:
            if not held and "deletionTimestamp" not in meta:
                self._hand_of_the_fault.merge(path_to(pod), {"metadata": {"finalizers": [_HOLD]}})
                eventually(lambda: self._stays(pod))
        elif held:
            self._hand_of_the_fault.merge(path_to(pod), {"metadata": {"finalizers": None}})
            if "deletionTimestamp" in meta:
                node.delete(path_to(pod), gracePeriodSeconds=0)
        if self._crashes(pod) and is_ready(pod):
            node.merge(status, {"status": _state(pod, ready=False)})
        elif not self._crashes(pod) and has_crashed(pod):
            node.merge(status, {"status": _state(pod, ready=True)})

    def _crashes(self, pod: Object) -> bool:
        if owner_of(pod) and pod["spec"].get("nodeName") in self.broken:
            return True
        operator = self.operators.get(owner_of(pod))
        return operator is not None and Fault.NEVER_READY in operator.faults

    def _stays(self, pod: Object) -> bool:
        """Whether the API server has begun to keep our finalizer against kwok, which clears the lists of all others.

        A Pod that is gone needs no keeping any more.
        """
        try:
            self.api.merge(path_to(pod) + "?dryRun=All", {"metadata": {"finalizers": None}})
        except ApiError:
            return True
        return False

    def _fail(self, node: Api, pod: Object) -> None:
        """The first workload cannot reach its NPU. (A Pod of a Job may be completed by kwok before.)"""
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
            status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no healthy devices present"}
            node.merge(path_to(pod) + "/status", {"status": status})

    def _advertise(self, node: Api, thing: Object, serving: set[str]) -> None:
        name = thing["metadata"]["name"]
        chip = RESOURCES.get(thing["metadata"]["labels"]["accelerator"], RESOURCES["huawei-Ascend910"])
        wanted = {chip[owner]: self._counts[owner] for owner in sorted(serving)}
        shown = {key: value for key, value in thing["status"].get("allocatable", {}).items() if key.startswith(_VENDOR)}
        allocatable: dict[str, str | None] = {}
        capacity: dict[str, str | None] = {}
        for resource, count in wanted.items():
            self._zero_since.pop((name, resource), None)
            if shown.get(resource) != count:
                allocatable[resource] = capacity[resource] = count
        for resource in shown.keys() - wanted.keys():
            since = self._zero_since.setdefault((name, resource), time.monotonic())
            if time.monotonic() - since >= self._linger:
                allocatable[resource] = capacity[resource] = None
                del self._zero_since[name, resource]
            elif shown[resource] != "0":
                allocatable[resource] = "0"
        if allocatable:
            path = path_of("v1", "Node", name) + "/status"
            node.merge(path, {"status": {"allocatable": allocatable, "capacity": capacity}})
