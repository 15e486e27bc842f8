"""What a change does with Pods, and which pools a Pod may run in."""

from collections.abc import Iterator
from dataclasses import replace

from webhook.ownership.change import Change
from webhook.ownership.facts import Facts
from webhook.ownership.fields import mapping
from webhook.ownership.objects import Node, Pod
from webhook.ownership.phase import selectors_of
from webhook.ownership.rollout import nodes_of
from webhook.ownership.scope import Selector
from webhook.ownership.situation import Pool, Situation
from webhook.ownership.templates import templates_in
from webhook.ownership.workload import Path, added_access


def added_paths(change: Change, facts: Facts) -> tuple[Path, ...]:
    """Return the ways to an NPU that a Pod write adds: all of a new Pod's, those of added ephemeral containers."""
    pod = change.after
    if not isinstance(pod, Pod):
        return ()
    if change.request.sub_resource == "ephemeralcontainers":
        old, new = change.request.old_object or {}, change.request.object or {}
        return added_access(mapping(old.get("spec")), mapping(new.get("spec")), change.settings)
    return facts.paths_of(pod)


def pods_of_templates(change: Change) -> Iterator[tuple[str, Change]]:
    """Yield, for every Pod template in the new object, its dotted path and the creation of a Pod from it."""
    item = change.request.object
    if item is None:
        return
    for template in templates_in(item):
        metadata = {"name": change.ref.name, **template.metadata, "namespace": change.request.namespace}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.spec}
        request = replace(
            change.request,
            operation="CREATE",
            group="",
            version="v1",
            kind="Pod",
            resource="pods",
            sub_resource="",
            object=pod,
            old_object=None,
        )
        yield template.path, Change(request, change.settings)


def pools_open_to(pod: Pod, standing: Situation) -> tuple[Pool, ...]:
    """Return the pools whose phase decides about `pod`: one that is settled is enough.

    One that is pinned to a pool is judged by that pool. One that is not is judged by the owner that alone serves what
    it asks for, else by every pool that it fits (DESIGN.md section 3).
    """
    if standing.whole is not None:
        return standing.pools
    fitting = tuple(pool for pool in standing.pools if _fits(pod, pool, standing))
    if len(fitting) == 1:
        return fitting
    serving = tuple(pool for pool in standing.pools if pool.owners & pod.access.servers)
    owners = {owner for pool in serving for owner in pool.owners & pod.access.servers}
    if len(owners) == 1:
        chosen = tuple(pool for pool in serving if pool in fitting)
        return chosen or serving
    return fitting or standing.pools


def nodes_that_fit(pod: Pod, pool: Pool, standing: Situation) -> list[Node]:
    """Return the nodes of the pool's owners that the Pod may run on, by its own labels and affinity."""
    pinned = pod.pinned or Selector()
    selectors = tuple(selector for owner in pool.owners for selector in selectors_of(owner, standing.traces))
    own = nodes_of(selectors, standing.facts, standing.settings) if selectors else ()
    return [node for node in own if pinned.selects(node.name, node.meta.labels)]


def _fits(pod: Pod, pool: Pool, standing: Situation) -> bool:
    pinned = pod.pinned or Selector()
    nodes = [standing.facts.nodes[name] for name in pool.nodes]
    if any(pinned.selects(node.name, node.meta.labels) for node in nodes):
        return True
    return not nodes and not any(pinned.contradicts(selector) for selector in pool.selectors)
