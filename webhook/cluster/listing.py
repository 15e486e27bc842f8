"""Paged lists of one kind."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.cluster.connection import Connection
from webhook.cluster.discovery import Served
from webhook.cluster.errors import ApiError


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: its objects, complete with apiVersion and kind, and the list's resourceVersion."""

    objects: tuple[dict[str, Any], ...]
    resource_version: str


def pages(
    connection: Connection, served: Served, *, limit: int, timeout: float, end: float | None = None
) -> Iterator[Page]:
    """List `served` in every namespace, in pages of `limit`, as one consistent (quorum) read.

    `timeout` (seconds) holds for each page; `end` by the monotonic clock for all of them. Raises ApiError; status 410
    says that the list took so long that it has to begin again.
    """
    token = ""
    while True:
        left = timeout if end is None else min(timeout, end - time.monotonic())
        if left <= 0:
            raise ApiError(0, "there was no time left to read it")
        query = {"limit": limit, **served.filter} | ({"continue": token} if token else {})
        page, token = read_page(connection.get(served.path, query, timeout=left).object(), served)
        yield page
        if not token:
            return


def read_page(answer: Mapping[str, Any], served: Served) -> tuple[Page, str]:
    """Return the page that a list answer is, and its continue token ("" on the last). Raises ApiError for no list.

    The items of a list of a built-in kind carry no type: they get that of `served`.
    """
    metadata, items = answer.get("metadata"), answer.get("items")
    if items is None and str(answer.get("kind")).endswith("List"):
        items = []  # an empty list may be null
    if not isinstance(metadata, Mapping) or not isinstance(items, list):
        raise ApiError(0, "the API server's answer is no list")
    objects = tuple(item for item in items if isinstance(item, dict))
    for item in objects:
        item.setdefault("apiVersion", served.api_version)
        item.setdefault("kind", served.kind)
    return Page(objects, str(metadata.get("resourceVersion") or "")), str(metadata.get("continue") or "")
