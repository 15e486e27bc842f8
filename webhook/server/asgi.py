"""From ASGI to the Flask application: Pods inline on the event loop, everything that waits in a thread.

A decision about a Pod does no I/O and takes less time than handing it to a thread; an owner change reads the cluster
live and must never delay a Pod. So the body is parsed here, once, to see which of the two it is; the parsed request
goes along in the WSGI environment. What does not parse at first sight is dealt with in a thread, too.
"""

import asyncio
import io
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flask import Flask

from webhook.admission.review import parse_strictly
from webhook.cluster.source import FactSource
from webhook.ownership.request import Request
from webhook.server.app import ARRIVED, REQUEST
from webhook.server.decision import Guard

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Environ = dict[str, Any]


LEASE_WAIT_SECONDS = 1.5
"""How long a Pod's request waits for the read of the Lease that is under way."""
_LOOK_SECONDS = 0.02
_HANDED_OVER = 503


class ConnectionEndsError(Exception):
    """Raised after a whole answer that announced it: gunicorn then closes the connection, which no header makes it
    do."""


class Adapter:
    """The ASGI application. Its life is the facts' life: they are kept up to date from start-up to shutdown."""

    def __init__(self, app: Flask, guard: Guard, facts: FactSource, threads: int) -> None:
        self._app = app
        self._guard = guard
        self._facts = facts
        self._max_body = int(app.config["MAX_CONTENT_LENGTH"])
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="owner-change")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request, or the server's start and end."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, length = await self._read(scope, receive)
        if body is None:
            return  # the client has gone
        environ = _environ(scope, body, length)
        if scope["path"] == "/validate" and body:
            environ[ARRIVED] = time.monotonic()
            request = environ[REQUEST] = parse_strictly(body)
            inline = request is not None and not self._guard.waits(request)
        else:
            request, inline = None, True
        if inline:
            if request is not None:
                await self._wait_for_lease(request)
            status, headers, content = self._call(environ)
        else:
            loop = asyncio.get_running_loop()
            status, headers, content = await loop.run_in_executor(self._threads, self._call, environ)
        if status == _HANDED_OVER:
            headers = [*headers, (b"connection", b"close")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})
        if status == _HANDED_OVER:
            raise ConnectionEndsError("the request goes to another replica, on another connection")

    async def _wait_for_lease(self, request: Request) -> None:
        """Give the read of the Lease that is under way some time, where what is known is too old for this request."""
        end = time.monotonic() + LEASE_WAIT_SECONDS
        while self._guard.lacks_lease(request) and time.monotonic() < end:
            await asyncio.sleep(_LOOK_SECONDS)

    async def _read(self, scope: Scope, receive: Receive) -> tuple[bytes | None, int]:
        """Return the body and its length; an empty one with its real length where it is too large to be read."""
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if int(declared) > self._max_body:
            return b"", int(declared)
        chunks: list[bytes] = []
        length = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None, 0
            chunk = message.get("body", b"")
            length += len(chunk)
            if length > self._max_body:
                return b"", length
            chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks), length

    def _call(self, environ: Environ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Run the WSGI application and return status, headers and body."""
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], _exc_info: object = None) -> Callable[..., Any]:
            started.append((status, headers))
            return _no_write

        parts: Iterable[bytes] = self._app(environ, start_response)
        content = b"".join(parts)
        status, headers = started[-1]
        encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return int(status[:3]), encoded, content

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._facts.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                self._threads.shutdown(wait=False, cancel_futures=True)
                await asyncio.to_thread(self._facts.stop)
                await send({"type": "lifespan.shutdown.complete"})
                return


def _no_write(_data: bytes) -> None:
    raise RuntimeError("the WSGI write callable is not offered; return the body")


def _environ(scope: Scope, body: bytes, length: int) -> Environ:
    server = scope.get("server") or ("localhost", 443)
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode("utf-8", "replace").decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": "HTTP/" + scope["http_version"],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "https"),
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        key = "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
        text = value.decode("latin-1")
        environ[key] = f"{environ[key]},{text}" if key in environ else text
    environ["CONTENT_TYPE"] = environ.pop("HTTP_CONTENT_TYPE", "")
    environ.pop("HTTP_CONTENT_LENGTH", None)
    environ["CONTENT_LENGTH"] = str(length)
    return environ
