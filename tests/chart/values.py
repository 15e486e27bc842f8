"""The chart's values: their schema (draft-07, strict) and their table, made from values.yaml and the guard's own model.

`python -m tests.chart.values` writes `values.schema.json` and `README.md` of the chart.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from webhook.configuration import Configuration

CHART = Path(__file__).parents[2] / "charts" / "ascend-owner-guard"
VALUES = CHART / "values.yaml"
SCHEMA = CHART / "values.schema.json"
TABLE = CHART / "README.md"

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
ANYTHING: Schema = {"type": "object"}
DURATION: Schema = {"type": ["string", "number"], "pattern": r"^[0-9]+([.][0-9]+)?(ms|s|m|h|d)?$"}
MODE: Schema = {"enum": ["enforce", "warn", "audit"]}
LATER_SET_BY_THE_CHART = ("namespace",)


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def schema() -> Schema:
    """The schema of the chart's values. `global` is what a chart that includes this one may hand down."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart ascend-owner-guard",
        **_object(
            mode=MODE,
            replicas={"type": "integer", "minimum": 0},
            image=_object(
                repository=TEXT,
                tag=TEXT,
                pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
                pullSecrets={"type": "array", "items": _object(name=TEXT)},
            ),
            service=_object(port={"type": "integer", "minimum": 1, "maximum": 65535}),
            certificates=_object(
                mode={"enum": ["self-managed", "provided", "cert-manager"]},
                secretName={"type": "string", "minLength": 1},
                leafLife=DURATION,
                authorityLife=DURATION,
                key={"enum": ["ec-p256", "ec-p384", "rsa-2048", "rsa-3072"]},
                issuerRef=_object(name=TEXT, kind=TEXT, group=TEXT),
            ),
            webhook=_object(
                timeoutSeconds={"type": "integer", "minimum": 1, "maximum": 30},
                templateGroups=TEXTS,
            ),
            companionPolicy=_object(
                enabled={"type": "boolean"},
                administrators=_object(users=TEXTS, groups=TEXTS),
            ),
            resources=ANYTHING,
            config=configuration(),
            **{"global": ANYTHING},
        ),
    }


def configuration() -> Schema:
    """The schema of `config`: the guard's configuration file, without what the chart sets itself."""
    model = Configuration.model_json_schema(by_alias=True)
    found: Schema = _draft_07(model, model.get("$defs", {}))
    return found


def _draft_07(part: Any, definitions: dict[str, Any]) -> Any:
    """Pydantic's schema as draft-07, without references, titles and defaults; durations as the guard reads them."""
    if isinstance(part, list):
        return [_draft_07(one, definitions) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _draft_07(definitions[part["$ref"].rpartition("/")[2]], definitions)
    if part.get("format") == "duration":
        return DURATION
    dropped = ("title", "default", "description", "$defs", "format")
    found = {key: _draft_07(value, definitions) for key, value in part.items() if key not in dropped}
    if "properties" in part:  # a property may be called like a keyword
        found["properties"] = {
            name: _draft_07(one, definitions)
            for name, one in part["properties"].items()
            if name not in LATER_SET_BY_THE_CHART
        }
        found.pop("required", None)
    return found


def table() -> str:
    """The chart's README: every value with its default and what values.yaml says about it."""
    rows = [f"| `{key}` | {_shown(value)} | {_cell(said)} |" for key, value, said in described()]
    return "\n".join(
        [
            "# ascend-owner-guard",
            "",
            "Lets exactly one device-plugin owner hold a cluster's Ascend NPUs. What it guards, and the procedure, is",
            "in the project's README; what each of its messages means in [docs/messages.md](docs/messages.md).",
            "",
            "```",
            "helm install ascend-owner-guard charts/ascend-owner-guard -n ascend-owner-guard --create-namespace",
            "```",
            "",
            "## Values",
            "",
            "Made from `values.yaml` by `python -m tests.chart.values`; a test holds it to the file. An unknown or",
            "mistyped key fails `helm install`. `config` takes every key of the project's configuration table.",
            "",
            "| value | default | |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def described() -> Iterator[tuple[str, Any, str]]:
    """Yield every value of values.yaml with its default and the comment above it, in the order of the file."""
    text = VALUES.read_text(encoding="utf-8")
    comments: dict[int, str] = {}
    pending: list[str] = []
    for number, line in enumerate(text.splitlines()):
        bare = line.strip()
        if bare.startswith("#"):
            pending.append(bare.removeprefix("#").strip())
            continue
        if bare and pending:
            comments[number] = " ".join(pending)
        pending = []
    yield from _walk(yaml.compose(text), (), comments)


def _walk(node: Any, above: tuple[str, ...], comments: dict[int, str]) -> Iterator[tuple[str, Any, str]]:
    for key, value in node.value:
        path = (*above, key.value)
        said = comments.get(key.start_mark.line, "")
        if isinstance(value, yaml.MappingNode) and value.value and not value.flow_style:
            if said:
                yield ".".join(path), None, said
            yield from _walk(value, path, comments)
        else:
            yield ".".join(path), yaml.safe_load(yaml.serialize(value)), said


def _shown(value: Any) -> str:
    if value is None:
        return ""
    text = json.dumps(value)
    return f"`{text}`" if len(text) <= 80 else f"`{text[:70]}…`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(schema(), indent=2) + "\n")
    TABLE.write_text(table())
