"""workloads-running: an owner is not taken away from under a workload, nor brought in over another one's.

Denied is giving up, deleting or narrowing the owner of a settled scope while a Pod holds its chips on the nodes that it
loses, waits for a resource that it serves, or reaches its chips without an allocation: a change of owner moves no
running Pod. In a scope that starts or is in conflict the same list is a warning: the way back must stay open.

Denied is bringing an owner in while a Pod, on the nodes that it will serve, holds chips that another owner handed out:
the owner that settled last according to the guard's memory, else the one that the resource's name tells. Where the name
does not tell, and for chips that nobody handed out, it is a warning. Getting the same owner back is never stopped by
its own Pods.

Counted are Pods that hold chips, idle ones and mirror Pods included; not finished ones, and not the NPU stack's own.
While the facts are unknown, giving up is denied.
"""

from collections.abc import Iterator

from webhook.ownership.change import Change, Claiming
from webhook.ownership.giving_up import Loss, asks_by_itself, losses
from webhook.ownership.holders import Holder, held_from, holders, serves, shown
from webhook.ownership.owners import Owner
from webhook.ownership.phase import Phase
from webhook.ownership.procedure import next_step
from webhook.ownership.rollout import nodes_of
from webhook.ownership.situation import Situation
from webhook.ownership.verdict import Finding

ID = "workloads-running"

_FAMILY = frozenset({Owner.NATIVE, Owner.MINDCLUSTER})
"""Both serve the same names in the same way: a Pod of the one is a Pod of the other."""


def judge(change: Change, standing: Situation) -> Iterator[Finding]:
    """Yield what this rule has to say about `change`."""
    for loss in losses(change, standing.facts, standing.settings):
        yield from _lost(change, loss, standing)
    if standing.unknown is None and asks_by_itself(change, standing.facts):
        for claiming in change.activated:
            yield from _comes(change, claiming, standing)


def _lost(change: Change, loss: Loss, standing: Situation) -> Iterator[Finding]:
    doing = "give up" if loss.whole else "take nodes away from"
    if standing.unknown is not None:
        yield Finding(
            ID,
            "deny",
            f"{change.ref} would {doing} {loss.owner} while it is unknown which workloads run",
            standing.unknown.evidence,
            next_step(standing.unknown, standing.facts, standing.settings),
            causes=(loss.field,),
        )
        return
    phase = _phase(loss.owner, standing)
    if phase is None or phase.name not in ("settled", "starting", "conflict"):
        return
    found = held_from(loss.owner, loss.nodes, standing.facts, standing.settings)
    if not found:
        return
    yield Finding(
        ID,
        "deny" if phase.name == "settled" else "warn",
        f"{change.ref} would {doing} {loss.owner} under {_count(found)}",
        shown(found),
        f"stop them first ({_stop(found[0])}), then repeat this{_in_place(change)}",
        causes=(loss.field,),
    )


def _in_place(change: Change) -> str:
    """For those who delete and apply again what they only want to change."""
    deletes = change.request.operation == "DELETE" and change.deleted is None
    return f"; to change {change.ref} instead of removing it, apply the new one in place" if deletes else ""


def _phase(owner: Owner, standing: Situation) -> Phase | None:
    pools = standing.pools_of(owner)
    return pools[0].phase if pools else None


def _count(found: tuple[Holder, ...]) -> str:
    return "a workload" if len(found) == 1 else f"{len(found)} workloads"


def _stop(holder: Holder) -> str:
    ref = holder.pod.meta.ref
    return f"kubectl -n {ref.namespace} delete pod {ref.name}, or scale its owner to 0"


def _comes(change: Change, claiming: Claiming, standing: Situation) -> Iterator[Finding]:
    owner = claiming.owner
    nodes = {node.name for node in nodes_of((claiming.selector,), standing.facts, standing.settings)}
    before = _last_owner(owner, standing)
    foreign: list[Holder] = []
    unclear: list[Holder] = []
    for holder in holders(standing.facts, standing.settings):
        if holder.pod.node not in nodes or before is owner:
            continue
        if holder.hold == "reaches":
            unclear.append(holder)
        elif before is not None or not serves(owner, holder):
            foreign.append(holder)
        elif not holder.pod.access.servers <= _kin(owner):
            unclear.append(holder)
    if foreign:
        whose = f" of {before}" if before is not None else ""
        yield Finding(
            ID,
            "deny",
            f"{change.ref} would bring in {owner} under {_count(tuple(foreign))}{whose}",
            shown(tuple(foreign)),
            f"stop them first ({_stop(foreign[0])}), then repeat this",
            causes=(claiming.field,),
        )
    if unclear:
        yield Finding(
            ID,
            "warn",
            f"{change.ref} brings in {owner} under {_count(tuple(unclear))} that may hold another owner's chips",
            shown(tuple(unclear)),
            f"stop what is not of {owner} ({_stop(unclear[0])})",
        )


def _kin(owner: Owner) -> frozenset[Owner]:
    return _FAMILY if owner in _FAMILY else frozenset({owner})


def _last_owner(owner: Owner, standing: Situation) -> Owner | None:
    """The owner that settled last, by the memory: a settled one, or one that was given up. None when that is not
    clear."""
    memory = standing.facts.memory
    last = set(memory.settled) | {claim.owner for claim in memory.claims if claim.state == "leaving"}
    if owner in last:
        return owner
    return next(iter(last)) if len(last) == 1 else None
