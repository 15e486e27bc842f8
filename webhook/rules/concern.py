"""Is a request ours at all, and what does judging it need: nothing, the cached facts, or live ones."""

from webhook.ownership.change import Change
from webhook.ownership.custom_resources import kind_of
from webhook.ownership.facts import Facts
from webhook.ownership.fields import at
from webhook.ownership.objects import Pod
from webhook.ownership.owners import plugin_owner
from webhook.ownership.request import Request
from webhook.ownership.settings import Settings
from webhook.ownership.verdict import Subject

_CONTAINERS = (("apiextensions.k8s.io", "customresourcedefinitions"), ("", "namespaces"))
"""Deleting one deletes what it holds."""


def subject_of(request: Request, settings: Settings) -> Subject:
    """Return what kind of request this is.

    `none` needs no facts; `pod` and `template` are judged by the cached ones, so that they never wait for the API
    server;
    `owner` and `node` decide who owns the chips, and need live ones.
    """
    if request.operation == "CONNECT":
        return "none"
    group, resource = request.group, request.resource
    if kind_of(group, request.kind, settings) is not None:
        return "none" if request.sub_resource else "owner"
    # The kind of an eviction is in group policy: it is a subresource of Pods all the same.
    if resource in ("pods", "bindings") and group in ("", "policy"):
        return _pod(request, settings)
    if group == "" and resource == "nodes":
        return "node" if request.operation == "UPDATE" else "none"
    if (group, resource) == ("node.k8s.io", "runtimeclasses"):
        return "owner" if request.object_name == "ascend" else "none"
    if (group, resource) in _CONTAINERS:
        return "owner" if request.operation == "DELETE" else "none"
    if request.sub_resource not in ("", "status"):
        return "none"
    if _is_plugin(request, settings):
        return "owner"
    return "template" if request.object is not None else "none"


def _pod(request: Request, settings: Settings) -> Subject:
    if request.resource == "bindings" or request.sub_resource in ("binding", "eviction", "ephemeralcontainers"):
        return "pod"
    if request.sub_resource or request.operation == "UPDATE":
        return "none"
    by_controller = request.user.name in settings.identities.system_controllers
    if request.operation == "CREATE" and not by_controller and _is_plugin(request, settings):
        return "owner"
    return "pod"


def _is_plugin(request: Request, settings: Settings) -> bool:
    """Whether the object is or was a device plugin, or infrastructure's generated DaemonSet, by structure."""
    candidates = [item for item in (request.object, request.old_object) if item is not None]
    return any(at(item, "spec") is not None and plugin_owner(item, settings) is not None for item in candidates)


def rests_on_phase(request: Request, facts: Facts, settings: Settings) -> bool:
    """Whether the verdict on a Pod's request depends on the phase, and so on what the guard's Lease says.

    It does for a Pod that reaches an NPU by any path, and for one of a device plugin; every other Pod passes anyway.
    """
    by_name = request.resource == "bindings" or request.sub_resource in ("binding", "eviction")
    if by_name or request.operation == "DELETE":
        pod = facts.pods_by_name.get((request.namespace, request.object_name))
    else:
        after = Change(request, settings).after
        pod = after if isinstance(after, Pod) else None
    return pod is not None and (bool(facts.paths_of(pod)) or facts.owner_of(pod) is not None)
