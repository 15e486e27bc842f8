"""One admission request, as the rules see it: who wants to do what to which object."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Object = Mapping[str, Any]
"""A Kubernetes object as it was decoded from JSON or YAML. Nothing about its inside may be taken for granted."""


@dataclass(frozen=True, slots=True)
class User:
    """The authenticated user: exact name and groups; `uid` and `extra` are what authorizers may ask for besides."""

    name: str
    groups: frozenset[str] = frozenset()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_service_account(self) -> bool:
        """Whether this is a ServiceAccount, by name and by the group that the API server adds."""
        return self.name.startswith("system:serviceaccount:") and "system:serviceaccounts" in self.groups

    @property
    def is_kubelet(self) -> bool:
        """Whether this is a node's own kubelet, by exact prefix and group (DESIGN.md section 4)."""
        return self.name.startswith("system:node:") and "system:nodes" in self.groups


@dataclass(frozen=True, slots=True)
class Request:
    """The parts of `AdmissionReview.request` that decide (admission/v1).

    `group`, `version`, `kind` and `resource` describe the object in the version that our rules asked for;
    `name` is empty for collection deletes and generateName (DESIGN.md section 8).
    """

    uid: str
    operation: Operation
    group: str
    version: str
    kind: str
    resource: str
    user: User
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    dry_run: bool = False
    object: Object | None = None
    old_object: Object | None = None
    options: Object | None = None

    @property
    def subject(self) -> Object:
        """The object that the request is about: the new one, else (DELETE) the old one, else an empty one."""
        return self.object if self.object is not None else self.old_object or {}

    @property
    def object_name(self) -> str:
        """The object's name: the request's, else the one that either object carries, else its generateName."""
        if self.name:
            return self.name
        for candidate in (self.object, self.old_object):
            metadata = candidate.get("metadata") if candidate is not None else None
            if isinstance(metadata, Mapping):
                name = metadata.get("name") or metadata.get("generateName")
                if isinstance(name, str) and name:
                    return name
        return ""
