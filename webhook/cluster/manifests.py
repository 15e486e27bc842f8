"""YAML or JSON text to documents, bounded: a manifest may come from anywhere.

Read as `kubectl` reads it: time stamps stay texts, only plain JSON types come out. Size, depth and the size after
expansion of aliases are limited before anything is built, so no text can exhaust memory or the stack.
"""

from collections.abc import Iterator
from typing import Any

import orjson
import yaml

from webhook.cluster.errors import ManifestError

MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 100
MAX_NODES = 1_000_000

_JSON_TAGS = ("null", "bool", "int", "float", "str", "seq", "map")
_NOT_IN_JSON = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")


class _Loader(yaml.CSafeLoader):
    """The C loader, reduced to JSON's types; any other tag is an error."""

    yaml_constructors = {  # noqa: RUF012 - PyYAML's own attribute
        None: yaml.constructor.SafeConstructor.construct_undefined,
        **{
            f"tag:yaml.org,2002:{tag}": yaml.constructor.SafeConstructor.yaml_constructors[f"tag:yaml.org,2002:{tag}"]
            for tag in _JSON_TAGS
        },
    }
    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own attribute
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _NOT_IN_JSON]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def load_documents(text: str | bytes, origin: str) -> list[dict[str, Any]]:
    """Return the documents of a YAML or JSON text that are not empty, each a mapping.

    `origin` is the file's name or "standard input", for messages. Raises ManifestError.
    """
    return [document for _, document in numbered_documents(text, origin)]


def numbered_documents(text: str | bytes, origin: str) -> list[tuple[int, dict[str, Any]]]:
    """Return what `load_documents` does, each document with its position in the text (1 is the first)."""
    raw = text.encode() if isinstance(text, str) else text
    if len(raw) > MAX_BYTES:
        raise ManifestError(f"{origin}: {len(raw)} bytes are more than {MAX_BYTES}; split the file.")
    if raw.lstrip()[:1] == b"{":
        try:
            return [(1, _mapping(orjson.loads(raw), origin, 1))]
        except orjson.JSONDecodeError:
            pass  # YAML in flow style begins like this too, and its error names the line
    try:
        return list(_documents(raw.decode(), origin))
    except UnicodeDecodeError as error:
        raise ManifestError(f"{origin}: not UTF-8 at byte {error.start}; save it as UTF-8.") from error


def objects_of(document: dict[str, Any], place: str) -> Iterator[dict[str, Any]]:
    """Return the Kubernetes objects of a document: itself, or the items of a List.

    `place` names file and document, for messages. Raises ManifestError for an object without apiVersion, kind or a
    name (generateName counts).
    """
    kind, items = document.get("kind"), document.get("items")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str):
            raise ManifestError(f"{place}: {field} is missing or no text; is this a Kubernetes object?")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        typed = {"apiVersion": document["apiVersion"], "kind": kind.removesuffix("List")} if kind != "List" else {}
        for position, item in enumerate(items):
            if not isinstance(item, dict):
                raise ManifestError(f"{place}: items[{position}] is no mapping; remove it.")
            yield from objects_of({**typed, **item}, f"{place}, items[{position}]")
        return
    metadata = document.get("metadata")
    name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else None
    if not isinstance(name, str):
        raise ManifestError(f"{place}: metadata.name is missing or no text; give the {kind} a name.")
    yield document


def _documents(text: str, origin: str) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 1
    try:
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                if node is None:
                    break
                _check(node, f"{origin}, document {number}")
                document = loader.construct_document(node)
                if document is not None:
                    yield number, _mapping(document, origin, number)
                number += 1
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ManifestError(f"{origin}, document {number}: {_sentence(error)}") from error


def _mapping(document: object, origin: str, number: int) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ManifestError(
            f"{origin}, document {number}: a mapping is expected, this is a {type(document).__name__}; "
            "separate documents with ---."
        )
    return document


def _sentence(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"bad YAML in line {mark.line + 1}, column {mark.column + 1}: {error.problem}; correct it."
    return f"bad YAML: {' '.join(str(error).split())}; correct it."


def _check(root: yaml.Node, place: str) -> None:
    """Refuse what would grow without bound, or differently than kubectl reads it, before it is constructed."""
    _measure(root, 0, {}, set(), place)


def _measure(
    node: yaml.Node, depth: int, measured: dict[int, tuple[int, int]], above: set[int], place: str
) -> tuple[int, int]:
    """Return how many values `node` has with every alias expanded, and how deep they are nested.

    `measured` remembers (an alias is the same node again), `above` are the nodes that contain this one.
    """
    known = measured.get(id(node))
    if known is not None:
        return known
    line = node.start_mark.line + 1
    if id(node) in above:
        raise ManifestError(f"{place}, line {line}: an alias contains itself; write the value out.")
    children: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        children = node.value
    elif isinstance(node, yaml.MappingNode):
        _check_keys(node, place)
        children = [child for pair in node.value for child in pair]
    size, height = 1, 0
    if depth <= MAX_DEPTH:
        above.add(id(node))
        for child in children:
            child_size, child_height = _measure(child, depth + 1, measured, above, place)
            size, height = size + child_size, max(height, child_height + 1)
        above.remove(id(node))
    if depth + height > MAX_DEPTH:
        raise ManifestError(f"{place}, line {line}: nested deeper than {MAX_DEPTH}; no Kubernetes object is.")
    if size > MAX_NODES:
        raise ManifestError(f"{place}, line {line}: more than {MAX_NODES} values with its aliases; write less.")
    measured[id(node)] = size, height
    return size, height


def _check_keys(node: yaml.MappingNode, place: str) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        if key.tag != "tag:yaml.org,2002:str":
            raise ManifestError(f"{place}, line {line}: the key {key.value!r} is no text; put it in quotes.")
        if key.value in seen:
            raise ManifestError(f"{place}, line {line}: the key {key.value!r} is there twice; remove one.")
        seen.add(key.value)
