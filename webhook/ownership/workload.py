"""Whether and how a Pod reaches an NPU (DOMAIN.md section 6).

Total: any JSON in any place gives an answer. Not visible here, and so out of reach: envFrom, and the environment that
an image brings along.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from webhook.ownership.fields import at, items, mapping, mappings, text
from webhook.ownership.owners import Owner, mounted_path
from webhook.ownership.request import Object
from webhook.ownership.resources import is_npu, npu_quantities, servers_of_all, units
from webhook.ownership.settings import Settings

Way = Literal["resource", "env", "device", "claim", "shape"]
"""How an NPU is reached: an extended resource; ids in the environment; a chip's device file (or an equivalent shape
with Ascend evidence beside it); a DRA claim; or a shape (/dev, driver tree) that proves nothing by itself."""

_IDS = "ASCEND_VISIBLE_DEVICES"
_SPECS = "ASCEND_VNPU_SPECS"
_NO_IDS = ("", "void")
_CHIP = re.compile(r"^/dev/v?davinci([0-9_][^/]*)?$|^/dev/(devmm_svm|hisi_hdc)$")
_DRIVER_TREES = ("/usr/local/Ascend", "/usr/local/Ascend/driver", "/var/lib/Ascend", "/var/lib/Ascend/driver")

DRA_DRIVERS = ("npu.huawei.com", "ascend.project-hami.io", "npu.project-hami.io")
"""Drivers that hand out Ascend chips (Ascend/mind-cluster, openFuyao; Project-HAMi's DRA driver, new and old name)."""

_CLASS_NAME = re.compile(r"^((elastic|fixed|best-effort)\.)?npu\.huawei\.com$|^hami-[a-z0-9.-]*\.project-hami\.io$")
_CLASS_AS_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""The resource by which a Pod asks for a DeviceClass without a claim (kubernetes, DRAExtendedResource)."""
_BY_FIELD = " from fieldRef without a request"


@dataclass(frozen=True, slots=True)
class Path:
    """One way to an NPU that a Pod has: which container (`containers[0] train`, "" for the Pod), and what exactly."""

    way: Way
    container: str
    what: str


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim of a Pod: a ResourceClaim or a ResourceClaimTemplate of its namespace (`spec.resourceClaims`), or a
    DeviceClass that is asked for like a resource (`deviceclass.resource.kubernetes.io/<class>`)."""

    kind: Literal["ResourceClaim", "ResourceClaimTemplate", "DeviceClass"]
    name: str


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DRA DeviceClass: whether it hands out Ascend chips, by its name or by the driver that its CEL selector
    names."""

    name: str
    ascend: bool
    extended_resource: str = ""


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """What a ResourceClaim or ResourceClaimTemplate asks for: DeviceClasses, and whether a selector of its own names a
    driver of Ascend chips."""

    classes: tuple[str, ...]
    ascend: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """Every way to an NPU that a Pod spec has by itself, and the claims that decide only with their DeviceClass.

    `resources` are the NPU resources asked for and not zero, each max(init containers, main ones). `servers` are the
    owners of which any one alone could serve all of them; empty when nothing is requested, or the names are of two
    owners.
    """

    paths: tuple[Path, ...] = ()
    resources: Mapping[str, int] = field(default_factory=dict)
    servers: frozenset[Owner] = frozenset()
    claims: tuple[ClaimRef, ...] = ()
    by_field: tuple[Path, ...] = ()
    """Ids from an annotation, of a Pod that requests nothing: use of chips, unless a claim accounts for it."""

    @property
    def unaccounted(self) -> tuple[Path, ...]:
        """The ways that no device plugin accounts for: ids in the environment and devices."""
        return tuple(path for path in self.paths if path.way in ("env", "device"))

    @property
    def shapes(self) -> tuple[Path, ...]:
        """The ways that prove nothing by themselves."""
        return tuple(path for path in self.paths if path.way == "shape")


def access_of(spec: Object, metadata: Object, settings: Settings) -> Access:
    """Return how a Pod with this `spec` and `metadata` reaches NPUs."""
    del metadata  # labels and annotations are no use of a chip, whatever they say
    containers = tuple(_containers(spec, ("containers", "initContainers", "ephemeralContainers")))
    resources = _requested(containers, settings)
    requests = tuple(
        Path("resource", container.name, f"{name}: {amount}")
        for container in containers
        for name, amount in _asked(container.body, settings).items()
        if amount > 0
    )
    claims = (*_claim_refs(spec), *_classes_asked_for(containers))
    unaccounted = tuple(_unaccounted(spec, containers, containers, settings, accounted=bool(requests)))
    by_field = tuple(path for path in unaccounted if path.what.endswith(_BY_FIELD)) if claims else ()
    return Access(
        paths=(*requests, *(path for path in unaccounted if path not in by_field)),
        resources=resources,
        servers=servers_of_all(resources, settings),
        claims=claims,
        by_field=by_field,
    )


def added_access(old_spec: Object, new_spec: Object, settings: Settings) -> tuple[Path, ...]:
    """Return the ways to an NPU that the ephemeral containers bring which `new_spec` has and `old_spec` has not."""
    known = {text(entry.get("name")) for entry in mappings(old_spec.get("ephemeralContainers"))}
    every = tuple(_containers(new_spec, ("containers", "initContainers", "ephemeralContainers")))
    added = tuple(
        container
        for container in _containers(new_spec, ("ephemeralContainers",))
        if text(container.body.get("name")) not in known
    )
    accounted = any(amount > 0 for container in every for amount in _asked(container.body, settings).values())
    return tuple(_unaccounted(new_spec, added, every, settings, accounted=accounted))


@dataclass(frozen=True, slots=True)
class _Container:
    name: str
    group: str
    body: Object


def _containers(spec: Object, groups: tuple[str, ...]) -> Iterator[_Container]:
    for group in groups:
        for position, body in enumerate(items(spec.get(group))):
            if isinstance(body, Mapping):
                yield _Container(f"{group}[{position}] {text(body.get('name'))}".rstrip(), group, body)


def _asked(container: Object, settings: Settings) -> dict[str, int]:
    """The NPU resources of one container, limits and requests together: the larger of both."""
    resources = mapping(container.get("resources"))
    asked = npu_quantities(resources.get("limits"), settings)
    for name, amount in npu_quantities(resources.get("requests"), settings).items():
        asked[name] = max(amount, asked.get(name, 0))
    return asked


def _requested(containers: tuple[_Container, ...], settings: Settings) -> dict[str, int]:
    """What the Pod needs at once: max(init, main); init containers that restart always run beside the main ones."""
    main: dict[str, int] = {}
    init: dict[str, int] = {}
    for container in containers:
        sidecar = container.group == "initContainers" and container.body.get("restartPolicy") == "Always"
        for name, amount in _asked(container.body, settings).items():
            if container.group == "initContainers" and not sidecar:
                init[name] = max(amount, init.get(name, 0))
            else:
                main[name] = main.get(name, 0) + amount
    return {name: amount for name in {**main, **init} if (amount := max(main.get(name, 0), init.get(name, 0))) > 0}


def _unaccounted(
    spec: Object,
    judged: tuple[_Container, ...],
    every: tuple[_Container, ...],
    settings: Settings,
    *,
    accounted: bool,
) -> Iterator[Path]:
    """Yield what the `judged` containers reach without the device plugin; evidence may stand in `every` container."""
    for container in judged:
        yield from _ids(container, accounted=accounted)
    mounts = [(container, path) for container in judged for path in _mounted(spec, container.body)]
    weak: list[tuple[_Container, str]] = []
    for container, path in mounts:
        if _CHIP.match(path):
            yield Path("device", container.name, f"hostPath {path}")
        else:
            weak.append((container, path))
    shapes = [(container, path) for container, path in weak if _is_shape(path, settings)]
    evidence = _Evidence(spec, every, settings)
    for container, path in shapes:
        yield Path("device" if evidence.proves(path) else "shape", container.name, f"hostPath {path}")


def _is_shape(path: str, settings: Settings) -> bool:
    return path in ("/", "/dev") or _is_driver_tree(path, settings)


def _is_driver_tree(path: str, settings: Settings) -> bool:
    configured = tuple(tree.rstrip("/") or "/" for tree in settings.driver_paths)
    below = (*configured, *(tree for tree in _DRIVER_TREES if tree.endswith("/driver")))
    return path in (*_DRIVER_TREES, *configured) or any(path.startswith(tree + "/") for tree in below)


class _Evidence:
    """What of a Pod makes a weak shape count: looked at over all of its containers together (DESIGN.md section 4)."""

    def __init__(self, spec: Object, every: tuple[_Container, ...], settings: Settings) -> None:
        paths = [path for container in every for path in _mounted(spec, container.body)]
        self._settings = settings
        self._privileged = any(at(container.body, "securityContext.privileged") is True for container in every)
        self._tree = any(_is_driver_tree(path, settings) for path in paths)
        self._variable = any(_has_ascend_variable(container.body) for container in every)
        self._runtime = spec.get("runtimeClassName") == "ascend"

    def proves(self, path: str) -> bool:
        if path in ("/", "/dev"):
            return self._tree or self._variable or self._runtime
        return self._privileged


def _mounted(spec: Object, container: Object) -> Iterator[str]:
    """Yield the cleaned host paths that the container mounts, subPath included."""
    volumes = {
        text(volume.get("name")): path
        for volume in mappings(spec.get("volumes"))
        if (path := text(at(volume, "hostPath.path")))
    }
    for mount in mappings(container.get("volumeMounts")):
        path = volumes.get(text(mount.get("name")), "")
        if path:
            yield mounted_path(path, mount)[0]


def _ids(container: _Container, *, accounted: bool) -> Iterator[Path]:
    """Yield the use of chips by environment. The last entry of a name wins, as the kubelet has it."""
    last: dict[str, Object] = {}
    for entry in mappings(container.body.get("env")):
        last[text(entry.get("name"))] = entry
    for name in (_IDS, _SPECS):
        if name not in last:
            continue
        entry = last[name]
        source = entry.get("valueFrom")
        if source is None:
            value = text(entry.get("value")).strip()
            if value.lower() not in _NO_IDS:
                yield Path("env", container.name, f"{name}={value[:40]}")
        elif "fieldRef" not in mapping(source):
            kind = next(iter(mapping(source)), "valueFrom")
            yield Path("env", container.name, f"{name} from {str(kind)[:40]}")
        elif not accounted:
            yield Path("env", container.name, f"{name}{_BY_FIELD}")


def _has_ascend_variable(container: Object) -> bool:
    """Whether an ASCEND_ variable says something; HAMi injects an empty one into everything."""
    last = {text(entry.get("name")): entry for entry in mappings(container.get("env"))}
    return any(
        name.startswith("ASCEND_")
        and (entry.get("valueFrom") is not None or text(entry.get("value")).strip().lower() not in _NO_IDS)
        for name, entry in last.items()
    )


def _claim_refs(spec: Object) -> Iterator[ClaimRef]:
    for entry in mappings(spec.get("resourceClaims")):
        claim, template = text(entry.get("resourceClaimName")), text(entry.get("resourceClaimTemplateName"))
        if claim:
            yield ClaimRef("ResourceClaim", claim)
        if template:
            yield ClaimRef("ResourceClaimTemplate", template)


def _classes_asked_for(containers: tuple[_Container, ...]) -> Iterator[ClaimRef]:
    names = {
        str(name).removeprefix(_CLASS_AS_RESOURCE)
        for container in containers
        for part in ("limits", "requests")
        for name, amount in mapping(at(container.body, f"resources.{part}")).items()
        if str(name).startswith(_CLASS_AS_RESOURCE) and units(amount) > 0
    }
    for name in sorted(names):
        yield ClaimRef("DeviceClass", name)


def claim_paths(
    access: Access,
    namespace: str,
    claims: Mapping[tuple[str, str, str], DeviceClaim],
    classes: Mapping[str, DeviceClass],
) -> tuple[Path, ...]:
    """Return the paths of those claims that ask for Ascend chips; where none does, what only a claim would account for.

    `claims` is by kind, namespace and name. A class that is not known is judged by its name.
    """
    found: list[Path] = []
    for ref in access.claims:
        claim = claims.get((ref.kind, namespace, ref.name), DeviceClaim(()))
        if ref.kind == "DeviceClass":
            claim = DeviceClaim((ref.name,))
        if claim.ascend:
            found.append(Path("claim", "", f"{ref.kind} {ref.name}: its selector names the NPU driver"))
        found += [
            Path("claim", "", f"{ref.kind} {ref.name}: DeviceClass {name}")
            for name in claim.classes
            if (classes[name].ascend if name in classes else _CLASS_NAME.match(name) is not None)
        ]
    return tuple(found) or access.by_field


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
    """Return what a ResourceClaim or ResourceClaimTemplate asks for, in any of its request forms."""
    spec = mapping(item.get("spec"))
    inner = mapping(spec.get("spec")) if isinstance(spec.get("spec"), Mapping) else spec
    names: list[str] = []
    ascend = False
    for request in mappings(at(inner, "devices.requests")):
        forms = [request, mapping(request.get("exactly")), *mappings(request.get("firstAvailable"))]
        names.extend(name for form in forms if (name := text(form.get("deviceClassName"))))
        ascend = ascend or any(_names_driver(form) for form in forms)
    return DeviceClaim(tuple(dict.fromkeys(names)), ascend)


def _names_driver(holder: Object) -> bool:
    """Whether a CEL selector of a class or of a request names a driver of Ascend chips."""
    said = [text(at(selector, "cel.expression")) for selector in mappings(holder.get("selectors"))]
    return any(f'"{driver}"' in one or f"'{driver}'" in one for one in said for driver in DRA_DRIVERS)
