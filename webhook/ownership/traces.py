"""Every trace that an owner leaves in a cluster (DESIGN.md section 3): while one is left, the owner is active."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from webhook.ownership.facts import Facts
from webhook.ownership.objects import CustomResource, DaemonSet
from webhook.ownership.owners import Owner
from webhook.ownership.scope import NODE_NAME, Requirement, Selector
from webhook.ownership.verdict import Observation

_GENERATORS = {
    Owner.NATIVE: frozenset({"NPUClusterPolicy", "NPUOperatorCtl"}),
    Owner.VNPU: frozenset({"NPUClusterPolicy", "NPUOperatorCtl"}),
    Owner.DRA: frozenset({"NPUClusterPolicy", "NPUOperatorCtl"}),
    Owner.HAMI: frozenset({"HAMiAscendDevicePlugin"}),
}


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace of `owner`. `desired` tells that it asks for the owner; `selector` is the nodes that it means, if any.

    Where an owner's nodes are, its DaemonSets (source `plugin`) say before its custom resources do.
    """

    owner: Owner
    observation: Observation
    desired: bool
    source: Literal["resource", "plugin", "pod", "node"]
    selector: Selector | None = None


def traces(facts: Facts) -> tuple[Trace, ...]:
    """Return every trace of every owner, the objects that ask first."""
    found = (*_asking(facts), *_managing(facts), *_daemon_sets(facts), *_pods(facts))
    return found or tuple(_unseen(facts))


def policy_is_generated(policy: CustomResource, facts: Facts) -> bool:
    """Whether an NPUClusterPolicy is an NPUOperatorCtl's output; else it is the administrator's own (plain
    openFuyao)."""
    says_so = bool(policy.primary) or "NPUOperatorCtl" in policy.makers
    return bool(facts.operator_ctls) or "npuoperatorctls" in facts.missing or says_so


def daemon_set_is_generated(daemon_set: DaemonSet, facts: Facts) -> bool:
    """Whether an operator makes this plugin: an ownerReference says so, or its owning custom resource exists.

    Never by name alone (DESIGN.md section 4). MindCluster's and foreign plugins are nobody's output.
    """
    generators = _GENERATORS.get(daemon_set.owner) if daemon_set.owner is not None else None
    if generators is None:
        return False
    if daemon_set.makers & generators:
        return True
    match daemon_set.owner:
        case Owner.HAMI:
            return bool(facts.hami_plugins)
        case Owner.NATIVE:
            return bool(facts.operator_ctls or facts.policies)
        case owner:
            return any(
                resource.asks(owner) for resource in (*facts.operator_ctls, *facts.policies) if owner is not None
            )


def foreign_is_unseen(facts: Facts) -> bool:
    """Whether the foreign owner of this cluster is one that no object shows (a systemd unit, an unknown kind)."""
    return not any(daemon_set.owner is Owner.FOREIGN for daemon_set in facts.daemon_sets)


def _unseen(facts: Facts) -> Iterator[Trace]:
    """A foreign owner that was adopted and that no object shows: there while a Ready node advertises chips."""
    if Owner.FOREIGN not in facts.memory.settled or not facts.memory.adopted:
        return
    for node in facts.nodes.values():
        served = [f"{key}: {amount}" for key, amount in sorted(node.allocatable.items()) if amount > 0]
        if node.ready and served:
            seen = Observation(
                f"Node {node.name}", "status.allocatable", f"has {', '.join(served)} of an unseen plugin"
            )
            yield Trace(Owner.FOREIGN, seen, desired=True, source="node")


def _asking(facts: Facts) -> Iterator[Trace]:
    for resource in (*facts.aml_clusters, *facts.operator_ctls, *facts.hami_plugins):
        for demand in resource.demands:
            if not resource.asks(demand.owner):
                continue
            if resource.meta.deleting:
                observation = Observation(
                    str(resource.meta.ref), "metadata.deletionTimestamp", "is set: it is being deleted"
                )
            elif demand.owner is Owner.HAMI:
                observation = Observation(str(resource.meta.ref), "", "exists")
            else:
                observation = Observation(str(resource.meta.ref), demand.field, "is true")
            yield Trace(
                demand.owner,
                observation,
                desired=not resource.meta.deleting,
                source="resource",
                selector=resource.selector,
            )


def _managing(facts: Facts) -> Iterator[Trace]:
    for policy in facts.policies:
        own = not policy_is_generated(policy, facts)
        for demand in policy.demands:
            if policy.asks(demand.owner):
                yield Trace(
                    demand.owner,
                    Observation(str(policy.meta.ref), demand.field, "is true"),
                    desired=own and not policy.meta.deleting,
                    source="resource",
                    selector=policy.selector,
                )


def _daemon_sets(facts: Facts) -> Iterator[Trace]:
    for daemon_set in facts.daemon_sets:
        if daemon_set.owner is None:
            continue
        state = "is being deleted" if daemon_set.meta.deleting else "exists"
        standalone = not daemon_set_is_generated(daemon_set, facts)
        yield Trace(
            daemon_set.owner,
            Observation(str(daemon_set.meta.ref), "", state),
            desired=standalone and not daemon_set.meta.deleting,
            source="plugin",
            selector=daemon_set.selector,
        )


def _pods(facts: Facts) -> Iterator[Trace]:
    for owner, pod in facts.plugin_pods:
        if pod.node:
            yield Trace(
                owner,
                Observation(str(pod.meta.ref), "", f"is on node {pod.node}"),
                desired=False,
                source="pod",
                selector=Selector(terms=((Requirement(NODE_NAME, "In", (pod.node,)),),)),
            )


def selectors_of_daemon_sets(owner: Owner, facts: Facts) -> tuple[Selector, ...]:
    """Return the selectors of the plugins of `owner`."""
    return tuple(daemon_set.selector for daemon_set in facts.daemon_sets if daemon_set.owner is owner)
