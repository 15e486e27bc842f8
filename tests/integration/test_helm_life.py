"""The chart's life by the real helm: installed, upgraded, rolled back, removed, installed again after an accident."""

import json
from collections.abc import Iterator

import pytest

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import CHART, NAME, NAMESPACE, InstalledGuard
from tests.products.api import Api
from tests.waiting import eventually

pytestmark = pytest.mark.integration

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
ENTRIES = f"{ADMISSION}/validatingwebhookconfigurations/{NAME}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}-tls"
NAMESPACED = ("-n", NAMESPACE)


class Release:
    """A control plane in which the chart comes and goes."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.admin = Api.from_kubeconfig(plane.kubeconfig)

    def upgrade(self, guard: InstalledGuard, *options: str) -> None:
        """Upgrade as the fixture installed it, with changed values."""
        given = guard.folder / "values.yaml"
        self.plane.helm("upgrade", NAME, str(CHART), *NAMESPACED, "-f", str(given), *options)

    def trusted(self) -> set[str]:
        """What the entries trust."""
        return {entry["clientConfig"].get("caBundle", "") for entry in self.admin.request("GET", ENTRIES)["webhooks"]}

    def policies(self) -> set[str]:
        """The failure policies of the entries."""
        return {entry["failurePolicy"] for entry in self.admin.request("GET", ENTRIES)["webhooks"]}

    def left(self) -> list[str]:
        """What is left of an installation in the whole cluster."""
        kinds = "validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings"
        kinds += ",clusterroles,clusterrolebindings"
        labelled = self.plane.kubectl("get", kinds, "-l", f"app.kubernetes.io/name={NAME}", "-o", "name").stdout.split()
        return [*labelled, *(path for path in (LEASE, SECRET) if self.admin.get(path) is not None)]

    def claim(self) -> None:
        """Have the guard make its Lease: somebody asks for an owner."""
        socket = "/var/lib/kubelet/device-plugins"
        labels = {"name": "ascend-device-plugin-ds"}
        container = {"name": "c", "image": "x", "volumeMounts": [{"name": "s", "mountPath": socket}]}
        spec = {
            "containers": [container],
            "volumes": [{"name": "s", "hostPath": {"path": socket}}],
            "nodeSelector": labels,
        }
        template = {"metadata": {"labels": labels}, "spec": spec}
        item = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "ascend-device-plugin-daemonset", "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
        self.admin.apply(item)
        eventually(lambda: self.admin.get(LEASE) is not None)
        self.admin.impersonating("system:kube-controller-manager", "system:masters").delete(
            "/apis/apps/v1/namespaces/default/daemonsets/ascend-device-plugin-daemonset"
        )


@pytest.fixture(scope="module")
def release() -> Iterator[Release]:
    with ControlPlane() as plane:
        plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "control"}})
        yield Release(plane)


def test_what_is_uninstalled_leaves_nothing_behind(release: Release) -> None:
    with InstalledGuard(release.plane) as guard:
        release.claim()
        owners = [release.admin.request("GET", path)["metadata"]["ownerReferences"][0] for path in (LEASE, SECRET)]
        assert {owner["kind"] for owner in owners} == {"ServiceAccount"}
        guard.kill()
        release.plane.helm("uninstall", NAME, *NAMESPACED)
        eventually(lambda: release.left() == [], timeout=60)


def test_a_second_installation_is_refused(release: Release) -> None:
    with InstalledGuard(release.plane):
        second = release.plane.helm("install", "again", str(CHART), "-n", "other", "--create-namespace", check=False)
        assert second.returncode != 0
        assert "exists and cannot be imported into the current release" in second.stderr


def test_an_upgrade_and_a_rollback_keep_the_trust_and_change_the_mode(release: Release) -> None:
    with InstalledGuard(release.plane) as guard:
        before = release.trusted()
        assert (len(before), release.policies()) == (1, {"Fail", "Ignore"})
        release.upgrade(guard, "--set", "mode=audit", "--set", "replicas=3")
        assert release.trusted() == before
        assert release.policies() == {"Ignore"}
        config = release.admin.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}")["data"][
            "config.yaml"
        ]
        assert "mid-switch: audit" in config
        release.plane.helm("rollback", NAME, "1", *NAMESPACED)
        assert release.trusted() == before
        assert release.policies() == {"Fail", "Ignore"}
        assert guard.is_called()


def test_it_is_never_in_its_own_way_with_every_replica_down(release: Release) -> None:
    with InstalledGuard(release.plane) as guard:
        guard.kill()
        release.upgrade(guard, "--set", "replicas=1")
        release.plane.kubectl(*NAMESPACED, "rollout", "restart", f"deployment/{NAME}")
        release.plane.kubectl(*NAMESPACED, "rollout", "status", f"deployment/{NAME}", "--timeout=60s")
        release.plane.kubectl(*NAMESPACED, "delete", "pods", "--all", "--wait=false")
        release.plane.helm("rollback", NAME, "1", *NAMESPACED)
        release.plane.helm("uninstall", NAME, *NAMESPACED)
        eventually(lambda: release.left() == [], timeout=60)


def test_it_can_be_installed_again_after_its_namespace_was_deleted_first(release: Release) -> None:
    with InstalledGuard(release.plane) as guard:
        guard.kill()
        release.plane.kubectl("delete", "namespace", NAMESPACE, "--wait=true", "--timeout=60s")
        assert release.left() != []  # the entries are there still, and nobody answers
    lifted = json.loads(
        release.plane.kubectl(
            "get", "validatingwebhookconfigurations", "-l", f"app.kubernetes.io/name={NAME}", "-o", "json"
        ).stdout
    )["items"]
    with InstalledGuard(release.plane) as guard:
        assert guard.is_called(), lifted
