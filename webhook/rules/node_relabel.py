"""node-relabel: a node does not change its owner by a label.

Denied is a change of a node's labels, also through `nodes/status`, that puts the node under a second owner: one that
selects it after the change, while another one selects it before or after. Moving an idle node from one pool to the
other takes two steps. An owner that somebody has just claimed counts already. Denied is one that takes a node with a
running NPU workload out of the selector of its owner.

While the facts are unknown, a change of a label that some selector in sight names is denied, any other passes.
"""

from collections.abc import Iterator

from webhook.ownership.change import Change
from webhook.ownership.holders import holders, shown
from webhook.ownership.objects import Node
from webhook.ownership.owners import Owner
from webhook.ownership.procedure import next_step
from webhook.ownership.scope import Selector
from webhook.ownership.situation import Situation, owners_of_labels, selectors_by_owner
from webhook.ownership.verdict import Finding, Observation

ID = "node-relabel"


def judge(change: Change, standing: Situation) -> Iterator[Finding]:
    """Yield what this rule has to say about `change`."""
    before, after = change.before, change.after
    if not isinstance(before, Node) or not isinstance(after, Node) or not change.labels_changed:
        return
    changed = {
        key
        for key in before.meta.labels.keys() | after.meta.labels.keys()
        if before.meta.labels.get(key) != after.meta.labels.get(key)
    }
    selectors = selectors_by_owner(standing)
    if standing.unknown is not None:
        named = {key for found in selectors.values() for selector in found for key in selector.labels}
        if changed & named:
            yield Finding(
                ID,
                "deny",
                f"{change.ref} would change a label that decides who owns it, while that is unknown",
                standing.unknown.evidence,
                next_step(standing.unknown, standing.facts, standing.settings),
                causes=tuple(f"metadata.labels.{key}" for key in sorted(changed & named)),
            )
        return
    old, new = owners_of_labels(before.meta.labels, selectors), owners_of_labels(after.meta.labels, selectors)
    causes = tuple(f"metadata.labels.{key}" for key in sorted(changed))
    if new - old and len(old | new) > 1:
        yield _second(change, old, new, selectors, causes)
    if old - new:
        yield from _taken_out(change, before, old - new, standing, causes)


def _second(
    change: Change,
    old: frozenset[Owner],
    new: frozenset[Owner],
    selectors: dict[Owner, tuple[Selector, ...]],
    causes: tuple[str, ...],
) -> Finding:
    seen = tuple(
        Observation(str(owner), "", f"selects {selector}")
        for owner in Owner
        if owner in old | new
        for selector in dict.fromkeys(map(str, selectors[owner]))
    )
    gained = " and ".join(owner for owner in Owner if owner in new - old)
    return Finding(
        ID,
        "deny",
        f"{change.ref} would come under {gained} in the same write in which another owner selects it",
        seen,
        "take the label of the one owner away first, wait until its plugin Pod has left, then set the other's",
        causes=causes,
    )


def _taken_out(
    change: Change, node: Node, lost: frozenset[Owner], standing: Situation, causes: tuple[str, ...]
) -> Iterator[Finding]:
    busy = tuple(holder for holder in holders(standing.facts, standing.settings) if holder.pod.node == node.name)
    if not busy:
        return
    owners = " and ".join(owner for owner in Owner if owner in lost)
    ref = busy[0].pod.meta.ref
    yield Finding(
        ID,
        "deny",
        f"{change.ref} would leave the nodes of {owners} while NPU workloads run on it",
        shown(busy),
        f"stop them first (kubectl -n {ref.namespace} delete pod {ref.name}), then repeat this",
        causes=causes,
    )
