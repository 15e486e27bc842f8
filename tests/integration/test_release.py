"""`ascend-guard release` at a real API server: for whoever may, on record, and never by deleting the Lease."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.guard.installed import NAMESPACE, InstalledGuard
from tests.products.api import Api
from tests.waiting import eventually

pytestmark = pytest.mark.integration

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/ascend-owner-guard"
RBAC = "rbac.authorization.k8s.io"
CONTROLLER = "system:kube-controller-manager"


class People:
    """A control plane with a guard, and two people: dave may release, alice may not."""

    def __init__(self, plane: ControlPlane, guard: InstalledGuard) -> None:
        self.plane = plane
        self.guard = guard
        self.admin = Api.from_kubeconfig(plane.kubeconfig)
        self.admin.apply(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "dave-releases"},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "ascend-owner-guard-override"},
                "subjects": [{"kind": "ServiceAccount", "name": "dave", "namespace": "default"}],
            }
        )
        for name in ("dave", "alice"):
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}
            self.admin.apply(account)

    def release(self, user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command as this user."""
        theirs = self.plane.kubeconfig_for("default", user)
        command = [str(Path(sys.executable).with_name("ascend-guard")), "release", *arguments, f"--kubeconfig={theirs}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def says(self, **annotations: str) -> None:
        """Write the Lease, as a replica with a wrong idea would have."""
        api = self.admin.impersonating(CONTROLLER, "system:masters")
        api.delete(LEASE)
        given = {f"ascend-owner-guard/{key}": value for key, value in annotations.items()}
        metadata = {"name": "ascend-owner-guard", "namespace": NAMESPACE, "annotations": given}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}
        assert api.answer("POST", LEASE.rpartition("/")[0], lease).status == 201

    def annotations(self) -> dict[str, str]:
        lease = self.admin.get(LEASE)
        assert lease is not None
        return {key.partition("/")[2]: value for key, value in (lease["metadata"].get("annotations") or {}).items()}


@pytest.fixture(scope="module")
def people() -> Iterator[People]:
    with ControlPlane(controllers=False) as plane, InstalledGuard(plane) as guard:
        yield People(plane, guard)


def claim(age_seconds: float = 3600) -> str:
    time = datetime.fromtimestamp(datetime.now(UTC).timestamp() - age_seconds, UTC)
    entry = {"owner": "hami", "state": "activating", "object": "HAMiAscendDevicePlugin/h/x", "user": "bob"}
    return json.dumps({**entry, "time": time.isoformat()})


def test_a_stuck_claim_is_released_and_every_replica_records_it(people: People) -> None:
    people.says(claim=claim())
    eventually(lambda: people.guard.get("/readyz")[0] == 200)
    done = people.release("dave", "claim", "--reason", "bob's laptop died")
    assert (done.returncode, done.stderr) == (0, "")
    assert "bob brings in hami by HAMiAscendDevicePlugin/h/x" in done.stdout
    assert "Released: claim. Now it says: nothing." in done.stdout
    assert "claim" not in people.annotations()
    eventually(lambda: any(one["decision"] == "released" for one in people.guard.audit_lines()))
    (record,) = [one for one in people.guard.audit_lines() if one["decision"] == "released"]
    assert (record["user"], record["name"]) == ("system:serviceaccount:default:dave", "ascend-owner-guard")
    assert record["message"] == "claim was released: bob's laptop died"


def test_what_cannot_be_understood_is_released_too(people: People) -> None:
    people.says(claim="{", settled="native")
    refused = people.release("dave", "settled", "--reason", "x")
    assert refused.returncode == 1
    assert "Release it first: claim." in refused.stderr
    assert people.release("dave", "claim", "--reason", "garbage").returncode == 0
    assert "claim" not in people.annotations()


def test_a_young_claim_is_left_alone_unless_it_is_forced(people: People) -> None:
    people.says(claim=claim(age_seconds=5))
    refused = people.release("dave", "claim", "--reason", "impatience")
    assert refused.returncode == 1
    assert "may still be on its way" in refused.stderr
    assert people.release("dave", "claim", "--owner", "native", "--reason", "x").stdout.endswith(
        "nothing to release.\n"
    )
    assert people.release("dave", "claim", "--reason", "x", "--dry-run").returncode == 1
    assert people.release("dave", "claim", "--reason", "I am sure", "--force", "--dry-run").returncode == 0
    assert "claim" in people.annotations()
    assert people.release("dave", "claim", "--reason", "I am sure", "--force").returncode == 0
    assert "claim" not in people.annotations()


def test_nobody_else_may(people: People) -> None:
    people.says(claim=claim())
    refused = people.release("alice", "claim", "--reason", "x")
    assert refused.returncode == 1
    assert "You may not override claims.ascend-owner-guard ascend-owner-guard" in refused.stderr
    assert "ClusterRole ascend-owner-guard-override" in refused.stderr
    assert "claim" in people.annotations()


def test_there_may_be_nothing_to_release(people: People) -> None:
    people.says()
    done = people.release("dave", "claim", "--reason", "x")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "There is nothing to release.")


def test_a_wrong_memory_of_an_owner_is_released_and_the_other_one_stays(people: People) -> None:
    people.guard.kill()  # a running guard would correct what the facts contradict by itself
    try:
        people.says(settled="native,hami")
        done = people.release("dave", "settled", "--owner", "hami", "--reason", "it is not there")
        assert "Now it says: settled: native." in done.stdout
        assert people.annotations()["settled"] == "native"
    finally:
        people.guard.start()
