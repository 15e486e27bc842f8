"""npu-operator: NPUClusterPolicy -> the native DaemonSet and RuntimeClass `ascend` (DOMAIN.md sections 2, 3 and 7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from tests.products.api import Api, Object, path_of
from tests.products.helm_operator import update_status
from tests.products.loop import Fault, Loop
from tests.products.plugin import NATIVE_LABELS, daemonset, holds, runtime_class

IDENTITY = ("npu-operator", "npu-operator")
DAEMONSET = "ascend-device-plugin"
NODE_SELECTOR = {"workerselector": "dls-worker-node"}
RUNTIME_CLASS = path_of("node.k8s.io/v1", "RuntimeClass", "ascend")
_MANAGED_BY = "npu-operator"


class DaemonSetOperator(Loop):
    """What both plugins' operators share: one DaemonSet as wanted, or none; RuntimeClass `ascend` by its maker."""

    possible: ClassVar[frozenset[Fault]] = frozenset({Fault.HANGS, Fault.DAEMONSET_STAYS, Fault.NEVER_READY})

    def roll_out(self, wanted: Object) -> None:
        """Create the DaemonSet, or write it back when somebody made it say something else."""
        if Fault.NEVER_READY in self.faults:
            wanted["spec"]["minReadySeconds"] = 3600  # kwok makes Pods Ready for a moment: never counted as available
        meta = wanted["metadata"]
        found = self.api.get(path_of("apps/v1", "DaemonSet", meta["name"], meta["namespace"]))
        if found is None:
            self.api.create(wanted)
        elif "deletionTimestamp" not in found["metadata"] and not holds(found, wanted):
            self.api.replace(found | {"metadata": found["metadata"] | meta, "spec": wanted["spec"]})

    def remove(self, name: str, namespace: str) -> bool:
        """Delete the DaemonSet; True once it is gone."""
        path = path_of("apps/v1", "DaemonSet", name, namespace)
        if self.api.get(path) is None:
            return True
        if Fault.DAEMONSET_STAYS not in self.faults:
            self.api.delete(path)
        return False

    def make_runtime_class(self, wanted: Object) -> None:
        """Create RuntimeClass `ascend` unless somebody has."""
        if self.api.get(RUNTIME_CLASS) is None:
            self.api.create(wanted)

    def remove_runtime_class(self, made: Object) -> None:
        """Delete RuntimeClass `ascend` if it wears the marks of the release that made `made`: each removes its own."""
        found = self.api.get(RUNTIME_CLASS)
        if found is not None and holds(found["metadata"], made["metadata"]):
            self.api.delete(RUNTIME_CLASS)


class NpuOperator(DaemonSetOperator):
    """`namespace` is where the DaemonSet goes: kube-system or the operator's own, by release."""

    def __init__(self, api: Api, policy_group: str, namespace: str, period: float) -> None:
        super().__init__("system:serviceaccount:" + ":".join(IDENTITY), api, period)
        self._policy = path_of(f"{policy_group}/v1", "NPUClusterPolicy", "cluster")
        self._namespace = namespace

    def objects(self) -> Iterable[Object | None]:
        """The one policy, or its absence."""
        return [self.api.get(self._policy)]

    def reconcile(self, thing: Object | None) -> None:
        """The policy's components as they are managed; without a policy none of them. Absent `managed` means true."""
        spec = {} if thing is None else thing.get("spec", {})
        ours = runtime_class("npu-operator", "npu-operator", _MANAGED_BY)
        if thing is not None and spec.get("ociRuntime", {}).get("managed", True):
            self.make_runtime_class(ours)
        else:
            self.remove_runtime_class(ours)
        if thing is not None and spec.get("devicePlugin", {}).get("managed", True):
            selector = spec.get("daemonsets", {}).get("nodeSelector", NODE_SELECTOR)
            driver = "/usr/local/Ascend/driver"
            self.roll_out(daemonset(DAEMONSET, self._namespace, NATIVE_LABELS, selector, driver, thing))
        else:
            self.remove(DAEMONSET, self._namespace)
        if thing is not None:
            update_status(self.api, thing, {"phase": "Running"})
