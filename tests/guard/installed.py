"""The chart in a control plane, and the real server process that the chart's Service leads to."""

import base64
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Process, free_port
from tests.guard.balancer import Balancer
from tests.products.api import Api
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "ascend-owner-guard"
NAME = NAMESPACE = "ascend-owner-guard"


class InstalledGuard:
    """A guard that the API server calls through the chart's own Service.

    The Service is turned into an ExternalName for localhost, so that `clientConfig.service`, caBundle and the
    certificate's DNS names are exercised as they ship. The Deployment's Pods are kwok's; the server is a process here,
    with a token of the chart's ServiceAccount, and reads the configuration that the chart rendered.
    """

    def __init__(self, plane: ControlPlane, values: dict[str, Any] | None = None, replicas: int = 1) -> None:
        """`values` are the chart's; with several `replicas` a balancer stands before as many server processes."""
        self.plane = plane
        self.values = values or {}
        self.port = free_port()
        self.folder = plane.folder / f"guard-{self.port}"
        self._ports = [self.port] if replicas == 1 else [free_port() for _ in range(replicas)]
        self._balancer: Balancer | None = None
        self._processes: dict[int, Process] = {}
        self._trusted = ""

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"https://localhost:{self.port}"

    @property
    def ports(self) -> tuple[int, ...]:
        """Where each replica listens."""
        return tuple(self._ports)

    @property
    def log(self) -> Path:
        """The server's output: audit lines and what it logs."""
        return self.folder / "server.log"

    def __enter__(self) -> Self:
        try:
            self._install()
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def start(self) -> None:
        """Start every server that does not run, and wait until all are ready."""
        if len(self._ports) > 1 and self._balancer is None:
            self._balancer = Balancer(self.port, self._ports)
        for index, port in enumerate(self._ports):
            if port not in self._processes or not self._processes[port].running:
                self._processes[port] = self._serve(index, port)
        eventually(self.is_ready, timeout=30)
        eventually(self.is_called, timeout=30)

    def _certificate_options(self) -> list[str]:
        """In mode self-managed none: the server makes its certificate itself, with the rights of the chart."""
        return []

    def _serve(self, index: int, port: int) -> Process:
        servers = len(self.plane.urls)
        kubeconfig = self.plane.kubeconfig_for(NAMESPACE, NAME, index=index % servers)
        command: list[str | Path] = [
            Path(sys.executable).with_name("ascend-guard"), "serve",
            f"--config={self.folder / 'config.yaml'}",
            f"--kubeconfig={kubeconfig}",
            *self._certificate_options(),
            f"--bind=127.0.0.1:{port}",
        ]  # fmt: skip
        return Process(f"guard-{index}", command, self.log, environment={**os.environ, "TMPDIR": str(self.folder)})

    def kill(self, index: int | None = None) -> None:
        """End one server, or all, without a chance to say goodbye."""
        for port in self._ports if index is None else [self._ports[index]]:
            if port in self._processes:
                self._processes[port].kill()

    def replace(self, index: int, pre_stop: float) -> int:
        """Take one of several replicas out as a rolling update does: a new one is ready first, then the Service forgets
        the old one, which goes on for `pre_stop` seconds and drains. Returns its exit code."""
        assert self._balancer is not None
        old, new = self._ports[index], free_port()
        self._processes[new] = self._serve(index, new)
        self._ports[index] = new
        eventually(self.is_ready, timeout=30)
        self._balancer.lead_to(self._ports)
        time.sleep(pre_stop)
        return self._processes.pop(old).stop(grace=30)

    def stop(self) -> list[int]:
        """Let the servers drain and end (SIGTERM). Returns their exit codes."""
        return [process.stop(grace=30) for process in self._processes.values()]

    def is_ready(self) -> bool:
        """Whether every server says that it is ready. Fails when one has ended."""
        for port in self._ports:
            process = self._processes[port]
            assert process.running, f"a server has ended:\n{process.tail(40)}"
        return all(self.get("/readyz", port)[0] == 200 for port in self._ports)

    def is_called(self) -> bool:
        """Whether the API server trusts the certificate and gets an answer, by a dry run that one entry asks about."""
        socket = "/var/lib/kubelet/device-plugins"
        container = {"name": "c", "image": "x", "volumeMounts": [{"name": "s", "mountPath": socket}]}
        labels = {"app": "is-called"}
        item = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "is-called", "namespace": NAMESPACE},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container], "volumes": [{"name": "s", "hostPath": {"path": socket}}]},
                },
            },
        }
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
        apis = [Api.from_kubeconfig(kubeconfig) for kubeconfig in self.plane.kubeconfigs]
        answers = [api.answer("POST", path, item, dryRun="All") for api in apis]
        return not any("failed calling webhook" in answer.message for answer in answers)

    @property
    def tls(self) -> ssl.SSLContext:
        """What a client needs that calls a server itself: it trusts whom the API server trusts.

        Looked up at the API server; while that is away, it is what was trusted last.
        """
        live = self.plane.kubectl("get", "validatingwebhookconfiguration", NAME, "-o", "json", check=False)
        if live.returncode == 0:
            entry = json.loads(live.stdout)["webhooks"][0]["clientConfig"]
            self._trusted = base64.b64decode(entry.get("caBundle", "")).decode()
        return self.known_tls

    @property
    def known_tls(self) -> ssl.SSLContext:
        """The same by what is known already, without a question to the API server."""
        trusted = self._trusted
        context = ssl.create_default_context(cadata=trusted) if trusted else ssl.create_default_context()
        context.check_hostname = False  # it is for the Service's names, and called by the loopback's here
        return context

    def get(self, path: str, port: int | None = None) -> tuple[int, str]:
        """GET from a server itself: status (0: no answer) and body."""
        context = self.known_tls if self._trusted else self.tls
        try:
            with urllib.request.urlopen(
                f"https://localhost:{port or self._ports[0]}{path}", timeout=5, context=context
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (urllib.error.URLError, OSError):
            _ = self.tls  # its authority may have changed: look it up for the next time
            return 0, ""

    def audit_lines(self) -> list[dict[str, Any]]:
        """Return the audit records that the server has written so far."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.startswith("{")]
        records = [json.loads(line) for line in lines]
        return [record for record in records if "decision" in record]

    def _install(self) -> None:
        values = {"service": {"port": self.port}, **self.values}
        self.folder.mkdir()
        given = self.folder / "values.yaml"
        given.write_text(yaml.safe_dump(values))
        self.plane.helm("install", NAME, str(CHART), "-n", NAMESPACE, "--create-namespace", "-f", str(given))
        rendered = json.loads(self.plane.kubectl("-n", NAMESPACE, "get", "configmap", NAME, "-o", "json").stdout)
        (self.folder / "config.yaml").write_text(rendered["data"]["config.yaml"])
        spec = {"type": "ExternalName", "externalName": "localhost", "clusterIP": None, "clusterIPs": None}
        self.plane.kubectl("-n", NAMESPACE, "patch", "service", NAME, "--type=merge", "-p", json.dumps({"spec": spec}))
        if self.plane.controllers:
            self.plane.kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{NAME}", "--timeout=60s")

    def _remove(self) -> None:
        self.kill()
        if self._balancer is not None:
            self._balancer.close()
        self.plane.helm("uninstall", NAME, "-n", NAMESPACE, "--ignore-not-found", check=False)
        if self.plane.controllers:  # without them a namespace is never finished
            self.plane.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true")
