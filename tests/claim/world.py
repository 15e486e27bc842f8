"""What is stored in the model, as the product sees it: real manifests, real facts, real verdicts, each made once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from webhook.claim.claims import opinion
from webhook.claim.course import Opinion
from webhook.claim.settler import due
from webhook.cli.requests import request_for
from webhook.cluster.files import read_records
from webhook.ownership.facts import Facts
from webhook.ownership.memory import Memory
from webhook.ownership.owners import Owner
from webhook.ownership.request import Request, User
from webhook.ownership.settings import Settings
from webhook.ownership.verdict import Verdict
from webhook.rules import judge

START = datetime(2026, 12, 2, tzinfo=UTC)
TIMEOUT, MAX_AGE, LANDING = 3, 1, 1  # seconds; one tick of the model's clock is a second
SETTINGS = Settings.model_validate(
    {
        "claim": {"timeout": TIMEOUT},
        "freshness": {"claimMaxAge": MAX_AGE, "landing": LANDING},
        "adopt": False,
        "rules": {"placement": "audit"},  # two objects of HAMi for the same nodes: the harder case
    }
)
PLENTY = 100.0  # seconds that a request has left

NATIVE_POD, HAMI_POD = "Pod of native", "Pod of hami"
OBJECTS = {"native": Owner.NATIVE, "hami": Owner.HAMI, "hami 2": Owner.HAMI}
"""What can be stored, and whom it asks for: an NPUOperatorCtl's switch, and two objects of HAMi."""

DIRECT, SHARED, NONE = "pool direct", "pool shared", "no pool"
"""Which pool the node is in whose pool changes; only where there are pools."""

Picture = tuple[frozenset[str], frozenset[Owner]]
"""What is stored (names of OBJECTS and of workloads), and the owners whose plugin has been rolled out."""

