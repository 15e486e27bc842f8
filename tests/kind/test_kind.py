"""What of `make test-kind` can be proved without Docker: kind takes its configuration, the pieces fit together."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.build import BuildError, binary
from tests.controlplane.plane import ControlPlane
from tests.image.dockerfile import ROOT
from tests.kind import engine
from tests.kind.cluster import NO_FAULTS, KindCluster, owned_by_node, played, spares_the_cluster
from tests.kind.guard import REAL, records
from tests.kind.plugin import ELSEWHERE, OWN, unsuited
from tests.products.nodes import ascend_node

# Answers kind's questions as an engine with nothing on it, notes each call, and after a second runs no container.
DOCKER = """#!/bin/sh
echo "$@" >> "$DOCKER_CALLS"
case "$1" in
  info) echo '{"CgroupVersion":"2","MemoryLimit":true,"PidsLimit":true,"CPUShares":true,"SecurityOptions":[]}' ;;
  run) sleep 1; echo "no container is run here" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path) -> dict[str, str]:
    """An environment whose `docker` is the program above."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(DOCKER)
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(tmp_path), "DOCKER_CALLS": str(tmp_path / "calls")}


def create(configuration: Path, environment: dict[str, str]) -> str:
    """What `kind create cluster` says, which fails in any case."""
    try:
        kind = binary("kind")
    except BuildError as error:
        pytest.skip(str(error))
    command = [
        str(kind),
        "create",
        "cluster",
        f"--config={configuration}",
        f"--kubeconfig={environment['HOME']}/config",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    return done.stderr


@pytest.mark.integration
def test_kind_takes_the_configuration_and_runs_its_three_nodes(docker: dict[str, str]) -> None:
    said = create(engine.CONFIGURATION, docker)
    assert "no container is run here" in said
    runs = [call for call in Path(docker["DOCKER_CALLS"]).read_text().splitlines() if call.startswith("run ")]
    named = {word for call in runs for word in call.split() if word.startswith(engine.NAME)}
    assert named >= {f"{engine.NAME}-control-plane", f"{engine.NAME}-worker", f"{engine.NAME}-worker2"}


@pytest.mark.integration
@pytest.mark.parametrize(
    "right, wrong, complaint",
    [("role: worker", "role: labourer", "invalid configuration"), ("labels:", "label:", "field label not found")],
)
def test_kind_would_refuse_a_wrong_configuration(
    docker: dict[str, str], tmp_path: Path, right: str, wrong: str, complaint: str
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(engine.CONFIGURATION.read_text().replace(right, wrong))
    assert complaint in create(bad, docker)


def test_one_node_has_the_control_plane_and_the_guard_has_two_to_run_on() -> None:
    nodes = yaml.safe_load(engine.CONFIGURATION.read_text())["nodes"]
    assert [node["role"] for node in nodes] == ["control-plane", "worker", "worker"]
    assert [node.get("labels") for node in nodes] == [None, REAL, REAL]
    assert len({node["image"] for node in nodes}) == 1
    assert "@sha256:" in nodes[0]["image"]


def test_the_image_that_is_loaded_is_the_one_that_is_built() -> None:
    assert f"IMAGE ?= {engine.image()}\n" in (ROOT / "Makefile").read_text()


def test_without_docker_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert engine.main() == 1
    assert capsys.readouterr().err == engine.NO_DOCKER + "\n"


def test_without_the_image_the_command_that_makes_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(engine.KindError, match="make image"):
        engine.require_image()


@pytest.mark.parametrize(
    "module, fixtures, reason",
    [
        ("test_direct_to_hami", ["control_plane", "procedure"], ""),
        ("test_hami_to_direct", ["control_plane", "procedure"], ""),
        ("test_rollback", ["control_plane", "native", "procedure"], ""),
        ("test_snapshot", ["make_control_plane", "plane"], OWN),
        ("test_races", ["races"], OWN),
        ("test_control_plane", ["control_plane"], ELSEWHERE["test_control_plane"]),
    ],
)
def test_what_runs_on_kind(module: str, fixtures: list[str], reason: str) -> None:
    assert unsuited(module, fixtures) == reason


@pytest.mark.parametrize("fault", ["stop_apiserver", "start_apiserver", "restart_apiserver", "signal"])
def test_a_test_that_breaks_the_control_plane_is_skipped_with_the_reason(fault: str) -> None:
    cluster = KindCluster()
    try:
        with pytest.raises(pytest.skip.Exception, match=NO_FAULTS):
            getattr(cluster, fault)(*(("etcd", 19) if fault == "signal" else ()))
    finally:
        cluster.stop()


def test_records_of_several_replicas_are_in_the_order_of_their_times() -> None:
    lines = ['{"decision":"denied","time":"2030-01-01T00:00:02.000Z"}', "a line of the log", '{"level":"info"}']
    lines += ['{"decision":"allowed","time":"2030-01-01T00:00:01.000Z"}', lines[0]]
    assert [one["decision"] for one in records(lines)] == ["allowed", "denied"]


def test_kinds_own_network_is_not_deleted_with_the_plugins() -> None:
    assert spares_the_cluster(("delete", "-n", "kube-system", "daemonset", "--all"))
    assert not spares_the_cluster(("delete", "-n", "hami-system", "daemonset", "--all"))
    assert not spares_the_cluster(("-n", "kube-system", "delete", "daemonset", "ascend-device-plugin"))


def test_a_node_that_a_test_makes_is_kwoks() -> None:
    plain = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "control", "annotations": {"any": "thing"}}}
    fake = ascend_node("node-a")["metadata"]["annotations"]
    assert played(plain)["metadata"] == {"name": "control", "annotations": {"any": "thing", **fake}}


@pytest.fixture(scope="module")
def strict() -> Iterator[ControlPlane]:
    """An API server with the restrictions of kubelets that kind has."""
    flags = ("--authorization-mode=Node", "--enable-admission-plugins=NodeRestriction")
    with ControlPlane(controllers=False, apiserver_flags=flags) as plane:
        yield plane


@pytest.mark.integration
def test_a_static_pod_is_taken_where_kubelets_are_restricted(strict: ControlPlane) -> None:
    strict.apply(ascend_node("node-a"), {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    uid = strict.kubectl("get", "node", "node-a", "-o", "jsonpath={.metadata.uid}").stdout
    mirror = {"kubernetes.io/config.mirror": "any", "kubernetes.io/config.source": "file"}
    spec = {"nodeName": "node-a", "containers": [{"name": "c", "image": "example/any:1"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "static", "annotations": mirror}, "spec": spec}
    kubelet = {"as_user": "system:node:node-a", "as_groups": ("system:nodes",)}
    refused = strict.kubectl("create", "-f", "-", stdin=json.dumps(pod), check=False, **kubelet)  # type: ignore[arg-type]
    assert "owner reference" in refused.stderr
    owned = json.dumps(owned_by_node(pod, "node-a", uid))
    strict.kubectl("create", "-f", "-", stdin=owned, **kubelet)  # type: ignore[arg-type]
