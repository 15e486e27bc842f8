"""The guard has the rights that it uses, and no other: what the chart grants against what the API server saw it do."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane, ControlPlaneError
from tests.guard.installed import NAME, NAMESPACE, InstalledGuard
from tests.products import samples
from tests.products.api import Api, path_to
from tests.products.products import crds
from tests.waiting import eventually
from webhook.ownership.kinds import fact_kinds
from webhook.ownership.settings import Settings

pytestmark = pytest.mark.integration

GUARD = f"system:serviceaccount:{NAMESPACE}:{NAME}"
GROUPS = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
AUDIT_POLICY = f"""
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {{level: Metadata, users: ["{GUARD}"], omitStages: [RequestReceived]}}
- {{level: None}}
"""
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
RBAC = "/apis/rbac.authorization.k8s.io/v1"

RENEWING = {
    "certificates": {"leafLife": "6s", "authorityLife": "1h"},
    "config": {"server": {"certificates": {"trustBeforeUse": "1s"}}},
}
"""The certificate is renewed while we look."""

Right = tuple[str, str, str, str]
"""API group, resource, verb, and the one name that it holds for ("": all)."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Every kind that the guard knows is installed, the policy in both groups; native has been asked for."""
    with ControlPlane(controllers=False, audit_policy=AUDIT_POLICY) as plane:
        admin = Api.from_kubeconfig(plane.kubeconfig)
        for group in ("npu.openfuyao.com", "openfuyao.com"):
            for file in ("npu-operator-crds", "hami-crds", "aml-crds"):
                for crd in crds(file, group):
                    admin.apply(crd)
        admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "npu-operator"}})
        with InstalledGuard(plane, RENEWING):
            _claim_twice(admin)
            eventually(lambda: ("coordination.k8s.io", "leases", "update", NAME) in used(plane))
            yield plane


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Api:
    return Api.from_kubeconfig(plane.kubeconfig)


def _claim_twice(api: Api) -> None:
    """Ask for native, then no longer: the first makes the guard create its Lease, the second change it."""
    item = samples.npuoperatorctl(enabled=True)
    path = path_to(item)
    eventually(lambda: api.answer("POST", path.rpartition("/")[0], item).status == 201)
    plea = {"metadata": {"annotations": {"ascend-owner-guard/break-glass": "base-stack: asks whether we may"}}}
    api.merge(path, {"spec": {"devicePlugin": {"enabled": False}}, **plea})


def granted(api: Api) -> set[Right]:
    """What the chart's ClusterRole and Role say."""
    roles = (f"{RBAC}/clusterroles/{NAME}", f"{RBAC}/namespaces/{NAMESPACE}/roles/{NAME}")
    return {
        (group, resource, verb, name)
        for role in roles
        for rule in api.request("GET", role)["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def events(plane: ControlPlane) -> list[dict[str, Any]]:
    """The guard's requests about objects, as the API server recorded them."""
    lines = plane.audit_log.read_text().splitlines()
    recorded = [json.loads(line) for line in lines if line.endswith("}")]
    return [event for event in recorded if event.get("objectRef", {}).get("resource")]


def used(plane: ControlPlane) -> set[Right]:
    """The rights that these requests needed; one for a single name only where the chart grants no more."""
    named = ("configmaps", "leases", "secrets", "validatingwebhookconfigurations")
    found = set()
    for event in events(plane):
        ref = event["objectRef"]
        if ref["resource"] == "selfsubjectreviews":
            continue  # everybody may ask who they are
        name = ref.get("name", "") if ref["resource"] in named and event["verb"] != "create" else ""
        found.add((ref.get("apiGroup", ""), ref["resource"], event["verb"], name))
    return found


def test_every_right_is_in_use_and_every_use_is_a_right(plane: ControlPlane, admin: Api) -> None:
    until = time.monotonic() + 10
    while used(plane) != granted(admin) and time.monotonic() < until:
        time.sleep(0.2)
    assert used(plane) == granted(admin)


def test_no_request_of_the_guard_was_forbidden(plane: ControlPlane) -> None:
    decisions = {event["annotations"]["authorization.k8s.io/decision"] for event in events(plane)}
    assert decisions == {"allow"}


def test_what_it_may_read_in_the_whole_cluster_is_what_facts_are_made_of(admin: Api) -> None:
    cluster = {
        (group, rule["resources"][0], verb)
        for rule in _split(admin.request("GET", f"{RBAC}/clusterroles/{NAME}")["rules"])
        for group in rule["apiGroups"]
        for verb in rule["verbs"]
    }
    facts = {
        (group, kind.plural, verb)
        for kind in fact_kinds(Settings())
        for group in kind.groups
        for verb in ("list", "watch")
    }
    itself = {
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "get"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "patch"),
    }
    assert cluster == facts | itself


def _split(rules: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for rule in rules:
        for resource in rule["resources"]:
            yield {**rule, "resources": [resource]}


def test_it_writes_its_lease_and_its_secret_and_one_field_of_its_entries_and_nothing_else(
    plane: ControlPlane, admin: Api
) -> None:
    """Asked of the API server for every resource that it serves and every verb, beyond what any ServiceAccount may."""
    anybody = ("system:serviceaccount:default:nobody", ["system:serviceaccounts", "system:authenticated"])
    more: dict[str, set[tuple[str, str, str]]] = {}
    for namespace in (NAMESPACE, "default"):
        more[namespace] = {
            (group, resource, verb)
            for group, resource in _served(admin)
            for verb in VERBS
            if _may(admin, (GUARD, GROUPS), group, resource, verb, namespace)
            and not _may(admin, anybody, group, resource, verb, namespace)
        }
    everywhere = {(group, resource, verb) for group, resource, verb, name in granted(admin) if not name}
    own = {("coordination.k8s.io", "leases", "create"), ("", "secrets", "create")}
    assert more == {NAMESPACE: everywhere, "default": everywhere - own}


def _served(admin: Api) -> list[tuple[str, str]]:
    lists = [("", "/api/v1")]
    for group in admin.request("GET", "/apis")["groups"]:
        version = group["preferredVersion"]["groupVersion"]
        lists.append((group["name"], f"/apis/{version}"))
    return [(group, resource["name"]) for group, path in lists for resource in admin.request("GET", path)["resources"]]


def _may(admin: Api, who: tuple[str, list[str]], group: str, resource: str, verb: str, namespace: str) -> bool:
    plural, _, subresource = resource.partition("/")
    attributes = {"group": group, "resource": plural, "subresource": subresource, "verb": verb, "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {"user": who[0], "groups": who[1], "resourceAttributes": attributes},
    }
    answer = admin.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize(
    "command",
    [
        ("-n", NAMESPACE, "get", "secrets"),
        ("-n", "kube-system", "get", "secret", "any"),
        ("-n", NAMESPACE, "get", "configmaps"),
        ("-n", NAMESPACE, "delete", "lease", NAME),
        ("-n", "default", "get", "lease", NAME),
        ("get", "node", "any"),
        ("-n", "npu-operator", "patch", "npuoperatorctl", samples.CTL, "--type=merge", "-p", '{"spec":{}}'),
        ("delete", "validatingwebhookconfiguration", NAME),
        ("get", "pods", "--as=system:admin"),
    ],
    ids=" ".join,
)
def test_its_token_opens_nothing_else(plane: ControlPlane, command: tuple[str, ...]) -> None:
    with pytest.raises(ControlPlaneError, match="Forbidden"):
        plane.kubectl(*command, kubeconfig=plane.kubeconfig_for(NAMESPACE, NAME))
