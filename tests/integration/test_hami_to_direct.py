"""The way back from HAMi to direct allocation at a real API server: each step where it belongs, each shortcut refused.

The cluster has come to HAMi by the procedure. The products' stand-ins write under their own identities all the while,
HAMi's operator under one that the guard was told of; not one of their writes may be refused.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.guard.procedure import (
    CTL,
    DIRECT,
    HAMI_CR,
    HAMI_DAEMON_SET,
    NATIVE_DAEMON_SET,
    NATIVE_ON,
    SHARED,
    SWIFT,
    Procedure,
    allowed,
    denied,
    installed_procedure,
)
from tests.products import samples
from tests.waiting import eventually

pytestmark = pytest.mark.integration

OPERATOR = "system:serviceaccount:hami-system:hami-device-operator"
ACCOUNTS = ("system:serviceaccounts", "system:serviceaccounts:hami-system")
PATCH_ON = ("patch", *CTL, "--type=merge", "-p", NATIVE_ON)
PHANTOM = "hami.io/node-register-Ascend910B4"
GENERATED = "HAMiAscendDevicePlugin hami-ascend-device-plugin"


@pytest.fixture(scope="module")
def procedure(control_plane: ControlPlane) -> Iterator[Procedure]:
    with installed_procedure(control_plane, {**SWIFT, "identities": {"hamiOperator": [OPERATOR]}}) as walked:
        yield walked


@pytest.fixture
def share(procedure: Procedure) -> Iterator[str]:
    """A workload that runs on a share of a chip, after HAMi has settled."""
    procedure.reach("settled(hami)")
    allowed(procedure.create(samples.workload("share", SHARED)))
    eventually(lambda: phase_of_pod(procedure, "share") == "Running")
    yield "share"
    procedure.kubectl("delete", "pod", "share", "--now", "--ignore-not-found")


def phase_of_pod(procedure: Procedure, name: str) -> str:
    return procedure.get("pod", name, path="{.status.phase}")


def a_pod(resource: str) -> dict[str, Any]:
    return samples.workload("train", resource)


@pytest.mark.parametrize(
    "command",
    [
        ("delete", *HAMI_CR),
        ("-n", "hami-system", "delete", "hamiascenddeviceplugin.hami.io", "--all"),
        ("delete", "namespace", "hami-system"),
        ("delete", "crd", "hamiascenddeviceplugins.hami.io"),
        ("replace", "--force", "-f", "-"),
    ],
    ids=lambda command: " ".join(command),
)
def test_hami_is_not_taken_from_under_a_workload(procedure: Procedure, share: str, command: tuple[str, ...]) -> None:
    saved = procedure.save(*HAMI_CR) if "-f" in command else None
    denied(procedure.kubectl(*command, stdin=saved), "workloads-running", f"Pod default/{share}", "stop them first")
    assert procedure.get(*HAMI_CR, path="{.metadata.deletionTimestamp}") == ""
    assert procedure.phase() == "settled(hami)"


def test_hami_is_not_taken_from_under_a_workload_that_still_waits(procedure: Procedure) -> None:
    procedure.reach("settled(hami)")
    allowed(procedure.create(samples.workload("waits", SHARED, count=1000)))
    denied(procedure.kubectl("delete", *HAMI_CR), "workloads-running", "Pod default/waits")
    allowed(procedure.kubectl("delete", "pod", "waits", "--now"))


def test_saving_reads_and_asks_nobody(procedure: Procedure) -> None:
    procedure.reach("settled(hami)")
    assert "uid: " in procedure.save(*HAMI_CR)
    assert "finalizers:" in procedure.save(*HAMI_CR)


def test_once_no_workload_is_left_hami_is_given_up_and_begins_to_leave(procedure: Procedure) -> None:
    procedure.reach("leaving(hami)")
    assert procedure.get(*HAMI_CR, path="{.metadata.deletionTimestamp}")
    assert procedure.phase() == "leaving(hami)"
    record = next(record for record in reversed(procedure.guard.audit_lines()) if record["operation"] == "DELETE")
    assert (record["decision"], record["user"], record["name"]) == ("allowed", "alice", "hami-ascend-device-plugin")


def test_the_native_plugin_is_refused_while_hami_leaves(procedure: Procedure) -> None:
    procedure.reach("leaving(hami)")
    denied(
        procedure.kubectl(*PATCH_ON),
        "second-owner",
        "HAMiAscendDevicePlugin hami-system/hami-ascend-device-plugin metadata.deletionTimestamp",
        "wait until nothing of hami is left",
        "kubectl get pods -A -l app.kubernetes.io/component=hami-ascend-device-plugin",
    )


@pytest.mark.parametrize("resource", [SHARED, DIRECT])
def test_no_npu_pod_while_hami_leaves(procedure: Procedure, resource: str) -> None:
    procedure.reach("leaving(hami)")
    denied(procedure.create(a_pod(resource)), "mid-switch", "leaving(hami)", "then enable the new owner")


@pytest.mark.parametrize(
    "shortcut",
    [
        ("delete", *HAMI_DAEMON_SET),
        ("delete", "-n", "hami-system", "daemonset", "--all"),
        ("patch", *HAMI_DAEMON_SET, "-p", '{"spec":{"template":{"spec":{"nodeSelector":{"parked":"true"}}}}}'),
        ("-n", "hami-system", "rollout", "restart", "daemonset/hami-ascend-device-plugin"),
        ("-n", "hami-system", "set", "image", "daemonset/hami-ascend-device-plugin", "*=example/other:1"),
        ("label", *HAMI_DAEMON_SET, "by-hand=yes"),
    ],
    ids=lambda shortcut: " ".join(shortcut)[:60],
)
def test_hamis_generated_daemonset_is_not_hurried_by_hand(procedure: Procedure, shortcut: tuple[str, ...]) -> None:
    procedure.reach("leaving(hami)")
    denied(procedure.kubectl(*shortcut), "generated-object", GENERATED)


def test_another_service_account_is_refused_hamis_daemonset_and_told_how_to_be_let_in(procedure: Procedure) -> None:
    procedure.reach("leaving(hami)")
    user = "system:serviceaccount:hami-system:hami-ascend"
    command = ("delete", *HAMI_DAEMON_SET)
    done = procedure.plane.kubectl(*command, as_user=user, as_groups=(*ACCOUNTS, "system:masters"), check=False)
    denied(done, "generated-object", f"if {user} is the operator, add it to identities.hamiOperator")


def test_no_npu_pod_while_nobody_owns_the_chips(procedure: Procedure) -> None:
    procedure.reach("unowned-after-hami")
    denied(procedure.create(a_pod(DIRECT)), "mid-switch", "unowned", "enable one owner")


def test_what_hami_leaves_on_the_nodes_is_warned_about_when_native_is_enabled(procedure: Procedure) -> None:
    procedure.reach("unowned-after-hami")
    assert "phantom-devices" not in allowed(procedure.kubectl(*PATCH_ON, "--dry-run=server")).stderr
    allowed(procedure.kubectl("annotate", "node", "node-a", f"{PHANTOM}=any"))
    done = allowed(procedure.kubectl(*PATCH_ON, "--dry-run=server"))
    assert "Warning: [phantom-devices]" in done.stderr
    assert f"Node node-a metadata.annotations has {PHANTOM}" in done.stderr


def test_while_the_native_plugin_starts_npu_pods_and_hami_are_refused(procedure: Procedure) -> None:
    procedure.reach("starting(native)")
    denied(
        procedure.create(a_pod(DIRECT)),
        "mid-switch",
        "starting(native)",
        "kubectl -n kube-system rollout status daemonset/ascend-device-plugin",
    )
    denied(
        procedure.apply(samples.hamiascenddeviceplugin()),
        "second-owner",
        "NPUOperatorCtl npu-operator/npuoperatorctl-sample spec.devicePlugin.enabled is true",
    )


def test_the_plugin_that_starts_may_be_asked_for_again_and_corrected(procedure: Procedure) -> None:
    procedure.reach("starting(native)")
    allowed(procedure.kubectl("patch", *CTL, "--type=merge", "-p", '{"spec":{"exporter":{"enabled":false}}}'))
    allowed(procedure.kubectl(*PATCH_ON))


def test_the_direct_path_passes_every_check_of_the_procedure(procedure: Procedure) -> None:
    procedure.reach("settled(native)-again")
    assert procedure.get(*CTL, path="{.spec.devicePlugin.enabled}") == "true"
    assert procedure.get("npuclusterpolicy", "cluster", path="{.spec.devicePlugin.managed}") == "true"
    rollout = ("-n", "kube-system", "rollout", "status", "daemonset/ascend-device-plugin", "--timeout=20s")
    allowed(procedure.kubectl(*rollout))
    nodes = ("nodes", "-l", "ascend=on")
    assert procedure.get(*nodes, path="{.items[*].status.allocatable.huawei\\.com/Ascend910}") == "8 8"
    assert procedure.phase() == "settled(native)"


def test_direct_workloads_run_again_and_the_phantoms_are_warned_about_until_they_are_gone(procedure: Procedure) -> None:
    procedure.reach("settled(native)-again")
    allowed(procedure.kubectl("annotate", "node", "node-a", f"{PHANTOM}=any", "--overwrite"))
    warned = eventually(lambda: warning_of(procedure, "phantom-devices"))
    assert f"Node node-a metadata.annotations has {PHANTOM}" in warned
    allowed(procedure.create(a_pod(DIRECT)))
    eventually(lambda: phase_of_pod(procedure, "train") == "Running")
    allowed(procedure.kubectl("delete", "pod", "train", "--now"))
    allowed(procedure.kubectl("annotate", "node", "node-a", f"{PHANTOM}-"))
    eventually(lambda: not warning_of(procedure, "phantom-devices"))


def warning_of(procedure: Procedure, rule: str) -> str:
    """What a direct Pod is warned of by this rule."""
    said = allowed(procedure.create(a_pod(DIRECT), "--dry-run=server")).stderr
    return said if f"Warning: [{rule}]" in said else ""


def test_hami_stays_refused_after_the_switch(procedure: Procedure) -> None:
    procedure.reach("settled(native)-again")
    denied(procedure.apply(samples.hamiascenddeviceplugin()), "second-owner")
    assert procedure.get(*HAMI_CR) == ""
    assert procedure.get(*NATIVE_DAEMON_SET) != ""


def test_hamis_bundle_may_go_after_the_direct_path_was_verified(procedure: Procedure) -> None:
    procedure.reach("settled(native)-again")
    done = allowed(procedure.kubectl("delete", "crd", "hamiascenddeviceplugins.hami.io", "--dry-run=server"))
    assert done.stderr == ""


def test_every_denial_left_an_audit_line_with_its_evidence(procedure: Procedure) -> None:
    procedure.reach("settled(native)-again")
    denied(procedure.create(samples.hamiascenddeviceplugin()), "second-owner")
    record = procedure.guard.audit_lines()[-1]
    assert (record["rule"], record["decision"], record["phase"]) == ("second-owner", "denied", "settled(native)")
    assert "NPUOperatorCtl npu-operator/npuoperatorctl-sample" in json.dumps(record["evidence"])


def test_not_one_write_of_an_operator_was_even_warned_about(procedure: Procedure) -> None:
    written = [record for record in procedure.guard.audit_lines() if record["user"].endswith("operator")]
    assert [record for record in written if record["decision"] == "denied"] == []
    assert [record for record in written if "unverified-identity" in record["rules"]] == []
