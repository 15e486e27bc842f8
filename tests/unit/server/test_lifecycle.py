"""The real process over TLS on loopback: ready and not, kept connections, drain, orphaned."""

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from certs import store
from certs.authority import make_authority, sign_leaf
from certs.bundle import encode_authority, encode_serving
from certs.names import LOOPBACK
from tests.controlplane.process import free_port
from tests.unit.server.doubles import hami_review, pod_review
from tests.waiting import eventually

SAMPLE = Path(__file__).parents[3] / "webhook" / "sample_cluster"
ROOT = Path(__file__).parents[3]

# A guard whose cluster is read once the file `synced` is there, and whose live reads wait for the file `open`.
SLOW_GUARD = """
import sys, time
from pathlib import Path
from webhook.cluster.files import FileCluster
from webhook.configuration import load
from webhook.server.process import Process
from webhook.server.tls import ServingCertificate

folder, sample = Path(sys.argv[1]), Path(sys.argv[2])

def wait_for(name):
    while not (folder / name).exists():
        time.sleep(0.01)

class Slow(FileCluster):
    @property
    def synced(self):
        return (folder / "synced").exists()

    def live(self, deadline):
        (folder / "entered").touch()
        wait_for("open")
        return super().live(deadline)

configuration = load(folder / "config.yaml", {})
pair = ServingCertificate(folder / "tls.crt", folder / "tls.key")
Process(configuration, Slow(sample, configuration), pair, "1.2.3").run()
"""


class Served:
    """A running guard."""

    def __init__(self, folder: Path) -> None:
        now = datetime.now(UTC)
        authority = make_authority(now)
        leaf = sign_leaf(authority, LOOPBACK, now)
        store.write(folder, encode_authority(authority) | encode_serving(leaf), replace=True)
        self.folder = folder
        self.port = free_port()
        tls = {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key")}
        server = {"port": self.port, "gracefulTimeout": "5s", "tls": tls}
        (folder / "config.yaml").write_text(json.dumps({"server": server}))
        self.log = (folder / "log").open("w+b")
        command = [sys.executable, "-c", SLOW_GUARD, str(folder), str(SAMPLE)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, cwd=ROOT)
        eventually(self._answers)

    def connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=20)

    def get(self, path: str) -> int:
        connection = self.connect()
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            return self.get("/healthz") == 200
        except OSError:
            return False

    def set_synced(self) -> None:
        """Let the cluster be read, and wait until connections are kept."""
        (self.folder / "synced").touch()
        eventually(self._keeps)

    def _keeps(self) -> bool:
        connection = self.connect()
        connection.request("GET", "/readyz")
        kept = not connection.getresponse().will_close
        connection.close()
        return kept

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)
        self.log.close()


def post(connection: http.client.HTTPSConnection, body: bytes) -> http.client.HTTPResponse:
    connection.request("POST", "/validate?timeout=10s", body, {"Content-Type": "application/json"})
    return connection.getresponse()


def verdict(response: http.client.HTTPResponse) -> dict[str, Any]:
    assert response.status == 200
    inner: dict[str, Any] = json.loads(response.read())["response"]
    return inner


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    guard = Served(tmp_path)
    try:
        yield guard
    finally:
        guard.end()


def test_before_the_cluster_is_read_reviews_are_handed_over_and_the_connection_is_closed(served: Served) -> None:
    assert (served.get("/healthz"), served.get("/readyz")) == (200, 503)
    connection = served.connect()
    response = post(connection, pod_review())
    assert (response.status, response.headers["Retry-After"], response.will_close) == (503, "1", True)
    served.set_synced()
    assert served.get("/readyz") == 200


def test_a_kept_connection_serves_review_after_review(served: Served) -> None:
    served.set_synced()
    connection = served.connect()
    for number in range(3):
        answer = verdict(post(connection, pod_review(npus=number % 2, uid=f"u-{number}")))
        assert (answer["uid"], answer["allowed"]) == (f"u-{number}", number % 2 == 0)
        kept = connection.sock
        assert kept is not None
    connection.close()


def test_a_pod_passes_by_while_an_owner_change_waits_and_a_drain_waits_for_it(served: Served) -> None:
    served.set_synced()
    waiting, passing, idle = served.connect(), served.connect(), served.connect()
    assert verdict(post(idle, pod_review()))["allowed"] is True
    waiting.request("POST", "/validate?timeout=20s", hami_review(), {"Content-Type": "application/json"})
    eventually((served.folder / "entered").exists)
    assert verdict(post(passing, pod_review(npus=1)))["allowed"] is False

    served.process.send_signal(signal.SIGTERM)
    eventually(lambda: "Handling signal: term" in (served.folder / "log").read_text())
    handed_over = eventually(lambda: _handed_over(idle))
    # Between two requests the drain may find the connection idle, and closes it at once.
    assert handed_over in (("0", True), CLOSED_IDLE)
    (served.folder / "open").touch()
    assert verdict(waiting.getresponse())["allowed"] is False
    for connection in (waiting, passing, idle):
        connection.close()
    assert served.process.wait(15) == 0


CLOSED_IDLE = ("", True)


def _handed_over(idle: http.client.HTTPSConnection) -> tuple[str, bool] | None:
    """What a draining server says on a kept connection: Retry-After, and whether it closes. None: it does not drain."""
    try:
        response = post(idle, pod_review())
    except (http.client.RemoteDisconnected, ConnectionError):
        return CLOSED_IDLE
    response.read()
    return (response.headers["Retry-After"], response.will_close) if response.status == 503 else None


def test_records_are_lines_on_standard_output(served: Served) -> None:
    served.set_synced()
    connection = served.connect()
    post(connection, pod_review(npus=1)).read()
    connection.close()
    lines = [line for line in (served.folder / "log").read_text().splitlines() if line.startswith("{")]
    assert [json.loads(line)["rule"] for line in lines] == ["mid-switch"]


def test_a_worker_whose_master_has_died_ends(served: Served) -> None:
    served.set_synced()
    children = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children").read_text().split()
    served.process.kill()
    served.process.wait(10)
    eventually(lambda: not any(_runs(int(child)) for child in children))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
