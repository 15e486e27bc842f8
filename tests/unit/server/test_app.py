"""Every path of the application, without a server around it."""

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.unit.server.doubles import LEAVING, Cluster, facts_of, hami_review, pod_review
from webhook.admission.review import parse
from webhook.audit.metrics import Metrics
from webhook.audit.trail import AuditTrail
from webhook.configuration import Configuration
from webhook.ownership.facts import Facts
from webhook.server.app import create_app
from webhook.server.decision import Arrival, Guard, timeout_of
from webhook.server.readiness import Readiness

RECORDED = sorted((Path(__file__).parents[2] / "reviews").glob("*.json"))
MAX_BODY = 512 * 1024


class Site:
    """The application over a cluster, and what it wrote."""

    def __init__(self, cluster: Cluster) -> None:
        self.stream = io.StringIO()
        self.readiness = Readiness(cluster)
        self.metrics = Metrics("1.2.3")
        guard = Guard(cluster, Configuration(), AuditTrail(self.stream), self.metrics, "1.2.3")
        app = create_app(guard, self.readiness, self.metrics, MAX_BODY)
        self.client: FlaskClient = app.test_client()

    def post(self, body: bytes, path: str = "/validate", content_type: str = "application/json") -> TestResponse:
        return self.client.post(path, data=body, content_type=content_type)

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


def answered(response: TestResponse) -> dict[str, Any]:
    assert (response.status_code, response.content_type) == (200, "application/json")
    inner: dict[str, Any] = response.get_json()["response"]
    return inner


def test_a_pod_is_judged_without_any_look_up_at_the_cluster() -> None:
    site = Site(Cluster())  # whose live read fails the test
    assert answered(site.post(pod_review()))["allowed"] is True
    denied = answered(site.post(pod_review(npus=1)))
    assert (denied["allowed"], denied["auditAnnotations"]["rule"]) == (False, "mid-switch")
    (record,) = site.records()
    assert (record["decision"], record["rule"], record["phase"]) == ("denied", "mid-switch", "leaving(native)")


def test_a_change_of_owner_is_judged_by_a_live_read_within_the_callers_time() -> None:
    deadlines: list[float] = []

    def live(deadline: float) -> Facts:
        deadlines.append(deadline)
        return facts_of(*LEAVING)

    site = Site(Cluster(facts=facts_of(), on_live=live))
    denied = answered(site.post(hami_review(), "/validate?timeout=4s"))
    assert denied["auditAnnotations"]["rule"] == "second-owner"
    assert 3.0 < deadlines[0] <= 3.5


def test_an_allowed_change_of_owner_leaves_a_record() -> None:
    base = (
        {**LEAVING[0], "spec": {"devicePlugin": {"enabled": False}}},
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "ascend"}, "handler": "ascend"},
    )
    site = Site(Cluster(on_live=lambda _deadline: facts_of(*base)))
    assert answered(site.post(hami_review(driverHostPath="/var/lib/Ascend/driver")))["allowed"] is True
    (record,) = site.records()
    assert (record["decision"], record["phase"], record["user"]) == ("allowed", "unowned", "alice")


def test_the_trace_of_the_call_is_recorded() -> None:
    site = Site(Cluster())
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    site.client.post(
        "/validate", data=pod_review(npus=1), content_type="application/json", headers={"traceparent": trace}
    )
    assert site.records()[0]["traceparent"] == trace


def test_past_the_deadline_the_answer_is_a_clean_denial() -> None:
    cluster = Cluster()
    guard = Guard(cluster, Configuration(), AuditTrail(io.StringIO()), Metrics("1"), "1")
    answer = json.loads(guard.answer(parse(hami_review()), Arrival(at=time.monotonic() - 11, timeout=10.0)))["response"]
    assert (answer["allowed"], answer["uid"], answer["status"]["code"]) == (False, "u-2", 403)
    assert answer["status"]["message"].startswith("[unknown] the change could not be judged in time.")
    assert answer["auditAnnotations"]["phase"] == "unknown"


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("5s", 5.0),
        ("500ms", 0.5),
        ("1m30s", 30.0),
        ("1.5s", 1.5),
        ("0s", 0.0),
        (None, 10.0),
        ("", 10.0),
        ("soon", 10.0),
        ("-5s", 10.0),
        ("9" * 400 + "s", 10.0),
        ("٣s", 10.0),
    ],
)
def test_the_callers_time_out_is_read_as_go_writes_it(text: str | None, seconds: float) -> None:
    assert timeout_of(text) == seconds


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_every_recorded_review_gets_a_verdict(file: Path) -> None:
    recorded = json.loads(file.read_text())["review"]
    site = Site(Cluster(on_live=lambda _deadline: facts_of(*LEAVING)))
    answer = answered(site.post(json.dumps(recorded).encode()))
    assert answer["uid"] == recorded["request"]["uid"]
    assert isinstance(answer["allowed"], bool)


