"""HAMi's operator: HAMiAscendDevicePlugin -> DaemonSet (DOMAIN.md section 3). Taken for Helm-type, as it is there."""

from __future__ import annotations

from collections.abc import Iterable

from tests.products.api import Api, Object, path_of
from tests.products.helm_operator import FINALIZER, conditions, update_status, with_finalizer, without_finalizer
from tests.products.npu_operator import DaemonSetOperator
from tests.products.plugin import HAMI_LABELS, daemonset, runtime_class

IDENTITY = ("hami-system", "hami-device-operator")
VERSION = "hami.io/v1alpha1"
DRIVER = "/var/lib/Ascend/driver"
_SERVICE_ACCOUNT = "hami-ascend"


class HamiOperator(DaemonSetOperator):
    """`makes_runtime_class`: the release brings RuntimeClass `ascend` where there is none, and takes its own away."""

    def __init__(self, api: Api, makes_runtime_class: bool, period: float) -> None:
        super().__init__("system:serviceaccount:" + ":".join(IDENTITY), api, period)
        self._makes_runtime_class = makes_runtime_class

    def objects(self) -> Iterable[Object | None]:
        """Every HAMiAscendDevicePlugin; each has a DaemonSet of its own name."""
        return self.api.items(path_of(VERSION, "HAMiAscendDevicePlugin"))

    def reconcile(self, thing: Object | None) -> None:
        """Install, upgrade or uninstall this custom resource's release."""
        assert thing is not None
        meta = thing["metadata"]
        ours = FINALIZER in meta.get("finalizers", [])
        if "deletionTimestamp" in meta:
            if ours and self.remove(meta["name"], meta["namespace"]):
                if self._makes_runtime_class:
                    self.remove_runtime_class(runtime_class(meta["name"], meta["namespace"], "Helm"))
                self.api.replace(without_finalizer(thing))
            return
        if not ours:
            thing = self.api.replace(with_finalizer(thing))
        if self._makes_runtime_class:
            self.make_runtime_class(runtime_class(meta["name"], meta["namespace"], "Helm"))
        self._service_account(meta["namespace"])
        spec = thing.get("spec", {})
        selector = spec.get("nodeSelector", {"ascend": "on"})
        driver = spec.get("driverHostPath", DRIVER)
        wanted = daemonset(meta["name"], meta["namespace"], HAMI_LABELS, selector, driver, thing)
        # The chart bears the native plugin's name: a trap that is part of the product (DOMAIN.md section 3).
        wanted["metadata"]["labels"] |= {
            "app.kubernetes.io/name": "ascend-device-plugin",
            "app.kubernetes.io/managed-by": "Helm",
        }
        wanted["spec"]["template"]["spec"]["serviceAccountName"] = _SERVICE_ACCOUNT
        self.roll_out(wanted)
        update_status(self.api, thing, conditions("Initialized", "Deployed"))

    def _service_account(self, namespace: str) -> None:
        if self.api.get(path_of("v1", "ServiceAccount", _SERVICE_ACCOUNT, namespace)) is None:
            self.api.create(
                {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {"name": _SERVICE_ACCOUNT, "namespace": namespace},
                }
            )
