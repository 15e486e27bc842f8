"""Where, if at all, the API server serves a kind."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.cluster.connection import Connection, api_path
from webhook.cluster.errors import ApiError
from webhook.ownership.kinds import FactKind


@dataclass(frozen=True, slots=True)
class Served:
    """A kind as it is served: list it at `path`; its objects are of `api_version` and `kind`; `only` is the name of
    the one wanted."""

    api_version: str
    kind: str
    path: str
    only: str = ""

    @property
    def filter(self) -> dict[str, str | int]:
        """The query that leaves nothing but the one object that is wanted, empty when all are."""
        return {"fieldSelector": f"metadata.name={self.only}"} if self.only else {}


def find(connection: Connection, kind: FactKind, group: str, *, timeout: float) -> Served | None:
    """Return where `kind` is served in `group` ("" is the core group), None when it is not.

    Absent means that the group is not served (404), or that none of its versions has the plural; versions are asked in
    the order of preference, since another product may share the group at another version. A kind whose definition is
    being deleted is still served. `timeout` (seconds) holds for each call. Raises ApiError for any other answer.
    """
    for version in _versions(connection, group, timeout):
        base = ("apis", *version.split("/")) if group else ("api", version)
        resources = _get(connection, api_path(*base), timeout)
        if resources is not None and lists(resources, kind.plural):
            return Served(version, kind.kind, api_path(*base, kind.plural), kind.only)
    return None


def _versions(connection: Connection, group: str, timeout: float) -> tuple[str, ...]:
    if not group:
        return ("v1",)
    found = _get(connection, api_path("apis", group), timeout)
    return versions(found, group) if found is not None else ()


def versions(api_group: Mapping[str, Any], group: str) -> tuple[str, ...]:
    """Return the `group/version` texts of an APIGroup, the preferred one first. Raises ApiError when it has none."""
    preferred = api_group.get("preferredVersion")
    entries = api_group.get("versions")
    found = [
        entry["groupVersion"]
        for entry in (preferred, *(entries if isinstance(entries, list) else ()))
        if isinstance(entry, Mapping)
        and isinstance(entry.get("groupVersion"), str)
        and entry["groupVersion"].startswith(group + "/")
    ]
    if not found:
        raise ApiError(0, f"the API server's answer names no version of {group}")
    return tuple(dict.fromkeys(found))


def lists(resource_list: Mapping[str, Any], plural: str) -> bool:
    """Whether an APIResourceList has `plural`. Raises ApiError when it is no such list."""
    resources = resource_list.get("resources")
    if not isinstance(resources, list):
        raise ApiError(0, "the API server's answer is no list of resources")
    return any(isinstance(entry, Mapping) and entry.get("name") == plural for entry in resources)


def _get(connection: Connection, path: str, timeout: float) -> dict[str, Any] | None:
    try:
        return connection.get(path, timeout=timeout).object()
    except ApiError as error:
        if error.status == 404:
            return None
        raise
