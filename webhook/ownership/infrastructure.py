"""Which Pods are the NPU stack's own: they touch chips and are no workload (DESIGN.md section 4, `mid-switch`)."""

from webhook.ownership.facts import Facts
from webhook.ownership.objects import Pod
from webhook.ownership.request import User
from webhook.ownership.settings import Settings

_USUAL_NAMESPACES = frozenset({"kube-system", "npu-operator", "npu-exporter", "mindx-dl", "hami-system"})


def creates_infrastructure(user: User, pod: Pod, facts: Facts, settings: Settings) -> bool:
    """Whether `pod`, being created by `user`, is infrastructure: made by a system controller for a known DaemonSet.

    A label or name that a person chose never counts; the DaemonSet controller's word about its DaemonSet does.
    """
    if user.name not in settings.identities.system_controllers:
        return False
    if facts.daemon_set_of(pod) is not None and pod_is_infrastructure(pod, facts, settings):
        return True
    controller = next((ref for ref in pod.meta.owners if ref.controller and ref.kind == "DaemonSet"), None)
    if controller is None:
        return False
    return pod.owner is not None or _named(controller.name, pod.meta.ref.namespace, facts, settings)


def pod_is_infrastructure(pod: Pod, facts: Facts, settings: Settings) -> bool:
    """Whether a Pod that exists is infrastructure: controlled by an existing such DaemonSet, by uid."""
    daemon_set = facts.daemon_set_of(pod)
    if daemon_set is None:
        return False
    ref = daemon_set.meta.ref
    return daemon_set.owner is not None or _named(ref.name, ref.namespace, facts, settings)


def _named(name: str, namespace: str, facts: Facts, settings: Settings) -> bool:
    listed = settings.identities.infrastructure
    if f"{namespace}/{name}" in listed:
        return True
    return name in listed and namespace in _bare_name_namespaces(facts)


def _bare_name_namespaces(facts: Facts) -> frozenset[str]:
    """Where a name without namespace counts: the products' usual namespaces and those of an owner's custom resource."""
    resources = (*facts.operator_ctls, *facts.hami_plugins)
    return _USUAL_NAMESPACES | {resource.meta.ref.namespace for resource in resources}


def looks_like_infrastructure(pod: Pod) -> bool:
    """Whether a manifest has the place and shape of infrastructure: a usual namespace, and nothing but shapes.

    For people who classify manifests only: nobody has proved yet who creates this Pod, so no rule may rely on it.
    """
    accounted = pod.access.resources or pod.access.claims
    chips = any(path.way == "env" or "davinci" in path.what for path in pod.access.unaccounted)
    return pod.meta.ref.namespace in _USUAL_NAMESPACES and not accounted and not chips
