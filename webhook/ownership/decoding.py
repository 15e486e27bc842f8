"""JSON from an API server to plain values, whatever a user has hidden in one object.

A list holds everybody's objects, and the API server passes on what Go accepts: free-form fields (a ResourceClaim's
opaque parameters, schemaless custom resources) may hold nesting thousands deep, lone surrogates, or 1e999. One such
object must not make a whole kind unreadable.
"""

import json
import re
from typing import Any

import orjson

MAX_DEPTH = 200

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)


def decode(raw: bytes) -> Any:
    """Return the decoded value, leniently where strict decoding refuses. Raises ValueError for what is no JSON."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return decode_leniently(raw)


def decode_leniently(raw: bytes) -> Any:
    """Return the decoded value, with containers deeper than MAX_DEPTH as null, and numbers out of range as infinite.

    Texts may hold lone surrogates. Raises ValueError for what is no JSON at all.
    """
    return json.loads(_pruned(raw).decode(errors="replace"), parse_int=_number)


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) < 20 else float(digits)


def _pruned(raw: bytes) -> bytes:
    """Replace every container deeper than MAX_DEPTH by null."""
    kept: list[bytes] = []
    depth = start = 0
    for match in _TOKEN.finditer(raw):
        token = match.group()
        if token in b"[{":
            if depth == MAX_DEPTH:
                kept += (raw[start : match.start()], b"null")
            depth += 1
        elif token in b"]}":
            depth -= 1
            if depth == MAX_DEPTH:
                start = match.end()
    kept.append(raw[start:])
    return b"".join(kept)
