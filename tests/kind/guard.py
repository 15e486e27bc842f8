"""The guard on a kind cluster: the chart's own Deployment and Service, nothing beside them."""

import json
import time
from typing import Any

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import CHART, NAME, NAMESPACE, InstalledGuard
from tests.products.api import Api
from tests.waiting import eventually

# kind.yaml gives this label to the nodes that run containers; kwok only says that it does.
REAL = {"ascend-owner-guard.io/runs": "containers"}
SELECTOR = f"--selector=app.kubernetes.io/instance={NAME}"
_DEPLOYMENT = f"deployment/{NAME}"
_ROLL_OUT = "110s"


class KindGuard(InstalledGuard):
    """The same to a test as `InstalledGuard`; its servers are the Deployment's Pods, which run the image."""

    LOG = ("-n", NAMESPACE, "logs", SELECTOR, "--tail=-1", "--max-log-requests=20", "--ignore-errors")

    def __init__(self, plane: ControlPlane, values: dict[str, Any] | None = None, replicas: int = 1) -> None:
        """`replicas` is how many at least; the chart's values say how many otherwise, and 0 of them would be none."""
        super().__init__(plane, values, replicas)
        default = yaml.safe_load((CHART / "values.yaml").read_text())["replicas"]
        self.replicas = max(replicas, self.values.get("replicas", default), 1)
        self._api = Api.from_kubeconfig(plane.kubeconfig)
        self._kept: list[str] = []

    @property
    def url(self) -> str:
        """Where the API server finds it."""
        return f"https://{NAME}.{NAMESPACE}.svc"

    def start(self) -> None:
        """Let every replica run, and wait until the API server gets their answers."""
        self._kubectl("scale", _DEPLOYMENT, f"--replicas={self.replicas}")
        self._kubectl("rollout", "status", _DEPLOYMENT, f"--timeout={_ROLL_OUT}")
        eventually(self.is_called, timeout=60)

    def kill(self, index: int | None = None) -> None:
        """End all replicas; or one, in whose place the Deployment puts another."""
        self._keep_log()
        if index is None:
            self._kubectl("scale", _DEPLOYMENT, "--replicas=0")
            self._kubectl("delete", "pods", SELECTOR, "--grace-period=0", "--force", "--ignore-not-found")
        else:
            names = self._kubectl("get", "pods", SELECTOR, "-o", "name").split()
            self._kubectl("delete", names[index], "--grace-period=0", "--force")

    def stop(self) -> list[int]:
        """Skip the test: a Pod that is gone tells no exit code."""
        pytest.skip("it asks for the exit code of a server, and a Pod that is gone tells none")

    def replace(self, index: int, pre_stop: float) -> int:
        """Skip the test: here that is the Deployment's work."""
        pytest.skip("it plays a rolling update, which is the Deployment's own work here")

    def is_ready(self) -> bool:
        """Whether every replica is Ready."""
        return self._kubectl("get", _DEPLOYMENT, "-o", "jsonpath={.status.readyReplicas}") == str(self.replicas)

    def get(self, path: str, port: int | None = None) -> tuple[int, str]:
        """GET from a replica, through the API server: status and body."""
        proxy = f"/api/v1/namespaces/{NAMESPACE}/services/https:{NAME}:https/proxy"
        answer = self._api.answer("GET", proxy + path)
        return answer.status, answer.data.decode(errors="replace")

    def audit_lines(self) -> list[dict[str, Any]]:
        """Return the audit records of all replicas so far, in the order of their times."""
        return records([*self._kept, *self._settled_log()])

    def _settled_log(self) -> list[str]:
        """The Pods' log once it stands still: a line takes a moment from the server to the kubelet."""
        seen = self._log_now()
        for _ in range(10):
            time.sleep(0.2)
            before, seen = seen, self._log_now()
            if before == seen:
                break
        return seen

    def _log_now(self) -> list[str]:
        return self.plane.kubectl(*self.LOG, check=False).stdout.splitlines()

    def _keep_log(self) -> None:
        self._kept += self._log_now()
        self.log.write_text("\n".join(self._kept))

    def _install(self) -> None:
        """Install the chart without replicas, and let them run where containers do: `start` brings them up."""
        self.folder.mkdir()
        given = self.folder / "values.yaml"
        given.write_text(yaml.safe_dump({**self.values, "replicas": 0}))
        self.plane.helm("install", NAME, str(CHART), "-n", NAMESPACE, "--create-namespace", "-f", str(given))
        patch = {"spec": {"template": {"spec": {"nodeSelector": REAL}}}}
        self._kubectl("patch", _DEPLOYMENT, "-p", json.dumps(patch))

    def _remove(self) -> None:
        self._keep_log()
        self.plane.helm("uninstall", NAME, "-n", NAMESPACE, "--ignore-not-found", check=False)
        self.plane.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true")

    def _kubectl(self, *arguments: str) -> str:
        return self.plane.kubectl("-n", NAMESPACE, *arguments).stdout


def records(lines: list[str]) -> list[dict[str, Any]]:
    """The audit records among lines of several logs, by time; a line that was read twice counts once."""
    found = [json.loads(line) for line in dict.fromkeys(lines) if line.startswith("{")]
    return sorted((one for one in found if "decision" in one), key=lambda one: str(one["time"]))
