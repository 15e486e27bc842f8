"""Ascend nodes whose kubelet is kwok."""

from __future__ import annotations

from collections.abc import Mapping

from tests.products.api import Api, Object, path_of
from tests.products.kubelet import is_ready
from tests.waiting import eventually


def ascend_node(
    name: str, accelerator: str = "huawei-Ascend910", labels: Mapping[str, str | None] | None = None
) -> Object:
    """A Node with the labels of the products (DOMAIN.md section 3); `labels` adds to them, None takes one away."""
    worn: dict[str, str | None] = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "workerselector": "dls-worker-node",
        "ascend": "on",
        "accelerator": accelerator,
        **(labels or {}),
    }
    size = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {key: value for key, value in worn.items() if value is not None},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"allocatable": size, "capacity": size},
    }


def create_nodes(admin: Api, *nodes: Object) -> None:
    """Create the nodes and return once kwok has made all of them Ready. AssertionError after 30 s."""
    for node in nodes:
        admin.create(node)
    paths = [path_of("v1", "Node", node["metadata"]["name"]) for node in nodes]
    eventually(lambda: all(is_ready(admin.get(path) or {}) for path in paths))


def delete_node(admin: Api, name: str) -> None:
    """Delete a node, and its Pods at once: no kubelet is left to end them."""
    for pod in admin.items("/api/v1/pods", fieldSelector=f"spec.nodeName={name}"):
        admin.force_away(pod)
    admin.delete(path_of("v1", "Node", name))
