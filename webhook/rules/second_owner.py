"""second-owner: exactly one owner at a time.

Denied is a write that brings an owner in while another one is active in an overlapping scope, or that moves an owner's
node selector so that the two overlap. Owners are brought in by NPUOperatorCtl, AmlCluster (Managed, SharedManaged),
HAMiAscendDevicePlugin, NPUClusterPolicy (also when its operator writes it), and by a DaemonSet, Pod or template of any
kind that is a device plugin by structure. An owner is active while any trace of it is left, a Pod included. One that
somebody has claimed within claim.timeout counts: that write may still be on its way. One object that asks for several
owners is denied, whoever was there before.

Judged is the change: what the object asked for before and asks for now. An update that changes neither what is asked
for nor the selector passes in every phase, and so does getting the same owner back while nobody else is there. Whether
the object is being deleted makes no difference.

A second NPUOperatorCtl beside another one is denied when it asks for a plugin, and warned about when it does not: all
of them render the one policy `cluster`.

A field that switches an owner and is no boolean is answered 422 in every phase; when it was so before, with a warning.
While the facts are unknown, whatever brings an owner in is denied.
"""

from collections.abc import Iterator
from datetime import timedelta

from webhook.ownership.change import Change, Claiming
from webhook.ownership.objects import CustomResource, Malformed, Pod
from webhook.ownership.owners import Owner
from webhook.ownership.procedure import next_step, remove, watch_leaving
from webhook.ownership.situation import Situation, owners_of_labels, selectors_by_owner
from webhook.ownership.traces import Trace
from webhook.ownership.verdict import Finding, Observation

ID = "second-owner"

_BASE = ("driver", "ociRuntime")


def judge(change: Change, standing: Situation) -> Iterator[Finding]:
    """Yield what this rule has to say about `change`."""
    if change.request.operation == "DELETE":
        return
    yield from _malformed(change)
    yield from _second_operator_ctl(change, standing)
    yield from _several_at_once(change)
    for claiming in change.activated:
        if not _is_made_by_its_daemon_set(change):
            yield from _activated(change, claiming, standing)
    for claiming in change.moved:
        yield from _moved(change, claiming, standing)


def _several_at_once(change: Change) -> Iterator[Finding]:
    """One object that asks for several owners brings in two at once, whoever was there before."""
    asked = tuple({claiming.owner: claiming for claiming in change.claimed_after}.values())
    if len(asked) < 2 or not change.activated:
        return
    names = " and ".join(claiming.owner for claiming in asked)
    yield Finding(
        ID,
        "deny",
        f"{change.ref} would bring in {names} at once",
        tuple(Observation(str(change.ref), claiming.field, f"asks for {claiming.owner}") for claiming in asked),
        "ask for one of them only",
        causes=tuple(claiming.field for claiming in asked),
    )


def _is_made_by_its_daemon_set(change: Change) -> bool:
    """A plugin Pod that a system controller makes for its DaemonSet: the DaemonSet itself has been judged."""
    pod = change.after
    return (
        isinstance(pod, Pod)
        and change.request.user.name in change.settings.identities.system_controllers
        and any(reference.controller and reference.kind == "DaemonSet" for reference in pod.meta.owners)
    )


def _activated(change: Change, claiming: Claiming, standing: Situation) -> Iterator[Finding]:
    owner = claiming.owner
    if standing.unknown is not None:
        yield Finding(
            ID,
            "deny",
            f"{change.ref} would bring in {owner} while it is unknown who owns the NPUs",
            standing.unknown.evidence,
            next_step(standing.unknown, standing.facts, standing.settings),
            causes=(claiming.field,),
        )
        return
    rivals = standing.rivals(owner, (claiming.selector,))
    if not rivals:
        yield from _claimed(change, claiming, standing)
        yield from _relabelled(change, claiming, standing)
    else:
        yield _denial(
            f"{change.ref} would make {owner} a second owner beside {_names(rivals)}", claiming, rivals, standing
        )


def _claimed(change: Change, claiming: Claiming, standing: Situation) -> Iterator[Finding]:
    """Another owner's write may still be on its way: its claim is young, or was given up just after it was made."""
    facts, settings = standing.facts, standing.settings
    for claim in facts.memory.claims:
        apart = settings.scope.mode == "selectors" and claim.selector.contradicts(claiming.selector)
        if claim.owner is claiming.owner or apart:
            continue
        since = claim.brought_in
        if since is None or not claim.brought_in_recently(facts.now, settings.claim.timeout):
            continue
        age, left = facts.now - since, settings.claim.timeout - (facts.now - since)
        yield Finding(
            ID,
            "deny",
            f"{change.ref} would bring in {claiming.owner}, but {claim.user} has just claimed {claim.owner}",
            (
                Observation(
                    "Lease ascend-owner-guard",
                    "",
                    f"says that {claim.user} brought {claim.owner} in ({claim.object}) {_seconds(age)} s ago",
                ),
            ),
            f"wait {_seconds(left) + 1} s and look who owns the chips, then repeat this if nobody does",
            causes=(claiming.field,),
        )


