"""mid-switch: no new NPU Pod while its scope is not settled.

Denied is the creation of a Pod that reaches an NPU by any path, the addition of an ephemeral container that does, and
the
binding of a waiting one (`bindings.enabled`), in every phase but `settled`. `unowned.pods` and `unknown.pods` may allow
them while nobody owns the chips, or while that is unknown.

A request for NPU resources or a claim of them is held against every Pod but infrastructure. Ids in the environment,
chip devices, and shapes with Ascend evidence beside them are held against every Pod outside kube-system. Shapes without
evidence (/dev, driver trees, privileged) never are. Infrastructure is a Pod that a system controller makes for a
DaemonSet that is a device plugin or has a configured name; a kubelet's mirror Pods pass, too.

Warned about: a template whose Pods would be denied; a Pod while an owner is wanted and the cluster has no Ascend node
yet.
"""

from collections.abc import Iterator

from webhook.ownership.change import Change
from webhook.ownership.infrastructure import creates_infrastructure
from webhook.ownership.objects import Pod
from webhook.ownership.pods import added_paths, pools_open_to, templates_of
from webhook.ownership.procedure import next_step
from webhook.ownership.situation import Pool, Situation
from webhook.ownership.verdict import Finding, Observation
from webhook.ownership.workload import Path

ID = "mid-switch"


def judge(change: Change, standing: Situation) -> Iterator[Finding]:
    """Yield what this rule has to say about `change`."""
    request = change.request
    if request.operation == "DELETE" or request.sub_resource == "eviction":
        return
    if request.sub_resource == "binding" or request.resource == "bindings":
        yield from _binding(change, standing)
    elif request.resource == "pods":
        pod = change.after
        if isinstance(pod, Pod) and not creates_infrastructure(request.user, pod, standing.facts, standing.settings):
            yield from _pod(str(change.ref), pod, added_paths(change, standing.facts), standing)
    else:
        yield from _templates(change, standing)


def _binding(change: Change, standing: Situation) -> Iterator[Finding]:
    request = change.request
    if not change.settings.bindings.enabled:
        return
    pod = standing.facts.pods_by_name.get((request.namespace, request.object_name))
    if pod is None or pod.finished or standing.facts.daemon_set_of(pod) is not None:
        return
    yield from _pod(f"the binding of {pod.meta.ref}", pod, standing.facts.paths_of(pod), standing)


def _templates(change: Change, standing: Situation) -> Iterator[Finding]:
    for template, pod in templates_of(change):
        name = f"a Pod that {change.ref} makes from {template}"
        for finding in _pod(name, pod, standing.facts.paths_of(pod), standing):
            if finding.effect == "deny":
                what = f"would be denied now: {finding.what}"
                yield Finding(ID, "warn", what, next_step=finding.next_step)
                return


def _pod(name: str, pod: Pod, paths: tuple[Path, ...], standing: Situation) -> Iterator[Finding]:
    held = [path for path in paths if _counts(path, pod)]
    if not held:
        return
    pools = pools_open_to(pod, standing)
    closed = [pool for pool in pools if not _is_open(pool, standing)]
    if len(closed) < len(pools):
        yield from _no_nodes_yet(name, pools)
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
            return settings.unowned.pods == "allow"
        case "unknown":
            return settings.unknown.pods == "allow"
        case "starting":
            return pool.phase.no_nodes
        case _:
            return False


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
