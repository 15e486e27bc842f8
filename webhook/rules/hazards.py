"""phantom-devices: what HAMi leaves behind on nodes goes on attracting Pods (DOMAIN.md section 8).

After HAMi has left, its node annotations should be gone: its scheduler keeps placing Pods by them, the more so while
the
native plugin publishes the same resources. Warned about when the native plugin is brought in, and for NPU Pods while it
is settled. Only ever a warning.
"""

from collections.abc import Iterator

from webhook.ownership.change import Change
from webhook.ownership.objects import Node, Pod
from webhook.ownership.owners import Owner
from webhook.ownership.situation import Situation
from webhook.ownership.verdict import Finding, Observation

ID = "phantom-devices"
_MARKS = ("hami.io/node-register-", "hami.io/node-handshake-", "hami-vnpu-core")


def judge(change: Change, standing: Situation) -> Iterator[Finding]:
    """Yield what this rule has to say about `change`."""
    if standing.unknown is not None or Owner.HAMI in standing.active or not _concerns(change, standing):
        return
    found = [
        Observation(f"Node {node.name}", "metadata.annotations", f"has {mark}")
        for node in standing.facts.nodes.values()
        if (mark := _mark(node)) is not None
    ]
    if found:
        first = standing.facts.nodes[found[0].object.removeprefix("Node ")]
        yield Finding(
            ID,
            "warn",
            "HAMi's annotations are still on nodes: its scheduler may place Pods by them",
            tuple(found),
            f"take them away: kubectl annotate node {first.name} {_mark(first)}-",
        )


def _concerns(change: Change, standing: Situation) -> bool:
    if any(claiming.owner is Owner.NATIVE for claiming in change.activated):
        return True
    pod = change.after
    creates = isinstance(pod, Pod) and change.request.operation == "CREATE" and bool(pod.access.resources)
    return creates and any(pool.phase.name == "settled" and pool.phase.owner is Owner.NATIVE for pool in standing.pools)


def _mark(node: Node) -> str | None:
    return next((key for key in sorted(node.meta.annotations) if key.startswith(_MARKS)), None)
