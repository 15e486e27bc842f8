"""Stand-ins for a cluster, and reviews to send."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from webhook.cluster.files import read_records
from webhook.ownership.facts import Facts
from webhook.ownership.settings import Settings

LEAVING = (
    {
        "apiVersion": "npu-operator.alauda.io/v1",
        "kind": "NPUOperatorCtl",
        "metadata": {"name": "npu", "namespace": "npu-operator"},
        "spec": {"devicePlugin": {"enabled": False}},
    },
    {
        "apiVersion": "npu.openfuyao.com/v1",
        "kind": "NPUClusterPolicy",
        "metadata": {"name": "cluster"},
        "spec": {"devicePlugin": {"managed": True}},
    },
)
"""Objects of a cluster that native is leaving: the policy has not followed yet."""


def facts_of(*objects: dict[str, Any]) -> Facts:
    """The picture of a cluster that holds these objects."""
    return Facts.of(read_records(objects, Settings()), now=datetime.now(UTC))


def no_look_up(_deadline: float) -> Facts:
    """A live read that must not happen."""
    raise AssertionError("the cluster was asked")


@dataclass
class Cluster:
    """A FactSource of one picture. `on_live` is what a live read does."""

    facts: Facts = field(default_factory=lambda: facts_of(*LEAVING))
    on_live: Callable[[float], Facts] = no_look_up
    synced: bool = True
    problems: Mapping[str, str] = field(default_factory=dict)
    started: bool = False
    stopped: bool = False

    def start(self) -> None:
        self.started = True

    def stop(self) -> None:
        self.stopped = True

    def cached(self) -> Facts:
        return self.facts

    def live(self, deadline: float) -> Facts:
        return self.on_live(deadline)


class Gate:
    """A live read that is held up until the test opens the gate."""

    def __init__(self, facts: Facts) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self._facts = facts

    def __call__(self, _deadline: float) -> Facts:
        self.entered.set()
        assert self.open.wait(30)
        return self._facts


def review(item: dict[str, Any], resource: str, uid: str = "u-1", user: str = "alice") -> bytes:
    """The review of a creation of `item`."""
    group, _, version = item["apiVersion"].rpartition("/")
    request = {
        "uid": uid,
        "operation": "CREATE",
        "kind": {"group": group, "version": version, "kind": item["kind"]},
        "resource": {"group": group, "version": version, "resource": resource},
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "namespace": item["metadata"].get("namespace", ""),
        "name": item["metadata"].get("name", ""),
        "object": item,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def pod_review(npus: int = 0, uid: str = "u-1") -> bytes:
    """The review of a Pod that asks for so many NPUs."""
    limits = {"huawei.com/Ascend910": str(npus)} if npus else {}
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    metadata = {"name": "web", "namespace": "team"}
    return review(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}, "pods", uid
    )


def hami_review(uid: str = "u-2", **spec: Any) -> bytes:
    """The review of HAMi's plugin coming in: a change of owner."""
    metadata = {"name": "hami-ascend-device-plugin", "namespace": "hami-system"}
    item = {"apiVersion": "hami.io/v1", "kind": "HAMiAscendDevicePlugin", "metadata": metadata, "spec": spec}
    return review(item, "hamiascenddeviceplugins", uid)
