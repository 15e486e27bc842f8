"""What a request changes: the record before, the record after, and which owner it brings in or moves."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from webhook.ownership.fields import at, mapping, text
from webhook.ownership.objects import CustomResource, DaemonSet, Malformed, Pod, Record, Ref
from webhook.ownership.owners import Owner, plugin_owner, plugin_spec
from webhook.ownership.reading import group_of, read, read_pod, read_selector
from webhook.ownership.request import Object, Request
from webhook.ownership.scope import Selector
from webhook.ownership.settings import Settings


@dataclass(frozen=True, slots=True)
class Claiming:
    """That an object asks for an owner on some nodes; `field` is where it says so."""

    owner: Owner
    selector: Selector
    field: str


@dataclass(frozen=True)
class Change:
    """A request together with the records of its old and new object."""

    request: Request
    settings: Settings
    deleted: CustomResource | DaemonSet | None = None
    """Set when the request deletes a container of this object (its CRD, its namespace), and so the object itself."""

    @cached_property
    def ref(self) -> Ref:
        """The object that is changed."""
        if self.deleted is not None:
            return self.deleted.meta.ref
        request = self.request
        kind = text(request.subject.get("kind")) or request.kind
        return Ref(kind, request.namespace, request.object_name)

    @cached_property
    def before(self) -> Record | None:
        """The record of the stored object, None when there is none or it decides nothing."""
        return self.deleted if self.deleted is not None else self._read(self.request.old_object)

    @cached_property
    def after(self) -> Record | None:
        """The record of the object as it would be stored, None when there is none or it decides nothing."""
        return self._read(self.request.object)

    def _read(self, item: Object | None) -> Record | None:
        if item is None:
            return None
        if _is_pod(item):
            return read_pod(item, self.settings)
        return read(item, self.settings)

    @cached_property
    def plugin_before(self) -> Owner | None:
        """Whose device plugin the stored object is, by structure."""
        return _plugin(self.request.old_object, self.settings)

    @cached_property
    def plugin_after(self) -> Owner | None:
        """Whose device plugin the object would be, by structure."""
        return _plugin(self.request.object, self.settings)

    @cached_property
    def custom_resources(self) -> tuple[CustomResource, ...]:
        """The custom resource before and after, those of both that there are."""
        return tuple(record for record in (self.before, self.after) if isinstance(record, CustomResource))

    @cached_property
    def claimed_before(self) -> tuple[Claiming, ...]:
        """What the stored object asks for."""
        return _claimings(self.before, self.request.old_object, self.plugin_before, self.settings)

    @cached_property
    def claimed_after(self) -> tuple[Claiming, ...]:
        """What the object would ask for."""
        return _claimings(self.after, self.request.object, self.plugin_after, self.settings)

    @cached_property
    def activated(self) -> tuple[Claiming, ...]:
        """The owners that are asked for now and were not asked for before by this object."""
        before = {claiming.owner for claiming in self.claimed_before}
        return tuple(claiming for claiming in self.claimed_after if claiming.owner not in before)

    @cached_property
    def surrendered(self) -> tuple[Claiming, ...]:
        """The owners that were asked for before and are not asked for now."""
        after = {claiming.owner for claiming in self.claimed_after}
        return tuple(claiming for claiming in self.claimed_before if claiming.owner not in after)

    @cached_property
    def moved(self) -> tuple[Claiming, ...]:
        """The owners that were asked for before and are asked for now on other nodes."""
        before = {claiming.owner: claiming.selector for claiming in self.claimed_before}
        return tuple(
            claiming
            for claiming in self.claimed_after
            if claiming.owner in before and before[claiming.owner] != claiming.selector
        )

    @cached_property
    def malformed(self) -> tuple[Malformed, ...]:
        """The activation fields of the new object that are of the wrong type."""
        return self.after.malformed if isinstance(self.after, CustomResource) and self.after.effective else ()

    @cached_property
    def malformed_before(self) -> tuple[Malformed, ...]:
        """The activation fields that were of the wrong type already."""
        return self.before.malformed if isinstance(self.before, CustomResource) and self.before.effective else ()

    @cached_property
    def deleting_already(self) -> bool:
        """Whether the stored object is being deleted; read from the old object only (LESSONS.md section 3)."""
        return bool(at(self.request.old_object, "metadata.deletionTimestamp"))

    @cached_property
    def changes_nothing(self) -> bool:
        """Whether an UPDATE leaves everything but bookkeeping (managedFields, resourceVersion, generation) as it
        was."""
        old, new = self.request.old_object, self.request.object
        return self.request.operation == "UPDATE" and _content(old) == _content(new)

    @cached_property
    def removes_finalizers_only(self) -> bool:
        """Whether an UPDATE of an object that is being deleted takes finalizers away and does nothing else."""
        old, new = self.request.old_object, self.request.object
        if self.request.operation != "UPDATE" or not self.deleting_already:
            return False
        kept, had = _finalizers(new), _finalizers(old)
        return kept < had and _content(old, without="finalizers") == _content(new, without="finalizers")

    @cached_property
    def marks_changed(self) -> bool:
        """Whether the labels or the ownerReferences of an UPDATE differ: they can be changed through a status, too."""
        old, new = at(self.request.old_object, "metadata"), at(self.request.object, "metadata")
        return self.labels_changed or mapping(old).get("ownerReferences") != mapping(new).get("ownerReferences")

    @cached_property
    def labels_changed(self) -> bool:
        """Whether the labels of an UPDATE differ."""
        old, new = self.request.old_object, self.request.object
        return mapping(at(old, "metadata.labels")) != mapping(at(new, "metadata.labels"))


def _is_pod(item: Object) -> bool:
    return item.get("kind") == "Pod" and group_of(item) == ""


def _plugin(item: Object | None, settings: Settings) -> Owner | None:
    return plugin_owner(item, settings) if item is not None else None


def _claimings(
    record: Record | None, item: Object | None, plugin: Owner | None, settings: Settings
) -> tuple[Claiming, ...]:
    match record:
        case CustomResource():
            selector = record.selector or Selector()
            return tuple(
                Claiming(demand.owner, selector, demand.field) for demand in record.demands if record.asks(demand.owner)
            )
        case DaemonSet():
            return (Claiming(record.owner, record.selector, "spec.template"),) if record.owner is not None else ()
        case Pod():
            return (Claiming(plugin, record.pinned or Selector(), "spec"),) if plugin is not None else ()
        case _:
            if plugin is None or item is None:
                return ()
            return (Claiming(plugin, read_selector(plugin_spec(item, settings)), "spec"),)


_BOOKKEEPING = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")


def _content(item: Object | None, *, without: str = "") -> Mapping[str, Any]:
    if item is None:
        return {}
    metadata = {
        key: value
        for key, value in mapping(item.get("metadata")).items()
        if key not in _BOOKKEEPING and key != without and value not in ({}, [], None)
    }
    return {**{key: value for key, value in item.items() if key != "status"}, "metadata": metadata}


def _finalizers(item: Object | None) -> frozenset[str]:
    value = at(item, "metadata.finalizers")
    return frozenset(text(entry) for entry in value) if isinstance(value, list) else frozenset()
