"""The tests' own control plane is a real one, isolated, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controlplane import build
from tests.controlplane.plane import ControlPlane
from tests.waiting import eventually

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "plain-node", "labels": {"kubernetes.io/os": "linux"}},
}


def _workload(kind: str, name: str) -> dict[str, object]:
    labels = {"app": name}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "example/pause:1"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pods}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.mark.integration
def test_the_server_says_the_version_it_was_built_from(control_plane: ControlPlane) -> None:
    said = json.loads(control_plane.kubectl("version", "-o", "json").stdout)
    assert said["serverVersion"]["gitVersion"] == build.KUBERNETES_VERSION


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["DaemonSet", "Deployment"])
def test_pods_of_a_workload_become_running_through_the_real_controllers(control_plane: ControlPlane, kind: str) -> None:
    name = f"some-{kind.lower()}"
    control_plane.apply(NODE, _workload(kind, name))
    try:
        eventually(
            lambda: (
                "Running"
                in control_plane.kubectl("get", "pods", "-l", f"app={name}", "-o", "jsonpath={..status.phase}").stdout
            )
        )
    finally:
        control_plane.kubectl("delete", kind.lower(), name, "--cascade=foreground")
        control_plane.kubectl("delete", "node", "plain-node")


@pytest.mark.integration
def test_a_token_without_rights_may_nothing(control_plane: ControlPlane) -> None:
    kubeconfig = control_plane.kubeconfig_for("default", "default")
    denied = control_plane.kubectl("get", "nodes", kubeconfig=kubeconfig, check=False)
    assert denied.returncode == 1
    assert "system:serviceaccount:default:default" in denied.stderr
    assert "Forbidden" in denied.stderr


@pytest.mark.integration
def test_helm_installs_a_chart(control_plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: tiny, version: 0.1.0}")
    (tmp_path / "templates" / "map.yaml").write_text(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: from-helm}, data: {key: value}}"
    )
    control_plane.helm("install", "tiny", str(tmp_path), "-n", "default")
    try:
        assert control_plane.kubectl("get", "configmap", "from-helm", "-o", "jsonpath={.data.key}").stdout == "value"
    finally:
        control_plane.helm("uninstall", "tiny", "-n", "default")


@pytest.mark.integration
def test_two_api_servers_on_one_etcd_see_each_others_writes(make_control_plane: Callable[..., ControlPlane]) -> None:
    plane = make_control_plane(servers=2, controllers=False)
    plane.kubectl("create", "configmap", "shared", "-n", "default", kubeconfig=plane.kubeconfigs[0])
    found = plane.kubectl("get", "configmap", "shared", "-n", "default", "-o", "name", kubeconfig=plane.kubeconfigs[1])
    assert found.stdout.strip() == "configmap/shared"
    plane.restart_apiserver(0)
    assert plane.kubectl("get", "configmap", "shared", "-n", "default", "-o", "name").stdout == found.stdout


@pytest.mark.integration
def test_nothing_outlives_a_session_that_is_killed() -> None:
    program = (
        "import time\n"
        "from tests.controlplane.plane import ControlPlane\n"
        "plane = ControlPlane(controllers=False)\n"
        "plane.start()\n"
        "print(*plane.pids, plane.folder, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        *pids, folder = child.stdout.readline().split()
        assert len(pids) == 2
        child.send_signal(signal.SIGKILL)
        child.wait()
        eventually(lambda: not any(_alive(int(pid)) for pid in pids))
    for leftover in sorted(Path(folder).rglob("*"), reverse=True):
        leftover.rmdir() if leftover.is_dir() else leftover.unlink()
    Path(folder).rmdir()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_a_missing_go_is_a_sentence_that_names_the_remedy(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.controlplane.build"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 1
    assert "there is no `go` on the PATH. Install Go 1.26 or newer, or set KUBEBUILDER_ASSETS" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_go_that_is_too_old_is_a_sentence_that_names_the_remedy(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.19.8\n")
    go.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.controlplane.build"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 1
    assert "needs Go 1.26, this is go1.19.8. Install Go 1.26 or newer" in done.stderr
