"""Driver upgrades and reboots that are under way on nodes (DOMAIN.md section 4, neighbours of a switch)."""

from webhook.ownership.objects import Base, Node
from webhook.ownership.verdict import Observation

_PREFIX = "npu.openfuyao.com/"
UPGRADE_STATE = _PREFIX + "driver-upgrade-state"
REBOOT_REQUIRED = _PREFIX + "reboot-required"
REBOOT_IN_PROGRESS = _PREFIX + "reboot-in-progress"

_IDLE = ("", "upgrade-done")
_WAITING = "upgrade-required"
"""An operator may set it on every node at once: it stops a switch, but closes no node to Pods."""


def under_way(node: Node) -> Observation | None:
    """Return what is under way on the node, None when nothing is. A state that nobody knows counts."""
    marks = {**node.meta.annotations, **node.meta.labels}
    name = f"Node {node.name}"
    state = marks.get(UPGRADE_STATE, "")
    if state not in _IDLE:
        return Observation(name, UPGRADE_STATE, f"is {state}")
    if REBOOT_REQUIRED in marks and marks[REBOOT_REQUIRED] != "false":
        return Observation(name, REBOOT_REQUIRED, f"is {marks[REBOOT_REQUIRED] or 'set'}")
    if REBOOT_IN_PROGRESS in marks:
        return Observation(name, REBOOT_IN_PROGRESS, "is set")
    return None


def closed_to_pods(node: Node) -> Observation | None:
    """Return why the node takes no NPU Pods: its upgrade has begun, or it reboots; None when it does."""
    marks = {**node.meta.annotations, **node.meta.labels}
    state = marks.get(UPGRADE_STATE, "")
    if state not in (*_IDLE, _WAITING):
        return Observation(f"Node {node.name}", UPGRADE_STATE, f"is {state}")
    if REBOOT_IN_PROGRESS in marks:
        return Observation(f"Node {node.name}", REBOOT_IN_PROGRESS, "is set")
    return None


def effective_driver(base: Base | None) -> tuple[str, str] | None:
    """Return the driver's version and image, None when no driver is installed by the operator."""
    return (base.driver_version, base.driver_image) if base is not None and base.driver else None
