"""Dynamic resource allocation (resource.k8s.io): which claims, classes and resources of a Pod mean Ascend chips."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from webhook.ownership.fields import at, mapping, mappings, text
from webhook.ownership.request import Object
from webhook.ownership.resources import is_npu, units
from webhook.ownership.settings import Settings

DRA_DRIVERS = ("npu.huawei.com", "ascend.project-hami.io", "npu.project-hami.io")
"""Drivers that hand out Ascend chips (Ascend/mind-cluster, openFuyao; Project-HAMi's DRA driver, new and old name)."""

_CLASS_NAME = re.compile(r"^((elastic|fixed|best-effort)\.)?npu\.huawei\.com$|^hami-[a-z0-9.-]*\.project-hami\.io$")
_CLASS_AS_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""The resource by which a Pod asks for a DeviceClass without a claim (kubernetes, DRAExtendedResource)."""


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """What a Pod asks of DRA, or may ask: a ResourceClaim or ResourceClaimTemplate of its namespace; a DeviceClass that
    is asked for like a resource (`deviceclass.resource.kubernetes.io/<class>`); or an extended resource that is no NPU
    by its name, and is one when a DeviceClass of NPUs has it as `extendedResourceName`."""

    kind: Literal["ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ExtendedResource"]
    name: str


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DRA DeviceClass: whether it hands out Ascend chips, by its name or by the driver that its CEL selector
    names; and the extended resource by which Pods may ask for it, "" when there is none."""

    name: str
    ascend: bool
    extended_resource: str = ""


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """What a ResourceClaim or ResourceClaimTemplate asks for: DeviceClasses; and whether a selector of its own, or what
    was allocated to it, names a driver of Ascend chips."""

    classes: tuple[str, ...]
    ascend: bool = False


def claim_refs(spec: Object, status: Object) -> Iterator[ClaimRef]:
    """Yield the claims that a Pod names, and those that were made for it: a template may be gone meanwhile."""
    for entry in mappings(spec.get("resourceClaims")):
        claim, template = text(entry.get("resourceClaimName")), text(entry.get("resourceClaimTemplateName"))
        if claim:
            yield ClaimRef("ResourceClaim", claim)
        if template:
            yield ClaimRef("ResourceClaimTemplate", template)
    for entry in (*mappings(status.get("resourceClaimStatuses")), mapping(status.get("extendedResourceClaimStatus"))):
        claim = text(entry.get("resourceClaimName"))
        if claim:
            yield ClaimRef("ResourceClaim", claim)


def asked_by_name(containers: Iterable[Object], settings: Settings) -> Iterator[ClaimRef]:
    """Yield the DeviceClasses and the extended resources that are asked for, but NPUs by name, which are resources."""
    names = {
        name
        for container in containers
        for part in ("limits", "requests")
        for name, amount in mapping(at(container, f"resources.{part}")).items()
        if isinstance(name, str) and "/" in name and not is_npu(name, settings) and units(amount) > 0
    }
    for name in sorted(names):
        if name.startswith(_CLASS_AS_RESOURCE):
            yield ClaimRef("DeviceClass", name.removeprefix(_CLASS_AS_RESOURCE))
        elif "kubernetes.io/" not in name:
            yield ClaimRef("ExtendedResource", name)


def resolved(
    ref: ClaimRef,
    namespace: str,
    claims: Mapping[tuple[str, str, str], DeviceClaim],
    classes: Mapping[str, DeviceClass],
) -> Iterator[str]:
    """Yield, in words, every reason why `ref` is one of Ascend chips; a class that is not known is judged by its
    name."""
    claim = claims.get((ref.kind, namespace, ref.name), DeviceClaim(()))
    if ref.kind == "DeviceClass":
        claim = DeviceClaim((ref.name,))
    elif ref.kind == "ExtendedResource":
        claim = DeviceClaim(tuple(one.name for one in classes.values() if one.extended_resource == ref.name))
    if claim.ascend:
        yield f"{ref.kind} {ref.name}: it names the NPU driver"
    for name in claim.classes:
        if classes[name].ascend if name in classes else _CLASS_NAME.match(name) is not None:
            yield f"{ref.kind} {ref.name}: DeviceClass {name}"


def device_class(item: Object, settings: Settings) -> DeviceClass:
    """Return the record of a DeviceClass (resource.k8s.io)."""
    name = text(at(item, "metadata.name"))
    spec = mapping(item.get("spec"))
    extended = text(spec.get("extendedResourceName"))
    ascend = (
        _CLASS_NAME.match(name) is not None or _names_driver(spec) or (bool(extended) and is_npu(extended, settings))
    )
    return DeviceClass(name, ascend, extended)


def is_ascend_driver(driver: str) -> bool:
    """Whether a DRA driver of this name hands out Ascend chips."""
    return driver in DRA_DRIVERS


def device_claim(item: Object) -> DeviceClaim:
    """Return what a ResourceClaim or ResourceClaimTemplate asks for, in any of its request forms, and whether chips
    were allocated to it."""
    spec = mapping(item.get("spec"))
    inner = mapping(spec.get("spec")) if isinstance(spec.get("spec"), Mapping) else spec
    names: list[str] = []
    ascend = any(
        is_ascend_driver(text(result.get("driver")))
        for result in mappings(at(item, "status.allocation.devices.results"))
    )
    for request in mappings(at(inner, "devices.requests")):
        forms = [request, mapping(request.get("exactly")), *mappings(request.get("firstAvailable"))]
        names.extend(name for form in forms if (name := text(form.get("deviceClassName"))))
        ascend = ascend or any(_names_driver(form) for form in forms)
    return DeviceClaim(tuple(dict.fromkeys(names)), ascend)


def _names_driver(holder: Object) -> bool:
    """Whether a CEL selector of a class or of a request names a driver of Ascend chips."""
    said = [text(at(selector, "cel.expression")) for selector in mappings(holder.get("selectors"))]
    return any(f'"{driver}"' in one or f"'{driver}'" in one for one in said for driver in DRA_DRIVERS)
