"""overlapping-maintenance: a switch of owner and a driver upgrade or reboot do not overlap.

Denied, while an upgrade or reboot is under way on a node of the owner concerned: giving up a settled owner, bringing
one
in while nobody owns the chips, deleting the NPUOperatorCtl. A way back (asking the same owner back, removing one that
starts, anything in conflict) is not. Under way is a driver-upgrade-state other than empty or `upgrade-done`, unknown
words too; `reboot-required` that is not "false"; `reboot-in-progress`.

Denied is a change of the effective driver (version or image, absent means the default; none while driver.enabled is
false) in the middle of a switch, and in the same change as giving up or bringing in. While native starts and no node is
under way it is a correction: a warning. So is autoRecover switched on in the middle of a switch: it reboots by itself.

Denied is an NPU Pod that is pinned to nodes of its owner which are all being drained, upgraded or rebooted.
"""

from collections.abc import Iterator

from webhook.ownership.change import Change
from webhook.ownership.giving_up import asks_by_itself, losses
from webhook.ownership.infrastructure import creates_infrastructure
from webhook.ownership.maintenance import closed_to_pods, effective_driver, under_way
from webhook.ownership.objects import Base, CustomResource, Node, Pod
from webhook.ownership.owners import Owner
from webhook.ownership.pods import added_paths, nodes_that_fit, pools_open_to
from webhook.ownership.procedure import next_step
from webhook.ownership.rollout import nodes_of
from webhook.ownership.situation import Pool, Situation
from webhook.ownership.verdict import Finding, Observation

ID = "overlapping-maintenance"
_WAIT = "wait until the upgrade is done (kubectl get nodes -L npu.openfuyao.com/driver-upgrade-state), then repeat this"


def judge(change: Change, standing: Situation) -> Iterator[Finding]:
    """Yield what this rule has to say about `change`."""
    if change.request.resource == "pods":
        yield from _pod(change, standing)
        return
    yield from _start(change, standing)
    yield from _driver(change, standing)


def _start(change: Change, standing: Situation) -> Iterator[Finding]:
    facts, settings = standing.facts, standing.settings
    starts: list[tuple[str, frozenset[str]]] = []
    for loss in losses(change, facts, settings):
        pools = standing.pools_of(loss.owner)
        settled = any(pool.phase.name in ("settled", "unknown") for pool in pools)
        if loss.whole and settled:
            starts.append((f"give up {loss.owner}", loss.nodes))
    if asks_by_itself(change, facts):
        for claiming in change.activated:
            pool = standing.pool_for(claiming.owner, (claiming.selector,))
            if pool.phase.name in ("unowned", "unknown"):
                names = frozenset(node.name for node in nodes_of((claiming.selector,), facts, settings))
                starts.append((f"bring in {claiming.owner}", names))
    before = change.before
    deletes = change.request.operation == "DELETE" and isinstance(before, CustomResource)
    if deletes and change.ref.kind == "NPUOperatorCtl" and not starts:
        starts.append(("uninstall the NPU stack", frozenset(facts.nodes)))
    for what, names in starts:
        seen = tuple(seen for name in sorted(names) if (seen := under_way(facts.nodes[name])) is not None)
        if standing.unknown is not None:
            seen = standing.unknown.evidence
        if seen:
            known = standing.unknown is None
            when = (
                "during an upgrade or reboot" if known else "while it is unknown whether a node is upgraded or rebooted"
            )
            step = _WAIT if standing.unknown is None else next_step(standing.unknown, facts, settings)
            yield Finding(ID, "deny", f"{change.ref} would {what} {when}", seen, step)


def _driver(change: Change, standing: Situation) -> Iterator[Finding]:
    before, after = change.before, change.after
    if not isinstance(before, CustomResource) or not isinstance(after, CustomResource):
        return
    if before.base is None or after.base is None or not after.effective:
        return
    pool = standing.pool_for(Owner.NATIVE, (after.selector,) if after.selector is not None else ())
    old, new = effective_driver(before.base), effective_driver(after.base)
    if new is not None and new != old:
        yield from _driver_changed(change, before.base, after.base, pool, standing)
    if after.base.auto_recover and not before.base.auto_recover and _is_mid_switch(pool, standing):
        yield Finding(
            ID,
            "warn",
            f"{change.ref} lets nodes reboot by themselves in the middle of a switch",
            (Observation("the phase", "", f"is {pool.phase}"),),
            "switch recoveryPolicy.autoRecover on after the switch",
        )


def _driver_changed(change: Change, before: Base, after: Base, pool: Pool, standing: Situation) -> Iterator[Finding]:
    field = "spec.driver.enabled" if not before.driver else "spec.driver"
    if before.driver and before.driver_version != after.driver_version:
        field = "spec.driver.version"
    same_change = bool(change.surrendered or change.activated)
    if not same_change and not _is_mid_switch(pool, standing):
        return
    busy = any(under_way(node) is not None for node in _nodes_of_native(standing))
    correction = pool.phase.name == "starting" and pool.phase.owner is Owner.NATIVE and not busy and not same_change
    what = f"{change.ref} would change the driver in the middle of a switch"
    if same_change:
        what = f"{change.ref} would change the driver and the owner in one change"
    yield Finding(
        ID,
        "warn" if correction else "deny",
        what,
        (Observation("the phase", "", f"is {pool.phase}"), *pool.phase.evidence),
        "change the driver before the switch, or after some owner has settled",
        causes=(field,),
    )


def _nodes_of_native(standing: Situation) -> tuple[Node, ...]:
    selectors = tuple(trace.selector for trace in standing.traces if trace.owner is Owner.NATIVE and trace.selector)
    return nodes_of(selectors, standing.facts, standing.settings) or tuple(standing.facts.nodes.values())


def _is_mid_switch(pool: Pool, standing: Situation) -> bool:
    """Every phase but `settled`, and but an `unowned` that nobody gave up."""
    if pool.phase.name == "settled":
        return False
    if pool.phase.name == "unowned":
        return any(claim.state == "leaving" for claim in standing.facts.memory.claims)
    return True


def _pod(change: Change, standing: Situation) -> Iterator[Finding]:
    pod = change.after
    if not isinstance(pod, Pod) or change.request.operation == "DELETE" or standing.unknown is not None:
        return
    paths = [path for path in added_paths(change, standing.facts) if path.way != "shape"]
    if not paths or creates_infrastructure(change.request.user, pod, standing.facts, standing.settings):
        return
    fitting = [node for pool in pools_open_to(pod, standing) for node in nodes_that_fit(pod, pool, standing)]
    closed = [seen for node in fitting if (seen := closed_to_pods(node)) is not None]
    if fitting and len(closed) == len(fitting) and pod.pinned is not None and not pod.pinned.everywhere:
        yield Finding(
            ID, "deny", f"{change.ref} is pinned to nodes that are being upgraded or rebooted", tuple(closed), _WAIT
        )
