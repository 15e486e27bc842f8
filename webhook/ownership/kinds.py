"""Which kinds the facts are made of, and what it means when one cannot be read."""

from dataclasses import dataclass

from webhook.ownership.settings import Settings

HAMI_DEVICES = "hami-scheduler-device"
"""HAMi's ConfigMap of device definitions (DOMAIN.md section 5)."""


@dataclass(frozen=True, slots=True)
class FactKind:
    """A kind to list and watch.

    `id` is the plural as `facts.missing` names it. `groups` are alternatives or additions: each one that is served is
    read; the version is discovered. An essential kind that cannot be read (any answer but "not served") makes the
    phase unknown; the others only serve warnings. `only` names the one object that is read, in any namespace. Only
    Pods are `many`: their lines are tested as bytes before they
    are decoded.
    """

    id: str
    kind: str
    groups: tuple[str, ...]
    plural: str
    essential: bool = True
    many: bool = False
    only: str = ""


def fact_kinds(settings: Settings) -> tuple[FactKind, ...]:
    """Return the kinds to read, under the groups and plurals of `settings.kinds` (DESIGN.md section 7)."""
    kinds = settings.kinds
    return (
        FactKind(
            kinds.npu_operator_ctl.plural,
            "NPUOperatorCtl",
            kinds.npu_operator_ctl.groups,
            kinds.npu_operator_ctl.plural,
        ),
        FactKind(
            kinds.npu_cluster_policy.plural,
            "NPUClusterPolicy",
            kinds.npu_cluster_policy.groups,
            kinds.npu_cluster_policy.plural,
        ),
        FactKind(
            kinds.hami_ascend_device_plugin.plural,
            "HAMiAscendDevicePlugin",
            kinds.hami_ascend_device_plugin.groups,
            kinds.hami_ascend_device_plugin.plural,
        ),
        FactKind(kinds.aml_cluster.plural, "AmlCluster", kinds.aml_cluster.groups, kinds.aml_cluster.plural),
        FactKind("daemonsets", "DaemonSet", ("apps",), "daemonsets"),
        FactKind("nodes", "Node", ("",), "nodes"),
        FactKind("pods", "Pod", ("",), "pods", many=True),
        FactKind("runtimeclasses", "RuntimeClass", ("node.k8s.io",), "runtimeclasses", essential=False),
        FactKind("configmaps", "ConfigMap", ("",), "configmaps", essential=False, only=HAMI_DEVICES),
        FactKind(
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            ("admissionregistration.k8s.io",),
            "mutatingwebhookconfigurations",
            essential=False,
        ),
        FactKind("resourceslices", "ResourceSlice", ("resource.k8s.io",), "resourceslices"),
        FactKind("deviceclasses", "DeviceClass", ("resource.k8s.io",), "deviceclasses"),
        FactKind("resourceclaims", "ResourceClaim", ("resource.k8s.io",), "resourceclaims"),
        FactKind("resourceclaimtemplates", "ResourceClaimTemplate", ("resource.k8s.io",), "resourceclaimtemplates"),
    )
