"""The companion policy alone at a real API server: what says that it is generated, and the guard's own Lease and
configuration, stay protected while no guard answers."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.controlplane.plane import ControlPlane
from tests.generated_pods import pods, workload_of
from tests.guard.installed import CHART, NAME, NAMESPACE
from tests.products import samples
from tests.products.api import Answer, Api, Object, path_of, path_to
from tests.products.plugin import HAMI_LABELS, NATIVE_LABELS, daemonset
from tests.products.products import crds
from tests.waiting import eventually
from webhook.cli.requests import request_for
from webhook.ownership.facts import Facts
from webhook.ownership.request import User
from webhook.ownership.settings import Settings
from webhook.rules import judge

pytestmark = pytest.mark.integration

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
RBAC = "rbac.authorization.k8s.io"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
ENTRIES = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{NAME}"
OPERATORS = Settings().identities.native_operator
HAMI_OPERATOR = "system:serviceaccount:hami-system:hami-device-operator"
GUARD = f"system:serviceaccount:{NAMESPACE}:{NAME}"
HOLD = "tests/hold"
OFF = (
    """kubectl -n npu-operator patch npuoperatorctl npu --type merge -p '{"spec":{"devicePlugin":{"enabled":false}}}'"""
)
ON = OFF.replace("false", "true")
ANY_OFF = OFF.replace("npu-operator", "<namespace>").replace("npuoperatorctl npu ", "npuoperatorctl <name> ")
HAMI_OFF = "kubectl -n hami-system delete hamiascenddeviceplugin.hami.io hami-ascend-device-plugin"


@dataclass
class Cluster:
    """The chart in a control plane without any guard, and what both operators have generated."""

    plane: ControlPlane
    admin: Api
    policy: Object
    native: Object
    hami: Object
    with_entries: str = ""

    def item(self, name: str) -> Object:
        found: Object = getattr(self, name)
        return found

    def human(self, *groups: str) -> Api:
        return self.admin.impersonating("alice", *groups or ("system:masters",))

    def account(self, user: str) -> Api:
        """A ServiceAccount that may do everything."""
        return self.admin.impersonating(user, "system:serviceaccounts", "system:masters")

    def upgrade(self, *options: str) -> None:
        """Install the chart again, with other values."""
        self.plane.helm("upgrade", NAME, str(CHART), "-n", NAMESPACE, "--reset-values", *options)
        self.admin.delete(ENTRIES)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ControlPlane() as plane:
        admin = Api.from_kubeconfig(plane.kubeconfig)
        for group in ("npu.openfuyao.com", "npu.ai"):  # the second is another product's
            for crd in crds("npu-operator-crds", group):
                admin.apply(crd)
        for crd in crds("hami-crds", ""):
            admin.apply(crd)
        for name in ("npu-operator", "hami-system"):
            admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        operator = admin.impersonating(OPERATORS[0], "system:serviceaccounts", "system:masters")
        policy = eventually(lambda: created(operator, generated_policy()))
        native = created(operator, plugin("ascend-device-plugin", "kube-system", NATIVE_LABELS, policy))
        owner = eventually(lambda: created(admin, samples.hamiascenddeviceplugin()))
        hami = created(operator, plugin("hami-ascend-device-plugin", "hami-system", HAMI_LABELS, owner))
        cluster = Cluster(plane, admin, policy, native, hami)
        plane.helm("install", NAME, str(CHART), "-n", NAMESPACE, "--create-namespace")
        eventually(
            lambda: "[generated-object]" in cluster.human().answer("DELETE", path_to(hami), dryRun="All").message
        )
        cluster.with_entries = cluster.human().answer("DELETE", path_to(native), dryRun="All").message
        admin.delete(ENTRIES)
        eventually(
            lambda: cluster.human().answer("POST", *to_create(plain("any"), "default"), dryRun="All").status == 201
        )
        yield cluster


def generated_policy(**metadata: Any) -> Object:
    annotations = {
        "operator-sdk/primary-resource": "npu-operator/npu",
        "operator-sdk/primary-resource-type": "NPUOperatorCtl.npu-operator.alauda.io",
    }
    return {
        "apiVersion": "npu.openfuyao.com/v1",
        "kind": "NPUClusterPolicy",
        "metadata": {"name": "cluster", "annotations": annotations, **metadata},
        "spec": {"devicePlugin": {"managed": True}},
    }


def plugin(name: str, namespace: str, labels: dict[str, str], owner: Object) -> Object:
    return daemonset(name, namespace, labels, {"ascend": "on"}, "/usr/local/Ascend/driver", owner)


def plain(name: str) -> Object:
    """A DaemonSet with the name and structure of the native plugin that nobody generates."""
    nobody = {"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any", "uid": "any"}}
    found = plugin(name, "default", NATIVE_LABELS, nobody)
    del found["metadata"]["ownerReferences"]
    return found


def created(api: Api, item: Object) -> Object:
    answer = api.answer("POST", path_to(item).rpartition("/")[0], item)
    return dict(json.loads(answer.data)) if answer.status == 201 else {}


def to_create(item: Object, namespace: str = "") -> tuple[str, Object]:
    """Path and body of a creation; the metadata are those that a person may write."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in ("uid", "resourceVersion")}
    if namespace:
        metadata["namespace"] = namespace
    body = {**item, "metadata": metadata}
    return path_to(body).rpartition("/")[0], body


