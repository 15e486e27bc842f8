"""A kind cluster in the place of the control plane that the tests build."""

import base64
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import free_port
from tests.kind import engine

NO_FAULTS = "it breaks the control plane, and kind's is not ours to break"
FAKE = {"kwok.x-k8s.io/node": "fake"}
_KUBELET = "system:node:"


class KindCluster(ControlPlane):
    """The same to a test as `ControlPlane`, but for faults: a test that asks for one is skipped.

    kwok runs here beside the tests and plays the kubelets of the nodes that a test makes, not of kind's own.
    """

    def __init__(self) -> None:  # what the base class makes by itself, kind makes here
        self.folder = Path(tempfile.mkdtemp(prefix="ascend-owner-guard-kind-"))
        self.controllers = True
        self.audit_log = self.folder / "audit.log"
        self.ca_file = self.folder / "ca.crt"
        self.kubeconfigs = [self.folder / "admin.kubeconfig"]
        self._processes = {}
        self._url = ""
        self._made = False

    @property
    def urls(self) -> list[str]:
        """The address of kind's API server on this machine."""
        return [self._url]

    def start(self) -> None:
        """Make the cluster, and wait for its nodes. Raises KindError, ControlPlaneError, BuildError."""
        try:
            engine.require_docker()
            engine.require_image()
            self._made = True
            engine.create(self.kubeconfig)
            self._read_kubeconfig()
            self.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=110s")
            self._wait("the default ServiceAccount", lambda: self._exists("serviceaccount", "default"))
            self._start_kwok()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop kwok and take the cluster away."""
        for process in self._processes.values():
            process.kill()
        if self._made:
            self._made = False
            engine.delete(self.kubeconfig)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read_kubeconfig(self) -> None:
        (cluster,) = yaml.safe_load(self.kubeconfig.read_text())["clusters"]
        self.ca_file.write_bytes(base64.b64decode(cluster["cluster"]["certificate-authority-data"]))
        self._url = cluster["cluster"]["server"]

    def _start_kwok(self) -> None:
        # The nodes get no address: kind's network makes no routes to them. Leases keep them Ready.
        self._run(
            "kwok",
            "kwok",
            f"--kubeconfig={self.kubeconfig}",
            "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=" + ",".join(f"{key}={value}" for key, value in FAKE.items()),
            "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{free_port()}",
        )

    def start_apiserver(self, index: int = 0) -> None:
        """Skip the test."""
        pytest.skip(NO_FAULTS)

    def stop_apiserver(self, index: int = 0) -> None:
        """Skip the test."""
        pytest.skip(NO_FAULTS)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to kwok; for any other program skip the test."""
        if name not in self._processes:
            pytest.skip(NO_FAULTS)
        super().signal(name, number)

    def tails(self, lines: int = 6) -> str:
        """Return the last lines of kwok's log and of the guard's Pods, and what there is of nodes and Pods."""
        seen = self.kubectl("get", "nodes,pods", "-A", "-o", "wide", check=False)
        labels = "--selector=app.kubernetes.io/name=ascend-owner-guard"
        said = self.kubectl("-n", "ascend-owner-guard", "logs", labels, "--prefix", f"--tail={4 * lines}", check=False)
        parts = (super().tails(lines), f"--- nodes and Pods\n{seen.stdout}{seen.stderr}", f"--- guard\n{said.stdout}")
        return "\n".join(parts)

    def kubectl(
        self,
        *arguments: str,
        stdin: str | None = None,
        as_user: str = "",
        as_groups: Sequence[str] = (),
        kubeconfig: Path | None = None,
        check: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> CompletedProcess[str]:
        """Run kubectl as the base class does, with what is different on a real cluster (see `_suited`)."""
        arguments, stdin = self._suited(arguments, stdin, as_user)
        return super().kubectl(
            *arguments,
            stdin=stdin,
            as_user=as_user,
            as_groups=as_groups,
            kubeconfig=kubeconfig,
            check=check,
            environment=environment,
        )

    def apply(self, *objects: dict[str, Any], **options: Any) -> CompletedProcess[str]:
        """`kubectl apply` objects; a Node among them becomes one of kwok's."""
        return super().apply(*(played(one) if one["kind"] == "Node" else one for one in objects), **options)

    def _suited(
        self, arguments: tuple[str, ...], stdin: str | None, as_user: str
    ) -> tuple[tuple[str, ...], str | None]:
        """Spare what a test does not mean, and write a static Pod as NodeRestriction demands it."""
        if spares_the_cluster(arguments):
            return (*arguments, "--dry-run=server"), stdin
        if as_user.startswith(_KUBELET) and arguments[0] == "create" and stdin is not None:
            node = as_user.removeprefix(_KUBELET)
            uid = super().kubectl("get", "node", node, "-o", "jsonpath={.metadata.uid}").stdout
            return arguments, json.dumps(owned_by_node(json.loads(stdin), node, uid))
        return arguments, stdin


def spares_the_cluster(arguments: Sequence[str]) -> bool:
    """Whether a command means all DaemonSets of kube-system: kind's network is among them.

    A dry run asks the same webhooks, and is refused by the same sentence.
    """
    return {"delete", "kube-system", "--all"} <= set(arguments)


def played(node: dict[str, Any]) -> dict[str, Any]:
    """A Node whose kubelet is kwok."""
    metadata = node["metadata"]
    return {**node, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **FAKE}}}


def owned_by_node(pod: dict[str, Any], node: str, uid: str) -> dict[str, Any]:
    """A static Pod as its kubelet reports it. The admission plugin NodeRestriction, on in kind, wants an owner."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}}
