"""The picture of the cluster against a real kube-apiserver: complete, fresh, and honest about what it does not know."""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.products.api import Api
from tests.products.products import crds
from tests.waiting import eventually
from webhook.cluster.api import ApiFacts
from webhook.cluster.connection import Connection
from webhook.cluster.discovery import Served
from webhook.cluster.listing import pages
from webhook.cluster.watch import Pace
from webhook.ownership.facts import Facts
from webhook.ownership.settings import Settings

pytestmark = pytest.mark.integration

NAMESPACE = "cluster-facts"
QUICK = Pace(look_again=0.3, watch=4, silence=1.5, call=5, first_pause=0.1, longest_pause=0.5)
CALM = Pace(look_again=300, watch=300)
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
BUILT_IN = {"daemonsets", "nodes", "pods", "runtimeclasses"}
BUILT_IN |= {"resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates"}
BUILT_IN |= {"configmaps", "mutatingwebhookconfigurations"}
PODS = Served("v1", "Pod", "/api/v1/pods")

Object = dict[str, Any]
Start = Callable[..., ApiFacts]


def pod(name: str, *, npu: bool = True, labels: dict[str, str] | None = None) -> Object:
    limits = {"huawei.com/Ascend910": "1"} if npu else {"cpu": "1"}
    container = {"name": "main", "image": "example.invalid/train", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels or {}},
        "spec": {"containers": [container], "nodeSelector": {"no-such": "node"}},
    }


def throughout(look: Callable[[], object], seconds: float = 1.5) -> None:
    """Assert that `look` stays true for so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert look()
        time.sleep(0.05)


def pod_names(facts: Facts) -> list[str]:
    return [found.meta.ref.name for found in facts.pods if found.meta.ref.namespace == NAMESPACE]


@pytest.fixture
def admin(control_plane: ControlPlane) -> Iterator[Api]:
    yield from _namespace(Api.from_kubeconfig(control_plane.kubeconfig))


def _namespace(api: Api) -> Iterator[Api]:
    """Yield `api` with the tests' namespace, and empty that namespace afterwards."""
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for name in ("default", "reader"):
        metadata = {"name": name, "namespace": NAMESPACE}
        api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    yield api
    api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods", {"gracePeriodSeconds": 0})


@pytest.fixture
def connection(control_plane: ControlPlane) -> Iterator[Connection]:
    made = Connection.from_kubeconfig(control_plane.kubeconfig)
    yield made
    made.close()


@pytest.fixture
def start() -> Iterator[Start]:
    sources: list[ApiFacts] = []

    def begin(connection: Connection, pace: Pace = QUICK) -> ApiFacts:
        source = ApiFacts(connection, Settings(), pace)
        sources.append(source)
        source.start()
        eventually(lambda: source.synced, timeout=15)
        return source

    yield begin
    for source in sources:
        source.stop()


def test_a_kind_is_empty_until_it_is_installed_and_until_it_is_gone_for_good(
    admin: Api, connection: Connection, start: Start
) -> None:
    kind = "hamiascenddeviceplugins"
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/hamiascenddeviceplugins.hami.io"
    source = start(connection)
    assert kind in source.cached().absent
    assert kind in source.live(5).absent
    assert not source.cached().missing
    (crd,) = crds("hami-crds", "")
    admin.apply(crd)
    try:
        eventually(lambda: kind not in source.cached().absent)
        plugin = {
            "apiVersion": "hami.io/v1alpha1",
            "kind": "HAMiAscendDevicePlugin",
            "metadata": {"name": "plugin", "namespace": NAMESPACE, "finalizers": ["example.com/held"]},
            "spec": {"nodeSelector": {"ascend": "on"}},
        }
        eventually(lambda: admin.get("/apis/hami.io/v1alpha1/hamiascenddeviceplugins"))
        admin.create(plugin)
        assert len(source.live(5).hami_plugins) == 1
        eventually(lambda: len(source.cached().hami_plugins) == 1, timeout=1)

        admin.delete(definition)
        eventually(lambda: source.cached().hami_plugins[0].meta.deleting)
        throughout(lambda: kind not in source.cached().absent and source.cached().hami_plugins)
        assert len(source.live(5).hami_plugins) == 1
        admin.merge(
            f"/apis/hami.io/v1alpha1/namespaces/{NAMESPACE}/hamiascenddeviceplugins/plugin",
            {"metadata": {"finalizers": None}},
        )
        eventually(lambda: kind in source.cached().absent)
        eventually(lambda: kind in source.live(5).absent)
        assert source.cached().hami_plugins == ()
        assert not source.cached().missing
    finally:
        admin.delete(definition)


