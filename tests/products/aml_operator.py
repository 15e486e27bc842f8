"""The AI-platform operator: AmlCluster -> NPUOperatorCtl while it is told to manage it (DOMAIN.md section 2)."""

from __future__ import annotations

from collections.abc import Iterable

from tests.products.api import Api, Object, path_of
from tests.products.helm_operator import update_status
from tests.products.loop import Loop
from tests.products.plugin import holds

IDENTITY = ("aml-operator", "aml-operator")
VERSION = "amlclusters.aml.dev/v1alpha1"
_MADE = {"app.kubernetes.io/managed-by": "aml-operator"}


class AmlOperator(Loop):
    """`name` is the NPUOperatorCtl in namespace npu-operator that it writes."""

    def __init__(self, api: Api, name: str, period: float) -> None:
        super().__init__("system:serviceaccount:" + ":".join(IDENTITY), api, period)
        self._name = name
        self._ctl = path_of("npu-operator.alauda.io/v1", "NPUOperatorCtl", name, "npu-operator")

    def objects(self) -> Iterable[Object | None]:
        """Every AmlCluster; the product knows one, `default`."""
        return self.api.items(path_of(VERSION, "AmlCluster"))

    def reconcile(self, thing: Object | None) -> None:
        """Managed: the values are written over the spec. Removed: what was made is deleted. Unmanaged: nothing."""
        assert thing is not None
        component = thing.get("spec", {}).get("components", {}).get("npuOperator", {})
        state = component.get("managementState", "Unmanaged")
        found = self.api.get(self._ctl)
        if state in ("Managed", "SharedManaged"):
            self._write(component.get("values", {}), found)
        elif state == "Removed" and found is not None and _MADE.items() <= found["metadata"].get("labels", {}).items():
            self.api.delete(self._ctl)
        update_status(self.api, thing, {"components": {"npuOperator": {"managementState": state}}})

    def _write(self, values: Object, found: Object | None) -> None:
        if found is None:
            self.api.create(
                {
                    "apiVersion": "npu-operator.alauda.io/v1",
                    "kind": "NPUOperatorCtl",
                    "metadata": {"name": self._name, "namespace": "npu-operator", "labels": _MADE},
                    "spec": values,
                }
            )
        elif not holds(found.get("spec", {}), values):
            self.api.merge(self._ctl, {"spec": values})
