"""The few fields of Kubernetes objects that decide ownership, as frozen records.

`webhook.ownership.reading` makes them from decoded objects; from there on nobody looks into an object again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from webhook.ownership.devices import DeviceClaim, DeviceClass
from webhook.ownership.memory import Memory
from webhook.ownership.owners import Owner
from webhook.ownership.scope import Selector, Toleration
from webhook.ownership.workload import Access


@dataclass(frozen=True, slots=True)
class Ref:
    """Which object: kind, namespace ("" when cluster-scoped), name. Prints as `Kind namespace/name`."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def slashed(self) -> str:
        """The form that the Lease and the audit record use: `Kind/namespace/name`, cluster-scoped `Kind/name`."""
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """One entry of `metadata.ownerReferences`."""

    group: str
    kind: str
    name: str
    uid: str
    controller: bool


@dataclass(frozen=True, slots=True)
class Meta:
    """What of an object's metadata decides. `managers` are the field managers that have written it."""

    ref: Ref
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    deleting: bool = False
    owners: tuple[OwnerReference, ...] = ()
    created: datetime | None = None
    managers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Malformed:
    """A present field whose value is of the wrong type: its path and the value as JSON-like text, cut short."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Demand:
    """That a custom resource asks, or does not ask, for an owner; and the field that says so."""

    owner: Owner
    asked: bool
    field: str


DEFAULT_DRIVER_VERSION = "25.5.0"
"""NPU Operator's default of driver.version (DOMAIN.md section 3)."""


@dataclass(frozen=True, slots=True)
class Base:
    """What of the base stack an NPUOperatorCtl switches (DOMAIN.md section 3); absent switches are true.

    `image` is everything that names the driver's image (repository, image.*), as one comparable text.
    """

    driver: bool = True
    driver_version: str = DEFAULT_DRIVER_VERSION
    driver_image: str = ""
    oci_runtime: bool = True
    auto_recover: bool = False


@dataclass(frozen=True, slots=True)
class CustomResource:
    """An object of a product that decides who owns: NPUOperatorCtl, NPUClusterPolicy, HAMi's, AmlCluster.

    `selector` is the nodes that it names, None when it names none. `effective` is false for an AmlCluster that is not
    managed: it asks for nothing; `removed` tells that it even takes the component away. `primary` is the NPUOperatorCtl
    that an NPUClusterPolicy was generated from, as `namespace/name`, empty when nothing says so; `makers` are the
    products' kinds that it says it was made for.
    """

    meta: Meta
    group: str
    demands: tuple[Demand, ...]
    malformed: tuple[Malformed, ...] = ()
    selector: Selector | None = None
    driver_host_path: str | None = None
    base: Base | None = None
    effective: bool = True
    removed: bool = False
    primary: str = ""
    makers: frozenset[str] = frozenset()

    def demand(self, owner: Owner) -> Demand | None:
        """Return what this resource says about `owner`, None when it says nothing."""
        return next((demand for demand in self.demands if demand.owner is owner), None)

    def asks(self, owner: Owner) -> bool:
        """Whether it asks for `owner` (a resource that is being deleted still asks; the caller looks at `deleting`)."""
        demand = self.demand(owner)
        return self.effective and demand is not None and demand.asked


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """A DaemonSet that is a device plugin (`owner`) or infrastructure (`owner` None).

    `makers` are the products' kinds that it says it was made for.
    """

    meta: Meta
    owner: Owner | None
    selector: Selector
    tolerations: tuple[Toleration, ...] = ()
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    makers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Pod:
    """A Pod that is a device plugin, or that reaches or may reach an NPU.

    `owner` is set for a device plugin's Pod, by its own structure. `pinned` is where its spec lets it run;
    `node` is where it is bound, or preset. `mirror` is a static Pod's mirror.
    """

    meta: Meta
    owner: Owner | None
    access: Access
    node: str = ""
    phase: str = ""
    ready: bool = False
    waiting_reason: str = ""
    pinned: Selector | None = None
    tolerations: tuple[Toleration, ...] = ()
    runtime_class: str = ""
    scheduler: str = ""
    mirror: bool = False

    @property
    def finished(self) -> bool:
        """Whether it holds nothing any more: Succeeded or Failed (DOMAIN.md section 6)."""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Node:
    """A node, with its NPU resources only: `allocatable` in whole units, `advertised` the keys of capacity and
    allocatable."""

    meta: Meta
    ready: bool
    cordoned: bool
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)
    advertised: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.meta.ref.name


@dataclass(frozen=True, slots=True)
class RuntimeClass:
    """A RuntimeClass: its name is in `meta`, and the handler that it means."""

    meta: Meta
    handler: str


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """A slice of devices that a DRA driver publishes for one node."""

    meta: Meta
    driver: str
    node: str


@dataclass(frozen=True, slots=True)
class DeviceClassRecord:
    """A DeviceClass (resource.k8s.io)."""

    meta: Meta
    device_class: DeviceClass


@dataclass(frozen=True, slots=True)
class DeviceClaimRecord:
    """A ResourceClaim or ResourceClaimTemplate (`meta.ref.kind` says which)."""

    meta: Meta
    device_claim: DeviceClaim


@dataclass(frozen=True, slots=True)
class HAMiDevices:
    """HAMi's ConfigMap `hami-scheduler-device`: the resources that its device configuration names."""

    meta: Meta
    resources: frozenset[str]


@dataclass(frozen=True, slots=True)
class MutatingWebhook:
    """A MutatingWebhookConfiguration of HAMi's, which rewrites Pods."""

    meta: Meta


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The guard's own Lease."""

    meta: Meta
    memory: Memory


Record = (
    CustomResource
    | DaemonSet
    | Pod
    | Node
    | RuntimeClass
    | ResourceSlice
    | DeviceClassRecord
    | DeviceClaimRecord
    | LeaseRecord
    | HAMiDevices
    | MutatingWebhook
)
"""Anything that the facts are made of."""
