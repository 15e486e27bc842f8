"""The protocol of the claim as functions over values: what to write, given what was read (DESIGN.md section 6).

Whether a claim of somebody else stands in the way is said by the rule `second-owner`, from the same memory. In which
order these functions are used, so that they are safe, is told by `webhook.claim.course`.

`pools` tells that scope mode `selectors` is on: then claims of owners that can never meet stand side by side.
`now` is the API server's clock before the facts were read, `timeout` its request time-out (`claim.timeout`).
"""

from dataclasses import replace
from datetime import datetime, timedelta

from webhook.ownership.memory import Claim, Memory
from webhook.ownership.owners import Owner

Stored = frozenset[tuple[Owner, str]]
"""Which objects ask for which owner, as the facts show them; objects as a claim names them."""


def activate(memory: Memory, claim: Claim, stored: Stored, timeout: timedelta, *, pools: bool) -> Memory:
    """Return the memory in which `claim` brings its owner in.

    It takes the place of every other claim; in scope mode `selectors` of those that it may meet on a node. It keeps
    when the same owner was brought in by a write that the facts do not show yet. Where they show its own object already
    (a second creation of one name), to see that later will prove nothing. And it keeps when the owner was given up: if
    that write comes through another object, it may come after this one.
    """
    last = memory.claim_of(claim.owner)
    earlier = claim.time if (claim.owner, claim.object) in stored else _on_its_way(last, claim, stored, timeout)
    left = last.given_up if last is not None and last.given_up_recently(claim.time, timeout) else None
    settled = left is not None and last is not None and last.settled
    claim = replace(claim, state="activating", activated=earlier, left=left, settled=settled)
    return replace(memory, exists=True, claims=(*_kept(memory, claim, pools=pools), claim))


def _on_its_way(last: Claim | None, claim: Claim, stored: Stored, timeout: timedelta) -> datetime | None:
    """When the owner was brought in before, if such a write may still come."""
    if last is None:
        return None
    again = last.uid == claim.uid  # the API server asks once more about the same write
    seen = last.state == "activating" and (again or (last.owner, last.object) in stored)
    time = last.activated if seen else last.brought_in
    return time if time is not None and claim.time - time < timeout else None


def give_up(memory: Memory, claim: Claim, *, pools: bool) -> Memory:
    """Return the memory in which `claim` gives its owner up: it is no longer settled, and binds Pods.

    The claim keeps when its owner was last brought in: such a write may still be on its way. It keeps, too, that the
    owner had settled, also where somebody else gave it up before and has not finished, or never did: its Pods run on.
    """
    last = memory.claim_of(claim.owner)
    leaving = replace(
        claim,
        state="leaving",
        activated=last.brought_in if last is not None else None,
        left=None,
        settled=claim.owner in memory.settled or (last is not None and last.settled),
    )
    settled = memory.settled - {claim.owner}
    return replace(memory, exists=True, settled=settled, claims=(*_kept(memory, claim, pools=pools), leaving))


def _kept(memory: Memory, claim: Claim, *, pools: bool) -> tuple[Claim, ...]:
    return tuple(
        other
        for other in memory.claims
        if pools and other.owner is not claim.owner and other.selector.contradicts(claim.selector)
    )


def take_back(memory: Memory, owner: Owner) -> Memory:
    """Return the memory in which nobody gives `owner` up any more, and it is settled again.

    Of its leaving claim remains when the owner was last brought in.
    """
    others = tuple(claim for claim in memory.claims if claim.owner is not owner)
    own = memory.claim_of(owner)
    if own is not None and own.state == "leaving":
        own = replace(own, state="activating", time=own.activated, activated=None) if own.activated else None
    if own is not None:
        own = replace(own, left=None, settled=False)
    return replace(
        memory, exists=True, settled=memory.settled | {owner}, claims=(*others, own) if own is not None else others
    )


def settle(memory: Memory, owner: Owner, stored: Stored, now: datetime, timeout: timedelta, *, pools: bool) -> Memory:
    """Return the memory in which `owner` has settled: its claim is fulfilled, and what was left before is history.

    A claim is kept while a write of it may still be on its way: a second object of the same owner, or a second creation
    of the same one, may be stored after the first has been given up.
    """
    taken = take_back(memory, owner)
    claims = tuple(claim for claim in taken.claims if _is_kept(claim, owner, stored, now, timeout, pools=pools))
    return replace(taken, settled=taken.settled if pools else frozenset({owner}), claims=claims)


def _is_kept(claim: Claim, owner: Owner, stored: Stored, now: datetime, timeout: timedelta, *, pools: bool) -> bool:
    if claim.owner is not owner:
        return claim.brought_in_recently(now, timeout) or (pools and claim.is_young(now, timeout))
    alone = claim.activated is None or now - claim.activated >= timeout
    return claim.is_young(now, timeout) and not (alone and (owner, claim.object) in stored)


def adopt(memory: Memory, owner: Owner, now: datetime) -> Memory:
    """Return the memory of a guard that came to a cluster in operation: its owner has settled long ago."""
    adopted = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    return replace(memory, exists=True, settled=memory.settled | {owner}, adopted=adopted)


def forget(memory: Memory, owner: Owner) -> Memory:
    """Return the memory without `owner` among the settled: the facts contradict it."""
    return replace(memory, settled=memory.settled - {owner})
