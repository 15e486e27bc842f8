"""While the Lease is too old, only requests whose verdict depends on it are handed over."""

import json
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import pytest

from tests.unit.server.doubles import LEAVING, Cluster, facts_of, pod_review, review
from webhook.admission.review import parse
from webhook.audit.metrics import Metrics
from webhook.audit.trail import AuditTrail
from webhook.claim.course import Failed, Held
from webhook.claim.view import ClaimView
from webhook.configuration import Configuration
from webhook.ownership.memory import Memory
from webhook.ownership.request import Request
from webhook.ownership.settings import Freshness
from webhook.server.decision import Arrival, Guard, HandOverError

PLUGIN_LABELS = {"name": "ascend-device-plugin-ds"}
SOCKETS = {
    "containers": [
        {"name": "p", "image": "x", "volumeMounts": [{"name": "s", "mountPath": "/var/lib/kubelet/device-plugins"}]}
    ],
    "volumes": [{"name": "s", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
}
WAITING = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "waiting", "namespace": "team"},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"huawei.com/Ascend910": "1"}}}]},
    "status": {"phase": "Pending"},
}
PLUGIN = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "plugin", "namespace": "kube-system", "labels": PLUGIN_LABELS},
    "spec": {**SOCKETS, "nodeName": "n"},
    "status": {"phase": "Running"},
}


@dataclass
class NoLease:
    """A Lease that cannot be read."""

    def read(self, timeout: float = 0) -> Held | Failed:
        return Failed("the API server cannot be reached")

    def swap(self, held: Held, memory: Memory, timeout: float = 0) -> Held | Failed | None:
        raise AssertionError("nobody writes here")


def guard() -> Guard:
    view = ClaimView(NoLease(), Freshness())
    cluster = Cluster(replace(facts_of(*LEAVING, WAITING, PLUGIN), memory=view.current()))
    return Guard(cluster, Configuration(), AuditTrail(StringIO()), Metrics("1"), "1", view=view)


def of_pod(name: str, namespace: str, sub_resource: str, operation: str, old: dict[str, Any] | None = None) -> Request:
    body = json.loads(review(old or WAITING, "pods"))
    asked = {**body["request"], "operation": operation, "subResource": sub_resource, "name": name}
    asked |= {"namespace": namespace, "object": None, "oldObject": old}
    return parse(json.dumps({**body, "request": asked}).encode())


@pytest.mark.parametrize(
    "request_",
    [
        parse(pod_review()),
        of_pod("plain", "team", "binding", "CREATE"),
        of_pod("plain", "team", "eviction", "CREATE"),
        of_pod("waiting", "other", "binding", "CREATE"),
    ],
    ids=["a Pod without NPU", "its binding", "its eviction", "a binding in another namespace"],
)
def test_a_pod_that_reaches_no_npu_is_answered_at_once(request_: Request) -> None:
    assert json.loads(guard().answer(request_, Arrival()))["response"]["allowed"] is True


@pytest.mark.parametrize(
    "request_",
    [
        parse(pod_review(npus=1)),
        of_pod("waiting", "team", "binding", "CREATE"),
        of_pod("plugin", "kube-system", "", "DELETE", PLUGIN),
        of_pod("plugin", "kube-system", "eviction", "CREATE"),
    ],
    ids=["an NPU Pod", "its binding", "the deletion of a plugin's Pod", "its eviction"],
)
def test_one_whose_verdict_depends_on_the_phase_is_handed_over_first_and_then_unknown(request_: Request) -> None:
    deciding = guard()
    with pytest.raises(HandOverError):
        deciding.answer(request_, Arrival())
    response = json.loads(deciding.answer(request_, Arrival()))["response"]
    assert response["auditAnnotations"]["phase"] == "unknown"
