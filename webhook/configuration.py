"""The whole configuration: one YAML file, then the environment (DESIGN.md section 12), as one frozen model.

`ASCEND_GUARD__A__B=value` sets the key `a.b`; case, `_` and `-` within a key do not matter, so that
`ASCEND_GUARD__RULES__SECOND_OWNER=audit` is `rules.second-owner: audit`. The value is a YAML scalar or list, and a list
replaces the list before it. An unknown key is an error that names it, in the file as in the environment.
"""

import difflib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from certs.authority import AUTHORITY_LIFE, DEFAULT_KEY, LEAF_LIFE, KeyKind
from webhook.admission.review import MAX_BODY
from webhook.cluster.errors import ManifestError
from webhook.cluster.manifests import load_documents
from webhook.ownership.settings import Duration, Section, Settings

PREFIX = "ASCEND_GUARD__"
MAX_FILE_BYTES = 1024 * 1024
MIN_KEEP_ALIVE = timedelta(seconds=100)


class ConfigurationError(Exception):
    """The configuration cannot be used. `problems` are sentences, all that were found; `str()` has one a line."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class AuditSettings(Section):
    """The audit trail on standard output: how many observations of a phase's evidence one record lists."""

    max_evidence: int = Field(default=50, ge=1, le=1000)


class TLSFiles(Section):
    """The serving pair in PEM: `certificate` (leaf first) and its unencrypted `key`. Looked at again every second."""

    certificate: Path | None = None
    key: Path | None = None

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key go together; give both or none")
        return self


class CertificateSettings(Section):
    """Where the serving certificate comes from.

    `files`: the pair of `server.tls`, and nothing more. `provided`: that pair with its `ca.crt` beside it, checked
    against the Service's names, and trusted by the webhook configuration. `self-managed`: made and renewed in a Secret
    of the guard's namespace. A leaf and an authority are renewed at two thirds of their lives; a new authority signs
    once it has been trusted for `trust_before_use`.
    """

    mode: Literal["files", "provided", "self-managed"] = "files"
    secret_name: str = "ascend-owner-guard-tls"  # noqa: S105 - a name, no secret
    service: str = "ascend-owner-guard"
    webhook: str = "ascend-owner-guard"
    leaf_life: Duration = LEAF_LIFE
    authority_life: Duration = AUTHORITY_LIFE
    trust_before_use: Duration = timedelta(minutes=2)
    key: KeyKind = DEFAULT_KEY

    @model_validator(mode="after")
    def _authority_outlives(self) -> Self:
        if self.leaf_life * 2 > self.authority_life:
            raise ValueError("authorityLife must be at least twice leafLife")
        if self.trust_before_use * 3 > self.leaf_life:
            raise ValueError("leafLife must be at least three times trustBeforeUse")
        return self


class ServerSettings(Section):
    """The serving process.

    `threads` is how many owner changes are judged at once; `max_body` the bytes of the largest review; `keep_alive`
    must exceed the 90 s for which the API server keeps idle connections; `graceful_timeout` must be below the Pod's
    grace period, since idle clients make the server use all of it.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=8443, ge=1, le=65535)
    threads: int = Field(default=8, ge=1, le=64)
    max_body: int = Field(default=MAX_BODY, ge=64 * 1024, le=64 * 1024 * 1024)
    keep_alive: Duration = timedelta(seconds=120)
    graceful_timeout: Duration = timedelta(seconds=15)
    tls: TLSFiles = TLSFiles()
    certificates: CertificateSettings = CertificateSettings()

    @field_validator("keep_alive")
    @classmethod
    def _outlives_the_client(cls, value: timedelta) -> timedelta:
        if value < MIN_KEEP_ALIVE:
            raise ValueError("the API server keeps idle connections for 90 s; write 100s or more")
        return value


class Configuration(Settings):
    """Everything that can be configured."""

    audit: AuditSettings = AuditSettings()
    server: ServerSettings = ServerSettings()


def load(path: Path | None, environ: Mapping[str, str]) -> Configuration:
    """Read the file (None: only defaults), then the environment's overrides. Raises ConfigurationError."""
    values = _read(path) if path is not None else {}
    problems = list(_unknown_keys(Configuration, values, (), str(path)))
    origins: dict[tuple[str, ...], str] = {}
    for variable, text in sorted(environ.items()):
        if not variable.upper().startswith(PREFIX):
            continue
        try:
            keys = _keys_of(variable)
            _put(values, keys, _value_of(variable, text))
            origins[keys] = variable
        except ConfigurationError as error:
            problems += error.problems
    if not problems:
        try:
            return Configuration.model_validate(values)
        except ValidationError as error:
            problems = [_sentence(each["loc"], each["msg"], origins, path) for each in error.errors()]
    raise ConfigurationError(tuple(problems))


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
        documents = load_documents(raw, str(path))
    except OSError as error:
        raise ConfigurationError((f"{path}: {error.strerror}; check the path and its permissions.",)) from error
    except ManifestError as error:
        raise ConfigurationError((str(error),)) from error
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigurationError((f"{path}: more than {MAX_FILE_BYTES} bytes; is this the configuration?",))
    if len(documents) > 1:
        raise ConfigurationError((f"{path}: {len(documents)} documents; a configuration is one, join them.",))
    return documents[0] if documents else {}


