"""What the guard's Lease remembers: which owners have settled, and who claims to bring one in or to give one up.

The format is fixed (DESIGN.md section 6): annotations of the Lease `ascend-owner-guard` in the guard's namespace.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from webhook.ownership.fields import at, mapping, text, texts
from webhook.ownership.owners import Owner
from webhook.ownership.request import Object
from webhook.ownership.scope import Selector

LEASE_NAME = "ascend-owner-guard"
SETTLED = "ascend-owner-guard/settled"
CLAIM = "ascend-owner-guard/claim"
ADOPTED = "ascend-owner-guard/adopted"
OVERRIDES = "ascend-owner-guard/break-glass"
MAX_OVERRIDES = 20
RELEASED = "ascend-owner-guard/released"
RELABELS = "ascend-owner-guard/relabels"
MAX_RELABELS = 200
ANNOTATIONS = (SETTLED, CLAIM, ADOPTED, OVERRIDES, RELEASED, RELABELS)
"""All that the guard writes into its Lease; what others write besides is kept."""


@dataclass(frozen=True, slots=True)
class Claim:
    """That somebody brings `owner` in (`activating`) or gives it up (`leaving`).

    `object` is `Kind/namespace/name`, cluster-scoped `Kind/name`; `uid` is the request's; `time` is the API server's.
    What else may be on its way, besides the claim's own write: `activated` is when its owner was brought in by another
    one, `left` (activating only) when it was given up by one; `settled` tells that it had settled before that.
    """

    owner: Owner
    state: Literal["activating", "leaving"]
    object: str
    selector: Selector
    uid: str
    user: str
    time: datetime
    activated: datetime | None = None
    left: datetime | None = None
    settled: bool = False

    def age(self, now: datetime) -> timedelta:
        """How old it is at `now`, both by the API server's clock."""
        return now - self.time

    def is_young(self, now: datetime, timeout: timedelta) -> bool:
        """Whether the write that it stands for may still be on its way."""
        return self.age(now) < timeout

    @property
    def given_up(self) -> datetime | None:
        """When `owner` was last given up, as far as this claim knows."""
        return self.time if self.state == "leaving" else self.left

    def given_up_recently(self, now: datetime, timeout: timedelta) -> bool:
        """Whether a write that gives `owner` up may still be on its way, although this claim may bring it in."""
        return self.given_up is not None and now - self.given_up < timeout

    @property
    def brought_in(self) -> datetime | None:
        """When `owner` was last brought in, as far as this claim knows."""
        return self.time if self.state == "activating" else self.activated

    def brought_in_recently(self, now: datetime, timeout: timedelta) -> bool:
        """Whether a write that brings `owner` in may still be on its way, although this claim may give it up."""
        return self.brought_in is not None and now - self.brought_in < timeout


