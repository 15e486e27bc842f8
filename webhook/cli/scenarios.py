"""Scenario files: a cluster, a request, and the verdict that it must get (format: DESIGN.md section 11)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from webhook.cli.requests import NO_UID, request_for
from webhook.cluster.errors import ManifestError
from webhook.cluster.manifests import load_documents
from webhook.ownership.facts import Facts
from webhook.ownership.reading import read
from webhook.ownership.request import Request, User
from webhook.ownership.settings import Duration, Settings
from webhook.ownership.situation import situation
from webhook.ownership.verdict import Judged, Verdict
from webhook.rules import judge


class ScenarioError(Exception):
    """A file that cannot be read as scenarios; the message names file, scenario and field."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class _UserInfo(_Part):
    username: str
    groups: tuple[str, ...] = ()


class _Request(_Part):
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    sub_resource: str = ""
    user: str | None = None
    user_info: _UserInfo | None = None
    dry_run: bool = False
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    name: str | None = None
    namespace: str | None = None
    resource: str | None = None
    kind: str | None = None
    uid: str = NO_UID
    options: dict[str, Any] | None = None


class _Expectation(_Part):
    allowed: bool
    rule: str | None = None
    warns: tuple[str, ...] | None = None
    phase: str | None = None
    message: tuple[str, ...] = ()
    code: int | None = None
    causes: tuple[str, ...] = ()


class _FactState(_Part):
    age: Duration = timedelta()
    missing: tuple[str, ...] = ()


class _Document(_Part):
    name: str
    why: str = ""
    config: dict[str, Any] = Field(default_factory=dict)
    cluster: tuple[dict[str, Any], ...] = ()
    request: _Request
    expect: _Expectation
    facts: _FactState = _FactState()
    now: datetime | None = None


@dataclass(frozen=True)
class Scenario:
    """One scenario of a file."""

    file: str
    name: str
    settings: Settings
    cluster: tuple[dict[str, Any], ...]
    request: Request
    facts: Facts
    expect: _Expectation


@dataclass(frozen=True)
class Outcome:
    """What a scenario got, and in which points that differs from what it expects."""

    scenario: Scenario
    verdict: Verdict
    differences: tuple[str, ...]


def load(path: Path) -> Iterator[Scenario]:
    """Yield the scenarios of a file, or of every YAML file of a folder in the order of names.

    Raises ScenarioError.
    """
    files = sorted(entry for entry in path.iterdir() if entry.suffix in (".yaml", ".yml")) if path.is_dir() else [path]
    if not files:
        raise ScenarioError(f"{path}: there is no YAML file in this folder.")
    for file in files:
        try:
            documents = load_documents(file.read_bytes(), file.name)
        except (OSError, ManifestError) as error:
            raise ScenarioError(str(error)) from error
        for number, document in enumerate(documents, start=1):
            yield _scenario(file.name, number, document)


def _scenario(file: str, number: int, document: dict[str, Any]) -> Scenario:
    try:
        parsed = _Document.model_validate(document)
        settings = Settings.model_validate(parsed.config)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ScenarioError(f"{file}, scenario {number}: {where}: {first['msg']}") from error
    now = parsed.now or datetime.now(UTC)
    records = [record for item in parsed.cluster if (record := read(item, settings)) is not None]
    slices = any(item.get("kind") == "ResourceSlice" for item in parsed.cluster)
    facts = Facts.of(
        records,
        now=now if now.tzinfo is not None else now.replace(tzinfo=UTC),
        age=parsed.facts.age,
        missing=dict.fromkeys(parsed.facts.missing, "the scenario says so"),
        absent=frozenset() if slices else frozenset({"resourceslices"}),
    )
    return Scenario(file, parsed.name, settings, parsed.cluster, _request(parsed.request), facts, parsed.expect)


def _request(part: _Request) -> Request:
    info = part.user_info or _UserInfo(username=part.user or "alice", groups=("system:authenticated",))
    request = request_for(
        part.operation,
        User(info.username, frozenset(info.groups)),
        item=part.object,
        old_item=part.old_object,
        sub_resource=part.sub_resource,
        uid=part.uid,
        dry_run=part.dry_run,
        options=part.options,
    )
    given = {
        key: value for key in ("name", "namespace", "resource", "kind") if (value := getattr(part, key)) is not None
    }
    return replace(request, **given)


def run(scenario: Scenario) -> Outcome:
    """Judge the scenario's request and compare."""
    verdict = judge(scenario.request, scenario.facts, scenario.settings)
    return Outcome(scenario, verdict, tuple(_differences(scenario, verdict)))


def _differences(scenario: Scenario, verdict: Verdict) -> Iterator[str]:
    expect = scenario.expect
    said = "\n".join([verdict.message, *(one.finding.message() for one in verdict.warnings)])
    if verdict.allowed != expect.allowed:
        yield f"allowed: expected {expect.allowed}, got {verdict.allowed}" + (f" ({verdict.message})" if said else "")
    denying = [_id(one) for one in verdict.denials]
    if expect.rule is not None and expect.rule not in denying:
        yield f"rule: expected {expect.rule}, got {denying or 'no denial'}"
    warning = [_id(one) for one in verdict.warnings]
    if expect.warns is not None and not set(expect.warns) <= set(warning):
        yield f"warns: expected {list(expect.warns)}, got {warning}"
    if expect.warns == () and warning:
        yield f"warns: expected none, got {warning}"
    phase = verdict.phase or str(situation(scenario.facts, scenario.settings).pools[0].phase)
    if expect.phase is not None and expect.phase != phase:
        yield f"phase: expected {expect.phase}, got {phase}"
    for part in expect.message:
        if part not in said:
            yield f"message: {part!r} is not in {said!r}"
    if expect.code is not None and (verdict.allowed or verdict.code != expect.code):
        yield f"code: expected {expect.code}, got {verdict.code if not verdict.allowed else 'no denial'}"
    causes = {cause for one in (*verdict.denials, *verdict.warnings) for cause in one.finding.causes}
    if not set(expect.causes) <= causes:
        yield f"causes: expected {list(expect.causes)}, got {sorted(causes)}"


def _id(one: Judged) -> str:
    return one.finding.rule
