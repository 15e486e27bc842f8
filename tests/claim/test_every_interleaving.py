"""The claim, explored exhaustively: never two owners, never a Pod in a switch, never a scope that stays locked.

Walked is every interleaving of the product's own courses, transitions and rules (`webhook.claim`, `webhook.rules`) with
real manifests, over every step of two requests, of the settler and of the clock, with one fault in between: a replica
that dies and another one that is asked again, an answer that is lost, a swap that arrives late, a Lease that somebody
deletes. Where there are pools, one of the two takes a node from one owner's pool to the other's (`tests.claim.pools`).
`CLAIM_CHECK=1` walks three requests (minutes).
"""

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.claim.explorer import beginning, explore
from tests.claim.model import Protocol, Running, State, ViolationError
from tests.claim.pools import explore_pools
from tests.claim.world import DIRECT, HAMI_POD, NATIVE_POD, NONE, at
from webhook.ownership.memory import Claim
from webhook.ownership.owners import Owner
from webhook.ownership.scope import Selector

THREE = os.environ.get("CLAIM_CHECK") == "1"

UNOWNED: tuple[set[str], set[Owner], set[Owner]] = (set(), set(), set())
NATIVE: tuple[set[str], set[Owner], set[Owner]] = ({"native"}, {Owner.NATIVE}, {Owner.NATIVE})
HAMI: tuple[set[str], set[Owner], set[Owner]] = ({"hami"}, {Owner.HAMI}, {Owner.HAMI})
NATIVE_STARTS: tuple[set[str], set[Owner], set[Owner]] = ({"native"}, set(), set())

PAIRS = (
    (UNOWNED, ("enable", "enable")),
    (UNOWNED, ("enable", "create")),
    (UNOWNED, ("enable", NATIVE_POD)),
    (UNOWNED, ("create", "create again")),
    (NATIVE, ("give up", "give up")),
    (NATIVE, ("give up", "create")),
    (NATIVE, ("give up", NATIVE_POD)),
    (NATIVE, ("create", NATIVE_POD)),
    (HAMI, ("delete", "create again")),
    (HAMI, ("delete", "create another")),
    (HAMI, ("delete", "enable")),
    (HAMI, ("delete", HAMI_POD)),
    (HAMI, ("create another", HAMI_POD)),
)
MORE_PAIRS = (
    (UNOWNED, ("create", "create another")),
    (HAMI, ("create again", "create another")),
    (HAMI, ("create again", HAMI_POD)),
    (NATIVE_STARTS, ("give up", "give up")),
    (NATIVE_STARTS, ("give up", "create")),
    (NATIVE_STARTS, ("give up", NATIVE_POD)),
)
THREESOMES = (
    (UNOWNED, ("enable", "create", "create another")),
    (UNOWNED, ("create", "create again", "enable")),
    (NATIVE, ("give up", "create", NATIVE_POD)),
    (NATIVE, ("give up", "give up", NATIVE_POD)),
    (HAMI, ("delete", "create again", "enable")),
    (HAMI, ("delete", "create another", "enable")),
    (HAMI, ("delete", "create another", HAMI_POD)),
)


def histories() -> Iterator[tuple[str, State]]:
    """Yield where the walks begin, each with its name."""
    for world, kinds in (*PAIRS, *(MORE_PAIRS if THREE else ())):
        yield " || ".join(kinds), beginning(*world, *kinds)
    if THREE:
        yield "delete || enable, another HAMi is on its way", second_object_on_its_way()
        for world, kinds in THREESOMES:
            yield " || ".join(kinds), replace(beginning(*world, *kinds), faults=0)


def second_object_on_its_way() -> State:
    """HAMi is there, and a second object of it has been admitted and is not stored yet."""
    state = beginning({"hami"}, set(), set(), "delete", "enable")
    object_ = "HAMiAscendDevicePlugin/hami-system/hami-2"
    claim = Claim(Owner.HAMI, "activating", object_, Selector(), "second", "second", at(0))
    memory = replace(state.memory, claims=(claim,))
    second = Running("second", "create another", 0, 0, state.picture, admitted=0)
    return replace(state, memory=memory, view=(memory, 0), running=(second,), faults=0)


def test_no_interleaving_ends_badly() -> None:
    states = rests = count = 0
    for name, state in histories():
        walk = explore(state)
        count, states, rests = count + 1, states + walk.states, rests + len(walk.rests)
        if THREE:
            print(f"{walk.states:>9} states: {name}", flush=True)
    print(f"\n{states} states of {count} histories seen, {rests} of them at rest")
    assert states > 50_000


@pytest.mark.parametrize(
    ("protocol", "state"),
    [
        (Protocol(facts_before_lease=True), beginning(*UNOWNED, "enable", "create")),
        (Protocol(blind_swap=True), beginning(*UNOWNED, "enable", "create")),
        (Protocol(short_takeover=True), beginning(*UNOWNED, "enable", "create")),
        (Protocol(drops_activated=True), second_object_on_its_way()),
        (Protocol(no_last_look=True), beginning(*NATIVE, "give up", NATIVE_POD)),
        (Protocol(settles_from_old_facts=True), beginning(*NATIVE, "give up", NATIVE_POD)),
        (Protocol(short_wait=True), beginning(*NATIVE, "give up", NATIVE_POD)),
    ],
    ids=str,
)
def test_each_step_is_needed(protocol: Protocol, state: State) -> None:
    with pytest.raises(ViolationError):
        explore(state, protocol)


POOLS = ((DIRECT, ("create", "direct to shared"), 1), (NONE, ("create", "none to shared"), int(THREE)))
"""The pool of a node that native's Pod is on, what is asked for, and how many faults there may be."""
MORE_POOLS = (
    (DIRECT, ("create", "direct to none", "none to shared"), 0),
    (DIRECT, ("create", "direct to none", "direct to shared"), 0),
    (NONE, ("create", "create again", "none to shared"), 0),
)


def test_no_interleaving_puts_a_node_under_two_owners() -> None:
    states = rests = 0
    for pool, kinds, faults in (*POOLS, *(MORE_POOLS if THREE else ())):
        walk = explore_pools(pool, *kinds, faults=faults, protocol=Protocol(attempts=3))
        states, rests = states + walk.states, rests + len(walk.rests)
        if THREE:
            print(f"{walk.states:>9} states: {' || '.join(kinds)}, from {pool}", flush=True)
    print(f"\n{states} states seen, {rests} of them at rest")
    assert states > 20_000


@pytest.mark.parametrize(
    "protocol", [Protocol(facts_before_lease=True), Protocol(blind_swap=True), Protocol(forgets_relabels=True)], ids=str
)
@pytest.mark.parametrize(("pool", "kinds", "_"), POOLS)
def test_each_step_is_needed_for_pools(protocol: Protocol, pool: str, kinds: tuple[str, ...], _: int) -> None:
    with pytest.raises(ViolationError):
        explore_pools(pool, *kinds, protocol=protocol)
