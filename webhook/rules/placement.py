"""placement: HAMi's plugin goes to exactly the intended nodes, with the driver tree that is really there.

Denied is a HAMiAscendDevicePlugin, new or with another selector, whose node selector is empty, misses an intended
Ascend
node, or takes in a node that is none. Intended are all Ascend nodes; in scope mode `selectors` without those of an
owner
whose selector contradicts it. An absent nodeSelector is HAMi's default; null and {} are empty. A second one needs a
selector that contradicts the first's, and both together must cover the intended nodes.

Denied is a driver host path that contradicts the driver mode: with driver.enabled false either tree of the host, with
true one of `driverPaths`, without an NPUOperatorCtl any of them; none at all is a warning. And denied is switching the
driver on under a HAMi that mounts another tree. While the facts are unknown, another selector or path is denied.
"""

import posixpath
from collections.abc import Iterator

from webhook.ownership.change import Change
from webhook.ownership.facts import Facts
from webhook.ownership.objects import CustomResource, Node
from webhook.ownership.owners import Owner
from webhook.ownership.procedure import next_step
from webhook.ownership.rollout import is_ascend_node, nodes_of
from webhook.ownership.scope import Selector
from webhook.ownership.settings import Settings
from webhook.ownership.situation import Situation
from webhook.ownership.verdict import Finding, Observation

ID = "placement"

HOST_TREES = ("/usr/local/Ascend/driver", "/var/lib/Ascend/driver")
"""Where a driver that was installed on the host beforehand lies (DOMAIN.md section 3)."""

_MAX_NODES = 10


def judge(change: Change, standing: Situation) -> Iterator[Finding]:
    """Yield what this rule has to say about `change`."""
    before, after = change.before, change.after
    if not isinstance(after, CustomResource):
        return
    if after.meta.ref.kind == "HAMiAscendDevicePlugin":
        old = before if isinstance(before, CustomResource) else None
        if old is None or old.selector != after.selector:
            yield from _selector(change, after, standing)
        if old is None or old.driver_host_path != after.driver_host_path:
            yield from _path(change, after, standing)
    elif isinstance(before, CustomResource):
        yield from _driver_comes(change, before, after, standing)


def _selector(change: Change, after: CustomResource, standing: Situation) -> Iterator[Finding]:
    facts, settings = standing.facts, standing.settings
    field = settings.kinds.hami_ascend_device_plugin.node_selector
    selector = after.selector or Selector()
    if standing.unknown is not None:
        yield _unknown(change, field, standing)
        return
    if selector.everywhere:
        yield Finding(
            ID,
            "deny",
            f"{change.ref} would put HAMi's plugin on every node: its node selector is empty",
            (Observation(str(change.ref), field, "is empty"),),
            f"select exactly the Ascend nodes in {field}",
            causes=(field,),
        )
        return
    others = [one for one in facts.hami_plugins if one.meta.ref != after.meta.ref and not one.meta.deleting]
    for other in others:
        if other.selector is not None and not selector.contradicts(other.selector):
            yield Finding(
                ID,
                "deny",
                f"{change.ref} would serve the nodes of another HAMiAscendDevicePlugin",
                (Observation(str(other.meta.ref), field, f"is {other.selector}"),),
                "give both selectors the same key with different values",
                causes=(field,),
            )
    covered = {node.name for one in others if one.selector is not None for node in _selected(one.selector, facts)}
    intended = _intended(selector, standing)
    selected = {node.name for node in _selected(selector, facts)}
    missed = sorted(set(intended) - selected - covered)
    exceeded = sorted(selected - set(intended))
    for words, names, seen in (
        ("miss", missed, "is an Ascend node and is not selected"),
        ("take in", exceeded, "is selected and is no Ascend node"),
    ):
        if names:
            yield Finding(
                ID,
                "deny",
                f"{change.ref} would {words} nodes with its selector {selector}",
                tuple(Observation(f"Node {name}", "", seen) for name in names[:_MAX_NODES]),
                f"label the nodes, or correct {field}, so that it selects exactly the Ascend nodes",
                causes=(field,),
            )


