"""The Helm-type operator: NPUOperatorCtl -> NPUClusterPolicy/cluster (DOMAIN.md sections 2 and 3).

The custom resource's spec is a Helm release's values. The operator applies the release again and again although
nothing has changed; on DELETE it uninstalls the whole stack and takes its finalizer away by an UPDATE.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import ClassVar

from tests.products.api import Api, Object, path_of, path_to
from tests.products.loop import Fault, Loop

FINALIZER = "helm.sdk.operatorframework.io/uninstall-release"
IDENTITY = ("npu-operator", "npu-operator-controller-manager")

# DOMAIN.md section 3: what the chart's values say when the custom resource does not.
_ON = ("devicePlugin", "driver", "ociRuntime", "exporter")
_OFF = ("trainer", "nodeD", "clusterd", "rscontroller", "mindiotft", "mindioacp")
_DRIVER_VERSION = "25.5.0"


def conditions(*types: str) -> Object:
    """A Helm-type operator's status: these conditions are True."""
    return {"conditions": [{"type": kind, "status": "True", "reason": "InstallSuccessful"} for kind in types]}


def update_status(api: Api, thing: Object, status: Object) -> None:
    """Write the status subresource, unless it says so already."""
    if thing.get("status") != status:
        api.merge(path_to(thing) + "/status", {"status": status})


def without_finalizer(thing: Object) -> Object:
    """The object as the operator writes it back once the release is uninstalled."""
    kept = [name for name in thing["metadata"].get("finalizers", []) if name != FINALIZER]
    return thing | {"metadata": thing["metadata"] | {"finalizers": kept}}


def with_finalizer(thing: Object) -> Object:
    """The object as the operator writes it before the release is installed."""
    held = thing["metadata"].get("finalizers", [])
    return thing | {"metadata": thing["metadata"] | {"finalizers": [*held, FINALIZER]}}


def policy_spec(values: Object) -> Object:
    """The spec of the NPUClusterPolicy that the chart renders from these values; absent means the chart's default."""
    spec: Object = {
        name: {"managed": values.get(name, {}).get("enabled", default)}
        for names, default in ((_ON, True), (_OFF, False))
        for name in names
    }
    spec["driver"]["version"] = values.get("driver", {}).get("version", _DRIVER_VERSION)
    if "daemonsets" in values:
        spec["daemonsets"] = values["daemonsets"]
    return spec


class HelmOperator(Loop):
    """`reapply` is how many seconds pass between two writes of an unchanged policy."""

    possible: ClassVar[frozenset[Fault]] = frozenset({Fault.HANGS, Fault.POLICY_STAYS_TRUE})

    def __init__(self, api: Api, policy_group: str, period: float, reapply: float) -> None:
        super().__init__("system:serviceaccount:" + ":".join(IDENTITY), api, period)
        self._policy_version = f"{policy_group}/v1"
        self._policy = path_of(self._policy_version, "NPUClusterPolicy", "cluster")
        self._reapply = reapply
        self._applied = 0.0

    def objects(self) -> Iterable[Object | None]:
        """Every NPUOperatorCtl: each one renders the one policy."""
        return self.api.items(path_of("npu-operator.alauda.io/v1", "NPUOperatorCtl"))

    def reconcile(self, thing: Object | None) -> None:
        """Install, upgrade or uninstall this custom resource's release."""
        assert thing is not None
        ours = FINALIZER in thing["metadata"].get("finalizers", [])
        if "deletionTimestamp" in thing["metadata"]:
            if ours:
                self._uninstall(thing)
            return
        if not ours:
            thing = self.api.replace(with_finalizer(thing))
        self._render(thing)
        update_status(self.api, thing, conditions("Initialized", "Deployed"))

    def _uninstall(self, thing: Object) -> None:
        if self.api.get(self._policy) is not None:
            self.api.delete(self._policy)
        else:
            self.api.replace(without_finalizer(thing))

    def _render(self, thing: Object) -> None:
        meta = thing["metadata"]
        found = self.api.get(self._policy)
        wanted: Object = {
            "apiVersion": self._policy_version,
            "kind": "NPUClusterPolicy",
            "metadata": {
                "name": "cluster",
                "annotations": {
                    "operator-sdk/primary-resource": f"{meta['namespace']}/{meta['name']}",
                    "operator-sdk/primary-resource-type": "NPUOperatorCtl.npu-operator.alauda.io",
                },
            },
            "spec": policy_spec(thing.get("spec", {})),
        }
        if Fault.POLICY_STAYS_TRUE in self.faults:
            wanted["spec"]["devicePlugin"]["managed"] = True
        if found is None:
            self.api.create(wanted)
        elif found["spec"] != wanted["spec"] or time.monotonic() - self._applied >= self._reapply:
            notes = found["metadata"].get("annotations", {}) | wanted["metadata"]["annotations"]
            self.api.replace(found | {"metadata": found["metadata"] | {"annotations": notes}, "spec": wanted["spec"]})
        else:
            return
        self._applied = time.monotonic()
