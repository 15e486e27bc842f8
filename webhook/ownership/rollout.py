"""Whether an owner's plugin has been rolled out: Ready and advertising on every node that is its own (DESIGN.md section
3)."""

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.ownership.devices import is_ascend_driver
from webhook.ownership.facts import Facts
from webhook.ownership.objects import DaemonSet, Node, Pod
from webhook.ownership.owners import Owner
from webhook.ownership.resources import served_by
from webhook.ownership.scope import Selector
from webhook.ownership.settings import Settings
from webhook.ownership.traces import foreign_is_unseen
from webhook.ownership.verdict import Observation

# The DaemonSet controller adds tolerations for these to every Pod that it makes
# (kubernetes/pkg/controller/daemon/util).
_TOLERATED_BY_EVERY_DAEMON_SET = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
)


@dataclass(frozen=True, slots=True)
class Rollout:
    """How far an owner's plugin is: `serving` nodes, `lacking` ones and `excused` ones, each with what was seen."""

    serving: frozenset[str]
    lacking: Mapping[str, Observation]
    excused: Mapping[str, Observation]

    @property
    def complete(self) -> bool:
        """Whether every node that counts serves, and at least one does."""
        return bool(self.serving) and not self.lacking


def is_ascend_node(node: Node, settings: Settings) -> bool:
    """Whether a node shows by itself that it has NPUs: a marker label, or an NPU resource key (0 included)."""
    return bool(node.advertised) or any(_marked(node.meta.labels, marker) for marker in settings.markers)


def _marked(labels: Mapping[str, str], marker: str) -> bool:
    key, has_value, value = marker.partition("=")
    found = labels.get(key)
    if found is None:
        return False
    if not has_value:
        return True
    return found.startswith(value[:-1]) if value.endswith("*") else found == value


def nodes_of(selectors: tuple[Selector, ...], facts: Facts, settings: Settings) -> tuple[Node, ...]:
    """Return the nodes that any of `selectors` selects by labels.

    A selector that says nothing about nodes means those that show by themselves that they have NPUs: a plugin without
    a nodeSelector runs on machines without chips, too, and will never serve there.
    """
    return tuple(
        node
        for node in facts.nodes.values()
        if any(
            is_ascend_node(node, settings) if selector.everywhere else selector.selects_labels(node.meta.labels)
            for selector in selectors
        )
    )


def rollout(owner: Owner, nodes: tuple[Node, ...], facts: Facts, settings: Settings) -> Rollout:
    """Return how far `owner` is on `nodes`, its own."""
    plugins = [daemon_set for daemon_set in facts.daemon_sets if daemon_set.owner is owner]
    pods: dict[str, list[tuple[Owner, Pod]]] = {}
    for pod_owner, pod in facts.plugin_pods:
        pods.setdefault(pod.node, []).append((pod_owner, pod))
    serving: set[str] = set()
    lacking: dict[str, Observation] = {}
    excused: dict[str, Observation] = {}
    for node in nodes:
        excuse = _excuse(node, plugins)
        if excuse is not None:
            excused[node.name] = excuse
            continue
        lack = _lack(owner, node, pods.get(node.name, []), facts, settings)
        if lack is None:
            serving.add(node.name)
        else:
            lacking[node.name] = lack
    return Rollout(frozenset(serving), lacking, excused)


def _excuse(node: Node, plugins: list[DaemonSet]) -> Observation | None:
    name = f"Node {node.name}"
    if not node.ready:
        return Observation(name, "", "is not Ready")
    if node.cordoned:
        return Observation(name, "", "is cordoned")
    if plugins and not any(_can_run_on(plugin, node) for plugin in plugins):
        return Observation(name, "", "has taints or labels that keep the plugin's DaemonSet away")
    return None


def _can_run_on(plugin: DaemonSet, node: Node) -> bool:
    if not plugin.selector.selects(node.name, node.meta.labels):
        return False
    return all(
        taint.effect == "PreferNoSchedule"
        or taint.key in _TOLERATED_BY_EVERY_DAEMON_SET
        or any(toleration.tolerates(taint.key, taint.value, taint.effect) for toleration in plugin.tolerations)
        for taint in node.taints
    )


def _lack(
    owner: Owner, node: Node, pods: list[tuple[Owner, Pod]], facts: Facts, settings: Settings
) -> Observation | None:
    """What a node lacks of serving for `owner`, None when nothing."""
    name = f"Node {node.name}"
    for other, pod in pods:
        if other is not owner:
            return Observation(name, "", f"runs {pod.meta.ref} of {other}")
    own = [pod for other, pod in pods if other is owner]
    unseen = owner is Owner.FOREIGN and foreign_is_unseen(facts)
    if not unseen and not any(pod.ready and not pod.meta.deleting for pod in own):
        broken = next((f"{pod.meta.ref} is not Ready" for pod in own), f"no plugin Pod of {owner} runs there")
        return Observation(name, "", f"is not served: {broken}")
    if owner is Owner.DRA:
        return _lacking_slice(node, facts)
    served = {key: amount for key, amount in node.allocatable.items() if served_by(owner, key, settings)}
    if any(amount > 0 for amount in served.values()):
        return None
    shown = ", ".join(f"{key}: {amount}" for key, amount in sorted(served.items()))
    return Observation(name, "status.allocatable", f"has {shown}" if shown else f"has no resource of {owner}")


def _lacking_slice(node: Node, facts: Facts) -> Observation | None:
    if "resourceslices" in facts.absent:
        return None
    published = any(part.node == node.name and is_ascend_driver(part.driver) for part in facts.resource_slices)
    return None if published else Observation(f"Node {node.name}", "", "has no ResourceSlice of the NPU driver")
