"""The chart's schema and table are what its values and the guard's own model say."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.values import CHART, SCHEMA, TABLE, described, schema, table
from tests.controlplane.build import binary


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(binary("helm")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def refused(tmp_path: Path, values: dict[str, Any]) -> str:
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values))
    done = helm("template", "g", str(CHART), "-f", str(file))
    assert done.returncode != 0, "helm took it"
    return done.stderr


def test_the_schema_is_what_the_model_says() -> None:
    assert json.loads(SCHEMA.read_text()) == schema(), "run python -m tests.chart.values"


def test_the_table_is_what_the_values_say() -> None:
    assert TABLE.read_text() == table(), "run python -m tests.chart.values"


def test_every_value_says_what_it_is_for_or_its_section_does() -> None:
    told = {key for key, _, said in described() if said}
    untold = [key for key, _, said in described() if not said and not any(key.startswith(one + ".") for one in told)]
    assert untold == []


def _objects(part: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(part, dict) and isinstance(part.get("properties"), dict):
        yield path, part
        for name, one in part["properties"].items():
            yield from _objects(one, f"{path}.{name}")


def test_every_mapping_is_strict() -> None:
    loose = [path for path, one in _objects(schema()) if one.get("additionalProperties") is not False]
    assert loose == []


@pytest.mark.integration
@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"replica": 3}, "replica"),
        ({"replicas": "3"}, "/replicas"),
        ({"mode": "enforced"}, "/mode"),
        ({"certificates": {"mode": "magic"}}, "/certificates/mode"),
        ({"certificates": {"leafLife": "a while"}}, "/certificates/leafLife"),
        ({"config": {"rules": {"second-owners": "warn"}}}, "second-owners"),
        ({"config": {"rules": {"second-owner": "off"}}}, "/config/rules/second-owner"),
        ({"config": {"freshness": {"claimMaxAge": True}}}, "/config/freshness/claimMaxAge"),
        ({"config": {"unowned": {"pods": "maybe"}}}, "/config/unowned/pods"),
        ({"config": {"namespace": "other"}}, "namespace"),
        ({"webhook": {"timeoutSeconds": 31}}, "/webhook/timeoutSeconds"),
    ],
    ids=str,
)
def test_a_wrong_value_fails_with_its_name(tmp_path: Path, values: dict[str, Any], part: str) -> None:
    said = refused(tmp_path, values)
    assert part.strip("/").split("/")[-1] in said
    assert "values don't meet the specifications of the schema" in said


@pytest.mark.integration
def test_lint_has_nothing_to_say_in_any_mode() -> None:
    for mode in ("self-managed", "provided", "cert-manager"):
        done = helm("lint", "--strict", str(CHART), "--set", f"certificates.mode={mode}")
        assert done.returncode == 0, done.stdout


@pytest.mark.integration
def test_an_api_server_that_is_too_old_is_refused_in_a_sentence() -> None:
    done = helm("template", "g", str(CHART), "--kube-version", "1.29.0")
    assert done.returncode != 0
    assert "kubeVersion" in done.stderr
