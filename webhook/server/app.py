"""The Flask application: reviews on /validate, probes, metrics; a JSON sentence for everything else."""

import orjson
from flask import Flask, Response
from flask import request as http
from werkzeug.exceptions import HTTPException

from webhook.admission.review import ReviewError, check_content_type, parse
from webhook.audit.metrics import Metrics
from webhook.ownership.request import Request
from webhook.server.decision import RETRY_SECONDS, Arrival, Guard, HandOverError, timeout_of
from webhook.server.readiness import Readiness

REQUEST = "ascend_guard.request"
"""Key of the WSGI environment: the review's Request, where the adapter has parsed it already."""
ARRIVED = "ascend_guard.arrived"
"""Key of the WSGI environment: when the review was complete (monotonic clock)."""

_REMEDIES = {
    404: "There is nothing here; reviews are posted to /validate, probes are /healthz and /readyz, metrics /metrics.",
    405: "This method is not allowed here; reviews are posted to /validate, everything else is read with GET.",
    413: "The body is larger than any AdmissionReview that the API server sends; see server.maxBody.",
    500: "The guard failed to judge this request; its log says why. Please report it.",
}
_REASONS = {
    400: "BadRequest",
    404: "NotFound",
    405: "MethodNotAllowed",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    500: "InternalError",
    503: "ServiceUnavailable",
}


def create_app(guard: Guard, readiness: Readiness, metrics: Metrics, max_body: int) -> Flask:
    """Return the WSGI application. `max_body` is the bytes of the largest review that is read."""
    app = Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = max_body

    @app.post("/validate")
    def validate() -> Response:
        if readiness.obstacle:
            metrics.refused(503)
            return _failure(503, f"{readiness.obstacle} Call again.", {"Retry-After": str(readiness.retry_after)})
        check_content_type(http.content_type)
        request: Request | None = http.environ.get(REQUEST)
        if request is None:
            request = parse(http.get_data())
        arrival = Arrival(
            at=http.environ.get(ARRIVED) or Arrival().at,
            timeout=timeout_of(http.args.get("timeout")),
            traceparent=http.headers.get("traceparent", ""),
        )
        return Response(guard.answer(request, arrival), mimetype="application/json")

    @app.get("/healthz")
    def healthz() -> Response:
        return _json(200, {"alive": True})

    @app.get("/readyz")
    def readyz() -> Response:
        obstacle = readiness.obstacle
        status = {"ready": not obstacle, "obstacle": obstacle, "problems": dict(readiness.facts.problems)}
        return _json(503 if obstacle else 200, status)

    @app.get("/metrics")
    def exposition() -> Response:
        return Response(metrics.exposition(), content_type="text/plain; version=0.0.4; charset=utf-8")

    @app.errorhandler(ReviewError)
    def review_error(error: ReviewError) -> Response:
        metrics.refused(error.status)
        return _failure(error.status, str(error))

    @app.errorhandler(HandOverError)
    def hand_over(error: HandOverError) -> Response:
        metrics.refused(503)
        return _failure(503, f"{error} Call again.", {"Retry-After": str(RETRY_SECONDS)})

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        status = error.code or 500
        metrics.refused(status)
        return _failure(status, _REMEDIES.get(status, f"{error.name}."))

    return app


def _failure(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """Answer as Kubernetes does, with a Status object: clients show its message."""
    body = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": status,
        "reason": _REASONS.get(status, ""),
        "message": sentence,
    }
    response = _json(status, body)
    response.headers.update(headers or {})
    return response


def _json(status: int, body: dict[str, object]) -> Response:
    return Response(orjson.dumps(body), status, mimetype="application/json")
