"""Looking at a cluster with the products on it, and waiting for what they bring about."""

from __future__ import annotations

from typing import Any

from tests.products import hami_operator, samples
from tests.products.api import Api, Object, path_of, path_to
from tests.products.kubelet import has_crashed
from tests.products.npu_operator import RUNTIME_CLASS as RUNTIME_CLASS
from tests.products.plugin import owner_of
from tests.waiting import eventually

CTL = path_to(samples.npuoperatorctl())
POLICY = path_of("npu.openfuyao.com/v1", "NPUClusterPolicy", "cluster")
NATIVE = path_of("apps/v1", "DaemonSet", "ascend-device-plugin", "kube-system")
HAMI_CR = path_of(hami_operator.VERSION, "HAMiAscendDevicePlugin", "hami-ascend-device-plugin", "hami-system")
HAMI = path_of("apps/v1", "DaemonSet", "hami-ascend-device-plugin", "hami-system")
AML = path_to(samples.amlcluster())


def field(api: Api, path: str, *keys: str) -> Any:
    """A field of a stored object; None when the object or the field is absent."""
    found: Any = api.get(path)
    for key in keys:
        found = None if found is None else found.get(key)
    return found


def devices(api: Api, node: str, of: str = "allocatable") -> dict[str, str]:
    """What a node says of NPUs in `allocatable` or `capacity`."""
    shown = field(api, path_of("v1", "Node", node), "status", of) or {}
    return {key: value for key, value in shown.items() if key.startswith("huawei.com/")}


def plugin_pods(api: Api, owner: str) -> list[Object]:
    """The Pods of this owner's plugin (`native` with MindCluster's, `hami`)."""
    return [pod for pod in api.items("/api/v1/pods", resourceVersion="") if owner_of(pod) == owner]


def until_advertised(api: Api, wanted: dict[str, str], *nodes: str) -> None:
    """Wait until these nodes advertise exactly this. AssertionError after 30 s."""
    eventually(lambda: all(devices(api, node) == wanted for node in nodes))


def until_crashed(api: Api, owner: str, *nodes: str) -> None:
    """Wait until this owner's plugin has crashed on each of these nodes. (kwok makes it Ready for a moment first.)"""
    eventually(
        lambda: {pod["spec"].get("nodeName") for pod in plugin_pods(api, owner) if has_crashed(pod)} == set(nodes)
    )


def until_gone(api: Api, *paths: str) -> None:
    """Wait until none of these objects is stored any more. AssertionError after 30 s."""
    eventually(lambda: not any(api.get(path) for path in paths))


def policy_writes(api: Api) -> float:
    """How many times a NPUClusterPolicy was updated, in the API server's own count."""
    marks = ("apiserver_request_total{", 'verb="PUT"', 'resource="npuclusterpolicies"', 'code="200"', 'subresource=""')
    lines = api.text("GET", "/metrics").decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if all(mark in line for mark in marks))
