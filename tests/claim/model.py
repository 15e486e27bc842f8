"""The model: API servers, replicas that die, answers that are lost, and every step that may come next.

The clock ticks in whole seconds, at any moment. A request that was admitted lands at any later moment before the API
server's time-out, or never; a Pod within `landing`, or never (what comes later is the gap that DESIGN.md states). A
replica dies by doing nothing more. The operators are infinitely quick: what is not asked for any more is gone at once,
so that nothing but the Lease keeps owners apart.

Steps are joined only where the world between them cannot matter: a request begins when it reads the Lease (one that
began earlier ends earlier, and may do nothing more), and ends, or begins to wait, with the answer that makes it so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.claim.world import (
    HAMI_POD,
    LANDING,
    MAX_AGE,
    NATIVE_POD,
    NODE,
    OBJECTS,
    RELABELS,
    REQUESTS,
    SETTINGS,
    START,
    TIMEOUT,
    Picture,
    Rules,
    at,
    owners,
    seen_from,
)
from webhook.claim.course import (
    Compare,
    Failed,
    Held,
    Look,
    Outcome,
    ReadLease,
    Step,
    Swap,
    Wait,
    change_owner,
    remember,
)
from webhook.ownership.memory import Memory
from webhook.ownership.owners import Owner

PODS = {NATIVE_POD: Owner.NATIVE, HAMI_POD: Owner.HAMI}
SETTLER = "settler"
LOST = Failed("the answer was lost")
_BEFORE_LAST_LOOK = 4


@dataclass(frozen=True, slots=True)
class Running:
    """One request at work on a replica (or the settler): what it was answered so far. `admitted` since when, if it is.

    `seen` counts the writes to its object when it began; `before` is what was stored then (only broken protocols look
    at that).
    """

    uid: str
    kind: str
    started: int
    seen: int
    before: Picture
    answers: tuple[Any, ...] = ()
    admitted: int = -1


@dataclass(frozen=True, slots=True)
class State:
    """Everything there is. `late` are swaps whose answer was lost before they arrived; `faults` may still happen."""

    now: int
    picture: Picture
    written: tuple[int, ...]
    memory: Memory
    version: int
    view: tuple[Memory, int]
    waiting: tuple[tuple[str, str], ...]
    running: tuple[Running, ...] = ()
    late: tuple[tuple[int, Memory], ...] = ()
    faults: int = 1

    def key(self) -> tuple[Any, ...]:
        """The state as a value: two that differ only by the time and by version numbers are the same."""
        now, version = at(self.now), self.version
        return (
            self.picture,
            seen_from(self.memory, now),
            (seen_from(self.view[0], now), min(self.now - self.view[1], MAX_AGE)),
            self.waiting,
            tuple(
                (
                    one.uid,
                    one.kind,
                    self.now - one.started,
                    self._count(one.kind) - one.seen,
                    tuple(_shown(answer, self) for answer in one.answers)
                    if one.admitted < 0
                    else one.admitted - self.now,
                )
                for one in self.running
            ),
            tuple((number - version, seen_from(memory, now)) for number, memory in self.late),
            self.faults,
        )

    def _count(self, kind: str) -> int:
        return self.written[_INDEX[kind]] if kind in _INDEX else 0


WRITTEN = (*OBJECTS, NODE)
"""Whose writes are counted."""
_INDEX = {kind: WRITTEN.index(name) for kind, (_, name) in REQUESTS.items() if name in WRITTEN}


def _shown(answer: Any, state: State) -> Any:
    match answer:
        case Held():
            return (
                answer.version and int(answer.version) - state.version,
                seen_from(answer.memory, at(state.now)),
                at(state.now) - answer.now,
            )
        case Memory():
            return seen_from(answer, at(state.now))
        case Failed() | None:
            return answer is None
        case _:
            return id(answer)  # an opinion: equal ones are one and the same (`Rules`)


@dataclass(frozen=True, slots=True)
class Ended:
    """A course that is over."""

    outcome: Outcome[Any] | None


class ViolationError(AssertionError):
    """Two owners, or a Pod in a switch."""


@dataclass(frozen=True)
class Protocol:
    """The product's protocol, or a broken one: each field but the last breaks one step of it.

    `attempts` is how often a request is judged when somebody else writes the Lease meanwhile. To be judged anew is to
    begin later, which every request may do: more than one adds states and no histories of another kind.
    """

    facts_before_lease: bool = False
    blind_swap: bool = False
    short_takeover: bool = False
    drops_activated: bool = False
    no_last_look: bool = False
    settles_from_old_facts: bool = False
    short_wait: bool = False
    forgets_relabels: bool = False
    attempts: int = 1


class Model:
    """Says what may come next, and whether that is allowed to be."""

    def __init__(self, protocol: Protocol, first: Picture, rules: Rules | None = None) -> None:
        """`first` is what was stored at the beginning: a watch that stalls still shows it."""
        self.protocol = protocol
        self.rules = rules or Rules()
        self.judging = self.rules
        if protocol.short_takeover:
            claim = SETTINGS.claim.model_copy(update={"timeout": SETTINGS.claim.timeout / 4})
            self.judging = Rules(SETTINGS.model_copy(update={"claim": claim}))
        self.first = first

    def next(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield every step that may come next, with what it leads to. Raises ViolationError."""
        for index, (uid, kind) in enumerate(state.waiting):
            rest = replace(state, waiting=state.waiting[:index] + state.waiting[index + 1 :])
            if _makes_sense(kind, state.picture[0]):
                yield f"{kind} begins", self._begun(rest, uid, kind)
            else:
                yield f"{kind} is not sent", rest
        for one in state.running:
            yield from self._go_on(state, one)
        for number, memory in state.late:
            rest = replace(state, late=())
            yield "a late swap is lost", rest
            if number == state.version or self.protocol.blind_swap:
                yield "a late swap lands", _written(rest, memory)
        if self._looks_at_view(state) and state.view != (state.memory, state.now):
            yield "the Lease is polled", replace(state, view=(state.memory, state.now))
        if all(one.kind != SETTLER for one in state.running) and self._settler_has_cause(state):
            yield "the settler looks", self._begun(state, SETTLER, SETTLER)
        yield from self._others(state)
        if state.faults and all(one.admitted < 0 for one in state.running) and self._anyone_waits(state):
            # What was admitted by then would be forgotten: the one thing that deleting the Lease by hand can spoil.
            gone = replace(state, memory=Memory(decides=True), version=state.version + 1, faults=state.faults - 1)
            yield "somebody deletes the Lease", gone
        yield "a second passes", _later(state)

    def _others(self, state: State) -> Iterator[tuple[str, State]]:
        """What happens by itself."""
        for owner in owners(state.picture[0]) - state.picture[1]:
            yield f"{owner} is rolled out", replace(state, picture=(state.picture[0], state.picture[1] | {owner}))

    def _begun(self, state: State, uid: str, kind: str) -> State:
        """A request begins, and reads the Lease."""
        answers = () if kind in PODS or self.protocol.facts_before_lease else (_held(state),)
        begun = Running(uid, kind, state.now, state._count(kind), state.picture, answers)
        return replace(state, running=(*state.running, begun))

    def _looks_at_view(self, state: State) -> bool:
        return any(kind in PODS for _, kind in state.waiting) or any(one.kind in PODS for one in state.running)

    def _settler_has_cause(self, state: State) -> bool:
        now = at(state.now)
        return any(
            self.rules.due(picture, state.memory, now) != state.memory for picture in (state.picture, self.first)
        )

    def _go_on(self, state: State, one: Running) -> Iterator[tuple[str, State]]:
        if one.admitted >= 0:
            yield from self._land(state, one)
        elif one.kind in PODS:
            yield from self._judge_pod(state, one)
        else:
            yield from self._step(state, one)

    def _judge_pod(self, state: State, one: Running) -> Iterator[tuple[str, State]]:
        memory, began = state.view
        if state.now - began >= MAX_AGE:
            return  # handed over
        for picture in {state.picture, self.first}:
            if self.judging.admits(one.kind, picture, memory, at(state.now)):
                if memory.settled and PODS[one.kind] not in memory.settled:
                    # The scope has settled with another owner: the Pod waits for what nobody serves, and holds nothing.
                    yield f"{one.kind} is admitted in vain", _without(state, one)
                else:
                    yield f"{one.kind} is admitted", _with(state, one, replace(one, admitted=state.now, answers=()))
                return

    def _step(self, state: State, one: Running) -> Iterator[tuple[str, State]]:
        step = self._course(one)
        if isinstance(step, Wait):
            if state.now - _seconds(one.answers[-1]) < step.seconds - self.protocol.short_wait:
                return
            one_waited = replace(one, answers=(*one.answers, None))
            state, one, step = _with(state, one, one_waited), one_waited, self._course(one_waited)
        match step:
            case ReadLease():
                yield f"{one.kind} reads the Lease", self._answered(state, one, self._lease_for(state, one))
            case Look(memory, now):
                picture = one.before if self.protocol.facts_before_lease else state.picture
                asked = self.rules.request(one.kind, one.uid)
                said = self.judging.opinion(asked, one.kind, picture, memory, now or at(state.now))
                yield f"{one.kind} looks", self._answered(state, one, said)
            case Compare(memory, now):
                picture = self.first if self.protocol.settles_from_old_facts else state.picture
                yield f"{one.kind} compares", self._answered(state, one, self.rules.due(picture, memory, now))
            case Swap(held, memory):
                yield from self._swap(state, one, held, memory)

    def _answered(self, state: State, one: Running, answer: Any) -> State:
        """The state in which `one` has this answer; it may be its last."""
        after = replace(one, answers=(*one.answers, answer))
        end = self._course(after)
        if not isinstance(end, Ended):
            return _with(state, one, after)
        if end.outcome is None or not end.outcome.verdict.allowed or end.outcome.refusal:
            return _without(state, one)
        return _with(state, one, replace(one, answers=(), admitted=state.now))

    def _course(self, one: Running) -> Step | Ended:
        """The step that a request does next, by the product's own course."""
        again = self.protocol.attempts
        course: Any = remember() if one.kind == SETTLER else change_owner(self.rules.settings, again)
        try:
            step: Step = course.send(None)
            for answer in one.answers:
                step = course.send(answer)
        except StopIteration as end:
            return Ended(end.value)
        return step

    def _anyone_waits(self, state: State) -> bool:
        return any(one.kind not in PODS and isinstance(self._course(one), Wait) for one in state.running)

    def _lease_for(self, state: State, one: Running) -> Held:
        if self.protocol.no_last_look and len(one.answers) > _BEFORE_LAST_LOOK:
            written: Held = one.answers[2]
            return written
        return _held(state)

    def _swap(self, state: State, one: Running, held: Held, memory: Memory) -> Iterator[tuple[str, State]]:
        memory = self._broken(memory)
        current = held.version == str(state.version) or self.protocol.blind_swap
        swapped = _written(state, memory) if current else state
        yield f"{one.kind} swaps: {current}", self._answered(swapped, one, _held(swapped) if current else None)
        if state.faults and current:
            broken = replace(state, faults=state.faults - 1)
            yield f"{one.kind} swaps, its answer is lost", self._answered(_written(broken, memory), one, LOST)
            late = replace(broken, late=((state.version, memory),))  # it can only land before the next swap
            yield f"{one.kind} swaps late", self._answered(late, one, LOST)
            if one.kind != SETTLER:
                asked = self._begun(_without(_written(broken, memory), one), one.uid, one.kind)
                yield f"{one.kind} swaps and dies, another replica is asked", asked

    def _broken(self, memory: Memory) -> Memory:
        if self.protocol.drops_activated:
            claims = tuple(replace(one, activated=None) if one.state == "leaving" else one for one in memory.claims)
            memory = replace(memory, claims=claims)
        return replace(memory, relabels=()) if self.protocol.forgets_relabels else memory

    def _land(self, state: State, one: Running) -> Iterator[tuple[str, State]]:
        stored, rolled = state.picture
        if one.kind in PODS:
            landed = replace(state, picture=(stored | {one.kind}, rolled))
            yield f"{one.kind} lands", self.checked(_without(landed, one))
            return
        operation, name = REQUESTS[one.kind]
        adds = one.kind != "give up" and operation != "DELETE"
        if operation == "CREATE":
            changes = name not in stored
        elif state._count(one.kind) != one.seen:
            # The object has changed since: the API server asks about its write once more.
            changes = (name in stored) != adds
            rest = _without(state, one)
            yield f"{one.kind} is judged anew", self._begun(rest, one.uid + "'", one.kind) if changes else rest
            return
        else:
            changes = True
        if not changes:
            yield f"{one.kind} is refused", _without(state, one)
            return
        after = stored | {name} if adds else stored - {name}
        yield f"{one.kind} lands", self.stored(state, one, (after, rolled & owners(after)))

    def stored(self, state: State, one: Running, picture: Picture) -> State:
        """The state in which the write of `one` has led to `picture`. Raises ViolationError when it must not be."""
        written = list(state.written)
        written[_INDEX[one.kind]] += 1
        return self.checked(_without(replace(state, picture=picture, written=tuple(written)), one))

    def checked(self, state: State) -> State:
        """Return the state. Raises ViolationError when it must not be."""
        return checked(state)


