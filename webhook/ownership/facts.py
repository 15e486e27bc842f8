"""The frozen picture of a cluster that everything else is computed from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Self, TypeVar

from webhook.ownership.devices import DeviceClaim, DeviceClass
from webhook.ownership.memory import Memory
from webhook.ownership.objects import (
    CustomResource,
    DaemonSet,
    DeviceClaimRecord,
    DeviceClassRecord,
    HAMiDevices,
    LeaseRecord,
    MutatingWebhook,
    Node,
    Pod,
    Record,
    ResourceSlice,
    RuntimeClass,
)
from webhook.ownership.owners import Owner
from webhook.ownership.workload import Path, claim_paths


@dataclass(frozen=True, eq=False)
class Facts:
    """A cluster at one instant. Every collection is sorted, so that the order of what was read never shows.

    `now` is the clock to judge ages by, `age` how long ago this picture was last known to be complete, `missing` the
    ids (`webhook.ownership.kinds.FactKind.id`) of the essential kinds that could not be read, each with the reason;
    `absent` the ids of the kinds that the API server does not serve.
    """

    now: datetime
    age: timedelta = timedelta()
    missing: Mapping[str, str] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    operator_ctls: tuple[CustomResource, ...] = ()
    policies: tuple[CustomResource, ...] = ()
    hami_plugins: tuple[CustomResource, ...] = ()
    aml_clusters: tuple[CustomResource, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    pods: tuple[Pod, ...] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    runtime_classes: tuple[RuntimeClass, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    device_classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    device_claims: Mapping[tuple[str, str, str], DeviceClaim] = field(default_factory=dict)
    hami_resources: frozenset[str] = frozenset()
    hami_webhook: bool = False
    memory: Memory = field(default_factory=Memory)
    memo: dict[str, object] = field(default_factory=dict, repr=False)
    """What was derived from this picture already; shared by copies that differ in `now`, `age` and `memory`."""

    @classmethod
    def of(
        cls,
        records: Iterable[Record],
        *,
        now: datetime,
        age: timedelta = timedelta(),
        missing: Mapping[str, str] | None = None,
        absent: frozenset[str] = frozenset(),
    ) -> Self:
        """Sort `records` into a picture (the parameters are the fields of the same name)."""
        customs: dict[str, list[CustomResource]] = {}
        daemon_sets: list[DaemonSet] = []
        pods: list[Pod] = []
        nodes: dict[str, Node] = {}
        runtime_classes: list[RuntimeClass] = []
        slices: list[ResourceSlice] = []
        classes: dict[str, DeviceClass] = {}
        claims: dict[tuple[str, str, str], DeviceClaim] = {}
        memory = Memory()
        hami_resources: frozenset[str] = frozenset()
        hami_webhook = False
        for record in records:
            ref = record.meta.ref
            match record:
                case CustomResource():
                    customs.setdefault(ref.kind, []).append(record)
                case DaemonSet():
                    daemon_sets.append(record)
                case Pod():
                    pods.append(record)
                case Node():
                    nodes[ref.name] = record
                case RuntimeClass():
                    runtime_classes.append(record)
                case ResourceSlice():
                    slices.append(record)
                case DeviceClassRecord():
                    classes[ref.name] = record.device_class
                case HAMiDevices():
                    hami_resources |= record.resources
                case MutatingWebhook():
                    hami_webhook = True
                case LeaseRecord():
                    memory = record.memory
                case DeviceClaimRecord():
                    claims[ref.kind, ref.namespace, ref.name] = record.device_claim
        return cls(
            now=now,
            age=age,
            missing=dict(missing or {}),
            absent=absent,
            operator_ctls=_sorted(customs.get("NPUOperatorCtl", [])),
            policies=_sorted(customs.get("NPUClusterPolicy", [])),
            hami_plugins=_sorted(customs.get("HAMiAscendDevicePlugin", [])),
            aml_clusters=_sorted(customs.get("AmlCluster", [])),
            daemon_sets=_sorted(daemon_sets),
            pods=_sorted(pods),
            nodes=dict(sorted(nodes.items())),
            runtime_classes=_sorted(runtime_classes),
            resource_slices=_sorted(slices),
            device_classes=classes,
            device_claims=claims,
            hami_resources=hami_resources,
            hami_webhook=hami_webhook,
            memory=memory,
        )

    @cached_property
    def daemon_sets_by_uid(self) -> Mapping[str, DaemonSet]:
        """The DaemonSets that matter, by uid."""
        return {daemon_set.meta.uid: daemon_set for daemon_set in self.daemon_sets if daemon_set.meta.uid}

    @cached_property
    def plugin_pods(self) -> tuple[tuple[Owner, Pod], ...]:
        """The unfinished Pods of device plugins, with their owner: that of their DaemonSet, else by their own
        structure."""
        owned = ((self.owner_of(pod), pod) for pod in self.pods if not pod.finished)
        return tuple((owner, pod) for owner, pod in owned if owner is not None)

    @cached_property
    def pods_by_name(self) -> Mapping[tuple[str, str], Pod]:
        """Every Pod that matters, by namespace and name."""
        return {(pod.meta.ref.namespace, pod.meta.ref.name): pod for pod in self.pods}

    def owner_of(self, pod: Pod) -> Owner | None:
        """Return whose plugin Pod this is, None when it is none."""
        daemon_set = self.daemon_set_of(pod)
        return daemon_set.owner if daemon_set is not None and daemon_set.owner is not None else pod.owner

    def daemon_set_of(self, pod: Pod) -> DaemonSet | None:
        """Return the plugin's or infrastructure's DaemonSet that controls `pod`: same namespace, same uid."""
        for reference in pod.meta.owners:
            if reference.controller and reference.kind == "DaemonSet":
                found = self.daemon_sets_by_uid.get(reference.uid)
                if found is not None and found.meta.ref.namespace == pod.meta.ref.namespace:
                    return found
        return None

    def paths_of(self, pod: Pod) -> tuple[Path, ...]:
        """Return every way that `pod` reaches NPUs, its claims resolved with the DeviceClasses of this cluster."""
        if not pod.access.claims:
            return pod.access.paths
        resolved = claim_paths(pod.access, pod.meta.ref.namespace, self.device_claims, self.device_classes)
        return (*pod.access.paths, *resolved)


_R = TypeVar("_R", CustomResource, DaemonSet, Pod, RuntimeClass, ResourceSlice)


def _sorted(records: list[_R]) -> tuple[_R, ...]:
    return tuple(sorted(records, key=lambda record: (record.meta.ref.namespace, record.meta.ref.name, record.meta.uid)))
