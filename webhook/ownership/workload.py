"""Whether and how a Pod reaches an NPU (DOMAIN.md section 6).

Total: any JSON in any place gives an answer. Not visible here, and so out of reach: envFrom, and the environment that
an image brings along.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from webhook.ownership.devices import ClaimRef, DeviceClaim, DeviceClass, asked_by_name, claim_refs, resolved
from webhook.ownership.fields import at, items, mapping, mappings, text
from webhook.ownership.mounts import Mount, holds_chips, host_mounts, host_paths, is_chip, is_driver_tree
from webhook.ownership.owners import Owner
from webhook.ownership.request import Object
from webhook.ownership.resources import npu_quantities, servers_of_all
from webhook.ownership.settings import Settings

Way = Literal["resource", "env", "device", "claim", "shape"]
"""How an NPU is reached: an extended resource; ids in the environment; a chip's device file (or an equivalent shape
with Ascend evidence beside it); a DRA claim; or a shape (/dev, driver tree) that proves nothing by itself."""

_IDS = "ASCEND_VISIBLE_DEVICES"
_SPECS = "ASCEND_VNPU_SPECS"
_NO_IDS = ("", "void")
_BY_FIELD = " from fieldRef without a request"


@dataclass(frozen=True, slots=True)
class Path:
    """One way to an NPU that a Pod has: which container (`containers[0] train`, "" for the Pod), and what exactly."""

    way: Way
    container: str
    what: str


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


def access_of(spec: Object, metadata: Object, settings: Settings, status: Object | None = None) -> Access:
    """Return how a Pod with this `spec` and `metadata` reaches NPUs.

    `status` is an existing Pod's: it names the claims that were made for it.
    """
    del metadata  # labels and annotations are no use of a chip, whatever they say
    containers = tuple(_containers(spec, ("containers", "initContainers", "ephemeralContainers")))
    resources = _requested(containers, settings)
    requests = tuple(
        Path("resource", container.name, f"{name}: {amount}")
        for container in containers
        for name, amount in _asked(container.body, settings).items()
        if amount > 0
    )
    bodies = [container.body for container in containers]
    claims = tuple(dict.fromkeys((*claim_refs(spec, status or {}), *asked_by_name(bodies, settings))))
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
    paths = host_paths(spec)
    if not paths:
        return
    evidence = _Evidence(spec, every, paths, settings)
    weak: list[Path] = []
    for container in judged:
        for mount in host_mounts(container.body, paths):
            what = f"hostPath {mount.shown}"
            if is_chip(mount):
                yield Path("device", container.name, what)
            elif holds_chips(mount) or is_driver_tree(mount, settings):
                weak.append(Path("device" if evidence.proves(mount) else "shape", container.name, what))
    yield from weak


class _Evidence:
    """What of a Pod makes a weak shape count: looked at over all of its containers together (DESIGN.md section 4)."""

    def __init__(
        self, spec: Object, every: tuple[_Container, ...], paths: Mapping[str, str], settings: Settings
    ) -> None:
        self._privileged = any(at(container.body, "securityContext.privileged") is True for container in every)
        self._speaks = spec.get("runtimeClassName") == "ascend" or any(
            _has_ascend_variable(container.body)
            or any(is_driver_tree(mount, settings) for mount in host_mounts(container.body, paths))
            for container in every
        )

    def proves(self, mount: Mount) -> bool:
        return self._speaks if holds_chips(mount) else self._privileged


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


def claim_paths(
    access: Access,
    namespace: str,
    claims: Mapping[tuple[str, str, str], DeviceClaim],
    classes: Mapping[str, DeviceClass],
) -> tuple[Path, ...]:
    """Return the paths of those claims that ask for Ascend chips; where none does, what only a claim would account for.

    `claims` is by kind, namespace and name. A class that is not known is judged by its name. A claim that is not known
    may be one of chips: it counts where ids from an annotation stand beside it.
    """
    found = tuple(
        Path("claim", "", what) for ref in access.claims for what in resolved(ref, namespace, claims, classes)
    )
    if found or not access.by_field:
        return found
    unknown = tuple(
        Path("claim", "", f"{ref.kind} {ref.name}: is not known, and ids from an annotation stand beside it")
        for ref in access.claims
        if ref.kind.startswith("ResourceClaim") and (ref.kind, namespace, ref.name) not in claims
    )
    return unknown or access.by_field