def _selected(selector: Selector, facts: Facts) -> list[Node]:
    return [node for node in facts.nodes.values() if selector.selects_labels(node.meta.labels)]


def _intended(selector: Selector, standing: Situation) -> frozenset[str]:
    facts, settings = standing.facts, standing.settings
    own: list[Selector] = [
        trace.selector
        for trace in standing.traces
        if trace.selector is not None and trace.source != "pod" and trace.owner is not Owner.HAMI
    ]
    own += [ctl.selector for ctl in facts.operator_ctls if ctl.selector is not None]
    named = tuple(one for one in own if not one.everywhere)
    names = {node.name for node in facts.nodes.values() if is_ascend_node(node, settings)}
    names |= {node.name for node in nodes_of(named, facts, settings)}
    if settings.scope.mode == "selectors":
        disjoint = tuple(one for one in named if one.contradicts(selector))
        names -= {node.name for node in nodes_of(disjoint, facts, settings)}
    return frozenset(names)


def _path(change: Change, after: CustomResource, standing: Situation) -> Iterator[Finding]:
    field = standing.settings.kinds.hami_ascend_device_plugin.driver_host_path
    path = after.driver_host_path
    if path is None:
        yield Finding(
            ID,
            "warn",
            f"{change.ref} names no driver host path: HAMi's default must be where the driver is",
            next_step=f"set {field}",
            causes=(field,),
        )
        return
    if standing.unknown is not None:
        yield _unknown(change, field, standing)
        return
    allowed, seen = _trees(standing.facts, standing.settings)
    if posixpath.normpath(path) not in allowed:
        yield Finding(
            ID,
            "deny",
            f"{change.ref} would mount the driver from {path[:80]}, where it is not",
            (seen,),
            f"set {field} to {' or '.join(allowed)}",
            causes=(field,),
        )


def _trees(facts: Facts, settings: Settings) -> tuple[tuple[str, ...], Observation]:
    """The host paths that fit the driver mode, and what tells the mode."""
    installed = tuple(posixpath.normpath(path) for path in settings.driver_paths)
    ctl = next(iter(facts.operator_ctls), None)
    if ctl is None or ctl.base is None:
        return tuple(dict.fromkeys((*HOST_TREES, *installed))), Observation("NPUOperatorCtl", "", "is missing")
    if ctl.base.driver:
        return installed, Observation(str(ctl.meta.ref), "spec.driver.enabled", "is true: the operator installs it")
    return HOST_TREES, Observation(str(ctl.meta.ref), "spec.driver.enabled", "is false: the host brings it")


def _driver_comes(
    change: Change, before: CustomResource, after: CustomResource, standing: Situation
) -> Iterator[Finding]:
    if before.base is None or after.base is None or before.base.driver or not after.base.driver:
        return
    installed = tuple(posixpath.normpath(path) for path in standing.settings.driver_paths)
    for hami in standing.facts.hami_plugins:
        path = hami.driver_host_path
        if path is not None and posixpath.normpath(path) not in installed:
            field = standing.settings.kinds.hami_ascend_device_plugin.driver_host_path
            yield Finding(
                ID,
                "deny",
                f"{change.ref} would install a driver under a HAMi that mounts another tree",
                (Observation(str(hami.meta.ref), field, f"is {path[:80]}"),),
                f"keep the host's driver, or remove HAMi first and bring it back with {' or '.join(installed)}",
                causes=("spec.driver.enabled",),
            )


def _unknown(change: Change, field: str, standing: Situation) -> Finding:
    unknown = standing.unknown
    evidence = unknown.evidence if unknown is not None else ()
    step = next_step(unknown, standing.facts, standing.settings) if unknown is not None else ""
    return Finding(ID, "deny", f"{change.ref} cannot be held against the nodes now", evidence, step, causes=(field,))