Way = Callable[[Api, Object], Answer]


def sent(verb: str, change: Any = None, content: str = MERGE, below: str = "", **query: str) -> Way:
    return lambda api, item: api.answer(verb, path_to(item) + below, change, content, dryRun="All", **query)


def _replace(api: Api, item: Object) -> Answer:
    stored = api.get(path_to(item)) or item
    body = {**stored, "metadata": {**stored["metadata"], "labels": {"by": "hand"}}}
    return api.answer("PUT", path_to(item), body, dryRun="All")


def _apply(api: Api, item: Object) -> Answer:
    metadata = {"name": item["metadata"]["name"], "labels": {"by": "hand"}}
    body = {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": metadata}
    return api.answer("PATCH", path_to(item), body, APPLY, fieldManager="alice", force="true", dryRun="All")


def _delete_all(api: Api, item: Object) -> Answer:
    return api.answer("DELETE", path_to(item).rpartition("/")[0], dryRun="All")


def _create_another(api: Api, item: Object) -> Answer:
    path, body = to_create({**item, "metadata": {**item["metadata"], "name": "another"}})
    return api.answer("POST", path, body, dryRun="All")


def _create_by_prefix(api: Api, item: Object) -> Answer:
    path, body = to_create(item)
    body["metadata"] |= {"name": "", "generateName": "another-"}
    return api.answer("POST", path, body, dryRun="All")


OF_ANY: dict[str, Way] = {
    "replace": _replace,
    "merge patch": sent("PATCH", {"spec": {"devicePlugin": {"managed": False}, "minReadySeconds": 9}}),
    "JSON patch": sent("PATCH", [{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}], JSON_PATCH),
    "server-side apply": _apply,
    "add a finalizer": sent("PATCH", {"metadata": {"finalizers": [HOLD]}}),
    "label": sent("PATCH", {"metadata": {"labels": {"by": "hand"}}}),
    "take the evidence away": sent("PATCH", {"metadata": {"annotations": None, "ownerReferences": None}}),
    "delete": sent("DELETE"),
    "delete the collection": _delete_all,
    "create another": _create_another,
    "create another with a generated name": _create_by_prefix,
}
OF_DAEMON_SETS: dict[str, Way] = {
    "strategic merge patch": sent("PATCH", {"spec": {"minReadySeconds": 9}}, STRATEGIC),
    "park": sent("PATCH", {"spec": {"template": {"spec": {"nodeSelector": {"parked": "true"}}}}}),
    "label by status": sent("PATCH", {"metadata": {"labels": {"by": "hand"}}}, below="/status"),
    "disown by status": sent("PATCH", {"metadata": {"ownerReferences": None}}, below="/status"),
}


@pytest.mark.parametrize("way", OF_ANY)
@pytest.mark.parametrize("name", ["policy", "native", "hami"])
def test_a_person_does_not_write_what_is_generated(cluster: Cluster, name: str, way: str) -> None:
    refused(OF_ANY[way](cluster.human(), cluster.item(name)))


@pytest.mark.parametrize("way", OF_DAEMON_SETS)
@pytest.mark.parametrize("name", ["native", "hami"])
def test_a_person_does_not_write_a_generated_daemon_set(cluster: Cluster, name: str, way: str) -> None:
    refused(OF_DAEMON_SETS[way](cluster.human(), cluster.item(name)))


def refused(answer: Answer) -> str:
    """Assert that the policy refused, in the webhook's form, and return its message."""
    assert answer.status == 403, (answer.status, answer.message)
    _, found, message = answer.message.partition("[generated-object] ")
    assert found, answer.message
    assert " Because: " in message, "the plain message, not the composed one"
    assert " Next: " in message
    assert "\n" not in message
    return found + message


def test_the_policy_speaks_before_the_webhook_that_nobody_answers_for(cluster: Cluster) -> None:
    assert "[generated-object]" in cluster.with_entries
    assert "failed calling webhook" not in cluster.with_entries


RESTART = {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}}


