"""Which of the products' custom resources an object says that it was made for.

Told by ownerReferences, and by the annotation of operators that render charts, both with the API group: other products
have kinds of the same names (DOMAIN.md section 3).
"""

from collections.abc import Iterator

from webhook.ownership.fields import mapping, mappings, text, texts
from webhook.ownership.request import Object
from webhook.ownership.settings import Kind, Settings

PRIMARY_TYPE = "operator-sdk/primary-resource-type"
"""Annotation of what a Helm-type operator renders: `Kind.group` (operator-framework/operator-sdk)."""


def makers_of(metadata: Object, settings: Settings) -> frozenset[str]:
    """Return the kinds (`NPUOperatorCtl`, …) that an object with this metadata says it was made for."""
    known = dict(_known(settings))
    found = {
        (text(reference.get("kind")), text(reference.get("apiVersion")).rpartition("/")[0])
        for reference in mappings(metadata.get("ownerReferences"))
    }
    kind, _, group = texts(mapping(metadata.get("annotations"))).get(PRIMARY_TYPE, "").partition(".")
    found.add((kind, group))
    return frozenset(kind for kind, group in found if kind in known and group in known[kind].groups)


def _known(settings: Settings) -> Iterator[tuple[str, Kind]]:
    kinds = settings.kinds
    yield "NPUOperatorCtl", kinds.npu_operator_ctl
    yield "NPUClusterPolicy", kinds.npu_cluster_policy
    yield "HAMiAscendDevicePlugin", kinds.hami_ascend_device_plugin
    yield "AmlCluster", kinds.aml_cluster
