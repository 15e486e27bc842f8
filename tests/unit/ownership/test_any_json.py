"""Any JSON gives a record or none, never a traceback: nothing about an object's inside may be taken for granted."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.claim.test_settler import NOW
from webhook.cli.requests import request_for
from webhook.ownership.facts import Facts
from webhook.ownership.reading import read
from webhook.ownership.request import User
from webhook.ownership.settings import Settings
from webhook.rules import judge

SETTINGS = Settings()
KINDS = (
    ("v1", "Pod"), ("apps/v1", "DaemonSet"), ("v1", "Node"), ("npu-operator.alauda.io/v1", "NPUOperatorCtl"),
    ("npu.openfuyao.com/v1", "NPUClusterPolicy"), ("hami.io/v1", "HAMiAscendDevicePlugin"),
    ("amlclusters.aml.dev/v1", "AmlCluster"), ("node.k8s.io/v1", "RuntimeClass"),
    ("resource.k8s.io/v1", "ResourceClaim"), ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    ("resource.k8s.io/v1", "DeviceClass"), ("resource.k8s.io/v1", "ResourceSlice"),
    ("coordination.k8s.io/v1", "Lease"), ("v1", "ConfigMap"),
    ("batch/v1", "CronJob"), ("apps/v1", "Deployment"), ("v1", "Namespace"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
)  # fmt: skip
WORDS = st.sampled_from(
    (
        "metadata", "spec", "status", "labels", "annotations", "ownerReferences", "containers", "initContainers",
        "ephemeralContainers", "volumes", "hostPath", "path", "volumeMounts", "subPath", "subPathExpr", "name", "image",
        "env", "value", "valueFrom", "fieldRef", "resources", "limits", "requests", "template", "nodeSelector",
        "devicePlugin", "enabled", "driver", "version", "driverHostPath", "resourceClaims", "devices", "selectors",
        "cel", "expression", "allocatable", "capacity", "conditions", "type", "taints", "tolerations", "affinity",
        "finalizers", "deletionTimestamp", "managedFields", "kind", "apiVersion", "components", "npuOperator", "values",
        "managementState", "exactly", "firstAvailable", "deviceClassName", "extendedResourceName", "allocation",
        "results", "resourceClaimStatuses", "resourceClaimName", "securityContext", "privileged", "args", "command",
        "jobTemplate", "example.com/chip", "deviceclass.resource.kubernetes.io/x", "huawei.com/Ascend910",
        "ASCEND_VISIBLE_DEVICES", "ascend-owner-guard/claim",
    )
)  # fmt: skip
HUGE = st.just(5000).map(lambda digits: 10**digits)
LEAVES = (
    st.none() | st.booleans() | HUGE | st.integers() | st.floats() | st.text(max_size=8) | WORDS
    | st.sampled_from(("/dev/davinci0", "/var/lib/kubelet", "1e999999", "\ud800", "[" * 2000, "2026-13-99"))
)  # fmt: skip
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5), max_leaves=40
)


@pytest.mark.parametrize(("api_version", "kind"), KINDS)
@given(data=st.data())
@settings(max_examples=30, derandomize=True, deadline=None, database=None)
def test_any_inside_is_read_and_judged(api_version: str, kind: str, data: st.DataObject) -> None:
    def item() -> dict[str, Any]:
        inside = data.draw(st.dictionaries(WORDS, VALUES, max_size=6))
        return {**inside, "apiVersion": api_version, "kind": kind}

    new, old, other = item(), item(), item()
    records = [record for one in (new, old, other) if (record := read(one, SETTINGS)) is not None]
    facts = Facts.of(records, now=NOW)
    for operation, after, before in (("CREATE", new, None), ("UPDATE", new, old), ("DELETE", None, old)):
        request = request_for(operation, User("alice"), item=after, old_item=before)  # type: ignore[arg-type]
        assert judge(request, facts, SETTINGS).message is not None