@pytest.mark.parametrize("depth", [150, 400, 1500, 5000])
def test_an_object_however_deep_gets_a_verdict(depth: int) -> None:
    site = Site(Cluster(on_live=lambda _deadline: facts_of(*LEAVING)))
    body = hami_review(x="HERE").replace(b'"HERE"', b'{"a":' * depth + b"1" + b"}" * depth)
    assert answered(site.post(body))["allowed"] is False


@pytest.mark.parametrize(
    "body, content_type, status, part",
    [
        (b"{}", "application/json", 400, "apiVersion is missing"),
        (pod_review(), "text/plain", 415, "application/json"),
        (b" " * (MAX_BODY + 1), "application/json", 413, "larger than any AdmissionReview"),
    ],
)
def test_what_is_no_review_gets_a_sentence(body: bytes, content_type: str, status: int, part: str) -> None:
    site = Site(Cluster())
    response = site.post(body, content_type=content_type)
    assert response.status_code == status
    said = response.get_json()
    assert (said["kind"], said["code"]) == ("Status", status)
    assert part in said["message"]
    assert f'ascend_guard_refused_requests_total{{status="{status}"}} 1.0' in site.metrics.exposition().decode()
    assert site.records() == []


@pytest.mark.parametrize(
    "method, path, status",
    [("GET", "/", 404), ("POST", "/validate/x", 404), ("GET", "/validate", 405), ("PUT", "/readyz", 405)],
)
def test_unknown_paths_and_methods_get_a_sentence(method: str, path: str, status: int) -> None:
    response = Site(Cluster()).client.open(path, method=method)
    assert (response.status_code, response.get_json()["code"]) == (status, status)
    assert "/validate" in response.get_json()["message"]


def test_an_error_of_ours_is_a_500_that_shows_nothing_of_the_inside(caplog: pytest.LogCaptureFixture) -> None:
    response = Site(Cluster()).post(hami_review())  # its live read raises
    assert response.status_code == 500
    assert "log" in response.get_json()["message"]
    assert "asked" not in response.get_data(as_text=True)
    assert "the cluster was asked" in caplog.text


def test_it_is_alive_at_once_and_ready_once_the_cluster_is_read() -> None:
    cluster = Cluster(synced=False, problems={"pods": "403"})
    site = Site(cluster)
    assert site.client.get("/healthz").status_code == 200
    unready = site.client.get("/readyz")
    assert (unready.status_code, unready.get_json()["ready"]) == (503, False)
    cluster.synced = True
    ready = site.client.get("/readyz")
    assert (ready.status_code, ready.get_json()["problems"]) == (200, {"pods": "403"})


def test_reviews_are_handed_over_before_it_is_ready_and_while_it_drains() -> None:
    cluster = Cluster(synced=False)
    site = Site(cluster)
    early = site.post(pod_review())
    assert (early.status_code, early.headers["Retry-After"]) == (503, "1")
    cluster.synced = True
    assert site.post(pod_review()).status_code == 200
    site.readiness.draining = True
    late = site.post(pod_review())
    assert (late.status_code, late.headers["Retry-After"]) == (503, "0")
    assert site.client.get("/readyz").status_code == 503
    assert site.client.get("/healthz").status_code == 200


def test_metrics_are_prometheus_text() -> None:
    site = Site(Cluster())
    site.post(pod_review(npus=1))
    response = site.client.get("/metrics")
    assert response.content_type.startswith("text/plain; version=0.0.4")
    assert 'decision="denied",rule="mid-switch",subject="pod"} 1.0' in response.get_data(as_text=True)
