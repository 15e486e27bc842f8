"""The protocol of the claim as functions over values: what to write, given what was read (DESIGN.md section 6).

Whether a claim of somebody else stands in the way is said by the rule `second-owner`, from the same memory. What makes
it safe is the order: read the Lease, read the facts and judge, swap against what was read, admit.
"""

from dataclasses import replace
from datetime import datetime

from webhook.ownership.memory import Claim, Memory
from webhook.ownership.owners import Owner


def activate(memory: Memory, claim: Claim, *, pools: bool) -> Memory:
    """Return the memory in which `claim` brings its owner in.

    It takes the place of every other claim; in scope mode `selectors` (`pools`) of those that it may meet on a node.
    """
    return replace(memory, exists=True, claims=(*_kept(memory, claim, pools=pools), claim))


def give_up(memory: Memory, claim: Claim, *, pools: bool) -> Memory:
    """Return the memory in which `claim` gives its owner up: it is no longer settled, and binds Pods.

    The claim keeps when its owner was last brought in: such a write may still be on its way.
    """
    last = memory.claim_of(claim.owner)
    activated = (last.time if last.state == "activating" else last.activated) if last is not None else None
    leaving = replace(claim, state="leaving", activated=activated)
    settled = memory.settled - {claim.owner}
    return replace(memory, exists=True, settled=settled, claims=(*_kept(memory, claim, pools=pools), leaving))


def _kept(memory: Memory, claim: Claim, *, pools: bool) -> tuple[Claim, ...]:
    return tuple(
        other
        for other in memory.claims
        if pools and other.owner is not claim.owner and other.selector.contradicts(claim.selector)
    )


def settle(memory: Memory, owner: Owner, *, pools: bool) -> Memory:
    """Return the memory in which `owner` has settled: its claim is fulfilled, and what was left before is history."""
    if not pools:
        return replace(memory, exists=True, settled=frozenset({owner}), claims=())
    others = tuple(claim for claim in memory.claims if claim.owner is not owner and claim.state == "activating")
    return replace(memory, exists=True, settled=memory.settled | {owner}, claims=others)


def adopt(memory: Memory, owner: Owner, now: datetime) -> Memory:
    """Return the memory of a guard that came to a cluster in operation: its owner has settled long ago."""
    adopted = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    return replace(memory, exists=True, settled=memory.settled | {owner}, adopted=adopted)


def forget(memory: Memory, owner: Owner) -> Memory:
    """Return the memory without `owner` among the settled: the facts contradict it."""
    return replace(memory, settled=memory.settled - {owner})