def checked(state: State) -> State:
    """Return the state. Raises ViolationError when it must not be."""
    stored, _ = state.picture
    wanted = owners(stored)
    if len(wanted) > 1:
        raise ViolationError("two owners")
    for pod, owner in PODS.items():
        if pod in stored and owner not in wanted:
            raise ViolationError("a Pod in a switch")
    return state


def _makes_sense(kind: str, stored: frozenset[str]) -> bool:
    """Whether the API server would ask about it at all: not about a change of what is so, or is not there."""
    match kind:
        case "enable":
            return "native" not in stored
        case "give up":
            return "native" in stored
        case "delete":
            return "hami" in stored
        case _ if kind in RELABELS:
            return RELABELS[kind][0] in stored
        case _:
            return True


def _held(state: State) -> Held:
    return Held(state.memory, str(state.version), at(state.now), at(state.now))


def _written(state: State, memory: Memory) -> State:
    return replace(state, memory=replace(memory, exists=True), version=state.version + 1, late=())


def _with(state: State, old: Running, new: Running) -> State:
    return replace(state, running=tuple(new if one is old else one for one in state.running))


def _seconds(held: Held) -> int:
    return int((held.now - START).total_seconds())


def _without(state: State, one: Running) -> State:
    return replace(state, running=tuple(other for other in state.running if other is not one))


def _later(state: State) -> State:
    """A second passes: the API server gives up what has taken too long. Its clients do so with the Lease."""
    now = state.now + 1
    kept = tuple(
        one
        for one in state.running
        if now - one.started < TIMEOUT and not (one.kind in PODS and one.admitted >= 0 and now - one.admitted > LANDING)
    )
    return replace(state, now=now, running=kept)
