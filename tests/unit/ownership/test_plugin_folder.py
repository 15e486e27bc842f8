"""A device plugin is seen however it spells the folder that it mounts, and only where it may write there."""

from typing import Any

import pytest

from webhook.ownership.owners import Owner, plugin_owner
from webhook.ownership.settings import Settings


def plugin(path: str, **mount: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "ascend-k8sdeviceplugin:1"}
    container["volumeMounts"] = [{"name": "v", "mountPath": "/any", **mount}]  # type: ignore[assignment]
    spec = {"containers": [container], "volumes": [{"name": "v", "hostPath": {"path": path}}]}
    metadata = {"name": "any", "namespace": "any"}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": {"template": {"spec": spec}}}


@pytest.mark.parametrize(
    "path, below",
    [
        ("/var/lib/kubelet/device-plugins", ""),
        ("//var/lib/kubelet/device-plugins", ""),
        ("/var//lib/./kubelet/device-plugins/", ""),
        ("var/lib/kubelet/device-plugins", ""),
        ("/var/lib/kubelet", ""),
        ("/var/lib/kubelet", "device-plugins"),
        ("/var/lib", "kubelet/device-plugins"),
        ("/var/lib", "./kubelet"),
        ("/", "var/lib/kubelet/device-plugins"),
    ],
)
def test_every_spelling_of_the_folder_is_seen(path: str, below: str) -> None:
    mount = {"subPath": below} if below else {}
    assert plugin_owner(plugin(path, **mount), Settings()) is not None


@pytest.mark.parametrize(
    "path, mount",
    [
        ("/", {}),
        ("/var", {}),
        ("/var/lib/kubelet/pods", {}),
        ("/var/lib/kubelet", {"subPath": "pods"}),
        ("/var/lib/kubelet-old/device-plugins", {}),
        ("/var/lib/kubelet/device-plugins", {"readOnly": True}),
    ],
)
def test_other_folders_and_reading_ones_are_not(path: str, mount: dict[str, Any]) -> None:
    assert plugin_owner(plugin(path, **mount), Settings()) is None


def test_a_configured_kubelet_path_may_be_spelled_in_any_way_as_well() -> None:
    settings = Settings(kubelet_paths=("//data/kubelet/",))
    assert plugin_owner(plugin("/data/kubelet/device-plugins"), settings) is Owner.MINDCLUSTER
