"""The course of an owner change, and of remembering who has settled: what is done in which order, without doing it.

A course is a generator over values. It yields the next step and is sent what came of it, so that the server performs
the steps at an API server while the tests send every answer that an API server can give, in every order. The order is
what makes it safe (DESIGN.md section 6): read the Lease; read the facts and judge; swap the Lease against what was
read; admit. What was claimed before the first step is seen in the Lease, what is claimed later makes the swap fail,
what was stored is in the facts.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from webhook.claim.protocol import Stored, activate, give_up, take_back
from webhook.ownership.memory import MAX_RELABELS, Claim, Memory, Override, Relabel
from webhook.ownership.settings import Settings

LEASE_SECONDS = 2.0
"""How long one call about the Lease may take."""


@dataclass(frozen=True, slots=True)
class Held:
    """The Lease as it was read or written: what it remembers, its `version` ("" when there is none), and the time.

    `now` is the API server's clock, not later than it was; `latest` is not earlier than it was. `lease` is the object.
    """

    memory: Memory
    version: str
    now: datetime
    latest: datetime
    lease: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """That the Lease could not be read, or that it is not known whether it was written; `reason` is a sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReadLease:
    """Step: read the Lease. Answered by `Held` or `Failed`."""


@dataclass(frozen=True, slots=True)
class Look:
    """Step: read the facts live and judge the request by them, with this memory. Answered by an `Opinion`.

    `now` is the time to judge ages by, None when the API server's is not known: it was read before the facts are, so
    that a claim which has run out by then has its write, if there is one, in these facts.
    """

    memory: Memory
    now: datetime | None


@dataclass(frozen=True, slots=True)
class Compare:
    """Step: read the facts live and tell by them, with this memory, what the Lease should say. Answered by a Memory.

    `now` is as in `Look`.
    """

    memory: Memory
    now: datetime


@dataclass(frozen=True, slots=True)
class Swap:
    """Step: write `memory` if the Lease is still `held`. Answered by `Held`, None (somebody was faster), `Failed`."""

    held: Held
    memory: Memory


@dataclass(frozen=True, slots=True)
class Wait:
    """Step: let so many seconds pass. Answered by None."""

    seconds: float


Step = ReadLease | Look | Compare | Swap | Wait
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Opinion(Generic[V]):
    """What the rules say to a request at one moment.

    `brings` are the claims that it needs because it brings an owner in or moves one, `gives_up` the claim that it needs
    because it gives one up, `note` what is to be remembered of its break-glass annotation, `relabel` of a node that it
    takes to another pool; all are empty when nothing is to be written (dry runs). The times of claims are set here.
    `stored` is what the facts show to be asked for already, `left` how many seconds the API server still waits for the
    answer.
    """

    verdict: V
    allowed: bool
    brings: tuple[Claim, ...] = ()
    gives_up: Claim | None = None
    note: Override | None = None
    relabel: Relabel | None = None
    stored: Stored = frozenset()
    left: float = 0.0

    @property
    def writes(self) -> bool:
        """Whether the request needs the Lease."""
        return bool(self.brings) or any(one is not None for one in (self.gives_up, self.note, self.relabel))


@dataclass(frozen=True, slots=True)
class Outcome(Generic[V]):
    """The end of an owner change: the verdict to give, and, where it must be no all the same, why."""

    verdict: V
    refusal: str = ""


Course = Generator[Step, Any, V]


def change_owner(settings: Settings, attempts: int = 3) -> Course[Outcome[V]]:
    """The course of one owner-changing request.

    Where somebody else wrote the Lease meanwhile the request is judged anew, up to `attempts` times in all: it may have
    been a claim of the same owner, which stops nobody (the API server asks once for each entry that a write meets), or
    a node that changes its pool; and who is too late is told by the rules who is ahead.
    """
    held = yield ReadLease()
    if isinstance(held, Failed):
        unreadable = Memory(decides=True, problem=held.reason)
        opinion: Opinion[V] = yield Look(unreadable, None)
        return Outcome(opinion.verdict, held.reason if opinion.writes else "")
    opinion = yield Look(held.memory, held.now)
    if not opinion.allowed:
        return Outcome(opinion.verdict)
    if opinion.note is not None:
        held = replace(held, memory=held.memory.noted(opinion.note, settings.break_glass.window))
    if opinion.relabel is not None:
        relabel = replace(opinion.relabel, time=held.latest)
        held = replace(held, memory=held.memory.relabelled(relabel, settings.claim.timeout))
        if len(held.memory.relabels) > MAX_RELABELS:
            return Outcome(opinion.verdict, f"knows {MAX_RELABELS} nodes that are changing their pool at this moment")
    if opinion.brings:
        return (yield from _bring_in(held, opinion, settings, attempts))
    if opinion.gives_up is not None:
        return (yield from _give_up(held, opinion, opinion.gives_up, settings))
    if opinion.note is not None or opinion.relabel is not None:
        written = yield from _swap(held, held.memory)
        if isinstance(written, str) and opinion.relabel is not None and attempts > 1:
            return (yield from change_owner(settings, attempts - 1))
        return Outcome(opinion.verdict, _refusal(written))
    return Outcome(opinion.verdict)


