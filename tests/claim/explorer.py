"""The walk through every state of the model, and what must hold in each."""

from dataclasses import dataclass, field, replace
from typing import Any

from tests.claim.model import PODS, WRITTEN, Model, Protocol, State, ViolationError, checked
from tests.claim.world import TIMEOUT, Picture, at, owners
from webhook.claim.course import Compare, Held, Look, ReadLease, Swap, Wait, change_owner, remember
from webhook.ownership.memory import Memory
from webhook.ownership.owners import Owner


@dataclass
class Walk:
    """The walk from one state. `states` are those seen, `rests` those in which nothing was under way any more."""

    model: Model
    states: int = 0
    rests: set[Any] = field(default_factory=set)

    def from_state(self, first: State) -> None:
        """Visit everything that can come after `first`. Raises ViolationError with the way there."""
        came: dict[Any, tuple[Any, str]] = {first.key(): (None, "")}
        open_states = [first]
        while open_states:
            state = open_states.pop()
            key = state.key()
            try:
                if not state.running and not state.waiting and not state.late:
                    self._rest(state)
                for label, after in self.model.next(state):
                    after_key = after.key()
                    if after_key not in came:
                        came[after_key] = (key, label)
                        open_states.append(after)
            except ViolationError as violation:
                raise ViolationError(f"{violation}: {'; '.join(_way(came, key))}") from violation
        self.states += len(came)

    def _rest(self, state: State) -> None:
        """Nothing is under way: a claim may bind nobody for longer than its time-out, and there is a way on."""
        later = replace(state, now=state.now + TIMEOUT)
        key = later.key()
        if key in self.rests:
            return
        self.rests.add(key)
        wanted = owners(later.picture[0])
        if not wanted:
            for kind in ("enable", "create"):
                if not self._succeeds(later, kind):
                    raise ViolationError(f"nobody owns the NPUs, and {kind} is refused")
            return
        (owner,) = wanted
        settled = self._settle(replace(later, picture=(later.picture[0], wanted)))
        if settled.memory.settled != wanted:
            raise ViolationError(f"{owner} is rolled out and not settled")
        pod = next(kind for kind, its in PODS.items() if its is owner)
        if not self.model.rules.admits(pod, settled.picture, settled.memory, at(settled.now)):
            raise ViolationError(f"{owner} is settled, and its Pods are refused")
        if owner is Owner.HAMI and "hami" not in settled.picture[0]:
            return
        gives_up = "give up" if owner is Owner.NATIVE else "delete"
        whole = not {"hami", "hami 2"} <= settled.picture[0]
        if self._succeeds(settled, gives_up) == (pod in settled.picture[0] and whole):
            raise ViolationError(f"{gives_up} of {owner}: Pods or no Pods, the answer is wrong")

    def _settle(self, state: State) -> State:
        return self._alone(state, remember(), "settler")[0]

    def _succeeds(self, state: State, kind: str) -> bool:
        """Whether a request succeeds when nobody else is there."""
        outcome = self._alone(state, change_owner(self.model.rules.settings), kind)[1]
        return bool(outcome.verdict.allowed and not outcome.refusal)

    def _alone(self, state: State, course: Any, kind: str) -> tuple[State, Any]:
        answer: Any = None
        while True:
            try:
                step = course.send(answer)
            except StopIteration as end:
                return state, end.value
            now = at(state.now)
            match step:
                case ReadLease():
                    answer = Held(state.memory, str(state.version), now, now)
                case Look(memory, then):
                    answer = self.model.judging.opinion(
                        self.model.rules.request(kind, "alone"), kind, state.picture, memory, then or now
                    )
                case Compare(memory, then):
                    answer = self.model.rules.due(state.picture, memory, then)
                case Wait(seconds):
                    state = replace(state, now=state.now + int(seconds))
                    answer = None
                case Swap(held, memory):
                    assert held.version == str(state.version)
                    state = replace(state, memory=memory, version=state.version + 1)
                    answer = Held(memory, str(state.version), now, now)


def _way(came: dict[Any, tuple[Any, str]], key: Any) -> list[str]:
    labels: list[str] = []
    while key is not None:
        key, label = came[key]
        labels.append(label)
    return [label for label in reversed(labels) if label]


def beginning(stored: set[str], rolled: set[Owner], settled: set[Owner], *requests: str) -> State:
    """The state before `requests`, in a cluster that has been left alone for long."""
    picture: Picture = (frozenset(stored), frozenset(rolled))
    memory = Memory(exists=True, settled=frozenset(settled), decides=True)
    named = tuple((f"{kind} {index}", kind) for index, kind in enumerate(requests))
    return checked(State(0, picture, (0,) * len(WRITTEN), memory, 1, (memory, 0), named))


def explore(state: State, protocol: Protocol | None = None) -> Walk:
    """Walk from `state`. Raises ViolationError."""
    walk = Walk(Model(protocol or Protocol(), state.picture))
    walk.from_state(state)
    return walk
