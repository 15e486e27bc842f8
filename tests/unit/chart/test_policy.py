"""The companion policy as helm renders it: what it does in each mode, and for whom."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.build import binary
from webhook.configuration import Configuration

CHART = Path(__file__).parents[3] / "charts" / "ascend-owner-guard"
TEMPLATE = "templates/policy.yaml"
RENDERS = pytest.mark.integration  # helm is one of the control plane's programs


def rendered(**values: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """The policies and bindings by kind and by the end of their name."""
    command = [
        str(binary("helm")),
        "template",
        "ascend-owner-guard",
        str(CHART),
        "-n",
        "guard",
        "-f",
        "-",
        "-s",
        TEMPLATE,
    ]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=True, timeout=60)
    documents = [document for document in yaml.safe_load_all(done.stdout) if document]
    return {(one["kind"], one["metadata"]["name"].removeprefix("ascend-owner-guard-")): one for one in documents}


def policies(**values: Any) -> list[dict[str, Any]]:
    return [one for (kind, _), one in rendered(**values).items() if kind == "ValidatingAdmissionPolicy"]


def binding(name: str, **values: Any) -> dict[str, Any]:
    return rendered(**values)["ValidatingAdmissionPolicyBinding", name]


@RENDERS
def test_there_are_two_policies_and_each_is_bound() -> None:
    found = rendered()
    assert set(found) == {
        (kind, name)
        for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        for name in ("generated-objects", "own-state")
    }
    for (kind, name), one in found.items():
        if kind == "ValidatingAdmissionPolicyBinding":
            assert one["spec"]["policyName"] == f"ascend-owner-guard-{name}"


@RENDERS
@pytest.mark.parametrize(
    "mode, actions",
    [
        (None, ["Deny", "Audit"]),
        ("enforce", ["Deny", "Audit"]),
        ("warn", ["Warn", "Audit"]),
        ("audit", ["Audit"]),
    ],
)
def test_the_mode_of_the_rule_decides_what_becomes_of_a_refusal(mode: str | None, actions: list[str]) -> None:
    values = {"config": {"rules": {"generated-object": mode}}} if mode else {}
    assert binding("generated-objects", **values)["spec"]["validationActions"] == actions
    assert binding("own-state", **values)["spec"]["validationActions"] == ["Deny", "Audit"]


@RENDERS
def test_another_rules_mode_changes_nothing() -> None:
    assert rendered(config={"rules": {"mid-switch": "warn"}}) == rendered()


@RENDERS
def test_it_can_be_left_out() -> None:
    command = [str(binary("helm")), "template", "g", str(CHART), "--set", "companionPolicy.enabled=false"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "ValidatingAdmissionPolicy" not in done.stdout


@RENDERS
def test_every_policy_fails_closed_and_says_so_with_status_403() -> None:
    for policy in policies():
        assert policy["spec"]["failurePolicy"] == "Fail"
        for validation in policy["spec"]["validations"]:
            assert validation["reason"] == "Forbidden"
            assert validation["message"].startswith("[")
            assert " Next: " in validation["message"]


@RENDERS
def test_what_a_request_must_be_about_follows_the_values() -> None:
    kind = {"groups": ["npu.example"], "plural": "policies"}
    (policy, own) = policies(config={"kinds": {"npuClusterPolicy": kind}, "kubeletPaths": ["/data/k.d"]})
    rule = policy["spec"]["matchConstraints"]["resourceRules"][0]
    assert (rule["apiGroups"], rule["resources"]) == (["npu.example"], ["policies"])
    assert "^(npu[.]example)/" in str(policy)
    assert "data/([.]?/)*k[.]d" in str(policy)
    assert own["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "guard"
    }
    assert "system:serviceaccount:guard:ascend-owner-guard" in str(own)


@pytest.mark.parametrize("key", ["identities.nativeOperator", "identities.hamiOperator"])
def test_what_it_is_rendered_from_is_written_out(key: str) -> None:
    """Helm does not know the model's defaults."""
    written = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["config"]
    known = Configuration().model_dump(mode="json", by_alias=True)
    for part in key.split("."):
        written, known = written[part], known[part]
    assert written == known
