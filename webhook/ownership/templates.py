"""Pod templates in any object, found by their shape: a mapping with a Pod spec, not by a list of kinds (DESIGN.md
section 4)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.ownership.fields import mapping, mappings
from webhook.ownership.request import Object

_OF_CONTAINERS = ("resources", "env")
MAX_DEPTH = 24
MAX_VALUES = 100_000
"""How deep and how far an object is searched; what lies beyond gets no warning (its Pods are judged all the same)."""


@dataclass(frozen=True, slots=True)
class Template:
    """A Pod template: where it is, and its metadata and spec. `bare` is one without containers of its own: a single
    container, or only its resources or variables, from which another controller makes a Pod."""

    path: str
    metadata: Object
    spec: Object
    bare: bool = False


def templates_in(item: Object) -> tuple[Template, ...]:
    """Return the Pod templates below `spec` (or below `template` of a PodTemplate), the outermost of each branch."""
    found: list[Template] = []
    budget = [MAX_VALUES]
    for field in ("spec", "template"):
        if field in item:
            found.extend(_search(item[field], field, 0, budget, {}))
    return tuple(found)


def _search(value: Any, path: str, depth: int, budget: list[int], parent: Object) -> Iterator[Template]:
    budget[0] -= 1
    if depth > MAX_DEPTH or budget[0] < 0:
        return
    if isinstance(value, list):
        for position, entry in enumerate(value):
            yield from _search(entry, f"{path}[{position}]", depth + 1, budget, {})
        return
    if not isinstance(value, Mapping):
        return
    if isinstance(value.get("containers"), list):
        yield Template(path, mapping(parent.get("metadata")), value)
        return
    whole = _is_container(value)
    if whole:
        yield Template(path, {}, {"containers": [value]}, bare=True)
    for key, entry in value.items():
        if not isinstance(key, str) or (whole and key in _OF_CONTAINERS):
            continue
        if _holds_resources(key, entry):
            yield Template(f"{path}.{key}", {}, {"containers": [{"resources": entry}]}, bare=True)
        elif _holds_variables(key, entry):
            yield Template(f"{path}.{key}", {}, {"containers": [{"env": entry}]}, bare=True)
        else:
            yield from _search(entry, f"{path}.{key}", depth + 1, budget, value)


def _is_container(value: Object) -> bool:
    says_more = isinstance(value.get("resources"), Mapping) or isinstance(value.get("env"), list)
    return isinstance(value.get("image"), str) and says_more


def _holds_resources(key: str, value: Any) -> bool:
    """Whether it is a bare ResourceRequirements, as custom resources carry it (`resources`, `resourcesPerNode`, …)."""
    return (
        key.startswith("resources")
        and isinstance(value, Mapping)
        and any(isinstance(value.get(part), Mapping) for part in ("limits", "requests"))
    )


def _holds_variables(key: str, value: Any) -> bool:
    """Whether it is a bare list of variables for the containers that a controller makes (TrainJob's `trainer.env`)."""
    return key == "env" and any("name" in entry for entry in mappings(value))
