"""unaccounted-access: chips are reached through the device plugin, or nobody knows who uses them.

A Pod with ids in its environment, a chip's device path, or an equivalent shape with Ascend evidence beside it reaches
NPUs without any allocation. By default that is a warning. Shapes without evidence (/dev, /, a driver tree) only ever
warn, whatever the mode: storage, network and rescue Pods have them. Privileged alone is silent. Nothing of this is
held against kube-system and infrastructure.
"""

from collections.abc import Iterator

from webhook.ownership.change import Change
from webhook.ownership.infrastructure import creates_infrastructure
from webhook.ownership.objects import Pod
from webhook.ownership.pods import added_paths
from webhook.ownership.situation import Situation
from webhook.ownership.verdict import Finding, Observation

ID = "unaccounted-access"


def judge(change: Change, standing: Situation) -> Iterator[Finding]:
    """Yield what this rule has to say about `change`."""
    pod = change.after
    request = change.request
    if request.resource != "pods" or request.operation == "DELETE" or not isinstance(pod, Pod):
        return
    if pod.meta.ref.namespace == "kube-system" or pod.owner is not None:
        return
    if creates_infrastructure(request.user, pod, standing.facts, standing.settings):
        return
    paths = added_paths(change, standing.facts)
    reached = [path for path in paths if path.way in ("env", "device")]
    shapes = [path for path in paths if path.way == "shape"]
    if reached:
        seen = tuple(Observation(path.container, "", f"has {path.what}") for path in reached)
        yield Finding(
            ID,
            "deny",
            f"{change.ref} reaches NPUs without the device plugin ({reached[0].what})",
            seen,
            "ask for an NPU resource instead",
        )
    elif shapes:
        yield Finding(
            ID,
            "warn",
            f"{change.ref} may reach NPUs without the device plugin ({shapes[0].what})",
            tuple(Observation(path.container, "", f"mounts {path.what}") for path in shapes),
            "if it uses NPUs, ask for an NPU resource instead",
        )