@dataclass(frozen=True, slots=True)
class Override:
    """That `user`, who may do so, wrote the break-glass annotation `text` on an object at `time`.

    `object` is as a claim names it, `uid` the object's, so that another one of the same name does not inherit it.
    """

    object: str
    uid: str
    text: str
    user: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Relabel:
    """That `user` was admitted to change `labels` of `node` at `time` (None: to take one away), so that it comes under
    another owner or under none: the write may still be on its way, and whoever brings an owner in must know of it."""

    node: str
    labels: tuple[tuple[str, str | None], ...]
    user: str
    time: datetime

    def applied(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return a node's `labels` as they are once the write has landed."""
        after: dict[str, str | None] = {**labels, **dict(self.labels)}
        return {key: value for key, value in after.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Release:
    """That `user` took something out of the memory by hand (`ascend-guard release`): what, why, and when."""

    uid: str
    user: str
    what: str
    reason: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Memory:
    """What the Lease says. `exists` tells that there is one; `problem` why it cannot be understood, else empty.

    `decides` tells that only what is remembered is settled (a live cluster); where it is false, complete facts settle
    by themselves (manifests and scenarios).
    """

    exists: bool = False
    settled: frozenset[Owner] = frozenset()
    claims: tuple[Claim, ...] = ()
    adopted: str = ""
    overrides: tuple[Override, ...] = ()
    released: Release | None = None
    relabels: tuple[Relabel, ...] = ()
    decides: bool = False
    problem: str = field(default="", compare=False)

    def noted(self, override: Override, window: timedelta) -> "Memory":
        """Return the memory that knows `override`, too, and has forgotten those that no longer count."""
        kept = [
            one
            for one in self.overrides
            if override.time - one.time < window and (one.object, one.user) != (override.object, override.user)
        ]
        return replace(self, exists=True, overrides=(*kept, override)[-MAX_OVERRIDES:])

    def relabelled(self, relabel: Relabel, timeout: timedelta) -> "Memory":
        """Return the memory that knows `relabel`, too, and has forgotten those that have landed or never will."""
        kept = tuple(one for one in self.relabels if relabel.time - one.time < timeout)
        return replace(self, exists=True, relabels=(*kept, relabel))

    def claim_of(self, owner: Owner) -> Claim | None:
        """Return the claim about `owner`, None when there is none."""
        return next((claim for claim in self.claims if claim.owner is owner), None)


def read_memory(lease: Object, *, decides: bool = False) -> Memory:
    """Return what a Lease says; what cannot be understood is told by `problem`, never raised."""
    annotations = texts(at(lease, "metadata.annotations"))
    problems: list[str] = []
    relabels: tuple[Relabel, ...] = ()
    try:
        relabels = tuple(_relabel(one) for one in json.loads(annotations.get(RELABELS) or "[]"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problems.append(f"{RELABELS} cannot be read ({type(error).__name__})")
    settled: set[Owner] = set()
    for name in filter(None, (part.strip() for part in annotations.get(SETTLED, "").split(","))):
        try:
            settled.add(Owner(name))
        except ValueError:
            problems.append(f"{SETTLED} names {name[:40]!r}, which is no owner")
    claims: list[Claim] = []
    raw = annotations.get(CLAIM, "")
    if raw:
        try:
            decoded = json.loads(raw)
            entries = decoded if isinstance(decoded, list) else [decoded]
            claims = [_claim(entry) for entry in entries]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            problems.append(f"{CLAIM} cannot be read ({type(error).__name__})")
    return Memory(
        exists=True,
        settled=frozenset(settled),
        claims=tuple(claims),
        adopted=annotations.get(ADOPTED, ""),
        overrides=_overrides(annotations.get(OVERRIDES, "")),
        released=_release(annotations.get(RELEASED, "")),
        relabels=relabels,
        decides=decides,
        problem="; ".join(problems),
    )


def write_memory(memory: Memory) -> dict[str, str]:
    """Return the annotations that say what `memory` does; an absent one is left out."""
    annotations: dict[str, str] = {}
    if memory.settled:
        annotations[SETTLED] = ",".join(owner for owner in Owner if owner in memory.settled)
    if memory.claims:
        entries = [_entry(claim) for claim in memory.claims]
        annotations[CLAIM] = json.dumps(entries[0] if len(entries) == 1 else entries)
    if memory.adopted:
        annotations[ADOPTED] = memory.adopted
    if memory.overrides:
        entries = [
            {"object": one.object, "uid": one.uid, "text": one.text, "user": one.user, "time": _stamp(one.time)}
            for one in memory.overrides
        ]
        annotations[OVERRIDES] = json.dumps(entries)
    if memory.relabels:
        annotations[RELABELS] = json.dumps(
            [{**asdict(one), "labels": dict(one.labels), "time": _stamp(one.time)} for one in memory.relabels]
        )
    if memory.released is not None:
        annotations[RELEASED] = json.dumps({**asdict(memory.released), "time": _stamp(memory.released.time)})
    return annotations


def _relabel(entry: Mapping[str, Any]) -> Relabel:
    labels = tuple((str(key), None if value is None else str(value)) for key, value in entry["labels"].items())
    return Relabel(text(entry["node"]), labels, text(entry["user"]), _time(entry["time"]))


def _release(raw: str) -> Release | None:
    """The last release; it is told, and decides nothing."""
    try:
        one = json.loads(raw) if raw else None
        if not one:
            return None
        uid, user, what, reason = (text(one[key]) for key in ("uid", "user", "what", "reason"))
        return Release(uid, user, what, reason, _time(one["time"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _overrides(raw: str) -> tuple[Override, ...]:
    """What cannot be read lifts no rule; it is no reason to doubt the rest of the Lease."""
    try:
        return tuple(
            Override(text(one["object"]), text(one["uid"]), text(one["text"]), text(one["user"]), _time(one["time"]))
            for one in (json.loads(raw) if raw else ())
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()


def holder(memory: Memory) -> str:
    """Return what `spec.holderIdentity` says: the claim's owner, else the settled ones."""
    if memory.claims:
        return ",".join(claim.owner for claim in memory.claims)
    return ",".join(owner for owner in Owner if owner in memory.settled)


def _claim(entry: Mapping[str, Any]) -> Claim:
    state = entry["state"]
    if state not in ("activating", "leaving"):
        raise ValueError(state)
    return Claim(
        owner=Owner(entry["owner"]),
        state=state,
        object=text(entry.get("object")),
        selector=Selector(texts(mapping(entry.get("selector")))),
        uid=text(entry.get("uid")),
        user=text(entry.get("user")),
        time=_time(entry["time"]),
        activated=_time(entry["activated"]) if entry.get("activated") else None,
        left=_time(entry["left"]) if entry.get("left") else None,
        settled=entry.get("settled") is True,
    )


def _time(value: str) -> datetime:
    parsed = datetime.fromisoformat(value)
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def _entry(claim: Claim) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "owner": str(claim.owner),
        "state": claim.state,
        "object": claim.object,
        "selector": dict(claim.selector.labels),
        "uid": claim.uid,
        "user": claim.user,
        "time": _stamp(claim.time),
    }
    if claim.activated is not None:
        entry["activated"] = _stamp(claim.activated)
    if claim.left is not None:
        entry["left"] = _stamp(claim.left)
    if claim.settled:
        entry["settled"] = True
    return entry


def _stamp(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
