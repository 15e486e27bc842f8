"""What a change takes away from an owner: all of it, or some of its nodes (DESIGN.md section 4)."""

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.ownership.change import Change, Claiming
from webhook.ownership.facts import Facts
from webhook.ownership.objects import CustomResource, DaemonSet
from webhook.ownership.owners import Owner
from webhook.ownership.rollout import nodes_of
from webhook.ownership.scope import Selector
from webhook.ownership.settings import Settings
from webhook.ownership.traces import daemon_set_is_generated, policy_is_generated, selectors_of_daemon_sets


@dataclass(frozen=True, slots=True)
class Loss:
    """That `owner` is given up (`whole`), or that it loses `nodes`, by their names."""

    owner: Owner
    whole: bool
    nodes: frozenset[str]
    field: str


def losses(change: Change, facts: Facts, settings: Settings) -> Iterator[Loss]:
    """Yield what owners lose by `change`. Writes to what an operator generates take nothing away by themselves."""
    if not asks_by_itself(change, facts):
        return
    for claiming in change.surrendered:
        others = _other_selectors(change, claiming.owner, facts)
        before = _nodes(_served(claiming, facts), facts, settings)
        if not others:
            yield Loss(claiming.owner, True, before, claiming.field)
        else:
            yield Loss(claiming.owner, False, before - _nodes(others, facts, settings), claiming.field)
    old = {claiming.owner: claiming for claiming in change.claimed_before}
    for claiming in change.moved:
        others = (*_other_selectors(change, claiming.owner, facts), claiming.selector)
        before = _nodes((old[claiming.owner].selector,), facts, settings)
        dropped = before - _nodes(others, facts, settings)
        if dropped:
            yield Loss(claiming.owner, False, dropped, claiming.field)


def asks_by_itself(change: Change, facts: Facts) -> bool:
    """Whether the changed object is one that says who shall own; what an operator makes only follows."""
    records = [record for record in (change.before, change.after) if record is not None]
    for record in records:
        if isinstance(record, DaemonSet) and daemon_set_is_generated(record, facts):
            return False
        if isinstance(record, CustomResource) and record.meta.ref.kind == "NPUClusterPolicy":
            return not policy_is_generated(record, facts)
    return True


def _served(claiming: Claiming, facts: Facts) -> tuple[Selector, ...]:
    """Where the plugin of this object runs: the selector that it names, else its owner's DaemonSets'."""
    if not claiming.selector.everywhere:
        return (claiming.selector,)
    return selectors_of_daemon_sets(claiming.owner, facts) or (claiming.selector,)


def _other_selectors(change: Change, owner: Owner, facts: Facts) -> tuple[Selector, ...]:
    """The nodes that further objects ask `owner` for, besides the changed one and what is made from or by it."""
    chain = ("NPUOperatorCtl", "AmlCluster", "NPUClusterPolicy")
    changed = change.ref
    found: list[Selector] = []
    for resource in (*facts.operator_ctls, *facts.hami_plugins):
        ref = resource.meta.ref
        if (ref.kind, ref.namespace, ref.name) == (changed.kind, changed.namespace, changed.name):
            continue
        if changed.kind == "AmlCluster" and ref.kind in chain:
            continue
        if resource.asks(owner) and not resource.meta.deleting:
            found.append(resource.selector or Selector())
    for daemon_set in facts.daemon_sets:
        same = daemon_set.meta.ref == changed
        wanted = daemon_set.owner is owner and not same and not daemon_set.meta.deleting
        if wanted and not daemon_set_is_generated(daemon_set, facts):
            found.append(daemon_set.selector)
    return tuple(found)


def _nodes(selectors: tuple[Selector, ...], facts: Facts, settings: Settings) -> frozenset[str]:
    return frozenset(node.name for node in nodes_of(selectors, facts, settings))
