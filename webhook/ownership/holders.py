"""Which workloads hold an owner's chips, or wait for them (DESIGN.md section 4, `workloads-running`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from webhook.ownership.facts import Facts
from webhook.ownership.infrastructure import pod_is_infrastructure
from webhook.ownership.objects import Pod
from webhook.ownership.owners import Owner
from webhook.ownership.settings import Settings
from webhook.ownership.verdict import Observation

Hold = Literal["holds", "waits", "reaches"]
"""Allocated chips on a node; asks for chips and is bound nowhere yet; or reaches chips without any allocation."""

MAX_NAMED = 10


@dataclass(frozen=True, slots=True)
class Holder:
    """A Pod that holds chips, waits for some, or reaches them unaccounted; `what` is the resource or path."""

    pod: Pod
    hold: Hold
    what: str

    @property
    def observation(self) -> Observation:
        """The evidence in words."""
        where = f" on node {self.pod.node}" if self.pod.node else ""
        return Observation(str(self.pod.meta.ref), "", f"{self.hold} {self.what}{where}")


def holders(facts: Facts, settings: Settings) -> Iterator[Holder]:
    """Yield every unfinished workload that has to do with chips; the NPU stack's own Pods are none."""
    for pod in facts.pods:
        if pod.finished or facts.owner_of(pod) is not None or pod_is_infrastructure(pod, facts, settings):
            continue
        paths = facts.paths_of(pod)
        asked = next((path.what for path in paths if path.way in ("resource", "claim")), None)
        reached = next((path.what for path in paths if path.way in ("env", "device")), None)
        if asked is not None:
            yield Holder(pod, "holds" if pod.node else "waits", asked)
        elif reached is not None and pod.node:
            yield Holder(pod, "reaches", reached)


def serves(owner: Owner, holder: Holder) -> bool:
    """Whether `owner` could serve what the Pod asks for; claims are served by DRA."""
    if holder.pod.access.claims and not holder.pod.access.resources:
        return owner is Owner.DRA
    return owner in holder.pod.access.servers


def held_from(owner: Owner, nodes: frozenset[str], facts: Facts, settings: Settings) -> tuple[Holder, ...]:
    """Return who holds or reaches chips on `nodes`, the owner's, and who waits for what the owner serves."""
    return tuple(
        holder
        for holder in holders(facts, settings)
        if (holder.pod.node in nodes if holder.pod.node else serves(owner, holder))
    )


def shown(found: tuple[Holder, ...]) -> tuple[Observation, ...]:
    """Return the evidence: the first ten, and how many there are."""
    named = tuple(holder.observation for holder in found[:MAX_NAMED])
    if len(found) <= MAX_NAMED:
        return named
    return (*named, Observation("workloads", "", f"are {len(found)} in all"))
