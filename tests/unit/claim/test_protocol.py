"""The claim's transitions as functions over values."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from webhook.claim.protocol import Stored, activate, adopt, forget, give_up, settle, take_back
from webhook.ownership.memory import Claim, Memory, read_memory, write_memory
from webhook.ownership.owners import Owner
from webhook.ownership.scope import Selector

NOW = datetime(2026, 12, 2, 1, 0, tzinfo=UTC)
TIMEOUT = timedelta(seconds=60)
NOTHING: Stored = frozenset()
SHOWN: Stored = frozenset({(Owner.HAMI, "Kind/ns/hami")})


def claim(owner: Owner, *, selector: dict[str, str] | None = None, age: int = 0, user: str = "alice") -> Claim:
    time = NOW - timedelta(seconds=age)
    return Claim(owner, "activating", f"Kind/ns/{owner}", Selector(selector or {}), "uid", user, time)


def test_a_claim_takes_the_place_of_every_other_one_in_a_single_scope() -> None:
    memory = activate(Memory(claims=(claim(Owner.HAMI, age=90),)), claim(Owner.NATIVE), NOTHING, TIMEOUT, pools=False)
    assert [one.owner for one in memory.claims] == [Owner.NATIVE]


def test_a_claim_leaves_those_of_contradicting_pools_alone() -> None:
    shared, direct = claim(Owner.HAMI, selector={"pool": "shared"}), claim(Owner.NATIVE, selector={"pool": "direct"})
    assert activate(Memory(claims=(shared,)), direct, NOTHING, TIMEOUT, pools=True).claims == (shared, direct)
    anywhere = claim(Owner.NATIVE)
    assert activate(Memory(claims=(shared,)), anywhere, NOTHING, TIMEOUT, pools=True).claims == (anywhere,)


def test_giving_up_ends_the_memory_and_keeps_when_the_owner_was_last_brought_in() -> None:
    brought = claim(Owner.NATIVE, age=20)
    memory = give_up(Memory(settled=frozenset({Owner.NATIVE}), claims=(brought,)), claim(Owner.NATIVE), pools=False)
    assert memory.settled == frozenset()
    (leaving,) = memory.claims
    assert (leaving.state, leaving.activated) == ("leaving", brought.time)
    again = give_up(memory, claim(Owner.NATIVE), pools=False)
    assert (again.claims[0].activated, again.claims[0].settled) == (brought.time, True)


def test_an_owner_given_up_by_a_write_that_never_came_still_has_its_pods_looked_for() -> None:
    before = Memory(settled=frozenset({Owner.NATIVE}))
    never_landed = give_up(before, claim(Owner.NATIVE, age=3600), pools=False)
    assert give_up(never_landed, claim(Owner.NATIVE), pools=False).claims[0].settled


def test_what_is_not_given_up_after_all_is_as_it_was() -> None:
    before = Memory(exists=True, settled=frozenset({Owner.NATIVE}), claims=(claim(Owner.NATIVE, age=20),))
    assert take_back(give_up(before, claim(Owner.NATIVE), pools=False), Owner.NATIVE) == before
    long_ago = Memory(exists=True, settled=frozenset({Owner.NATIVE}))
    assert take_back(give_up(long_ago, claim(Owner.NATIVE), pools=False), Owner.NATIVE) == long_ago


def test_settling_fulfils_the_claim_and_makes_what_was_left_before_history() -> None:
    left = give_up(Memory(), claim(Owner.NATIVE), pools=False)
    memory = settle(
        activate(left, claim(Owner.HAMI), NOTHING, TIMEOUT, pools=False),
        Owner.HAMI,
        NOTHING,
        NOW + TIMEOUT,
        TIMEOUT,
        pools=False,
    )
    assert (memory.settled, memory.claims) == (frozenset({Owner.HAMI}), ())


def test_settling_keeps_a_claim_while_a_write_of_it_may_be_on_its_way() -> None:
    brought = claim(Owner.HAMI)
    memory = settle(Memory(claims=(brought,)), Owner.HAMI, NOTHING, NOW, TIMEOUT, pools=False)
    assert (memory.settled, memory.claims) == (frozenset({Owner.HAMI}), (brought,))
    assert settle(memory, Owner.HAMI, SHOWN, NOW, TIMEOUT, pools=False).claims == ()
    second = replace(claim(Owner.HAMI), uid="another")
    twice = activate(memory, second, NOTHING, TIMEOUT, pools=False)
    assert settle(twice, Owner.HAMI, SHOWN, NOW, TIMEOUT, pools=False).claims == twice.claims
    created_twice = activate(memory, second, SHOWN, TIMEOUT, pools=False)
    assert settle(created_twice, Owner.HAMI, SHOWN, NOW, TIMEOUT, pools=False).claims == created_twice.claims
    followed = activate(memory, replace(second, object="Follows/from/it"), SHOWN, TIMEOUT, pools=False)
    assert followed.claims[0].activated is None
    again = activate(memory, claim(Owner.HAMI), NOTHING, TIMEOUT, pools=False)
    assert settle(again, Owner.HAMI, SHOWN, NOW, TIMEOUT, pools=False).claims == ()


def test_pools_settle_one_by_one() -> None:
    native = settle(Memory(), Owner.NATIVE, NOTHING, NOW, TIMEOUT, pools=True)
    memory = settle(native, Owner.HAMI, NOTHING, NOW, TIMEOUT, pools=True)
    assert memory.settled == {Owner.NATIVE, Owner.HAMI}
    assert forget(memory, Owner.HAMI).settled == {Owner.NATIVE}


def test_an_adopted_owner_is_settled_and_says_since_when() -> None:
    memory = adopt(Memory(), Owner.HAMI, NOW)
    assert (memory.settled, memory.adopted) == (frozenset({Owner.HAMI}), "2026-12-02T01:00:00Z")


def test_what_is_written_is_read_back_alike() -> None:
    memory = Memory(
        exists=True,
        settled=frozenset({Owner.NATIVE}),
        claims=(claim(Owner.HAMI, selector={"ascend": "on"}),),
        adopted="2026-12-02T01:00:00Z",
    )
    assert read_memory({"metadata": {"annotations": write_memory(memory)}}) == memory
    several = activate(memory, claim(Owner.NATIVE, selector={"ascend": "off"}), NOTHING, TIMEOUT, pools=True)
    assert len(several.claims) == 2
    assert read_memory({"metadata": {"annotations": write_memory(several)}}) == several


def test_a_lease_that_cannot_be_understood_says_so() -> None:
    for annotations in (
        {"ascend-owner-guard/claim": "{"},
        {"ascend-owner-guard/claim": "[1]"},
        {"ascend-owner-guard/claim": '{"owner": "nobody", "state": "leaving", "time": "2026-12-02T01:00:00Z"}'},
        {"ascend-owner-guard/claim": '{"owner": "native", "state": "leaving", "time": "yesterday"}'},
        {"ascend-owner-guard/settled": "somebody"},
    ):
        assert read_memory({"metadata": {"annotations": annotations}}).problem, annotations