def _bring_in(held: Held, opinion: Opinion[V], settings: Settings, attempts: int) -> Course[Outcome[V]]:
    memory = held.memory
    for claim in opinion.brings:
        memory = activate(
            memory,
            replace(claim, time=held.latest),
            opinion.stored,
            settings.claim.timeout,
            pools=_pools(settings),
        )
    written = yield from _swap(held, memory)
    if isinstance(written, str) and attempts > 1:
        return (yield from change_owner(settings, attempts - 1))
    return Outcome(opinion.verdict, _refusal(written))


def _give_up(held: Held, opinion: Opinion[V], claim: Claim, settings: Settings) -> Course[Outcome[V]]:
    """End the memory of an owner, wait until no replica admits Pods any more, and look for Pods once more.

    Only a settled owner has Pods admitted: without one there is nothing to wait for.
    """
    freshness = settings.freshness
    wait = (freshness.claim_max_age + freshness.landing).total_seconds()
    leaving = give_up(held.memory, replace(claim, time=held.latest), pools=_pools(settings))
    own = leaving.claim_of(claim.owner)
    had_settled = own is not None and own.settled
    if had_settled and opinion.left < wait + LEASE_SECONDS:
        return Outcome(
            opinion.verdict,
            f"giving {claim.owner} up takes {wait + LEASE_SECONDS:g} s and the API server waits {opinion.left:.1f} s "
            "more; raise timeoutSeconds of the webhook",
        )
    written = yield from _swap(held, leaving)
    if not isinstance(written, Held):
        return Outcome(opinion.verdict, _refusal(written))
    if not had_settled:
        return Outcome(opinion.verdict)
    yield Wait(wait)
    settled = take_back(leaving, claim.owner)
    opinion = yield Look(settled, written.now)
    if not opinion.allowed:
        yield Swap(written, settled)
        return Outcome(opinion.verdict)
    last = yield ReadLease()
    if isinstance(last, Failed):
        yield Swap(written, settled)
        return Outcome(opinion.verdict, last.reason)
    if last.version != written.version:
        return Outcome(opinion.verdict, _faster(last.memory))
    return Outcome(opinion.verdict)


def _swap(held: Held, memory: Memory) -> Course[Held | Failed | str]:
    """Write `memory` against `held`. Returns what was written, or as a text who was faster, or that it is not known.

    Where the answer was lost the Lease is read once more: it may have been written all the same. If it was not, that
    write may still be on its way; it then stands for nobody, and binds nobody for longer than the claim's time-out.
    """
    written = yield Swap(held, memory)
    if isinstance(written, Held):
        return written
    now = yield ReadLease()
    if isinstance(now, Failed):
        return now
    if isinstance(written, Failed) and now.version == held.version:
        return written
    return now if now.memory == memory else _faster(now.memory)


def _refusal(written: Held | Failed | str) -> str:
    """Why a request must be refused after a swap, "" when it was won."""
    match written:
        case Held():
            return ""
        case Failed(reason):
            return reason
        case _:
            return written


def _faster(memory: Memory) -> str:
    doing = {"activating": "brings in", "leaving": "gives up"}
    said = "; ".join(f"{claim.user} {doing[claim.state]} {claim.owner} ({claim.object})" for claim in memory.claims)
    return said or "somebody else wrote it at the same moment"


def remember() -> Course[None]:
    """The course of one look at who has settled: the Lease is read before the facts, and swapped against that."""
    held = yield ReadLease()
    if isinstance(held, Failed) or held.memory.problem:
        return
    due: Memory = yield Compare(held.memory, held.now)
    if due != held.memory:
        yield Swap(held, due)


def _pools(settings: Settings) -> bool:
    return settings.scope.mode == "selectors"
