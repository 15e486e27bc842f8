"""The chart's webhook entries at a real API server, with a server behind them that only says which one called."""

import base64
import json
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from certs import authority, bundle, names
from tests.controlplane.plane import ControlPlane
from tests.guard.installed import NAME, InstalledGuard
from tests.guard.installed import NAMESPACE as GUARD_NAMESPACE
from tests.products.api import Answer, Api, Object, path_of
from tests.waiting import eventually

SUFFIX = ".ascend-owner-guard.io"
NAMESPACE = "match-conditions"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_ERRORS = "apiserver_admission_match_condition_evaluation_errors_total"


class InstalledEntries(InstalledGuard):
    """The installed chart, but instead of the guard a server that admits everything and warns with the entry's name.

    Each entry calls a path of its own; nothing else of what the chart rendered is changed. So the answer to a request
    tells which entries' rules and matchConditions it met.
    """

    _server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Give each entry its path, and serve."""
        self._trust()
        live = json.loads(self.plane.kubectl("get", "validatingwebhookconfiguration", NAME, "-o", "json").stdout)
        patch = [
            {
                "op": "replace",
                "path": f"/webhooks/{index}/clientConfig/service/path",
                "value": "/" + webhook["name"].removesuffix(SUFFIX),
            }
            for index, webhook in enumerate(live["webhooks"])
        ]
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _Telling)
        self._server.daemon_threads = True
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.folder / "tls.crt", self.folder / "tls.key")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, name="entries", daemon=True).start()
        self.plane.kubectl("patch", "validatingwebhookconfiguration", NAME, "--type=json", "-p", json.dumps(patch))

    def _trust(self) -> None:
        """Issue the serving certificate, and tell the API server alone whom to trust."""
        issuer = authority.make_authority(datetime.now(UTC))
        dns = (*names.service_names(NAME, GUARD_NAMESPACE), *names.LOOPBACK)
        leaf = authority.sign_leaf(issuer, dns, datetime.now(UTC))
        files = {**bundle.encode_authority(issuer), **bundle.encode_serving(leaf)}
        for file, content in files.items():
            (self.folder / file).write_bytes(content)
        trusted = base64.b64encode((self.folder / "ca.crt").read_bytes()).decode()
        live = json.loads(self.plane.kubectl("get", "validatingwebhookconfiguration", NAME, "-o", "json").stdout)
        patch = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": trusted}
            for index in range(len(live["webhooks"]))
        ]
        self.plane.kubectl("patch", "validatingwebhookconfiguration", NAME, "--type=json", "-p", json.dumps(patch))

    def kill(self, index: int | None = None) -> None:
        """End the server."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


def entries(answer: Answer) -> set[str]:
    """The entries, without the common end of their names, that a request met."""
    said = [warning.split('"')[1] for warning in answer.warnings]
    return {text.removeprefix("entry ") for text in said if text.startswith("entry ")}


@contextmanager
def entries_alone(accounts: Iterable[str] = ()) -> Iterator[tuple[ControlPlane, Api]]:
    """An API server alone with the chart's entries, and in NAMESPACE what Pods refer to. AssertionError in the end when
    a single condition could not be evaluated."""
    with ControlPlane(controllers=False) as plane:
        admin = Api.from_kubeconfig(plane.kubeconfig)
        admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for account in {"default", *accounts}:
            metadata = {"name": account, "namespace": NAMESPACE}
            admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        for handler in ("ascend", "nvidia", "runc"):
            runtime_class = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": handler}}
            admin.apply({**runtime_class, "handler": handler})
        # The companion policy would refuse before anybody is asked.
        with InstalledEntries(plane, {"companionPolicy": {"enabled": False}}):
            asks = pod({"resources": {"limits": {"huawei.com/npu": "1"}}})
            eventually(lambda: entries(send(admin, asks)) == {"pods"})
            yield plane, admin
            assert errors(plane) == []


def send(api: Api, item: Object) -> Answer:
    """Create an object in NAMESPACE in a dry run. AssertionError when the API server refuses it."""
    answer = api.answer("POST", path_of(item["apiVersion"], item["kind"], "", NAMESPACE), item, dryRun="All")
    assert answer.status == 201, answer.message
    return answer


def pod(container: Object | None = None, **spec: Any) -> Object:
    """A Pod of one container."""
    body = {"name": "c", "image": "example/any:1", **(container or {})}
    metadata = {"name": "any"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [body], **spec}}


def errors(plane: ControlPlane) -> list[str]:
    """What the API server has counted of our conditions as failed to evaluate."""
    return [line for line in failures(plane) if SUFFIX in line]


def failures(plane: ControlPlane) -> list[str]:
    """What it has counted of anybody's."""
    lines = plane.kubectl("get", "--raw", "/metrics").stdout.splitlines()
    return [line for line in lines if line.startswith(_ERRORS + "{") and not line.endswith(" 0")]


class _Telling(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one segment: no waiting for acknowledgements

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        entry = self.path.partition("?")[0].strip("/")
        response = {"uid": review["request"]["uid"], "allowed": True, "warnings": [f"entry {entry}"]}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Keep quiet."""
