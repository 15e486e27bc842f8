"""Pods are judged from the snapshot: without any call to the API server, and for a while without one at all."""

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import NAME, NAMESPACE, InstalledGuard
from tests.products import samples
from tests.products.api import Api
from tests.products.products import crds
from tests.waiting import eventually

pytestmark = pytest.mark.integration

MAX_AGE = 3.0
AUDIT_POLICY = f"""
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {{level: Metadata, users: ["system:serviceaccount:{NAMESPACE}:{NAME}"], omitStages: [RequestReceived]}}
- {{level: None}}
"""


@pytest.fixture
def plane(make_control_plane: Callable[..., ControlPlane]) -> ControlPlane:
    """A control plane without controllers that logs every request of the guard; native is asked for, no node serves."""
    made = make_control_plane(controllers=False, audit_policy=AUDIT_POLICY)
    admin = Api.from_kubeconfig(made.kubeconfig)
    for crd in crds("npu-operator-crds", "npu.openfuyao.com"):
        admin.apply(crd)
    made.kubectl("create", "namespace", "npu-operator")
    eventually(lambda: made.apply(samples.npuoperatorctl(enabled=True), check=False).returncode == 0)
    labels = {"accelerator": "huawei-Ascend910"}
    made.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "labels": labels}})
    return made


def ask(guard: InstalledGuard, item: dict[str, Any], resource: str, timeout: str = "5s") -> dict[str, Any]:
    """Send the creation of `item` straight to the guard, as an API server would, and return its response.

    That is: once more with the same uid when it is handed over (503 with Retry-After).
    """
    group, _, version = item["apiVersion"].rpartition("/")
    request = {
        "uid": str(uuid.uuid4()),
        "operation": "CREATE",
        "kind": {"group": group, "version": version, "kind": item["kind"]},
        "resource": {"group": group, "version": version, "resource": resource},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "namespace": item["metadata"]["namespace"],
        "name": item["metadata"]["name"],
        "object": item,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    call = urllib.request.Request(
        f"{guard.url}/validate?timeout={timeout}",
        data=json.dumps(review).encode(),
        headers={"Content-Type": "application/json"},
    )
    context = guard.known_tls
    while True:
        try:
            with urllib.request.urlopen(call, timeout=20, context=context) as answer:
                response: dict[str, Any] = json.load(answer)["response"]
                return response
        except urllib.error.HTTPError as failure:
            if failure.code != 503:
                raise
            time.sleep(float(failure.headers["Retry-After"]))


def ask_pod(guard: InstalledGuard, *, npu: bool = True) -> dict[str, Any]:
    pod = samples.workload("train", "huawei.com/Ascend910" if npu else "cpu")
    return ask(guard, pod, "pods")


def phase(response: dict[str, Any]) -> str:
    return str(response["auditAnnotations"]["phase"])


def test_the_pod_path_makes_no_call_to_the_api_server(plane: ControlPlane) -> None:
    with InstalledGuard(plane) as guard:
        eventually(lambda: phase(ask_pod(guard)) == "starting(native)")
        for _ in range(50):
            ask_pod(guard)
        before = _lists(plane)
        for _ in range(200):
            assert ask_pod(guard)["allowed"] is False
        time.sleep(0.5)  # the audit log is written behind
        after = _lists(plane)
        # The background goes on looking for kinds that are not installed; nothing is listed for a Pod.
        assert after["list"] == before["list"]
        assert after["get"] - before["get"] < 50


def _lists(plane: ControlPlane) -> dict[str, int]:
    """How many requests of each kind the guard has made so far, by the API server's audit log."""
    counts = {"list": 0, "get": 0, "watch": 0}
    for line in plane.audit_log.read_text().splitlines():
        verb = json.loads(line)["verb"]
        counts[verb] = counts.get(verb, 0) + 1
    return counts


@pytest.mark.parametrize(
    "ages, policy",
    [
        ({"maxAge": "3s", "claimMaxAge": "60s"}, "deny"),
        ({"maxAge": "3s", "claimMaxAge": "60s"}, "allow"),
        ({"maxAge": "60s", "claimMaxAge": "3s"}, "deny"),
    ],
    ids=["picture, deny", "picture, allow", "Lease, deny"],
)
def test_cut_off_it_answers_from_what_it_knows_until_that_is_too_old_then_as_configured(
    plane: ControlPlane, ages: dict[str, str], policy: str
) -> None:
    with InstalledGuard(plane, {"config": {"freshness": ages, "unknown": {"pods": policy}}}) as guard:
        eventually(lambda: phase(ask_pod(guard)) == "starting(native)")
        plane.stop_apiserver()
        cut = time.monotonic()
        assert phase(ask_pod(guard)) == "starting(native)"
        eventually(lambda: phase(ask_pod(guard)) == "unknown", timeout=30)
        # What is known was confirmed at most a second before (a watch of a third of maxAge, a poll of the Lease).
        assert MAX_AGE - 1.5 < time.monotonic() - cut < 2 * MAX_AGE + 5
        assert ask_pod(guard)["allowed"] is (policy == "allow")
        assert ask_pod(guard, npu=False)["allowed"] is True
        hami = samples.hamiascenddeviceplugin()
        began = time.monotonic()
        refused = ask(guard, hami, "hamiascenddeviceplugins", timeout="3s")
        assert refused["allowed"] is False
        assert "Next: " in refused["status"]["message"]
        assert time.monotonic() - began < 3
        plane.start_apiserver()
        eventually(lambda: phase(ask_pod(guard)) == "starting(native)", timeout=60)
