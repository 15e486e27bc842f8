"""mid-switch: no new NPU Pod while its scope is not settled.

Denied is the creation of a Pod that reaches an NPU by any path, the addition of an ephemeral container that does, and
the
binding of a waiting one (`bindings.enabled`), in every phase but `settled`. `unowned.pods` and `unknown.pods` may allow
them while nobody owns the chips, or while that is unknown.

A request for NPU resources or a claim of them is held against every Pod but infrastructure. Ids in the environment,
chip devices, and shapes with Ascend evidence beside them are held against every Pod outside kube-system. Shapes without
evidence (/dev, driver trees, privileged) never are. Infrastructure is a Pod that a system controller makes for a
DaemonSet that is a device plugin or has a configured name; a kubelet's mirror Pods pass, too.

Warned about: a Pod while an owner is wanted and the cluster has no Ascend node yet; nodes that a remembered owner does
not serve at present, by name. A Pod that can only run on such nodes is denied. Nodes that are excused from the roll-out
(NotReady, cordoned, out of the plugin's reach) are named by the warning `excused-node`.
"""

from collections.abc import Iterator

from webhook.ownership.change import Change
from webhook.ownership.infrastructure import creates_infrastructure
from webhook.ownership.objects import Pod
from webhook.ownership.pods import added_paths, nodes_that_fit, pools_open_to
from webhook.ownership.procedure import next_step, watch_starting
from webhook.ownership.situation import Pool, Situation
from webhook.ownership.verdict import Finding, Observation
from webhook.ownership.workload import Path

ID = "mid-switch"
EXCUSED = "excused-node"
_MAX_NODES = 8


def judge(change: Change, standing: Situation) -> Iterator[Finding]:
    """Yield what this rule has to say about `change`."""
    request = change.request
    if (
        request.resource not in ("pods", "bindings")
        or request.operation == "DELETE"
        or request.sub_resource == "eviction"
    ):
        return
    if request.sub_resource == "binding" or request.resource == "bindings":
        yield from _binding(change, standing)
    else:
        pod = change.after
        if isinstance(pod, Pod) and not creates_infrastructure(request.user, pod, standing.facts, standing.settings):
            yield from _pod(str(change.ref), pod, added_paths(change, standing.facts), standing)


def _binding(change: Change, standing: Situation) -> Iterator[Finding]:
    request = change.request
    if not change.settings.bindings.enabled:
        return
    pod = standing.facts.pods_by_name.get((request.namespace, request.object_name))
    if pod is None or pod.finished or standing.facts.daemon_set_of(pod) is not None:
        return
    yield from _pod(f"the binding of {pod.meta.ref}", pod, standing.facts.paths_of(pod), standing)


def _pod(name: str, pod: Pod, paths: tuple[Path, ...], standing: Situation) -> Iterator[Finding]:
    held = [path for path in paths if _counts(path, pod)]
    if not held:
        return
    pools = pools_open_to(pod, standing)
    closed = [pool for pool in pools if not _is_open(pool, standing)]
    if len(closed) < len(pools):
        yield from _no_nodes_yet(name, pools)
        yield from _unserved(name, pod, [pool for pool in pools if pool not in closed], standing)
        return
    pool = closed[0]
    yield Finding(
        ID,
        "deny",
        f"{name} reaches an NPU ({held[0].what}) while the scope is {_in_words(pool)}",
        pool.phase.evidence,
        next_step(pool.phase, standing.facts, standing.settings),
    )


def _counts(path: Path, pod: Pod) -> bool:
    match path.way:
        case "resource" | "claim":
            return True
        case "env" | "device":
            return pod.meta.ref.namespace != "kube-system"
        case "shape":
            return False


def _is_open(pool: Pool, standing: Situation) -> bool:
    settings = standing.settings
    match pool.phase.name:
        case "settled":
            return True
        case "unowned":
            return settings.unowned.pods == "allow" and not _is_claimed(standing)
        case "unknown":
            return settings.unknown.pods == "allow"
        case "starting":
            return pool.phase.no_nodes
        case _:
            return False


def _is_claimed(standing: Situation) -> bool:
    """Whether somebody is bringing an owner in, although nothing of it is to be seen yet."""
    facts, timeout = standing.facts, standing.settings.claim.timeout
    return any(claim.state == "activating" and claim.is_young(facts.now, timeout) for claim in facts.memory.claims)


def _unserved(name: str, pod: Pod, pools: list[Pool], standing: Situation) -> Iterator[Finding]:
    """A settled owner does not serve every node at present: say which, and refuse a Pod that can run nowhere else."""
    lacking = {
        node: seen for pool in pools for node, seen in pool.phase.lacking.items() if pool.phase.name == "settled"
    }
    excused = {node: seen for pool in pools for node, seen in pool.phase.excused.items()}
    fitting = {node.name for pool in pools for node in nodes_that_fit(pod, pool, standing)}
    pinned = pod.pinned is not None and not pod.pinned.everywhere
    if lacking and pinned and fitting and fitting <= lacking.keys():
        phase = pools[0].phase
        yield Finding(
            ID,
            "deny",
            f"{name} can only run on nodes that {phase.owner} does not serve at present",
            tuple(lacking[node] for node in sorted(fitting)),
            f"repair the plugin there ({watch_starting(phase.owners[0], standing.facts)}), or run the Pod elsewhere",
        )
    elif lacking:
        nodes = ", ".join(sorted(lacking)[:_MAX_NODES])
        yield Finding(ID, "warn", f"not served at present: {nodes}", tuple(lacking.values()))
    if excused:
        nodes = ", ".join(sorted(excused)[:_MAX_NODES])
        yield Finding(EXCUSED, "warn", f"not counted on, and maybe not served: {nodes}", tuple(excused.values()))


def _no_nodes_yet(name: str, pools: tuple[Pool, ...]) -> Iterator[Finding]:
    for pool in pools:
        if pool.phase.name == "starting" and pool.phase.no_nodes:
            yield Finding(
                ID,
                "warn",
                f"{name} waits for the first Ascend node: the scope is {pool.phase}",
                (Observation("the cluster", "", "has no Ascend node"),),
            )
            return


def _in_words(pool: Pool) -> str:
    return "not known" if pool.phase.name == "unknown" else str(pool.phase)
