"""Whether and how a Pod reaches an NPU (DOMAIN.md section 6)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from webhook.ownership.owners import Owner
from webhook.ownership.request import Object
from webhook.ownership.settings import Settings

Way = Literal["resource", "env", "device", "claim", "shape"]
"""How an NPU is reached: an extended resource; ids in the environment; a chip's device file (or an equivalent shape with
Ascend evidence beside it); a DRA claim; or a shape (/dev, driver tree, privileged) that proves nothing by itself."""


@dataclass(frozen=True, slots=True)
class Path:
    """One way to an NPU that a Pod has: which container (`containers[0] train`, "" for the Pod), and what exactly."""

    way: Way
    container: str
    what: str


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim that a Pod refers to in `spec.resourceClaims`: a ResourceClaim or a ResourceClaimTemplate of its namespace."""

    kind: Literal["ResourceClaim", "ResourceClaimTemplate"]
    name: str


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DRA DeviceClass: whether it hands out Ascend chips, by its name or by the driver that its CEL selector names."""

    name: str
    ascend: bool
    extended_resource: str = ""


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """The DeviceClasses that a ResourceClaim or ResourceClaimTemplate asks for."""

    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """Every way to an NPU that a Pod spec has by itself, and the claims that decide only with their DeviceClass.

    `resources` are the NPU resources asked for and not zero. `servers` are the owners of which any one alone could
    serve all of them; empty when nothing is requested, or when the names are of two owners.
    """

    paths: tuple[Path, ...] = ()
    resources: Mapping[str, int] = field(default_factory=dict)
    servers: frozenset[Owner] = frozenset()
    claims: tuple[ClaimRef, ...] = ()


def access_of(spec: Object, metadata: Object, settings: Settings) -> Access:
    """Return how a Pod with this `spec` and `metadata` reaches NPUs."""
    raise NotImplementedError