def test_a_kind_is_found_where_another_product_shares_its_group_at_a_preferred_version(
    admin: Api, connection: Connection, start: Start
) -> None:
    (crd,) = crds("hami-crds", "")
    names = {"kind": "Neighbour", "listKind": "NeighbourList", "plural": "neighbours", "singular": "neighbour"}
    (version,) = crd["spec"]["versions"]
    neighbour = {
        **crd,
        "metadata": {"name": "neighbours.hami.io"},
        "spec": {**crd["spec"], "names": names, "versions": [{**version, "name": "v1"}]},
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    try:
        admin.apply(neighbour)
        admin.apply(crd)
        eventually(lambda: admin.get("/apis/hami.io/v1alpha1/hamiascenddeviceplugins"))
        group = admin.get("/apis/hami.io")
        assert group is not None
        assert group["preferredVersion"]["version"] == "v1"
        source = start(connection)
        assert "hamiascenddeviceplugins" not in source.cached().absent
        assert "hamiascenddeviceplugins" not in source.live(5).absent
    finally:
        for name in ("neighbours", "hamiascenddeviceplugins"):
            admin.delete(f"{definitions}/{name}.hami.io")


def test_every_kind_of_event_is_visible_within_a_second(admin: Api, connection: Connection, start: Start) -> None:
    source = start(connection, CALM)
    admin.create(pod("seen"))
    admin.create(pod("ordinary", npu=False))
    eventually(lambda: pod_names(source.cached()) == ["seen"], timeout=1)
    admin.merge(f"/api/v1/namespaces/{NAMESPACE}/pods/seen", {"metadata": {"labels": {"a": "b"}}})
    eventually(lambda: dict(source.cached().pods[0].meta.labels) == {"a": "b"}, timeout=1)
    admin.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/seen", gracePeriodSeconds=0)
    eventually(lambda: pod_names(source.cached()) == [], timeout=1)


def test_a_pod_that_loses_the_label_for_which_it_mattered_is_forgotten(
    admin: Api, connection: Connection, start: Start
) -> None:
    source = start(connection, CALM)
    plugin = pod("plugin", npu=False, labels={"app.kubernetes.io/component": "hami-ascend-device-plugin"})
    plugin["spec"]["volumes"] = [{"name": "sockets", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
    plugin["spec"]["containers"][0]["volumeMounts"] = [{"name": "sockets", "mountPath": "/sockets"}]
    admin.create(plugin)
    eventually(lambda: pod_names(source.cached()) == ["plugin"], timeout=1)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/plugin"
    admin.merge(path, {"metadata": {"labels": {"app.kubernetes.io/component": None}}})
    eventually(lambda: pod_names(source.cached()) == [], timeout=1)


def test_a_live_read_sees_a_write_immediately(admin: Api, connection: Connection, start: Start) -> None:
    source = start(connection, CALM)
    for number in range(20):
        admin.create(pod(f"live-{number}"))
        assert f"live-{number}" in pod_names(source.live(5))


def test_the_cached_picture_costs_no_request(connection: Connection, start: Start) -> None:
    source = start(connection, CALM)
    eventually(lambda: {one.kind for one in source.statistics() if one.watches} == BUILT_IN)
    before = connection.requests
    for _ in range(1000):
        source.cached()
    assert connection.requests == before


def test_a_thousand_pods_are_listed_in_pages_and_stay_one_list(
    admin: Api, connection: Connection, start: Start
) -> None:
    for number in range(1010):
        admin.create(pod(f"many-{number:04}", npu=number % 100 == 0))
    before = connection.requests
    found = [
        item["metadata"]["name"]
        for page in pages(connection, PODS, limit=250, timeout=10)
        for item in page.objects
        if item["metadata"]["namespace"] == NAMESPACE
    ]
    assert len(found) == len(set(found)) == 1010
    assert connection.requests - before >= 5
    expected = [f"many-{number:04}" for number in range(0, 1010, 100)]
    source = start(connection)
    assert pod_names(source.cached()) == expected
    assert pod_names(source.live(10)) == expected


def test_an_object_that_strict_json_refuses_does_not_hide_its_neighbours(
    admin: Api, connection: Connection, control_plane: ControlPlane, start: Start
) -> None:
    source = start(connection, CALM)
    for name, value in (("deep", "[" * 3000 + "]" * 3000), ("surrogate", '"\\ud800"')):
        opaque = {"driver": "example.com", "parameters": {"a": "VALUE"}}
        request = {"name": "chip", "exactly": {"deviceClassName": "npu.huawei.com"}}
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"devices": {"requests": [request], "config": [{"opaque": opaque}]}},
        }
        control_plane.kubectl("create", "--raw", CLAIMS, "-f", "-", stdin=json.dumps(claim).replace('"VALUE"', value))
    try:
        for read in (source.cached, lambda: source.live(5), start(connection).cached):
            _knows_two_claims(read)
    finally:
        control_plane.kubectl("delete", "resourceclaims", "--all", f"--namespace={NAMESPACE}")


def _knows_two_claims(read: Callable[[], Facts]) -> None:
    eventually(lambda: len(read().device_claims) == 2, timeout=2)
    assert not read().missing


def test_a_live_read_that_is_late_says_what_is_missing(connection: Connection, start: Start) -> None:
    source = start(connection)
    facts = source.live(0.0001)
    assert set(facts.missing) >= {"pods", "nodes", "daemonsets", "npuoperatorctls"}
    assert all("it was not read within 0.0 s" in reason or "time" in reason for reason in facts.missing.values())
    assert not source.live(5).missing


def test_a_right_that_is_taken_away_makes_its_kind_missing_until_it_is_given_back(
    admin: Api, control_plane: ControlPlane, start: Start
) -> None:
    admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": NAMESPACE}})
    rights = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    role: Object = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    role = {**role, "metadata": {"name": "cluster-facts-reader"}, "rules": rights}
    admin.apply(role)
    admin.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "cluster-facts-reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-facts-reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": NAMESPACE}],
        }
    )
    try:
        source = start(Connection.from_kubeconfig(control_plane.kubeconfig_for(NAMESPACE, "reader")))
        assert not source.cached().missing
        admin.apply({**role, "rules": [{**rights[0], "apiGroups": ["apps", "node.k8s.io", "resource.k8s.io"]}]})
        eventually(lambda: set(source.cached().missing) == {"nodes", "pods"})
        assert "403" in source.cached().missing["pods"]
        assert set(source.live(5).missing) == {"nodes", "pods"}
        only_warn = {"configmaps", "mutatingwebhookconfigurations"}
        eventually(lambda: set(source.problems) == {"nodes", "pods"} | only_warn)
        admin.apply(role)
        eventually(lambda: not source.cached().missing)
        assert not source.live(5).missing
        eventually(lambda: not source.problems)
    finally:
        for kind in ("clusterrolebindings", "clusterroles"):
            admin.delete(f"/apis/rbac.authorization.k8s.io/v1/{kind}/cluster-facts-reader")


