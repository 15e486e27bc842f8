"""The transport keeps to one host and to its time-outs, whatever is at the other end. No API server is imitated."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from kubernetes.client import Configuration

from webhook.cluster.connection import Connection
from webhook.cluster.errors import ApiError, ConnectionConfigError

Respond = Callable[[BaseHTTPRequestHandler], None]


class Peer:
    """Something on loopback that speaks HTTP, and remembers who asked what with which token."""

    def __init__(self, respond: Respond) -> None:
        seen: list[tuple[str, str | None]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                seen.append((self.path, self.headers.get("Authorization")))
                respond(self)

            def log_message(self, format: str, *args: object) -> None:
                return

        self.seen = seen
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def peer() -> Iterator[Callable[[Respond], Peer]]:
    peers: list[Peer] = []

    def make(respond: Respond) -> Peer:
        peers.append(Peer(respond))
        return peers[-1]

    yield make
    for made in peers:
        made.close()


def connect(url: str) -> Connection:
    configuration = Configuration()
    configuration.host = url
    configuration.api_key["authorization"] = "Bearer secret"
    return Connection(configuration)


def answer(body: bytes, status: int = 200, **headers: str) -> Respond:
    def respond(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return respond


def chunk(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
    handler.wfile.flush()


def begin_stream(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()


def test_the_token_is_sent_and_the_answers_date_is_the_clock(peer: Callable[[Respond], Peer]) -> None:
    at = peer(answer(b'{"a": 1}'))
    connection = connect(at.url)
    found = connection.get("/x", {"limit": 1, "continue": "a b&c"}, timeout=2)
    assert at.seen == [("/x?limit=1&continue=a+b%26c", "Bearer secret")]
    assert found.object() == {"a": 1}
    assert found.date is not None
    assert abs((connection.now() - found.date).total_seconds()) < 1
    assert connection.requests == 1


def test_a_redirect_is_never_followed(peer: Callable[[Respond], Peer]) -> None:
    elsewhere = peer(answer(b"{}"))
    at = peer(answer(b"", status=307, Location=elsewhere.url + "/steal"))
    with pytest.raises(ApiError, match="a redirect, which is never followed"):
        connect(at.url).get("/x", timeout=2)
    assert elsewhere.seen == []


def test_the_message_of_a_refusal_is_told_in_one_line(peer: Callable[[Respond], Peer]) -> None:
    at = peer(answer(b'{"kind": "Status", "message": "pods is\\nforbidden"}', status=403))
    with pytest.raises(ApiError) as caught:
        connect(at.url).get("/x", timeout=2)
    assert (caught.value.status, str(caught.value)) == (403, "the API server answered 403: pods is forbidden")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b""])
def test_an_answer_that_is_no_json_object_is_an_error(peer: Callable[[Respond], Peer], body: bytes) -> None:
    with pytest.raises(ApiError, match="is no JSON"):
        connect(peer(answer(body)).url).get("/x", timeout=2).object()


def test_an_answer_that_never_comes_ends_with_the_time_out(peer: Callable[[Respond], Peer]) -> None:
    at = peer(lambda handler: time.sleep(3))
    began = time.monotonic()
    with pytest.raises(ApiError, match="did not answer in time"):
        connect(at.url).get("/x", timeout=0.3)
    assert time.monotonic() - began < 1


def test_an_answer_that_drips_ends_with_the_time_out(peer: Callable[[Respond], Peer]) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        begin_stream(handler)
        for _ in range(40):
            chunk(handler, b" ")
            time.sleep(0.1)

    began = time.monotonic()
    with pytest.raises(ApiError, match="did not finish its answer in time"):
        connect(peer(drip).url).get("/x", timeout=0.5)
    assert time.monotonic() - began < 1.5


def test_nobody_there_is_a_sentence() -> None:
    with pytest.raises(ApiError) as caught:
        connect("http://127.0.0.1:9").get("/x", timeout=1)
    assert (caught.value.status, str(caught.value)) == (0, "the API server cannot be reached")


def test_a_connection_that_was_closed_while_idle_is_opened_again(peer: Callable[[Respond], Peer]) -> None:
    def answer_and_hang_up(handler: BaseHTTPRequestHandler) -> None:
        answer(b"{}")(handler)
        handler.close_connection = True

    connection = connect(peer(answer_and_hang_up).url)
    for _ in range(5):
        assert connection.get("/x", timeout=2).object() == {}


def test_lines_come_whole_however_they_were_cut(peer: Callable[[Respond], Peer]) -> None:
    def stream(handler: BaseHTTPRequestHandler) -> None:
        begin_stream(handler)
        for part in (b'{"a"', b":1}\n{", b'"b":2}\n{"c":3}\n', b"cut off"):
            chunk(handler, part)
        chunk(handler, b"")

    with connect(peer(stream).url).stream("/x", {"watch": "true"}, idle=2) as lines:
        assert list(lines) == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


def test_a_stream_that_falls_silent_ends_after_the_time_allowed(peer: Callable[[Respond], Peer]) -> None:
    def stall(handler: BaseHTTPRequestHandler) -> None:
        begin_stream(handler)
        chunk(handler, b"{}\n")
        time.sleep(30)

    began = time.monotonic()
    with (
        connect(peer(stall).url).stream("/x", {}, idle=0.4) as lines,
        pytest.raises(ApiError, match=r"sent nothing for 0\.4 s"),
    ):
        list(lines)
    assert time.monotonic() - began < 20


def test_a_stream_can_be_cut_from_another_thread(peer: Callable[[Respond], Peer]) -> None:
    def stall(handler: BaseHTTPRequestHandler) -> None:
        begin_stream(handler)
        chunk(handler, b"{}\n")
        time.sleep(10)

    ended = threading.Event()
    with connect(peer(stall).url).stream("/x", {}, idle=30) as lines:

        def consume() -> None:
            with contextlib.suppress(ApiError):
                list(lines)
            ended.set()

        threading.Thread(target=consume, daemon=True).start()
        time.sleep(0.2)
        lines.cut()
        assert ended.wait(2)


def test_a_kubeconfig_that_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConnectionConfigError, match="cannot be used"):
        Connection.from_kubeconfig(tmp_path / "absent")
    for text in ("a: [", "- 1", "a: 1", "", "clusters: 1\nusers: 1\ncontexts: 1\ncurrent-context: c"):
        (tmp_path / "broken").write_text(text)
        with pytest.raises(ConnectionConfigError, match="cannot be used"):
            Connection.from_kubeconfig(tmp_path / "broken")


def test_outside_of_a_pod_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConnectionConfigError, match="Give a kubeconfig file or a folder of manifests"):
        Connection.in_cluster()
