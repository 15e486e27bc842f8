"""The bill of materials names what the image installs, and an audit that asked nobody is no good news."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.image import audit, sbom
from tests.image.dockerfile import ROOT
from tests.image.test_dockerfile import PROJECT

LOCKED = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.M))


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    target = tmp_path_factory.mktemp("sbom") / "made" / "sbom.cdx.json"
    sbom.write(target)
    return dict(json.loads(target.read_text()))


def test_the_bill_names_every_locked_package_with_its_version(bill: dict[str, Any]) -> None:
    assert {one["name"]: one["version"] for one in bill["components"]} == LOCKED
    assert {one["purl"] for one in bill["components"]} == {f"pkg:pypi/{name}@{LOCKED[name]}" for name in LOCKED}


def test_the_bill_has_the_hashes_of_the_lock_file(bill: dict[str, Any]) -> None:
    named = {found["content"] for one in bill["components"] for found in one["externalReferences"][0]["hashes"]}
    assert named == set(re.findall(r"sha256:([0-9a-f]{64})", (ROOT / "requirements.lock").read_text()))


def test_the_bill_is_about_this_version_and_of_a_known_format(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", sbom.SPECIFICATION)
    described = bill["metadata"]["component"]
    assert (described["name"], described["version"]) == (PROJECT["name"], PROJECT["version"])


def test_the_same_lock_file_gives_the_same_bill(bill: dict[str, Any], tmp_path: Path) -> None:
    sbom.write(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == bill


def package(name: str, **said: object) -> dict[str, object]:
    return {"name": name, "version": "1.0", **said}


FOUND = {"id": "PYSEC-2030-1", "fix_versions": ["1.1"]}


@pytest.mark.parametrize(
    "packages, code, said",
    [
        ([package("a", vulns=[]), package("b", vulns=[])], 0, "none of 2 packages"),
        ([package("a", vulns=[FOUND]), package("b", vulns=[])], 1, "a 1.0 is vulnerable: PYSEC-2030-1, fixed in 1.1"),
        ([package("a", skip_reason="not found"), package("b", vulns=[])], 2, "1 of 2 packages were not audited"),
        ([package("a", skip_reason="not found"), package("b", vulns=[FOUND])], 1, "1 of 2 packages were not audited"),
    ],
)
def test_an_audit_is_good_only_when_every_package_was_asked_about(
    packages: list[dict[str, object]], code: int, said: str
) -> None:
    outcome = audit.judge("any.lock", json.dumps({"dependencies": packages}), "No known vulnerabilities found")
    assert outcome.code == code
    assert said in "\n".join(outcome.lines)


def test_a_service_that_cannot_be_reached_is_said_in_one_sentence() -> None:
    outcome = audit.judge("any.lock", "", "Traceback …\n\nConnectionError: Failed to resolve the service\n")
    assert outcome.code == 2
    (line,) = outcome.lines
    assert line.startswith("any.lock was not audited: the vulnerability service could not be reached")
    assert line.endswith("ConnectionError: Failed to resolve the service")