def _relabelled(change: Change, claiming: Claiming, standing: Situation) -> Iterator[Finding]:
    """A node is on its way from one pool to another: that write has been admitted, and is not stored yet."""
    facts, timeout = standing.facts, standing.settings.claim.timeout
    selectors = selectors_by_owner(standing)
    for relabel in facts.memory.relabels:
        age, node = facts.now - relabel.time, facts.nodes.get(relabel.node)
        if node is None or age >= timeout:
            continue
        before, after = node.meta.labels, relabel.applied(node.meta.labels)
        others = owners_of_labels(before, selectors) | owners_of_labels(after, selectors)
        if not (claiming.selector.selects_labels(before) or claiming.selector.selects_labels(after)):
            continue
        if not others - {claiming.owner}:
            continue
        seen = f"were changed by {relabel.user} {_seconds(age)} s ago, and {' and '.join(sorted(others))} selects it"
        yield Finding(
            ID,
            "deny",
            f"{change.ref} would bring in {claiming.owner} on Node {relabel.node}, which is changing its pool",
            (Observation(f"Node {relabel.node}", "metadata.labels", seen),),
            f"wait {_seconds(timeout - age) + 1} s and see whose the node is, then repeat this",
            causes=(claiming.field,),
        )


def _seconds(span: timedelta) -> int:
    return int(span.total_seconds())


def _moved(change: Change, claiming: Claiming, standing: Situation) -> Iterator[Finding]:
    rivals = standing.rivals(claiming.owner, (claiming.selector,))
    before = tuple(one.selector for one in change.claimed_before if one.owner is claiming.owner)
    met_before = {trace.owner for trace in standing.rivals(claiming.owner, before)}
    new = tuple(trace for trace in rivals if trace.owner not in met_before)
    if standing.unknown is not None:
        yield Finding(
            ID,
            "deny",
            f"{change.ref} would move {claiming.owner} to other nodes while it is unknown who owns them",
            standing.unknown.evidence,
            next_step(standing.unknown, standing.facts, standing.settings),
            causes=(claiming.field,),
        )
    else:
        yield from _relabelled(change, claiming, standing)
    if standing.unknown is None and new:
        what = f"{change.ref} would move {claiming.owner} onto nodes ({claiming.selector}) of {_names(new)}"
        yield _denial(what, claiming, new, standing)


def _denial(what: str, claiming: Claiming, rivals: tuple[Trace, ...], standing: Situation) -> Finding:
    return Finding(
        ID,
        "deny",
        what,
        tuple(trace.observation for trace in rivals),
        _give_up_first(rivals, standing),
        causes=(claiming.field,),
    )


def _give_up_first(rivals: tuple[Trace, ...], standing: Situation) -> str:
    facts = standing.facts
    desired = next((trace.owner for trace in rivals if trace.desired), None)
    if desired is not None:
        return f"remove {desired} first: {remove(desired, facts)}, then wait until nothing of it is left"
    owner = rivals[0].owner
    return f"wait until nothing of {owner} is left ({watch_leaving(owner, facts)}), then repeat this"


def _names(rivals: tuple[Trace, ...]) -> str:
    return " and ".join(owner for owner in Owner if any(trace.owner is owner for trace in rivals))


def _second_operator_ctl(change: Change, standing: Situation) -> Iterator[Finding]:
    after = change.after
    if not isinstance(after, CustomResource) or after.meta.ref.kind != "NPUOperatorCtl":
        return
    others = [other for other in standing.facts.operator_ctls if _place(other) != _place(after)]
    asked = [demand for demand in after.demands if after.asks(demand.owner)]
    if change.request.operation == "UPDATE":
        new = {claiming.owner for claiming in change.activated}
        asked = [demand for demand in asked if demand.owner in new]
        others = [other for other in others if any(other.asks(demand.owner) for demand in asked)]
    if not others or (change.request.operation == "UPDATE" and not asked):
        return
    seen = tuple(Observation(str(other.meta.ref), "", "exists") for other in others)
    first = others[0].meta.ref
    if asked:
        yield Finding(
            ID,
            "deny",
            f"{change.ref} would be a second NPUOperatorCtl that asks for the device plugin",
            seen,
            f"set it in the first one: kubectl -n {first.namespace} edit npuoperatorctl {first.name}",
            causes=tuple(demand.field for demand in asked),
        )
    else:
        yield Finding(
            ID,
            "warn",
            f"{change.ref} is a second NPUOperatorCtl: all of them render the one NPUClusterPolicy cluster",
            seen,
            "keep one NPUOperatorCtl in the cluster",
        )


def _place(resource: CustomResource) -> tuple[str, str]:
    return resource.meta.ref.namespace, resource.meta.ref.name


def _malformed(change: Change) -> Iterator[Finding]:
    was = {(one.field, one.value) for one in change.malformed_before}
    for one in change.malformed:
        if not _is_mine(one):
            continue
        if (one.field, one.value) in was:
            yield Finding(
                ID, "warn", f"{change.ref} {one.field} is {one.value}, which is {_wanted(one)}", causes=(one.field,)
            )
        else:
            yield Finding(
                ID,
                "deny",
                f"{change.ref} {one.field} is {one.value}, which is {_wanted(one)}",
                next_step=f"write true or false, without quotes, into {_switch(one)}",
                causes=(one.field,),
                code=422,
            )


def _is_mine(one: Malformed) -> bool:
    return not any(f".{part}" in one.field for part in _BASE)


def _wanted(one: Malformed) -> str:
    return "no boolean" if one.field.endswith((".enabled", ".managed")) else "no mapping"


def _switch(one: Malformed) -> str:
    return one.field if one.field.endswith((".enabled", ".managed")) else f"{one.field}'s switch"