SETTING = "change the setting where it is made: "
IN_DAEMON_SET = "DaemonSet {0} metadata.ownerReferences name {1}"
NATIVE_REFERENCE = IN_DAEMON_SET.format("kube-system/ascend-device-plugin", "NPUClusterPolicy cluster")
HAMI_REFERENCE = IN_DAEMON_SET.format(
    "hami-system/hami-ascend-device-plugin", "HAMiAscendDevicePlugin hami-ascend-device-plugin"
)
STOP = "to stop the plugin give its owner up: "
LEAVE = "leave it to the operator, which makes it when the custom resource of native asks for it"
NATIVE_PODS = "kubectl get pods -A -l name=ascend-device-plugin-ds -o wide"


@pytest.mark.parametrize(
    "name, way, because, step",
    [
        ("policy", sent("DELETE"), "NPUOperatorCtl npu-operator/npu generates it, says its annotation", SETTING + OFF),
        ("policy", sent("PATCH", {"spec": {"devicePlugin": {"managed": False}}}), "says its annotation", SETTING + OFF),
        ("policy", sent("PATCH", {"metadata": {"labels": {"a": "b"}}}), "says its annotation", SETTING + ON),
        ("policy", sent("PATCH", {"spec": {"devicePlugin": None}}), "says its annotation", SETTING + ON),
        ("native", sent("DELETE"), NATIVE_REFERENCE, STOP + ANY_OFF),
        (
            "native",
            sent("PATCH", RESTART),
            NATIVE_REFERENCE,
            f"to restart the plugin delete its Pods one by one ({NATIVE_PODS} lists them)",
        ),
        ("native", _create_another, "", LEAVE),
        ("hami", sent("DELETE"), HAMI_REFERENCE, STOP + HAMI_OFF),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refusal_says_what_the_webhook_says(cluster: Cluster, name: str, way: Way, because: str, step: str) -> None:
    message = refused(way(cluster.human(), cluster.item(name)))
    told, _, rest = message.partition(". Because: ")
    evidence, _, following = rest.partition(". Next: ")
    assert told.endswith((" is generated and is not edited by hand", f" of {name} and belongs to its operator"))
    assert evidence.endswith(because)
    assert following == f"{step}."


def test_a_service_account_is_told_how_it_would_be_let_in(cluster: Cluster) -> None:
    user = "system:serviceaccount:default:npu-operator"
    for item in (cluster.policy, cluster.native):
        message = refused(sent("DELETE")(cluster.account(user), item))
        assert message.endswith(f" (if {user} is the operator, add it to identities.nativeOperator).")


@pytest.mark.parametrize("user", OPERATORS)
@pytest.mark.parametrize("way", [*OF_ANY, *OF_DAEMON_SETS])
def test_the_native_operator_writes_what_it_generates(cluster: Cluster, user: str, way: str) -> None:
    for item in (cluster.policy, cluster.native):
        if way in OF_ANY or item is cluster.native:
            passed((OF_ANY | OF_DAEMON_SETS)[way](cluster.account(user), item))


def passed(answer: Answer) -> None:
    assert answer.status in (200, 201), answer.message
    assert "[generated-object]" not in " ".join(answer.warnings)


@pytest.mark.parametrize("way", [*OF_ANY, *OF_DAEMON_SETS])
def test_while_no_operator_of_hami_is_configured_any_service_account_writes_its_plugin(
    cluster: Cluster, way: str
) -> None:
    way_to = (OF_ANY | OF_DAEMON_SETS)[way]
    passed(way_to(cluster.account(HAMI_OPERATOR), cluster.hami))
    refused(way_to(cluster.account(HAMI_OPERATOR), cluster.native))
    only_by_name = cluster.admin.impersonating(HAMI_OPERATOR, "system:masters")
    refused(way_to(only_by_name, cluster.hami))


def test_a_service_account_does_not_turn_the_native_plugin_into_hamis(cluster: Cluster) -> None:
    references = cluster.hami["metadata"]["ownerReferences"]
    change = {"metadata": {"ownerReferences": [{**references[0], "controller": False}]}}
    refused(sent("PATCH", change)(cluster.account(HAMI_OPERATOR), cluster.native))


@pytest.mark.parametrize("user", Settings().identities.system_controllers)
def test_the_system_controllers_go_on(cluster: Cluster, user: str) -> None:
    for item in (cluster.policy, cluster.native, cluster.hami):
        for way in ("delete", "delete the collection", "label", "add a finalizer"):
            passed(OF_ANY[way](cluster.account(user), item))


def test_the_status_is_written_by_anybody(cluster: Cluster) -> None:
    human = cluster.human()
    passed(sent("PATCH", {"status": {"state": "ready"}}, below="/status")(human, cluster.policy))
    for item in (cluster.native, cluster.hami):
        passed(sent("PATCH", {"status": {"numberReady": 1}}, below="/status")(human, item))


def test_a_write_that_changes_nothing_passes(cluster: Cluster) -> None:
    for item in (cluster.policy, cluster.native, cluster.hami):
        stored = cluster.admin.get(path_to(item))
        passed(cluster.human().answer("PUT", path_to(item), stored, dryRun="All"))
        passed(sent("PATCH", {"spec": stored["spec"] if stored else {}})(cluster.human(), item))


def test_what_does_not_say_that_it_is_generated_is_left_to_the_webhook(cluster: Cluster) -> None:
    """An owner's custom resource that merely exists is state: here are all of them, and they decide nothing."""
    human = cluster.human()
    alone = generated_policy(name="by-hand", annotations={})
    passed(human.answer("POST", *to_create(alone), dryRun="All"))
    passed(
        human.answer(
            "POST",
            *to_create(generated_policy(annotations={"operator-sdk/primary-resource": ""}, name="empty")),
            dryRun="All",
        )
    )
    passed(human.answer("POST", *to_create(plain("ascend-device-plugin"), "default"), dryRun="All"))
    hami = plugin("hami-ascend-device-plugin", "default", HAMI_LABELS, cluster.policy)
    passed(human.answer("POST", *to_create(hami, "default"), dryRun="All"))  # the policy does not make HAMi's


def test_another_products_kind_of_the_same_name_is_nothing_to_us(cluster: Cluster) -> None:
    other = eventually(lambda: created(cluster.admin, {**generated_policy(), "apiVersion": "npu.ai/v1"}))
    passed(sent("DELETE")(cluster.human(), other))
    passed(
        cluster.human().answer(
            "POST", *to_create(plugin("ascend-device-plugin", "default", NATIVE_LABELS, other)), dryRun="All"
        )
    )


def test_what_an_operator_generates_besides_plugins_is_nothing_to_us(cluster: Cluster) -> None:
    driver = plugin("npu-driver", "default", {"app": "npu-driver"}, cluster.policy)
    driver["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["path"] = "/dev"
    network = plugin("rdma-shared-dp-ds", "default", {"app": "rdma"}, cluster.policy)
    exporter = plugin("ascend-device-plugin-exporter", "default", NATIVE_LABELS, cluster.policy)
    exporter["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["readOnly"] = True
    for item in (driver, network, exporter):
        passed(cluster.human().answer("POST", *to_create(item), dryRun="All"))


def test_finalizers_are_taken_from_what_is_being_deleted(cluster: Cluster) -> None:
    operator = cluster.account(OPERATORS[0])
    policy = created(operator, generated_policy(name="leaving", finalizers=[HOLD]))
    leaving = plugin("ascend-device-plugin-leaving", "default", NATIVE_LABELS, cluster.policy)
    leaving["metadata"]["finalizers"] = [HOLD]
    for item in (policy, created(operator, leaving)):
        refused(sent("PATCH", {"metadata": {"finalizers": None}})(cluster.human(), item))
        operator.request("DELETE", path_to(item))
        passed(sent("DELETE")(cluster.human(), item))
        cluster.human().merge(path_to(item), {"metadata": {"finalizers": None}})
        assert cluster.admin.get(path_to(item)) is None


def test_a_namespace_goes_with_what_is_generated_in_it(cluster: Cluster) -> None:
    metadata = {"name": "team-going"}
    cluster.admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    owner = samples.hamiascenddeviceplugin()
    owner["metadata"]["namespace"] = "team-going"
    owner = created(cluster.admin, owner)
    assert created(cluster.account(HAMI_OPERATOR), plugin("hami", "team-going", HAMI_LABELS, owner))
    cluster.human().request("DELETE", path_of("v1", "Namespace", "team-going"))
    eventually(lambda: cluster.admin.get(path_of("v1", "Namespace", "team-going")) is None)


def test_the_garbage_collector_takes_a_plugin_away_with_its_owner(cluster: Cluster) -> None:
    owner = samples.hamiascenddeviceplugin()
    owner["metadata"]["name"] = "short"
    owner = created(cluster.admin, owner)
    item = created(cluster.account(HAMI_OPERATOR), plugin("short", "hami-system", HAMI_LABELS, owner))
    cluster.human().request("DELETE", path_to(owner))
    eventually(lambda: cluster.admin.get(path_to(item)) is None)


OWNERS = (
    {"apiVersion": "hami.io/v1alpha1", "kind": "HAMiAscendDevicePlugin", "name": "any", "uid": "u1"},
    {"apiVersion": "npu.openfuyao.com/v1", "kind": "NPUClusterPolicy", "name": "cluster", "uid": "u1"},
    {"apiVersion": "openfuyao.com/v1beta1", "kind": "NPUClusterPolicy", "name": "cluster", "uid": "u1"},
    {"apiVersion": "npu-operator.alauda.io/v1", "kind": "NPUOperatorCtl", "name": "npu", "uid": "u1"},
    {"apiVersion": "apps/v1", "kind": "Deployment", "name": "any", "uid": "u1"},
)


@given(item=pods(plugin=True), owner=st.sampled_from(OWNERS))
@settings(max_examples=500, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_it_sees_a_generated_plugin_where_the_guard_does(cluster: Cluster, item: Object, owner: Object) -> None:
    """Whatever a DaemonSet that refers to such an owner looks like, with no state at all.

    But for a subPathExpr, which the policy does not read: what the operators generate has none.
    """
    workload = workload_of(item, "DaemonSet")
    workload["metadata"] |= {"namespace": "default", "ownerReferences": [owner], "annotations": {}}
    verdict = judge(
        request_for("CREATE", User("alice"), item=workload, old_item=None),
        Facts.of([], now=datetime.now(UTC)),
        Settings(),
    )
    wanted = any(one.finding.rule == "generated-object" for one in verdict.denials)
    answer = cluster.human().answer("POST", *to_create(workload), dryRun="All")
    if answer.status == 403:
        assert wanted, (answer.message, workload)
        assert " is the generated plugin of " in refused(answer)
    else:
        assert answer.status == 201, (answer.message, workload)
        assert not wanted or "subPathExpr" in str(workload), workload


def test_type_checking_finds_nothing_and_would(cluster: Cluster) -> None:
    """What variables and conditions say is checked too, as validations: the API server itself looks at no others."""
    live = [
        item for item in cluster.admin.items(POLICIES, resourceVersion="") if item["metadata"]["name"].startswith(NAME)
    ]
    assert len(live) == 2
    for item in live:
        assert warnings_of(cluster, item["metadata"]["name"]) == []
        spec = item["spec"]
        expressions = [one["expression"] for one in (*spec.get("variables", []), *spec["matchConditions"])]
        spec["validations"] = [{"expression": f"[{expression}].size() == 1"} for expression in expressions]
        copied = {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": {"name": "as-validations"}}
        cluster.admin.create({**copied, "spec": spec})
        assert warnings_of(cluster, "as-validations") == []
        spec["validations"] = [{"expression": "object.spec.noSuchField == 1"}]
        cluster.admin.create({**copied, "metadata": {"name": "misspelt"}, "spec": spec})
        assert "noSuchField" in str(warnings_of(cluster, "misspelt"))
        for name in ("as-validations", "misspelt"):
            cluster.admin.delete(f"{POLICIES}/{name}")


def warnings_of(cluster: Cluster, policy: str) -> list[Object]:
    """What type checking warns of, once the controller manager has looked."""

    def status() -> Object:
        found = cluster.admin.request("GET", f"{POLICIES}/{policy}")
        current = found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
        return dict(found["status"]) if current else {}

    return list(eventually(status)["typeChecking"].get("expressionWarnings", []))


# The guard's own Lease and configuration.

LEASE: Object = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": NAME, "namespace": NAMESPACE},
    "spec": {"holderIdentity": "native"},
}


OWNER: Object = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone"}  # a collector would follow it


@pytest.fixture(scope="module")
def erin(cluster: Cluster) -> Api:
    """Somebody with the role `edit` in the guard's namespace, when the guard has written its Lease."""
    bind(cluster, "RoleBinding", "erin-edits", "edit", "erin", NAMESPACE)
    guard = Api.with_token(cluster.plane.kubeconfig, cluster.plane.token(NAMESPACE, NAME))
    assert created(guard, LEASE)
    erin = cluster.admin.impersonating("erin")
    eventually(lambda: erin.answer("GET", path_to(LEASE)).status == 200)  # the role is an aggregated one
    return erin


def bind(cluster: Cluster, kind: str, name: str, role: str, user: str, namespace: str = "") -> None:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    subject = {"kind": "User", "apiGroup": RBAC, "name": user}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    binding = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "roleRef": reference}
    cluster.admin.create({**binding, "subjects": [subject]})


def own(kind: str, name: str = NAME, namespace: str = NAMESPACE) -> Object:
    version = "coordination.k8s.io/v1" if kind == "Lease" else "v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}


def _changed(item: Object) -> Object:
    """What would change it: who holds the Lease, or what is configured."""
    return {"spec": {"holderIdentity": "hami"}} if item["kind"] == "Lease" else {"data": {"config.yaml": "{}"}}


def _own(verb: str, content: str, **query: str) -> Way:
    def send(api: Api, item: Object) -> Answer:
        whole = {**(api.get(path_to(item)) or {}), **_changed(item)} if verb == "PUT" else {**item, **_changed(item)}
        body = _changed(item) if content in (MERGE, STRATEGIC) else whole
        return api.answer(verb, path_to(item), body, content, dryRun="All", **query)

    return send


OF_OWN: dict[str, Way] = {
    "replace": _own("PUT", "application/json"),
    "merge patch": _own("PATCH", MERGE),
    "strategic merge patch": _own("PATCH", STRATEGIC),
    "server-side apply": _own("PATCH", APPLY, fieldManager="erin", force="true"),
    "give to an owner that is gone": sent(
        "PATCH", {"metadata": {"ownerReferences": [{**OWNER, "uid": "no-such-uid"}]}}
    ),
    "delete": sent("DELETE"),
    "delete the collection": _delete_all,
}


def _is_allowed(way: str, api: Api, kind: str) -> bool:
    return OF_OWN[way](api, own(kind)).status == 200


@pytest.mark.parametrize("way", OF_OWN)
@pytest.mark.parametrize(
    "kind, next_step", [("Lease", "ascend-guard release"), ("ConfigMap", "companionPolicy.administrators")]
)
def test_who_may_edit_in_the_guards_namespace_does_not_write_what_is_the_guards(
    cluster: Cluster, erin: Api, kind: str, next_step: str, way: str
) -> None:
    answer = OF_OWN[way](erin, own(kind))
    assert answer.status == 403
    assert f"[own-state] the {kind} {NAMESPACE}/{NAME} is " in answer.message
    assert " Next: " in answer.message
    assert next_step in answer.message


def test_a_lease_that_is_not_there_yet_is_created_by_nobody_else(cluster: Cluster, erin: Api) -> None:
    try:
        cluster.admin.delete(path_to(LEASE))
        path = path_to(LEASE).rpartition("/")[0]
        assert "[own-state]" in erin.answer("POST", path, LEASE, dryRun="All").message
        assert "[own-state]" in OF_OWN["server-side apply"](erin, LEASE).message
    finally:
        cluster.admin.create(LEASE)


@pytest.mark.parametrize("kind", ["Lease", "ConfigMap"])
def test_any_other_lease_and_config_map_is_everybodys(cluster: Cluster, erin: Api, kind: str) -> None:
    other = own(kind, "another")
    assert created(erin, other)
    for way in OF_OWN:
        if way != "delete the collection":
            passed(OF_OWN[way](erin, other))
    erin.delete(path_to(other))
    passed(cluster.human().answer("POST", *to_create(own(kind, namespace="default")), dryRun="All"))


def test_the_guard_writes_its_lease_and_not_its_configuration(cluster: Cluster, erin: Api) -> None:
    bind(cluster, "RoleBinding", "guard-edits", "edit", GUARD, NAMESPACE)
    guard = cluster.admin.impersonating(GUARD)
    for way in OF_OWN:
        if way != "delete the collection":
            eventually(partial(_is_allowed, way, guard, "Lease"))
        assert "[own-state]" in OF_OWN[way](guard, own("ConfigMap")).message


def test_who_may_override_the_claim_writes_the_lease(cluster: Cluster, erin: Api) -> None:
    """As `ascend-guard release` does. The right is asked for cluster-wide: a namespace's does not count."""
    release = OF_OWN["replace"]
    dave = cluster.admin.impersonating("dave")
    bind(cluster, "RoleBinding", "dave-in-the-namespace", f"{NAME}-override", "dave", NAMESPACE)
    eventually(lambda: "[own-state]" in release(dave, own("Lease")).message)
    bind(cluster, "ClusterRoleBinding", "dave-releases", f"{NAME}-override", "dave")
    eventually(lambda: release(dave, own("Lease")).status == 200)
    bind(cluster, "RoleBinding", "dave-edits", "edit", "dave", NAMESPACE)
    eventually(lambda: "[own-state]" in release(dave, own("ConfigMap")).message)


def test_only_administrators_write_the_configuration(cluster: Cluster, erin: Api) -> None:
    """Those who may override `configurations.ascend-owner-guard`, as cluster-admin may, and whoever is configured."""
    bind(cluster, "ClusterRoleBinding", "walter-may-everything", "cluster-admin", "walter")
    walter, masters = cluster.admin.impersonating("walter"), cluster.human()
    for way in OF_OWN:
        eventually(partial(_is_allowed, way, walter, "ConfigMap"))
        assert "[own-state]" in OF_OWN[way](erin, own("ConfigMap")).message
        passed(OF_OWN[way](masters, own("ConfigMap")))
    cluster.upgrade("--set", "companionPolicy.administrators.users={erin}")
    try:
        eventually(partial(_is_allowed, "delete", erin, "ConfigMap"))
    finally:
        cluster.upgrade()
        eventually(lambda: not _is_allowed("delete", erin, "ConfigMap"))


@pytest.mark.parametrize("user", ["namespace-controller", "generic-garbage-collector"])
def test_the_controllers_that_clear_away_go_on(cluster: Cluster, erin: Api, user: str) -> None:
    controller = cluster.account(f"system:serviceaccount:kube-system:{user}")
    for kind in ("Lease", "ConfigMap"):
        for way in ("delete", "delete the collection"):
            passed(OF_OWN[way](controller, own(kind)))


# Other values.


@pytest.fixture
def with_values(cluster: Cluster) -> Iterator[Callable[..., None]]:
    """Changes the chart's values for one test."""
    file = cluster.plane.folder / "values.yaml"

    def change(**config: Any) -> None:
        file.write_text(yaml.safe_dump({"config": config}))
        cluster.upgrade("-f", str(file))

    yield change
    cluster.upgrade()
    eventually(lambda: sent("DELETE")(cluster.human(), cluster.hami).status == 403)
    eventually(lambda: sent("DELETE")(cluster.account(HAMI_OPERATOR), cluster.hami).status == 200)
    eventually(lambda: sent("DELETE")(cluster.account(OPERATORS[1]), cluster.native).status == 200)


def test_configured_operators_are_the_only_ones(cluster: Cluster, with_values: Callable[..., None]) -> None:
    with_values(identities={"nativeOperator": [OPERATORS[0]], "hamiOperator": [HAMI_OPERATOR]})
    stranger = "system:serviceaccount:default:any"
    delete = sent("DELETE")
    eventually(lambda: delete(cluster.account(stranger), cluster.hami).status == 403)
    message = refused(delete(cluster.account(stranger), cluster.hami))
    assert message.endswith(f" (if {stranger} is the operator, add it to identities.hamiOperator).")
    passed(delete(cluster.account(HAMI_OPERATOR), cluster.hami))
    passed(delete(cluster.account(OPERATORS[0]), cluster.native))
    for item in (cluster.policy, cluster.native):
        refused(delete(cluster.account(OPERATORS[1]), item))


def test_in_mode_warn_it_warns_and_in_mode_audit_it_is_silent(
    cluster: Cluster, with_values: Callable[..., None]
) -> None:
    delete = sent("DELETE")
    with_values(rules={"generated-object": "warn"})
    eventually(lambda: delete(cluster.human(), cluster.hami).status == 200)
    answer = delete(cluster.human(), cluster.hami)
    assert "[generated-object] DaemonSet hami-system/hami-ascend-device-plugin" in " ".join(answer.warnings)
    with_values(rules={"generated-object": "audit"})
    eventually(lambda: not delete(cluster.human(), cluster.hami).warnings)
    passed(delete(cluster.human(), cluster.hami))


def test_the_guards_namespace_can_be_deleted(cluster: Cluster, erin: Api) -> None:
    """The last test: what the policies protect does not keep its namespace from going."""
    namespace = path_of("v1", "Namespace", NAMESPACE)
    cluster.human().request("DELETE", namespace)
    eventually(lambda: cluster.admin.get(namespace) is None, timeout=60)
