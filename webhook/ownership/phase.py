"""The phase of a scope, with the evidence that it rests on (DESIGN.md section 3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from webhook.ownership.facts import Facts
from webhook.ownership.owners import Owner
from webhook.ownership.rollout import Rollout, is_ascend_node, nodes_of, rollout
from webhook.ownership.scope import Selector
from webhook.ownership.settings import Settings
from webhook.ownership.traces import Trace
from webhook.ownership.verdict import Observation

PhaseName = Literal["unowned", "settled", "starting", "leaving", "conflict", "unknown"]


@dataclass(frozen=True)
class Phase:
    """The state of one scope: its name, the active owners in the order of `Owner`, and what was observed.

    `desired` are those of the owners that are asked for. `lacking` and `excused` are the nodes that a starting or
    settled owner does not serve (yet), each with the reason.
    `no_nodes` tells that a desired owner is the only one and the cluster has no Ascend node at all.
    """

    name: PhaseName
    owners: tuple[Owner, ...] = ()
    evidence: tuple[Observation, ...] = ()
    desired: tuple[Owner, ...] = ()
    lacking: Mapping[str, Observation] = field(default_factory=dict)
    excused: Mapping[str, Observation] = field(default_factory=dict)
    no_nodes: bool = False

    def __str__(self) -> str:
        return f"{self.name}({'+'.join(self.owners)})" if self.name in ("settled", "starting", "leaving") else self.name

    @property
    def owner(self) -> Owner | None:
        """The only active owner, None when there is none or more than one."""
        return self.owners[0] if len(self.owners) == 1 else None


def unknown_phase(facts: Facts, settings: Settings) -> Phase | None:
    """Return the phase `unknown` when facts are missing or too old to say anything else, else None."""
    observations = [
        Observation(kind, "", f"cannot be read: {reason}") for kind, reason in sorted(facts.missing.items())
    ]
    if facts.memory.problem:
        observations.append(
            Observation("Lease ascend-owner-guard", "", f"cannot be understood: {facts.memory.problem}")
        )
    if facts.age > settings.freshness.max_age:
        observations.append(Observation("the picture of the cluster", "", f"is {_seconds(facts.age)} s old"))
    return Phase("unknown", evidence=tuple(observations)) if observations else None


def _seconds(age: timedelta) -> int:
    return int(age.total_seconds())


def phase_of(traces: tuple[Trace, ...], facts: Facts, settings: Settings) -> Phase:
    """Return the phase of the scope in which `traces` were found."""
    owners = tuple(owner for owner in Owner if any(trace.owner is owner for trace in traces))
    evidence = tuple(trace.observation for trace in traces)
    if not owners:
        return Phase("unowned", evidence=(Observation("the cluster", "", "shows no trace of a device-plugin owner"),))
    desired = tuple(owner for owner in owners if any(trace.desired for trace in traces if trace.owner is owner))
    if len(owners) > 1:
        return Phase("conflict" if desired else "leaving", owners, evidence, desired)
    if not desired:
        return Phase("leaving", owners, evidence)
    return _coming(owners[0], traces, evidence, facts, settings)


def _coming(
    owner: Owner, traces: tuple[Trace, ...], evidence: tuple[Observation, ...], facts: Facts, settings: Settings
) -> Phase:
    nodes = nodes_of(selectors_of(owner, traces), facts, settings)
    progress: Rollout = rollout(owner, nodes, facts, settings)
    seen = (*progress.lacking.values(), *evidence, *progress.excused.values())
    if not progress.serving and not progress.lacking:
        seen = (Observation(owner, "", "has no node to serve yet"), *seen)
    no_nodes = not nodes and not any(is_ascend_node(node, settings) for node in facts.nodes.values())
    memory = facts.memory
    settled = owner in memory.settled or (progress.complete and not memory.decides)
    return Phase(
        "settled" if settled else "starting",
        (owner,),
        seen,
        (owner,),
        lacking=progress.lacking,
        excused=progress.excused,
        no_nodes=no_nodes,
    )


def selectors_of(owner: Owner, traces: tuple[Trace, ...]) -> tuple[Selector, ...]:
    """Return the selectors of an owner's nodes: its DaemonSets', else its custom resources', else (none says)
    everything."""
    for source in ("plugin", "resource"):
        chosen = tuple(
            trace.selector
            for trace in traces
            if trace.owner is owner and trace.source == source and trace.selector is not None
        )
        if chosen:
            return chosen
    return (Selector(),)
