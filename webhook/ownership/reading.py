"""From a decoded Kubernetes object to the record of its fields that decide. Total: any object gives a record or
None."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from webhook.ownership.custom_resources import read_custom_resource
from webhook.ownership.devices import device_claim, device_class
from webhook.ownership.fields import at, items, mapping, mappings, text, texts
from webhook.ownership.kinds import HAMI_DEVICES
from webhook.ownership.makers import makers_of
from webhook.ownership.memory import LEASE_NAME, read_memory
from webhook.ownership.objects import (
    DaemonSet,
    DeviceClaimRecord,
    DeviceClassRecord,
    HAMiDevices,
    LeaseRecord,
    Meta,
    MutatingWebhook,
    Node,
    OwnerReference,
    Pod,
    Record,
    Ref,
    ResourceSlice,
    RuntimeClass,
    Taint,
)
from webhook.ownership.owners import plugin_owner
from webhook.ownership.request import Object
from webhook.ownership.resources import npu_quantities
from webhook.ownership.scope import NODE_NAME, Requirement, Selector, Toleration
from webhook.ownership.settings import Settings
from webhook.ownership.workload import access_of


def read(item: Object, settings: Settings) -> Record | None:
    """Return the record of `item`, or None when it decides nothing (another kind, an ordinary Pod or DaemonSet)."""
    group, kind = group_of(item), text(item.get("kind"))
    reader = _READERS.get((group, kind))
    if reader is not None:
        return reader(item, settings)
    return read_custom_resource(item, read_meta(item), group, settings)


def group_of(item: Object) -> str:
    """Return the API group of an object, "" for the core group."""
    group, slash, _ = text(item.get("apiVersion")).partition("/")
    return group if slash else ""


def read_meta(item: Object) -> Meta:
    """Return what of the object's metadata decides."""
    metadata = mapping(item.get("metadata"))
    return Meta(
        ref=Ref(
            kind=text(item.get("kind")),
            namespace=text(metadata.get("namespace")),
            name=text(metadata.get("name")) or text(metadata.get("generateName")),
        ),
        uid=text(metadata.get("uid")),
        labels=texts(metadata.get("labels")),
        annotations=texts(metadata.get("annotations")),
        deleting=bool(metadata.get("deletionTimestamp")),
        owners=tuple(_owner_reference(entry) for entry in mappings(metadata.get("ownerReferences"))),
        created=read_time(metadata.get("creationTimestamp")),
        managers=frozenset(text(entry.get("manager")) for entry in mappings(metadata.get("managedFields"))),
    )


def _owner_reference(entry: Object) -> OwnerReference:
    return OwnerReference(
        group=group_of(entry),
        kind=text(entry.get("kind")),
        name=text(entry.get("name")),
        uid=text(entry.get("uid")),
        controller=entry.get("controller") is True,
    )


def read_time(value: Any) -> datetime | None:
    """Return a Kubernetes time stamp (RFC 3339, or what YAML made of it), None when it is none."""
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(text(value))
    except ValueError:
        return None


def read_selector(spec: Object) -> Selector:
    """Return where a Pod with this `spec` may run: nodeSelector, required node affinity, nodeName."""
    required = at(spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution")
    terms = tuple(_term(term) for term in mappings(mapping(required).get("nodeSelectorTerms")))
    name = text(spec.get("nodeName"))
    if name:
        preset = Requirement(NODE_NAME, "In", (name,))
        terms = tuple((*term, preset) for term in terms) or ((preset,),)
    return Selector(labels=texts(spec.get("nodeSelector")), terms=terms)


def _term(term: Object) -> tuple[Requirement, ...]:
    expressions = [_requirement(entry) for entry in mappings(term.get("matchExpressions"))]
    names = [_requirement(entry) for entry in mappings(term.get("matchFields"))]
    # A term without any expression matches no node (kubernetes/api core/v1 NodeSelectorTerm).
    return tuple(expressions + names) or (Requirement("", "In", ()),)


def _requirement(entry: Object) -> Requirement:
    return Requirement(
        key=text(entry.get("key")),
        operator=text(entry.get("operator")),
        values=tuple(text(value) for value in items(entry.get("values"))),
    )


def _tolerations(spec: Object) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            text(entry.get("key")), text(entry.get("operator")), text(entry.get("value")), text(entry.get("effect"))
        )
        for entry in mappings(spec.get("tolerations"))
    )


def _daemon_set(item: Object, settings: Settings) -> DaemonSet | None:
    meta = read_meta(item)
    owner = plugin_owner(item, settings)
    if owner is None and not names_infrastructure(meta.ref, settings):
        return None
    template = mapping(at(item, "spec.template"))
    spec = mapping(template.get("spec"))
    return DaemonSet(
        meta=meta,
        owner=owner,
        selector=read_selector(spec),
        tolerations=_tolerations(spec),
        pod_labels=texts(at(template, "metadata.labels")),
        makers=makers_of(mapping(item.get("metadata")), settings),
    )


