"""How we reach the API server: the kubernetes client's configuration, raw HTTP on its pool, bytes in and out.

One fixed host, no redirects, time-outs on every call, every path segment escaped.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote, urlencode

import orjson
import urllib3
import yaml
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)

from webhook.cluster.errors import ApiError, ConnectionConfigError
from webhook.ownership.decoding import decode

CONNECT_SECONDS = 3.0
OPEN_SECONDS = 15.0
POOL_SIZE = 64
MAX_REASON = 300

# What the client raises for a kubeconfig of another shape than it expects.
_MALFORMED = (ValueError, TypeError, AttributeError, KeyError)

Query = Mapping[str, str | int]


def api_path(*segments: str) -> str:
    """Return the path of these segments, each escaped. Raises ValueError for one that would change the path."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise ValueError(f"{segment!r} is no segment of an API path")
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer: its body, and the API server's clock when it answered (None without a Date header)."""

    body: bytes
    date: datetime | None

    def object(self) -> dict[str, Any]:
        """Return the decoded body. Raises ApiError when it is no JSON object."""
        try:
            value = decode(self.body)
        except ValueError as error:
            raise ApiError(0, "the API server's answer is no JSON") from error
        if not isinstance(value, dict):
            raise ApiError(0, "the API server's answer is no JSON object")
        return value


class Connection:
    """A connection to one API server. Thread-safe. `requests` counts what was sent."""

    def __init__(self, configuration: Configuration) -> None:
        configuration.connection_pool_maxsize = POOL_SIZE
        configuration.retries = None
        self._configuration = configuration
        self._host = str(configuration.host).rstrip("/")
        self._client = ApiClient(configuration)
        self._pool: urllib3.PoolManager = self._client.rest_client.pool_manager
        self._counting = threading.Lock()
        self._clock: tuple[datetime, float] | None = None
        self.requests = 0

    @classmethod
    def in_cluster(cls) -> Self:
        """Connect as the Pod's ServiceAccount. Raises ConnectionConfigError outside of a Pod."""
        configuration = Configuration()
        try:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except ConfigException as error:
            raise ConnectionConfigError(
                f"Not in a Pod of a cluster: {error} Give a kubeconfig file or a folder of manifests."
            ) from error
        return cls(configuration)

    @classmethod
    def from_kubeconfig(cls, path: Path | None = None, context: str | None = None) -> Self:
        """Connect as a kubeconfig file says (default: as kubectl finds it). Raises ConnectionConfigError."""
        configuration = Configuration()
        try:
            load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(path) if path else None, context=context, client_configuration=configuration
            )
        except (ConfigException, OSError, yaml.YAMLError, *_MALFORMED) as error:
            raise ConnectionConfigError(
                f"The kubeconfig {path or 'file'} cannot be used: {' '.join(str(error).split())}"
            ) from error
        return cls(configuration)

    @property
    def host(self) -> str:
        """The API server's address."""
        return self._host

    def now(self) -> datetime:
        """Return the time by the API server's clock, up to a second behind it; by ours before its first answer."""
        clock = self._clock
        if clock is None:
            return datetime.now(UTC)
        date, at = clock
        return date + timedelta(seconds=time.monotonic() - at)

    def get(self, path: str, query: Query | None = None, *, timeout: float) -> Answer:
        """GET `path` within `timeout` seconds. Raises ApiError."""
        return self._call("GET", path, query, None, timeout)

    def send(
        self, method: Literal["POST", "PUT", "PATCH"], path: str, body: Mapping[str, Any], *, timeout: float
    ) -> Answer:
        """Create (POST), replace (PUT) or merge into (PATCH, lists by their keys) an object; never repeated.

        `timeout` is in seconds. Raises ApiError.
        """
        return self._call(method, path, None, orjson.dumps(body), timeout)

    def stream(self, path: str, query: Query, *, idle: float) -> "Stream":
        """Open a stream of lines that may be silent for `idle` seconds. Raises ApiError."""
        response = self._open("GET", path, query, None, urllib3.Timeout(connect=CONNECT_SECONDS, read=OPEN_SECONDS))
        return Stream(response, idle)

    def close(self) -> None:
        """Close idle connections."""
        self._pool.clear()

    def _call(self, method: str, path: str, query: Query | None, body: bytes | None, timeout: float) -> Answer:
        end = time.monotonic() + timeout
        limits = urllib3.Timeout(connect=min(CONNECT_SECONDS, timeout), total=timeout)
        response = self._open(method, path, query, body, limits)
        return Answer(_read(response, end), _date(response))

    def _open(
        self, method: str, path: str, query: Query | None, body: bytes | None, timeout: urllib3.Timeout
    ) -> urllib3.BaseHTTPResponse:
        try:
            response = self._request(method, path, query, body, timeout)
        except ProtocolError as error:
            if method != "GET":
                raise ApiError(0, _sentence(error)) from error
            # An idle connection that the API server closed while we picked it up. Reading again is safe.
            try:
                response = self._request(method, path, query, body, timeout)
            except HTTPError as second:
                raise ApiError(0, _sentence(second)) from second
        except HTTPError as error:
            raise ApiError(0, _sentence(error)) from error
        date = _date(response)
        if date is not None:
            self._clock = (date, time.monotonic())
        if not 200 <= response.status < 300:
            raise _error(response)
        return response

    def _request(
        self, method: str, path: str, query: Query | None, body: bytes | None, timeout: urllib3.Timeout
    ) -> urllib3.BaseHTTPResponse:
        url = f"{self._host}{path}?{urlencode(query)}" if query else self._host + path
        headers = {"Accept": "application/json", "User-Agent": "ascend-owner-guard"}
        if body is not None:
            patches = method == "PATCH"
            headers["Content-Type"] = "application/strategic-merge-patch+json" if patches else "application/json"
        with self._counting:
            self.requests += 1
        try:
            # This re-reads a token file that is a minute old.
            token = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        except (ConfigException, OSError) as error:
            raise ApiError(0, f"our token cannot be read: {error}") from error
        if token:
            headers["Authorization"] = token
        return self._pool.request(
            method,
            url,
            headers=headers,
            body=body,
            timeout=timeout,
            retries=False,
            redirect=False,
            preload_content=False,
        )