def test_without_any_right_it_is_ready_to_say_why_it_knows_nothing(
    admin: Api, control_plane: ControlPlane, start: Start
) -> None:
    source = start(Connection.from_kubeconfig(control_plane.kubeconfig_for(NAMESPACE, "default")))
    assert set(source.cached().missing) >= {"pods", "nodes", "daemonsets"}


@pytest.fixture
def plane(make_control_plane: Callable[..., ControlPlane]) -> ControlPlane:
    """A control plane of one's own: its first API server may be stopped, frozen and started again."""
    return make_control_plane(servers=2, controllers=False)


@pytest.fixture
def own_admin(plane: ControlPlane) -> Iterator[Api]:
    """The administrator at the second API server."""
    yield from _namespace(Api.from_kubeconfig(plane.kubeconfigs[1]))


def test_the_picture_outlives_the_api_server_and_its_age_tells(
    plane: ControlPlane, own_admin: Api, start: Start
) -> None:
    for name in ("before", "meanwhile-deleted"):
        own_admin.create(pod(name))
    source = start(Connection.from_kubeconfig(plane.kubeconfig))
    throughout(lambda: source.cached().age < timedelta(seconds=5), seconds=8)
    plane.stop_apiserver()
    eventually(lambda: source.cached().age > timedelta(seconds=8), timeout=20)
    facts = source.cached()
    assert pod_names(facts) == ["before", "meanwhile-deleted"]
    assert not facts.missing
    assert source.problems["pods"] == "the API server cannot be reached"
    assert source.live(2).missing["pods"] == "the API server cannot be reached"
    own_admin.create(pod("meanwhile-created"))
    own_admin.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/meanwhile-deleted", gracePeriodSeconds=0)
    plane.start_apiserver()
    eventually(lambda: pod_names(source.cached()) == ["before", "meanwhile-created"], timeout=10)
    eventually(lambda: source.cached().age < timedelta(seconds=5), timeout=10)
    eventually(lambda: not source.problems, timeout=10)
    # The restarted API server's history begins later than where we were: 410, and a new list.
    assert {one.kind: one.lists for one in source.statistics()}["pods"] == 2


def test_a_connection_that_stalls_is_given_up_and_opened_again(
    plane: ControlPlane, own_admin: Api, start: Start
) -> None:
    source = start(Connection.from_kubeconfig(plane.kubeconfig))
    plane.signal("kube-apiserver-0", signal.SIGSTOP)
    eventually(lambda: source.problems.get("nodes"), timeout=15)
    eventually(lambda: source.cached().age > timedelta(seconds=7), timeout=15)
    assert set(source.live(0.5).missing) >= {"pods", "nodes"}
    plane.signal("kube-apiserver-0", signal.SIGCONT)
    own_admin.create(pod("after"))
    eventually(lambda: pod_names(source.cached()) == ["after"], timeout=30)
    eventually(lambda: source.cached().age < timedelta(seconds=5), timeout=30)


def test_stopping_is_prompt_while_every_watch_is_open(connection: Connection, start: Start) -> None:
    source = start(connection, CALM)
    began = time.monotonic()
    source.stop()
    assert time.monotonic() - began < 20  # the watches would last 300 s
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("watch-")]
