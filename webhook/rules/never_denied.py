"""What is never denied, whatever the rules say (DESIGN.md section 4).

* The removal of finalizers, and of nothing else, from an object that is being deleted.
* Deletes by the system controllers (garbage collector, namespace controller, DaemonSet controller, ...), by exact name.
* What a kubelet writes about Pods and its node: user `system:node:*` and group `system:nodes`.
* Metadata-only changes of Pods; their resources cannot change after creation.
* Status subresources. Labels and ownerReferences can be changed through `nodes/status` and `daemonsets/status`: such a
  change by anyone but kubelets and system controllers is judged like one of the object.
* An update that changes nothing but bookkeeping, and the deletion of an object that is being deleted already.
"""

from webhook.ownership.change import Change

_STATUS_WITH_LABELS = ("nodes", "daemonsets")


def passes(change: Change) -> bool:
    """Whether the request passes without a look at the facts."""
    request, settings = change.request, change.settings
    if request.operation == "CONNECT" or change.removes_finalizers_only:
        return True
    if request.user.is_kubelet and request.resource in ("pods", "nodes"):
        return True
    trusted = request.user.name in settings.identities.system_controllers
    if request.operation == "DELETE":
        return trusted or change.deleting_already
    if request.sub_resource == "status":
        return request.resource not in _STATUS_WITH_LABELS or trusted or not change.marks_changed
    if request.operation == "UPDATE" and request.resource == "pods" and request.sub_resource != "ephemeralcontainers":
        return True
    return change.changes_nothing