class Stream:
    """An open stream of lines. A context manager that closes it."""

    def __init__(self, response: urllib3.BaseHTTPResponse, idle: float) -> None:
        self._response = response
        self._idle = idle
        connection = response.connection
        sock = getattr(connection, "sock", None)
        if sock is not None:
            sock.settimeout(idle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._response.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines without their end, as they come, until the API server closes. Raises ApiError."""
        parts: list[bytes] = []
        try:
            for chunk in self._response.stream(2**16):
                *whole, rest = chunk.split(b"\n")
                for line in whole:
                    parts.append(line)
                    yield b"".join(parts)
                    parts.clear()
                if rest:
                    parts.append(rest)
        except ReadTimeoutError as error:
            raise ApiError(0, f"the API server sent nothing for {self._idle:g} s") from error
        except HTTPError as error:
            raise ApiError(0, _sentence(error)) from error

    def cut(self) -> None:
        """End the stream from another thread: its reader wakes up at once."""
        try:
            self._response.shutdown()
        except (OSError, RuntimeError, ValueError):
            return  # it has ended by itself


def _read(response: urllib3.BaseHTTPResponse, end: float) -> bytes:
    """Return the whole body. `end` is by the monotonic clock; the pool's time-outs only bound each single read."""
    parts: list[bytes] = []
    try:
        for chunk in response.stream(2**18):
            parts.append(chunk)
            if time.monotonic() > end:
                response.close()
                raise ApiError(0, "the API server did not finish its answer in time")
    except HTTPError as error:
        response.close()
        raise ApiError(0, _sentence(error)) from error
    return b"".join(parts)


def _date(response: urllib3.BaseHTTPResponse) -> datetime | None:
    try:
        date = parsedate_to_datetime(response.headers.get("Date", ""))
    except ValueError:
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _error(response: urllib3.BaseHTTPResponse) -> ApiError:
    """Return the refusal that `response` is, with the message of its Status object. Consumes it."""
    if 300 <= response.status < 400:
        response.close()
        return ApiError(response.status, "the API server answered with a redirect, which is never followed")
    body = _read(response, time.monotonic() + OPEN_SECONDS)
    try:
        status = decode(body)
    except ValueError:
        status = None
    message = status.get("message") if isinstance(status, dict) else None
    detail = f": {' '.join(message.split())[:MAX_REASON]}" if isinstance(message, str) and message else ""
    return ApiError(response.status, f"the API server answered {response.status}{detail}")


def _sentence(error: HTTPError) -> str:
    match error:
        case NewConnectionError():
            return "the API server cannot be reached"
        case ConnectTimeoutError():
            return "the API server did not accept a connection in time"
        case ReadTimeoutError():
            return "the API server did not answer in time"
        case SSLError():
            return f"the TLS connection to the API server failed: {str(error)[:MAX_REASON]}"
        case ProtocolError():
            return "the API server closed the connection"
        case _:
            return f"the connection to the API server failed ({type(error).__name__})"