def names_infrastructure(ref: Ref, settings: Settings) -> bool:
    """Whether `identities.infrastructure` lists a DaemonSet of this name, with its namespace or without."""
    listed = settings.identities.infrastructure
    return ref.name in listed or f"{ref.namespace}/{ref.name}" in listed


def read_pod(item: Object, settings: Settings) -> Pod:
    """Return the record of a Pod, whatever it does."""
    spec, status = mapping(item.get("spec")), mapping(item.get("status"))
    metadata = mapping(item.get("metadata"))
    meta = read_meta(item)
    states = [
        *mappings(status.get("initContainerStatuses")),
        *mappings(status.get("containerStatuses")),
    ]
    return Pod(
        meta=meta,
        owner=plugin_owner(item, settings),
        access=access_of(spec, metadata, settings, status),
        node=text(spec.get("nodeName")),
        phase=text(status.get("phase")),
        ready=_condition(status, "Ready"),
        waiting_reason=next((reason for state in states if (reason := text(at(state, "state.waiting.reason")))), ""),
        pinned=read_selector(spec),
        tolerations=_tolerations(spec),
        runtime_class=text(spec.get("runtimeClassName")),
        scheduler=text(spec.get("schedulerName")),
        mirror="kubernetes.io/config.mirror" in meta.annotations,
    )


def _pod(item: Object, settings: Settings) -> Pod | None:
    pod = read_pod(item, settings)
    # What the scheduler bound for an extended resource of a DeviceClass has a claim of its own in its status.
    claims = [ref for ref in pod.access.claims if ref.kind != "ExtendedResource" or not pod.node]
    decides = pod.owner is not None or pod.access.paths or claims
    return pod if decides else None


def _condition(status: Object, kind: str) -> bool:
    return any(
        entry.get("type") == kind and entry.get("status") == "True" for entry in mappings(status.get("conditions"))
    )


def read_node(item: Object, settings: Settings) -> Node:
    """Return the record of a Node."""
    spec, status = mapping(item.get("spec")), mapping(item.get("status"))
    allocatable = npu_quantities(status.get("allocatable"), settings)
    capacity = npu_quantities(status.get("capacity"), settings)
    return Node(
        meta=read_meta(item),
        ready=_condition(status, "Ready"),
        cordoned=spec.get("unschedulable") is True,
        taints=tuple(
            Taint(text(entry.get("key")), text(entry.get("value")), text(entry.get("effect")))
            for entry in mappings(spec.get("taints"))
        ),
        allocatable=allocatable,
        advertised=frozenset((*allocatable, *capacity)),
    )


def _runtime_class(item: Object, settings: Settings) -> RuntimeClass:
    del settings
    return RuntimeClass(read_meta(item), text(item.get("handler")))


def _resource_slice(item: Object, settings: Settings) -> ResourceSlice:
    del settings
    spec = mapping(item.get("spec"))
    return ResourceSlice(read_meta(item), text(spec.get("driver")), text(spec.get("nodeName")))


def _device_class(item: Object, settings: Settings) -> DeviceClassRecord:
    return DeviceClassRecord(read_meta(item), device_class(item, settings))


def _device_claim(item: Object, settings: Settings) -> DeviceClaimRecord:
    del settings
    return DeviceClaimRecord(read_meta(item), device_claim(item))


def _lease(item: Object, settings: Settings) -> LeaseRecord | None:
    meta = read_meta(item)
    ours = meta.ref.name == LEASE_NAME and meta.ref.namespace == settings.namespace
    return LeaseRecord(meta, read_memory(item)) if ours else None


_RESOURCE_NAME = re.compile(r"resourceName:\s*[\"']?([A-Za-z0-9./_-]{1,253})")


def _hami_devices(item: Object, settings: Settings) -> HAMiDevices | None:
    del settings
    meta = read_meta(item)
    if meta.ref.name != HAMI_DEVICES:
        return None
    said = "\n".join(texts(item.get("data")).values())
    return HAMiDevices(meta, frozenset(_RESOURCE_NAME.findall(said)))


def _mutating_webhook(item: Object, settings: Settings) -> MutatingWebhook | None:
    del settings
    names = [text(entry.get("name")) for entry in mappings(item.get("webhooks"))]
    return MutatingWebhook(read_meta(item)) if any(name.endswith("hami.io") for name in names) else None


_READERS: dict[tuple[str, str], Callable[[Object, Settings], Record | None]] = {
    ("apps", "DaemonSet"): _daemon_set,
    ("", "Pod"): _pod,
    ("", "Node"): read_node,
    ("node.k8s.io", "RuntimeClass"): _runtime_class,
    ("resource.k8s.io", "ResourceSlice"): _resource_slice,
    ("resource.k8s.io", "DeviceClass"): _device_class,
    ("resource.k8s.io", "ResourceClaim"): _device_claim,
    ("resource.k8s.io", "ResourceClaimTemplate"): _device_claim,
    ("coordination.k8s.io", "Lease"): _lease,
    ("", "ConfigMap"): _hami_devices,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _mutating_webhook,
}
