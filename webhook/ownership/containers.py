"""Objects that hold others: deleting a CRD or a Namespace deletes what is in it (DESIGN.md section 4)."""

from collections.abc import Iterator
from dataclasses import replace

from webhook.ownership.change import Change
from webhook.ownership.facts import Facts
from webhook.ownership.fields import at, text
from webhook.ownership.objects import CustomResource, DaemonSet


def holds_others(change: Change) -> bool:
    """Whether the request deletes a CustomResourceDefinition or a Namespace."""
    request = change.request
    return request.operation == "DELETE" and request.resource in ("customresourcedefinitions", "namespaces")


def deletions_in(change: Change, facts: Facts) -> Iterator[Change]:
    """Yield the deletion of every custom resource and plugin DaemonSet that goes with the deleted CRD or Namespace.

    Instances of a CRD vanish from storage without any further admission; a namespace's cascade passes later.
    """
    request = change.request
    resources = (*facts.aml_clusters, *facts.operator_ctls, *facts.policies, *facts.hami_plugins)
    found: list[CustomResource | DaemonSet] = []
    if request.resource == "customresourcedefinitions":
        group, kind = text(at(request.old_object, "spec.group")), text(at(request.old_object, "spec.names.kind"))
        found += [one for one in resources if one.group == group and one.meta.ref.kind == kind]
    else:
        name = request.object_name
        found += [one for one in resources if one.meta.ref.namespace == name]
        found += [one for one in facts.daemon_sets if one.owner is not None and one.meta.ref.namespace == name]
    for record in found:
        ref = record.meta.ref
        implied = replace(
            request,
            group=record.group if isinstance(record, CustomResource) else "apps",
            kind=ref.kind,
            resource="daemonsets" if isinstance(record, DaemonSet) else ref.kind.lower() + "s",
            namespace=ref.namespace,
            name=ref.name,
            old_object={},
        )
        yield Change(implied, change.settings, deleted=record)
