"""The adapter: Pods inline, everything that waits in a thread, bodies bounded."""

import asyncio
import io
import json
from collections.abc import MutableMapping
from typing import Any

from tests.unit.server.doubles import LEAVING, Cluster, Gate, facts_of, hami_review, pod_review
from webhook.audit.metrics import Metrics
from webhook.audit.trail import AuditTrail
from webhook.configuration import Configuration
from webhook.server.app import create_app
from webhook.server.asgi import Adapter
from webhook.server.decision import Guard
from webhook.server.readiness import Readiness

MAX_BODY = 64 * 1024
Message = MutableMapping[str, Any]


def adapter(cluster: Cluster) -> Adapter:
    metrics = Metrics("1")
    guard = Guard(cluster, Configuration(), AuditTrail(io.StringIO()), metrics, "1")
    return Adapter(create_app(guard, Readiness(cluster), metrics, MAX_BODY), guard, cluster, threads=2)


async def call(
    application: Adapter,
    body: bytes,
    *,
    path: str = "/validate",
    method: str = "POST",
    chunks: int = 1,
    declared: int | None = None,
    gone: bool = False,
) -> tuple[int, dict[str, Any]] | None:
    """Send a request in so many chunks; None when no answer came."""
    size = -(-len(body) // chunks) or 1
    parts = [body[start : start + size] for start in range(0, len(body), size)] or [b""]
    incoming: list[Message] = [
        {"type": "http.request", "body": part, "more_body": gone or number < len(parts)}
        for number, part in enumerate(parts, start=1)
    ]
    if gone:
        incoming.append({"type": "http.disconnect"})
    sent: list[Message] = []

    async def receive() -> Message:
        return incoming.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"host", b"localhost")]
    if declared is not None:
        headers.append((b"content-length", str(declared).encode()))
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "query_string": b"timeout=10s",
        "headers": headers,
        "server": ("127.0.0.1", 8443),
    }
    await application(scope, receive, send)
    if not sent:
        return None
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert all(isinstance(part, bytes) for header in sent[0]["headers"] for part in header)
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_an_owner_change_that_waits_does_not_delay_a_pod() -> None:
    gate = Gate(facts_of(*LEAVING))
    application = adapter(Cluster(on_live=gate))

    async def both() -> None:
        change = asyncio.create_task(call(application, hami_review()))
        await asyncio.to_thread(gate.entered.wait, 30)
        answer = await call(application, pod_review(npus=1))
        assert answer is not None
        assert answer[1]["response"]["auditAnnotations"]["rule"] == "mid-switch"
        assert not change.done()
        gate.open.set()
        late = await change
        assert late is not None
        assert late[1]["response"]["auditAnnotations"]["rule"] == "second-owner"

    asyncio.run(both())


def test_more_owner_changes_than_threads_do_not_delay_a_pod_either() -> None:
    gate = Gate(facts_of(*LEAVING))
    application = adapter(Cluster(on_live=gate))

    async def many() -> None:
        changes = [asyncio.create_task(call(application, hami_review(f"u-{number}"))) for number in range(6)]
        await asyncio.to_thread(gate.entered.wait, 30)
        answer = await call(application, pod_review())
        assert answer is not None
        assert answer[1]["response"]["allowed"] is True
        gate.open.set()
        uids = {answer[1]["response"]["uid"] for answer in await asyncio.gather(*changes) if answer is not None}
        assert uids == {f"u-{number}" for number in range(6)}

    asyncio.run(many())


def test_a_body_in_pieces_is_one_body() -> None:
    answer = asyncio.run(call(adapter(Cluster()), pod_review(npus=1), chunks=7))
    assert answer is not None
    assert answer[1]["response"]["allowed"] is False


def test_a_body_that_is_too_large_is_not_read() -> None:
    application = adapter(Cluster())
    for declared in (MAX_BODY + 1, None):
        answer = asyncio.run(call(application, b" " * (MAX_BODY + 1), chunks=3, declared=declared))
        assert answer is not None
        assert answer[0] == 413


def test_a_body_that_does_not_parse_gets_its_sentence() -> None:
    for body in (b"", b"{}", b"[" * 9999):
        answer = asyncio.run(call(adapter(Cluster()), body))
        assert answer is not None
        assert answer[0] == 400


def test_a_client_that_has_gone_gets_no_answer() -> None:
    assert asyncio.run(call(adapter(Cluster()), pod_review(), gone=True)) is None


def test_other_paths_are_the_applications() -> None:
    answer = asyncio.run(call(adapter(Cluster()), b"", path="/healthz", method="GET"))
    assert answer == (200, {"alive": True})
    missing = asyncio.run(call(adapter(Cluster()), b"", path="/名", method="GET"))
    assert missing is not None
    assert missing[0] == 404


def test_the_facts_live_as_long_as_the_server() -> None:
    cluster = Cluster()
    incoming: list[Message] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    states: list[tuple[str, bool, bool]] = []

    async def receive() -> Message:
        return incoming.pop(0)

    async def send(message: Message) -> None:
        states.append((message["type"], cluster.started, cluster.stopped))

    asyncio.run(adapter(cluster)({"type": "lifespan"}, receive, send))
    assert states == [("lifespan.startup.complete", True, False), ("lifespan.shutdown.complete", True, True)]