_SOCKETS = {
    "containers": [
        {"name": "p", "image": "x", "volumeMounts": [{"name": "s", "mountPath": "/var/lib/kubelet/device-plugins"}]}
    ],
    "volumes": [{"name": "s", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
}
_PLUGINS = {
    Owner.NATIVE: ("kube-system", "ascend-device-plugin", {"name": "ascend-device-plugin-ds"}, "huawei.com/Ascend910"),
    Owner.HAMI: (
        "hami-system",
        "hami-ascend-device-plugin",
        {"app.kubernetes.io/component": "hami-ascend-device-plugin"},
        "huawei.com/Ascend910B4",
    ),
}


def at(tick: int) -> datetime:
    """The API server's clock."""
    return START + timedelta(seconds=tick)


def owners(objects: frozenset[str]) -> frozenset[Owner]:
    """Whom the stored objects ask for."""
    return frozenset(OBJECTS[name] for name in objects if name in OBJECTS)


def operator_ctl(enabled: bool) -> dict[str, Any]:
    return {
        "apiVersion": "npu-operator.alauda.io/v1",
        "kind": "NPUOperatorCtl",
        "metadata": {"name": "npu", "namespace": "npu-operator"},
        "spec": {"devicePlugin": {"enabled": enabled}, "driver": {"enabled": True}, "ociRuntime": {"enabled": True}},
    }


def pool_node(name: str, pool: str) -> dict[str, Any]:
    """A Ready node in this pool."""
    labels = {"workerselector": "dls-worker-node"} | ({"pool": pool.split()[1]} if pool != NONE else {})
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {_PLUGINS[Owner.NATIVE][3]: "8"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def hami_plugin(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "hami.io/v1alpha1",
        "kind": "HAMiAscendDevicePlugin",
        "metadata": {"name": name.replace(" ", "-"), "namespace": "hami-system"},
        "spec": {"nodeSelector": {"ascend": "on"}, "driverHostPath": "/var/lib/Ascend/driver"},
    }


def _workload(name: str) -> dict[str, Any]:
    resource = _PLUGINS[Owner.NATIVE if name == NATIVE_POD else Owner.HAMI][3]
    container = {"name": "c", "image": "x", "resources": {"limits": {resource: "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {"runtimeClassName": "ascend", "containers": [container]},
    }


NODE = "node"
RELABELS = {"direct to shared": (DIRECT, SHARED), "direct to none": (DIRECT, NONE), "none to shared": (NONE, SHARED)}
"""The changes of the pool of one node: the pool before and after, as it is stored."""

REQUESTS: dict[str, tuple[str, str]] = {
    "enable": ("UPDATE", "native"),
    "give up": ("UPDATE", "native"),
    "create": ("CREATE", "hami"),
    "create again": ("CREATE", "hami"),
    "create another": ("CREATE", "hami 2"),
    "delete": ("DELETE", "hami"),
    NATIVE_POD: ("CREATE", NATIVE_POD),
    HAMI_POD: ("CREATE", HAMI_POD),
    **dict.fromkeys(RELABELS, ("UPDATE", NODE)),
}
"""The requests: what is done, and to which object."""


def request(kind: str, uid: str) -> Request:
    """The review of such a request."""
    operation, name = REQUESTS[kind]
    user = User(uid, frozenset({"system:masters"}))
    if name == "native":
        on = kind == "enable"
        return request_for("UPDATE", user, item=operator_ctl(on), old_item=operator_ctl(not on), uid=uid)
    if name == NODE:
        before, after = (pool_node("n", pool) for pool in RELABELS[kind])
        return request_for("UPDATE", user, item=after, old_item=before, uid=uid)
    item = _workload(name) if name in (NATIVE_POD, HAMI_POD) else hami_plugin(name)
    if operation == "DELETE":
        return request_for("DELETE", user, item=None, old_item=item, uid=uid)
    return request_for("CREATE", user, item=item, old_item=None, uid=uid)


def plugin(owner: Owner, selector: dict[str, str], *nodes: str) -> list[dict[str, Any]]:
    """A plugin's DaemonSet, and its Ready Pods on `nodes`."""
    namespace, name, labels, _ = _PLUGINS[owner]
    meta = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
    template = {"metadata": {"labels": labels}, "spec": {"nodeSelector": selector, **_SOCKETS}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    found: list[dict[str, Any]] = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": spec}]
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": name, "controller": True}
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for node in nodes:
        pod = {"name": f"{name}-{node}", "namespace": namespace, "labels": labels, "ownerReferences": [reference]}
        running = {"nodeName": node, **_SOCKETS}
        found.append({"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": running, "status": ready})
    return found


def _objects(picture: Picture) -> list[dict[str, Any]]:
    stored, rolled = picture
    found = [operator_ctl("native" in stored)]
    found += [hami_plugin(name) for name in ("hami", "hami 2") if name in stored]
    found.append(
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "ascend"}, "handler": "ascend"}
    )
    allocatable: dict[str, str] = {}
    for owner in _PLUGINS:
        if owner not in rolled:
            continue
        allocatable[_PLUGINS[owner][3]] = "8"
        found += plugin(owner, {"ascend": "on"}, "n")
    labels = {"ascend": "on", "workerselector": "dls-worker-node", "accelerator": "huawei-Ascend910"}
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": allocatable}
    found.append({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}, "status": status})
    for name in (NATIVE_POD, HAMI_POD):
        if name in stored:
            workload = _workload(name)
            found.append({**workload, "spec": {**workload["spec"], "nodeName": "n"}, "status": {"phase": "Running"}})
    return found


class Rules:
    """The product's judgement, remembered: of equal questions, only the first is put to it."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.settings = settings
        self._facts: dict[Picture, Facts] = {}
        self._opinions: dict[tuple[Any, ...], Opinion[Verdict]] = {}
        self._due: dict[tuple[Any, ...], tuple[datetime, Memory]] = {}

    def objects(self, picture: Picture) -> list[dict[str, Any]]:
        """The manifests of what is stored."""
        return _objects(picture)

    def request(self, kind: str, uid: str) -> Request:
        """The review of such a request."""
        return request(kind, uid)

    def facts(self, picture: Picture, memory: Memory, now: datetime) -> Facts:
        """The picture as the product's facts."""
        facts = self._facts.get(picture)
        if facts is None:
            facts = Facts.of(
                read_records(self.objects(picture), self.settings), now=START, absent=frozenset({"resourceslices"})
            )
            self._facts[picture] = facts
        return replace(facts, memory=memory, now=now)

    def opinion(self, asked: Request, kind: str, picture: Picture, memory: Memory, now: datetime) -> Opinion[Verdict]:
        """What the rules say to a request, and what it needs to write."""
        key = (kind, asked.uid, picture, seen_from(memory, now))
        known = self._opinions.get(key)
        if known is None:
            facts = self.facts(picture, memory, now)
            known = opinion(asked, judge(asked, facts, self.settings), facts, self.settings, PLENTY)
            self._opinions[key] = known
        return known

    def admits(self, kind: str, picture: Picture, memory: Memory, now: datetime) -> bool:
        """Whether the rules admit a Pod."""
        return self.opinion(self.request(kind, "pod"), kind, picture, memory, now).allowed

    def due(self, picture: Picture, memory: Memory, now: datetime) -> Memory:
        """What the Lease should say."""
        key = (picture, seen_from(memory, now))
        known = self._due.get(key)
        if known is None:
            known = (now, due(self.facts(picture, memory, now), self.settings))
            self._due[key] = known
        was, result = known
        if was == now:
            return result
        moved = now - was
        claims = tuple(
            replace(
                claim,
                time=claim.time + moved,
                activated=claim.activated and claim.activated + moved,
                left=claim.left and claim.left + moved,
            )
            for claim in result.claims
        )
        relabels = tuple(replace(one, time=one.time + moved) for one in result.relabels)
        return replace(result, claims=claims, relabels=relabels)


def seen_from(memory: Memory, now: datetime) -> tuple[Any, ...]:
    """A memory as a value that does not change with time: ages instead of times, all old ones alike."""
    return (
        memory.exists,
        memory.settled,
        tuple(
            (
                one.owner,
                one.state,
                one.object,
                one.uid,
                _age(one.time, now),
                _age(one.activated, now),
                _age(one.left, now),
                one.settled,
            )
            for one in memory.claims
        ),
        tuple((one.node, one.labels, _age(one.time, now)) for one in memory.relabels),
    )


def _age(time: datetime | None, now: datetime) -> int | None:
    return None if time is None else min(int((now - time).total_seconds()), 2 * TIMEOUT)
