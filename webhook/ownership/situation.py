"""Where a cluster stands: its scopes, each with its phase, and which of them a Pod or a change is about.

In scope mode `cluster` there is one pool, everything. In mode `selectors` owners whose selectors contradict each other
have a pool each; owners that may meet on a node share one; what nobody selects is a pool without an owner.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from webhook.ownership.facts import Facts
from webhook.ownership.memory import LEASE_NAME, Memory
from webhook.ownership.objects import Node
from webhook.ownership.owners import Owner
from webhook.ownership.phase import Phase, phase_of, selectors_of, unknown_phase
from webhook.ownership.rollout import is_ascend_node, nodes_of
from webhook.ownership.scope import NODE_NAME, Selector
from webhook.ownership.settings import Settings
from webhook.ownership.traces import Trace, traces
from webhook.ownership.verdict import Observation


@dataclass(frozen=True)
class Pool:
    """One ownership scope: its phase, the selectors of its owners, the names of its nodes."""

    phase: Phase
    selectors: tuple[Selector, ...]
    nodes: frozenset[str]
    owners: frozenset[Owner]


@dataclass(frozen=True)
class Situation:
    """All pools of a cluster, and the traces that they were found by. `unknown` is set when facts are missing or
    old."""

    facts: Facts
    settings: Settings
    pools: tuple[Pool, ...]
    traces: tuple[Trace, ...]
    unknown: Phase | None = None

    @property
    def whole(self) -> Pool | None:
        """The only pool, None when there are several."""
        return self.pools[0] if len(self.pools) == 1 else None

    @property
    def active(self) -> tuple[Owner, ...]:
        """Every active owner."""
        return tuple(owner for owner in Owner if any(trace.owner is owner for trace in self.traces))

    def pool_of_node(self, name: str) -> Pool | None:
        """Return the pool that the node `name` belongs to, None when it belongs to none."""
        return next((pool for pool in self.pools if name in pool.nodes), self.whole)

    def pools_of(self, owner: Owner) -> tuple[Pool, ...]:
        """Return the pools in which `owner` is active."""
        return tuple(pool for pool in self.pools if owner in pool.owners)

    def rivals(self, owner: Owner, selectors: tuple[Selector, ...]) -> tuple[Trace, ...]:
        """Return the traces of every other owner that `owner` would meet if it were active on `selectors`."""
        others = {trace.owner for trace in self.traces} - {owner}
        if self.settings.scope.mode == "cluster":
            met = others
        else:
            met = {other for other in others if _meet(selectors, _all_selectors(other, self.traces), self.facts)}
        return tuple(trace for trace in self.traces if trace.owner in met)

    def pool_for(self, owner: Owner, selectors: tuple[Selector, ...]) -> Pool:
        """Return the pool that a change about `owner` on `selectors` concerns: its own, else one that it would meet."""
        if self.whole is not None:
            return self.whole
        own = self.pools_of(owner)
        if own:
            return own[0]
        names = {node.name for node in nodes_of(selectors, self.facts, self.settings)}
        return next((pool for pool in self.pools if names & pool.nodes), self.pools[-1])


def situation(facts: Facts, settings: Settings) -> Situation:
    """Return where the cluster of `facts` stands.

    The pools are computed once for a picture: a request costs no more in a large cluster than in a small one.
    """
    known = facts.memo.get("situation")
    if not isinstance(known, Situation) or known.settings is not settings or known.facts.memory != facts.memory:
        known = _judge_picture(facts, settings)
        facts.memo["situation"] = known
    unknown = unknown_phase(facts, settings)
    if unknown is None:
        return replace(known, facts=facts, pools=tuple(_given_up(pool, facts, settings) for pool in known.pools))
    owners = frozenset(known.active)
    return replace(known, facts=facts, pools=(Pool(unknown, (), frozenset(facts.nodes), owners),), unknown=unknown)


def selectors_by_owner(standing: Situation) -> dict[Owner, tuple[Selector, ...]]:
    """Return the label selectors of every owner that is active, or that somebody has just claimed."""
    facts, timeout = standing.facts, standing.settings.claim.timeout
    found: dict[Owner, list[Selector]] = {}
    for trace in standing.traces:
        if trace.selector is not None and trace.source != "pod" and trace.selector.labels:
            found.setdefault(trace.owner, []).append(trace.selector)
    for claim in facts.memory.claims:
        if claim.selector.labels and claim.brought_in_recently(facts.now, timeout):
            found.setdefault(claim.owner, []).append(claim.selector)
    return {owner: tuple(selectors) for owner, selectors in found.items()}


def owners_of_labels(labels: Mapping[str, str], selectors: Mapping[Owner, tuple[Selector, ...]]) -> frozenset[Owner]:
    """Return the owners that select a node with these labels."""
    return frozenset(owner for owner, found in selectors.items() if any(one.selects_labels(labels) for one in found))


def rolled_out(facts: Facts, settings: Settings) -> frozenset[Owner]:
    """Return the owners that the facts alone show as settled, whatever is remembered and however old the facts are.

    Computed once for a picture, like the pools.
    """
    known = facts.memo.get("rolled_out")
    if not isinstance(known, frozenset):
        alone = replace(facts, memory=Memory(), age=timedelta(), memo={})
        known = frozenset(
            pool.phase.owner
            for pool in situation(alone, settings).pools
            if pool.phase.name == "settled" and pool.phase.owner is not None
        )
        facts.memo["rolled_out"] = known
    return known


def _given_up(pool: Pool, facts: Facts, settings: Settings) -> Pool:
    """A pool whose owner is being given up is leaving already, before that write has landed (DESIGN.md section 6)."""
    owner = pool.phase.owner
    claim = facts.memory.claim_of(owner) if owner is not None else None
    if owner is None or claim is None or claim.state != "leaving" or pool.phase.name not in ("settled", "starting"):
        return pool
    if not claim.is_young(facts.now, settings.claim.timeout):
        return pool
    seen = Observation("Lease " + LEASE_NAME, "", f"says that {claim.user} gives {owner} up ({claim.object})")
    return replace(pool, phase=Phase("leaving", (owner,), (seen, *pool.phase.evidence)))


def _judge_picture(facts: Facts, settings: Settings) -> Situation:
    found = traces(facts)
    if settings.scope.mode == "cluster":
        phase = phase_of(found, facts, settings)
        pools: tuple[Pool, ...] = (Pool(phase, (), frozenset(facts.nodes), frozenset(phase.owners)),)
    else:
        pools = tuple(_pools(found, facts, settings))
    return Situation(facts, settings, pools, found)


def _pools(found: tuple[Trace, ...], facts: Facts, settings: Settings) -> Iterable[Pool]:
    taken: set[str] = set()
    for group in _groups(found, facts):
        own = tuple(trace for trace in found if trace.owner in group)
        selectors = tuple(selector for owner in group for selector in selectors_of(owner, found))
        names = frozenset(node.name for node in nodes_of(selectors, facts, settings))
        taken |= names
        yield Pool(phase_of(own, facts, settings), selectors, names, frozenset(group))
    rest = frozenset(name for name, node in facts.nodes.items() if name not in taken and is_ascend_node(node, settings))
    if rest or not found:
        yield Pool(phase_of((), facts, settings), (), rest, frozenset())


def _groups(found: tuple[Trace, ...], facts: Facts) -> list[list[Owner]]:
    """The active owners, together those that may meet on a node."""
    groups: list[list[Owner]] = []
    for owner in (owner for owner in Owner if any(trace.owner is owner for trace in found)):
        meeting = [
            group
            for group in groups
            if any(_meet(_all_selectors(owner, found), _all_selectors(member, found), facts) for member in group)
        ]
        merged = [member for group in meeting for member in group]
        groups = [group for group in groups if group not in meeting]
        groups.append([*merged, owner])
    return groups


def _all_selectors(owner: Owner, found: tuple[Trace, ...]) -> tuple[Selector, ...]:
    """Everything that may bring `owner` to a node: its plugins, its custom resources, and the nodes its Pods are on."""
    chosen = tuple(trace.selector for trace in found if trace.owner is owner and trace.selector is not None)
    return chosen or (Selector(),)


def _meet(ours: tuple[Selector, ...], theirs: tuple[Selector, ...], facts: Facts) -> bool:
    """Whether two owners may meet: selectors that do not contradict each other, or a node that both select today."""
    for one in ours:
        for other in theirs:
            if _pinned_to_nodes(one) or _pinned_to_nodes(other):
                if any(_selects(one, node) and _selects(other, node) for node in facts.nodes.values()):
                    return True
            elif not one.contradicts(other):
                return True
    return False


def _pinned_to_nodes(selector: Selector) -> bool:
    """Whether it names nodes, as a Pod's does that is bound; affinity by labels alone may mean any node tomorrow."""
    named = all(any(one.key == NODE_NAME for one in term) for term in selector.terms)
    return not selector.labels and bool(selector.terms) and named


def _selects(selector: Selector, node: Node) -> bool:
    return selector.selects(node.name, node.meta.labels)
