"""The guard of `make test-kind` handles the chart's Deployment; here kwok says that its Pods run, nothing answers."""

import json

import pytest

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import NAMESPACE
from tests.kind import engine
from tests.kind.guard import REAL, KindGuard

pytestmark = pytest.mark.integration


class Unheard(KindGuard):
    """Without containers there is no answer to wait for."""

    def is_called(self) -> bool:
        return True


def test_the_deployment_runs_where_containers_do_comes_and_goes(control_plane: ControlPlane) -> None:
    labels = {"kubernetes.io/os": "linux", **REAL}
    control_plane.apply(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker", "labels": labels}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "elsewhere"}},
    )
    pods = ("-n", NAMESPACE, "get", "pods", "-o", "json")
    with Unheard(control_plane, {"replicas": 3}) as guard:
        found = json.loads(control_plane.kubectl(*pods).stdout)["items"]
        assert [pod["spec"]["nodeName"] for pod in found] == ["worker"] * 3
        image = {container["image"] for pod in found for container in pod["spec"]["containers"]}
        assert image == {engine.image()}
        assert guard.is_ready()
        assert guard.audit_lines() == []
        guard.kill(0)
        guard.start()
        assert guard.is_ready()
        guard.kill()
        assert json.loads(control_plane.kubectl(*pods).stdout)["items"] == []
        assert not guard.is_ready()
    assert control_plane.kubectl("get", "namespace", NAMESPACE, check=False).returncode != 0
    control_plane.kubectl("delete", "node", "worker", "elsewhere")


def test_a_value_of_no_replicas_means_one_here(control_plane: ControlPlane) -> None:
    assert KindGuard(control_plane, {"replicas": 0}).replicas == 1
    assert KindGuard(control_plane).replicas == 2
    assert KindGuard(control_plane, replicas=3).replicas == 3


def test_the_log_of_all_replicas_is_asked_for_in_words_that_kubectl_knows(control_plane: ControlPlane) -> None:
    said = control_plane.kubectl(*KindGuard.LOG, check=False).stderr
    assert "unknown flag" not in said
    assert "No resources found" in said
