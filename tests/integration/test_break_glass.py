"""Break-glass at a real API server: its authorizer says who may lift a rule, the Lease remembers for deletions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import NAMESPACE, InstalledGuard
from tests.products.api import Answer, Api
from tests.products.products import crds
from tests.replay.stage import Stage
from tests.waiting import eventually
from webhook.cli.scenarios import load

pytestmark = pytest.mark.integration

CTL = "/apis/npu-operator.alauda.io/v1/namespaces/npu-operator/npuoperatorctls/npuctl-main"
POLICY = "/apis/npu.openfuyao.com/v1/npuclusterpolicies/cluster"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/ascend-owner-guard"
RBAC = "rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"
ANNOTATION = "ascend-owner-guard/break-glass"
REASON = "workloads-running: the node is dead, INC-7"
CONTROLLER = "system:kube-controller-manager"
CASES = Path(__file__).parents[1] / "cases" / "01-direct-to-hami.yaml"
SCENARIO = "Step 2 too early: the native plugin is given up while a Pod holds a chip"
OFF: dict[str, object] = {"spec": {"devicePlugin": {"enabled": False}}}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(controllers=False) as plane:
        admin = Api.from_kubeconfig(plane.kubeconfig)
        for crd in crds("npu-operator-crds", "npu.openfuyao.com"):
            admin.apply(crd)
        edit = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "update", "patch", "delete"]}
        override = {
            "apiGroups": ["ascend-owner-guard"],
            "resources": ["rules"],
            "resourceNames": ["workloads-running", "generated-object"],
            "verbs": ["override"],
        }
        for name, rule, users in (("edit", edit, ("alice", "bob", "carol")), ("lift", override, ("bob", "carol"))):
            admin.apply({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]})
            admin.apply(
                {
                    "apiVersion": RBAC,
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": name},
                    "roleRef": {"apiGroup": RBAC.partition("/")[0], "kind": "ClusterRole", "name": name},
                    "subjects": [{"apiGroup": RBAC.partition("/")[0], "kind": "User", "name": user} for user in users],
                }
            )
        yield plane


@pytest.fixture(scope="module")
def guard(plane: ControlPlane) -> Iterator[InstalledGuard]:
    freshness = {"claimPoll": "100ms", "claimMaxAge": "600ms", "landing": "200ms"}
    with InstalledGuard(plane, {"config": {"freshness": freshness, "claim": {"timeout": "1s"}}}) as guard:
        yield guard


@pytest.fixture
def cluster(plane: ControlPlane, guard: InstalledGuard) -> Iterator[Api]:
    """A cluster that native has settled in, with a workload that runs; yields its administrator."""
    admin = Api.from_kubeconfig(plane.kubeconfig)
    stage = Stage(admin)
    case = next(one for one in load(CASES) if one.name == SCENARIO)
    try:
        stage.build([dict(item) for item in case.cluster], CONTROLLER)
        eventually(lambda: _settled(admin) == "native", timeout=15)
        yield admin
    finally:
        stage.clear()
        admin.impersonating(CONTROLLER, "system:masters").delete(LEASE)


def _settled(admin: Api) -> str:
    lease = admin.get(LEASE) or {}
    return str((lease.get("metadata", {}).get("annotations") or {}).get("ascend-owner-guard/settled", ""))


def patched(admin: Api, user: str, path: str, patch: dict[str, object]) -> Answer:
    return admin.impersonating(user).answer("PATCH", path, patch, MERGE)


def marked(text: str, **more: object) -> dict[str, object]:
    return {"metadata": {"annotations": {ANNOTATION: text}}, **more}


def test_only_somebody_who_may_lifts_a_rule_and_it_is_recorded(cluster: Api, guard: InstalledGuard) -> None:
    assert "[workloads-running]" in patched(cluster, "bob", CTL, OFF).message
    refused = patched(cluster, "alice", CTL, marked(REASON, **OFF))
    assert refused.status == 403
    assert "does not count: alice may not override rules.ascend-owner-guard workloads-running" in refused.message
    lifted = patched(cluster, "bob", CTL, marked(REASON, **OFF))
    assert lifted.status == 200
    assert any("[workloads-running] lifted by break-glass" in warning for warning in lifted.warnings)
    record = guard.audit_lines()[-1]
    assert (record["user"], record["decision"], record["break_glass"]) == ("bob", "warned", REASON)


def test_for_a_deletion_the_same_user_annotates_first(cluster: Api) -> None:
    assert cluster.impersonating("bob").answer("DELETE", CTL).status == 403
    assert patched(cluster, "alice", CTL, marked("workloads-running: mine")).status == 200
    assert cluster.impersonating("alice").answer("DELETE", CTL).status == 403
    noted = patched(cluster, "bob", CTL, marked(REASON))
    assert any("is lifted for the deletion of NPUOperatorCtl" in warning for warning in noted.warnings)
    other = cluster.impersonating("carol").answer("DELETE", CTL)
    assert "does not count: carol did not write it" in other.message
    assert cluster.impersonating("bob").answer("DELETE", CTL).status == 200


def test_what_is_generated_stays_protected_from_everybody(cluster: Api) -> None:
    answer = patched(cluster, "bob", POLICY, marked("generated-object: I know better"))
    assert answer.status == 403
    assert "generated-object is never lifted" in answer.message
