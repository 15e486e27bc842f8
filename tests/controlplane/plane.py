"""A control plane on loopback: etcd, one or more API servers, and if wanted controllers, scheduler and kwok."""

import json
import os
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.controlplane.build import binary
from tests.controlplane.identity import make_keys, write_kubeconfig
from tests.controlplane.process import Process, free_port

START_TIMEOUT = 60.0


class ControlPlaneError(Exception):
    """The control plane, or a command on it, failed; the message carries the last lines of what was said."""


class ControlPlane:
    """A Kubernetes control plane in a temporary folder, stopped and removed at the end.

    `controllers=False` leaves nothing but etcd and API servers, so that nothing is remade behind a test's back.
    `apiserver_flags` are further flags of the API servers.
    `audit_policy` is the YAML text of an audit policy; the log is then `audit_log`.
    """

    def __init__(
        self, *, servers: int = 1, controllers: bool = True, audit_policy: str = "", apiserver_flags: Sequence[str] = ()
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ascend-owner-guard-plane-"))
        self._keys = make_keys(self.folder)
        self.controllers = controllers
        self._apiserver_flags = tuple(apiserver_flags)
        self._audit_policy = audit_policy
        self._ports = [free_port() for _ in range(servers)]
        self._etcd_port = free_port()
        self._processes: dict[str, Process] = {}
        self.audit_log = self.folder / "audit.log"
        self.ca_file = self._keys.ca
        admin = {
            "client-certificate": str(self._keys.admin_certificate),
            "client-key": str(self._keys.admin_key),
        }
        self.kubeconfigs = [
            write_kubeconfig(self.folder / f"admin-{index}.kubeconfig", url, self.ca_file, admin)
            for index, url in enumerate(self.urls)
        ]

    @property
    def urls(self) -> list[str]:
        """The API servers' addresses."""
        return [f"https://127.0.0.1:{port}" for port in self._ports]

    @property
    def server(self) -> str:
        """The first API server's address."""
        return self.urls[0]

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig file for the first API server."""
        return self.kubeconfigs[0]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and wait until the API servers are ready. Raises ControlPlaneError, BuildError."""
        try:
            self._start_etcd()
            for index in range(len(self._ports)):
                self.start_apiserver(index)
            if self.controllers:
                self._start_controllers()
                self._wait("the default ServiceAccount", lambda: self._exists("serviceaccount", "default"))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything, the last started first, and remove the folder."""
        for process in reversed(self._processes.values()):
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, name: str, program: str, *arguments: str) -> Process:
        process = Process(name, [binary(program), *arguments], self.folder / f"{name}.log")
        self._processes[name] = process
        return process

    def _start_etcd(self) -> None:
        url, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{free_port()}"
        self._run(
            "etcd",
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self._wait("etcd", lambda: _answers(url + "/health", None))

    def start_apiserver(self, index: int = 0) -> None:
        """Start the API server number `index` and wait until it is ready."""
        keys = self._keys
        arguments = [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._ports[index]}",
            f"--tls-cert-file={keys.serving_certificate}",
            f"--tls-private-key-file={keys.serving_key}",
            f"--client-ca-file={keys.ca}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={keys.service_account_key}",
            f"--service-account-key-file={keys.service_account_key}",
            "--allow-privileged=true",
            "--profiling=false",
            *self._apiserver_flags,
        ]
        if self._audit_policy:
            policy = self.folder / "audit-policy.yaml"
            policy.write_text(self._audit_policy)
            arguments += [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"]
        self._run(f"kube-apiserver-{index}", "kube-apiserver", *arguments)
        context = ssl.create_default_context(cafile=str(keys.ca))
        self._wait(f"kube-apiserver {index}", lambda: _answers(self.urls[index] + "/readyz", context))

    def stop_apiserver(self, index: int = 0) -> None:
        """Kill the API server number `index`."""
        self._processes[f"kube-apiserver-{index}"].kill()

    def restart_apiserver(self, index: int = 0) -> None:
        """Kill and start the API server number `index`."""
        self.stop_apiserver(index)
        self.start_apiserver(index)

    def _start_controllers(self) -> None:
        config = str(self.kubeconfig)
        self._run(
            "kube-controller-manager",
            "kube-controller-manager",
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self._keys.service_account_key}",
            f"--root-ca-file={self._keys.ca}",
            # A test's cluster is quiet and small: what takes 5 minutes in production need not here.
            "--node-monitor-grace-period=1h",
        )
        self._run(
            "kube-scheduler",
            "kube-scheduler",
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            "--leader-elect=false",
        )
        self._run(
            "kwok",
            "kwok",
            f"--kubeconfig={config}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=0",
            f"--server-address=127.0.0.1:{free_port()}",
        )

    def _exists(self, kind: str, name: str) -> bool:
        return self.kubectl("get", kind, name, check=False).returncode == 0

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while not ready():
            dead = [process for process in self._processes.values() if not process.running]
            if dead or time.monotonic() > deadline:
                raise ControlPlaneError(f"{what} did not become ready.\n{self.tails()}")
            time.sleep(0.05)

    def tails(self, lines: int = 6) -> str:
        """Return the last lines of every log."""
        return "\n".join(f"--- {process.name}\n{process.tail(lines)}" for process in self._processes.values())

    @property
    def pids(self) -> list[int]:
        """The process ids of everything that runs."""
        return [process.pid for process in self._processes.values() if process.running]

    def signal(self, name: str, number: int) -> None:
        """Send a signal to one program, by the name of its log (`etcd`, `kube-apiserver-0`, `kwok`, …)."""
        self._processes[name].signal(number)

    def kubectl(
        self,
        *arguments: str,
        stdin: str | None = None,
        as_user: str = "",
        as_groups: Sequence[str] = (),
        kubeconfig: Path | None = None,
        check: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator (or impersonating). Raises ControlPlaneError when it fails and `check`."""
        command = [str(binary("kubectl")), f"--kubeconfig={kubeconfig or self.kubeconfig}"]
        if as_user:
            command += [f"--as={as_user}", *(f"--as-group={group}" for group in as_groups)]
        variables = {**os.environ, "HOME": str(self.folder), **(environment or {})}
        done = subprocess.run(
            [*command, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=variables,
            timeout=120,
        )
        return _checked(done, check)

    def apply(self, *objects: dict[str, Any], **options: Any) -> subprocess.CompletedProcess[str]:
        """`kubectl apply` objects; the options are those of `kubectl`."""
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        return self.kubectl("apply", "-f", "-", stdin=manifest, **options)

    def helm(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run helm as the administrator. Raises ControlPlaneError when it fails and `check`."""
        environment = {**os.environ, "HOME": str(self.folder), "KUBECONFIG": str(self.kubeconfig)}
        environment |= {f"HELM_{name}_HOME": str(self.folder / f"helm-{name}") for name in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [str(binary("helm")), *arguments], capture_output=True, text=True, check=False, env=environment, timeout=300
        )
        return _checked(done, check)

    def token(self, namespace: str, account: str) -> str:
        """Return a fresh token of a ServiceAccount, valid for the session."""
        return self.kubectl("-n", namespace, "create", "token", account, "--duration=24h").stdout.strip()

    def kubeconfig_for(self, namespace: str, account: str, *, index: int = 0) -> Path:
        """Write a kubeconfig file with nothing but a token of that ServiceAccount, for the API server `index`."""
        path = self.folder / f"{namespace}-{account}-{index}.kubeconfig"
        return write_kubeconfig(path, self.urls[index], self.ca_file, {"token": self.token(namespace, account)})


def _checked(done: subprocess.CompletedProcess[str], check: bool) -> subprocess.CompletedProcess[str]:
    if check and done.returncode != 0:
        words = " ".join(str(word) for word in done.args[1:])
        raise ControlPlaneError(
            f"{Path(done.args[0]).name} {words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done


def _answers(url: str, context: ssl.SSLContext | None) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2, context=context) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
