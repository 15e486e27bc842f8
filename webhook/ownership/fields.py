"""Reading decoded JSON of which nothing may be taken for granted: every accessor is total."""

from collections.abc import Mapping
from typing import Any

from webhook.ownership.request import Object

_EMPTY: Object = {}


def mapping(value: Any) -> Object:
    """Return `value` when it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else _EMPTY


def items(value: Any) -> list[Any]:
    """Return `value` when it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: Any) -> list[Object]:
    """Return the mappings among the items of a list, else an empty list."""
    return [item for item in items(value) if isinstance(item, Mapping)]


def text(value: Any) -> str:
    """Return `value` when it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def texts(value: Any) -> dict[str, str]:
    """Return the text values of a mapping such as labels (null stands for an empty text, as the API server reads
    it)."""
    return {
        key: entry if isinstance(entry, str) else ""
        for key, entry in mapping(value).items()
        if isinstance(key, str) and (entry is None or isinstance(entry, str))
    }


def at(item: Any, path: str) -> Any:
    """Return the value at the dotted `path`, None when a part of it is absent or no mapping."""
    for part in path.split("."):
        if not isinstance(item, Mapping):
            return None
        item = item.get(part)
    return item


def has(item: Any, path: str) -> bool:
    """Whether the dotted `path` is present, null included."""
    parent, _, last = path.rpartition(".")
    return last in mapping(at(item, parent) if parent else item)