def _unknown_keys(
    section: type[BaseModel], values: Mapping[str, Any], above: tuple[str, ...], origin: str
) -> Iterator[str]:
    """Say of every key that the model does not know that it is unknown, and which one may have been meant."""
    known = _fields(section)
    for key, value in values.items():
        if key not in known:
            yield f"{origin}: {'.'.join((*above, str(key)))} is no key of the configuration{_near(str(key), known)}"
        elif (inner := known[key]) is not None and isinstance(value, Mapping):
            yield from _unknown_keys(inner, value, (*above, key), origin)


def _fields(section: type[BaseModel]) -> dict[str, type[BaseModel] | None]:
    """The keys of a section as the file writes them, each with the section that it is, if it is one."""
    return {
        field.alias or name: field.annotation
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        else None
        for name, field in section.model_fields.items()
    }


def _keys_of(variable: str) -> tuple[str, ...]:
    """The keys that a variable names, as the file writes them. Raises ConfigurationError for an unknown one."""
    section: type[BaseModel] | None = Configuration
    keys: tuple[str, ...] = ()
    for part in variable[len(PREFIX) :].split("__"):
        known = _fields(section) if section is not None else {}
        found = {_plain(key): key for key in known}.get(_plain(part))
        if found is None:
            asked = ".".join((*keys, part.lower()))
            raise ConfigurationError((f"{variable}: {asked} is no key of the configuration{_near(part, known)}",))
        keys = (*keys, found)
        section = known[found]
    return keys


def _plain(key: str) -> str:
    return key.replace("_", "").replace("-", "").lower()


def _near(key: str, known: Mapping[str, object]) -> str:
    plain = {_plain(each): each for each in known}
    near = difflib.get_close_matches(_plain(key), plain, n=1)
    if near:
        return f"; did you mean {plain[near[0]]}?"
    return f"; here are: {', '.join(known)}." if known else "; nothing is set below it."


def _value_of(variable: str, text: str) -> object:
    try:
        documents = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError((f"{variable}: the value is no YAML scalar or list; quote it.",)) from error
    if isinstance(documents, dict):
        raise ConfigurationError((f"{variable}: the value is a mapping; set its keys one by one.",))
    return documents


def _put(values: dict[str, Any], keys: tuple[str, ...], value: object) -> None:
    for key in keys[:-1]:
        inner = values.get(key)
        if not isinstance(inner, dict):
            inner = values[key] = {}
        values = inner
    values[keys[-1]] = value


def _sentence(
    place: tuple[int | str, ...], reason: str, origins: Mapping[tuple[str, ...], str], path: Path | None
) -> str:
    keys = tuple(str(part) for part in place)
    origin = next((variable for named, variable in origins.items() if keys[: len(named)] == named), str(path))
    return f"{origin}: {'.'.join(keys)}: {reason.removeprefix('Value error, ')}."
