"""node-relabel: a node does not change its owner by a label.

Denied is a change of a node's labels, also through `nodes/status`, that puts the node under a second owner: one that
selects it after the change, while another one selects it before or after, or still has its plugin's Pod on it. Moving
an idle node from one pool to the other takes two steps. An owner that somebody has just claimed counts already. Denied
is one that takes a node with a running NPU workload out of the selector of its owner.

Such a change is remembered in the Lease until its write has landed (`webhook.claim.claims`), and who brings an owner in
is told of it: where another owner selects the node, by the rule `second-owner`; where another owner's Pod alone is left
on a node that comes into the new owner's pool, by this one.

While the facts are unknown, a change of a label that some selector in sight names is denied, any other passes.
"""

from collections.abc import Iterator

from webhook.ownership.change import Change
from webhook.ownership.holders import holders, shown
from webhook.ownership.objects import Node, Pod
from webhook.ownership.owners import Owner
from webhook.ownership.procedure import next_step
from webhook.ownership.scope import Selector
from webhook.ownership.situation import Situation, owners_of_labels, selectors_by_owner
from webhook.ownership.verdict import Finding, Observation

ID = "node-relabel"


def judge(change: Change, standing: Situation) -> Iterator[Finding]:
    """Yield what this rule has to say about `change`."""
    yield from _comes_meanwhile(change, standing)
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
    left = tuple(one for one in _plugins_on(after.name, standing) if one[0] not in old | new)
    if new - old and (len(old | new) > 1 or left):
        yield _second(change, old, new, selectors, left, causes)
    if old - new:
        yield from _taken_out(change, before, old - new, standing, causes)


def _second(
    change: Change,
    old: frozenset[Owner],
    new: frozenset[Owner],
    selectors: dict[Owner, tuple[Selector, ...]],
    left: tuple[tuple[Owner, Pod], ...],
    causes: tuple[str, ...],
) -> Finding:
    seen = tuple(
        Observation(str(owner), "", f"selects {selector}")
        for owner in Owner
        if owner in old | new
        for selector in dict.fromkeys(map(str, selectors[owner]))
    )
    gained = " and ".join(owner for owner in Owner if owner in new - old)
    selected = len(old | new) > 1
    when = "in the same write in which another owner selects it" if selected else "while another owner's Pod is on it"
    return Finding(
        ID,
        "deny",
        f"{change.ref} would come under {gained} {when}",
        (*seen, *(_is_on(pod) for _, pod in left)),
        "take the label of the one owner away first, wait until its plugin Pod has left, then set the other's",
        causes=causes,
    )


def _plugins_on(node: str, standing: Situation) -> tuple[tuple[Owner, Pod], ...]:
    """The plugin Pods on a node that have not finished, each with its owner."""
    return tuple((owner, pod) for owner, pod in standing.facts.plugin_pods if pod.node == node)


def _is_on(pod: Pod) -> Observation:
    return Observation(str(pod.meta.ref), "", f"is on node {pod.node}")


def _comes_meanwhile(change: Change, standing: Situation) -> Iterator[Finding]:
    """An owner comes while a node that still has another owner's plugin Pod is on its way into its pool.

    By its stored labels nobody meets on that node yet, and the write that will make them meet has been admitted. A Pod
    that a system controller makes is no such coming: its DaemonSet has been judged.
    """
    facts, timeout = standing.facts, standing.settings.claim.timeout
    if standing.unknown is not None or change.request.user.name in change.settings.identities.system_controllers:
        return
    for claiming in (*change.activated, *change.moved):
        for relabel in facts.memory.relabels:
            node, age = facts.nodes.get(relabel.node), facts.now - relabel.time
            if node is None or age >= timeout or claiming.selector.selects_labels(node.meta.labels):
                continue
            left = tuple(pod for owner, pod in _plugins_on(node.name, standing) if owner is not claiming.owner)
            if not left or not claiming.selector.selects_labels(relabel.applied(node.meta.labels)):
                continue
            seconds = int(age.total_seconds())
            seen = f"were changed by {relabel.user} {seconds} s ago, so that {claiming.selector} selects it"
            yield Finding(
                ID,
                "deny",
                f"{change.ref} would bring in {claiming.owner} on Node {node.name} while another owner's Pod is on it",
                (Observation(f"Node {node.name}", "metadata.labels", seen), *map(_is_on, left)),
                "wait until that Pod has left the node, then repeat this",
                causes=(claiming.field,),
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
