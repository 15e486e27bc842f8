"""What the products' custom resources ask for (DOMAIN.md section 3): which owner, on which nodes, on what base."""

from typing import Any

from webhook.ownership.fields import at, has, mapping, text, texts
from webhook.ownership.makers import makers_of
from webhook.ownership.objects import DEFAULT_DRIVER_VERSION, Base, CustomResource, Demand, Malformed, Meta
from webhook.ownership.owners import Owner
from webhook.ownership.request import Object
from webhook.ownership.scope import Selector
from webhook.ownership.settings import Settings

HAMI_DEFAULT_SELECTOR = Selector({"ascend": "on"})
"""The chart's default (Project-HAMi/ascend-device-plugin); an absent nodeSelector means it."""

_PRIMARY = "operator-sdk/primary-resource"
"""Annotation that Helm-type operators put on what they render (operator-framework/operator-sdk)."""

_MANAGED_STATES = ("Managed", "SharedManaged")


def kind_of(group: str, kind: str, settings: Settings) -> str | None:
    """Return which of the products' kinds this is, matched on group and kind, or None (DOMAIN.md section 3)."""
    kinds = settings.kinds
    known = {
        "NPUOperatorCtl": kinds.npu_operator_ctl,
        "NPUClusterPolicy": kinds.npu_cluster_policy,
        "HAMiAscendDevicePlugin": kinds.hami_ascend_device_plugin,
        "AmlCluster": kinds.aml_cluster,
    }.get(kind)
    return kind if known is not None and group in known.groups else None


def read_custom_resource(item: Object, meta: Meta, group: str, settings: Settings) -> CustomResource | None:
    """Return the record of one of the products' custom resources, None for any other object."""
    match kind_of(group, meta.ref.kind, settings):
        case "NPUOperatorCtl":
            return _operator_ctl(item, meta, group)
        case "NPUClusterPolicy":
            return _cluster_policy(item, meta, group, settings)
        case "HAMiAscendDevicePlugin":
            return _hami(item, meta, group, settings)
        case "AmlCluster":
            return _aml_cluster(item, meta, group)
        case _:
            return None


def _operator_ctl(item: Object, meta: Meta, group: str, *, prefix: str = "spec") -> CustomResource:
    switches = _Switches(item, prefix)
    demands = (
        switches.demand(Owner.NATIVE, "devicePlugin.enabled", absent=True),
        switches.demand(Owner.VNPU, "vnpu.enabled", absent=False),
        switches.demand(Owner.DRA, "dra.enabled", absent=False),
    )
    base = Base(
        driver=switches.on("driver.enabled", absent=True),
        driver_version=_version(at(item, f"{prefix}.driver.version")),
        driver_image=_driver_image(mapping(at(item, f"{prefix}.driver"))),
        oci_runtime=switches.on("ociRuntime.enabled", absent=True),
        auto_recover=at(item, f"{prefix}.driver.recoveryPolicy.autoRecover") is True,
    )
    return CustomResource(
        meta=meta,
        group=group,
        demands=demands,
        malformed=switches.malformed,
        selector=_native_selector(item, prefix),
        base=base,
    )


def _cluster_policy(item: Object, meta: Meta, group: str, settings: Settings) -> CustomResource:
    switches = _Switches(item, "spec")
    return CustomResource(
        meta=meta,
        group=group,
        demands=(
            switches.demand(Owner.NATIVE, "devicePlugin.managed", absent=True),
            switches.demand(Owner.VNPU, "vnpu.managed", absent=False),
            switches.demand(Owner.DRA, "dra.managed", absent=False),
        ),
        malformed=switches.malformed,
        selector=_native_selector(item, "spec"),
        primary=meta.annotations.get(_PRIMARY, ""),
        makers=makers_of(mapping(item.get("metadata")), settings),
    )


def _hami(item: Object, meta: Meta, group: str, settings: Settings) -> CustomResource:
    paths = settings.kinds.hami_ascend_device_plugin
    selector = HAMI_DEFAULT_SELECTOR
    if has(item, paths.node_selector):
        selector = Selector(texts(at(item, paths.node_selector)))
    path = at(item, paths.driver_host_path)
    return CustomResource(
        meta=meta,
        group=group,
        demands=(Demand(Owner.HAMI, asked=True, field="spec"),),
        selector=selector,
        driver_host_path=text(path) or None,
    )


def _aml_cluster(item: Object, meta: Meta, group: str) -> CustomResource:
    component = mapping(at(item, "spec.components.npuOperator"))
    if text(component.get("managementState")) not in _MANAGED_STATES:
        removed = component.get("managementState") == "Removed"
        return CustomResource(meta=meta, group=group, demands=(), effective=False, removed=removed)
    return _operator_ctl(item, meta, group, prefix="spec.components.npuOperator.values")


def _native_selector(item: Object, prefix: str) -> Selector | None:
    """The nodes of the native plugin: the component's own nodeSelector, else that of all DaemonSets (release 26.6)."""
    for path in (f"{prefix}.devicePlugin.nodeSelector", f"{prefix}.daemonsets.nodeSelector"):
        labels = texts(at(item, path))
        if labels:
            return Selector(labels)
    return None


def _version(value: Any) -> str:
    return DEFAULT_DRIVER_VERSION if value is None else value if isinstance(value, str) else _shown(value)


def _driver_image(driver: Object) -> str:
    parts = {key: driver[key] for key in ("repository", "image") if driver.get(key) is not None}
    return repr(sorted(parts.items())) if parts else ""


class _Switches:
    """The boolean fields below one path of an object; what is no boolean counts as on, and is remembered as malformed.

    On, because Helm templates take any non-empty value for true: the guard must never overlook an owner.
    """

    def __init__(self, item: Object, prefix: str) -> None:
        self._item = item
        self._prefix = prefix
        self._malformed: dict[str, str] = {}

    @property
    def malformed(self) -> tuple[Malformed, ...]:
        return tuple(Malformed(path, value) for path, value in self._malformed.items())

    def demand(self, owner: Owner, path: str, *, absent: bool) -> Demand:
        return Demand(owner, asked=self.on(path, absent=absent), field=f"{self._prefix}.{path}")

    def on(self, path: str, *, absent: bool) -> bool:
        parts = f"{self._prefix}.{path}".split(".")
        value: Any = self._item
        for depth, part in enumerate(parts):
            if not isinstance(value, dict):
                return self._note(".".join(parts[:depth]), value)
            if part not in value:
                return absent
            value = value[part]
        return value if isinstance(value, bool) else self._note(".".join(parts), value)

    def _note(self, path: str, value: Any) -> bool:
        self._malformed[path] = _shown(value)
        return True


def _shown(value: Any) -> str:
    """A value as a message shows it: like JSON for the simple ones, never long, never nested."""
    match value:
        case None:
            return "null"
        case str():
            return f'"{value[:40]}"'
        case bool() | float():
            return str(value).lower()
        case int():
            return str(value) if abs(value) < 10**30 else "a huge number"  # Python refuses to write huge ones out
        case list():
            return "a list"
        case _:
            return "a mapping"
