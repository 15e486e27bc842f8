"""The Secret that a self-managed guard keeps its certificates in: read, create, replace by resourceVersion."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.cluster.connection import Connection, api_path
from webhook.cluster.errors import ApiError
from webhook.ownership.fields import mapping, text, texts

SECRET_SECONDS = 5.0
"""How long one call may take."""

_ABSENT, _CONFLICT = 404, 409


@dataclass(frozen=True)
class StoredSecret:
    """A Secret as it was read: its data, its annotations, and the object to replace. Its data is never printed."""

    data: Mapping[str, bytes] = field(repr=False)
    annotations: Mapping[str, str]
    object: Mapping[str, Any] = field(repr=False)


class SecretStore:
    """One Secret of one namespace. Thread-safe: it keeps nothing."""

    def __init__(self, connection: Connection, namespace: str, name: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._name = name
        self._collection = api_path("api", "v1", "namespaces", namespace, "secrets")
        self._path = f"{self._collection}/{api_path(name)[1:]}"

    def read(self) -> StoredSecret | None:
        """Return the Secret, None when there is none. Raises ApiError."""
        try:
            found = self._connection.get(self._path, timeout=SECRET_SECONDS).object()
        except ApiError as error:
            if error.status == _ABSENT:
                return None
            raise
        return _stored(found)

    def write(
        self,
        before: StoredSecret | None,
        data: Mapping[str, bytes],
        annotations: Mapping[str, str],
        owners: list[dict[str, Any]],
    ) -> StoredSecret | None:
        """Create the Secret, or replace it if it is still as it was `before`; None when somebody was faster.

        `owners` are the ownerReferences of a new one. Raises ApiError.
        """
        held = mapping(before.object.get("metadata")) if before is not None else {"ownerReferences": owners}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque" if before is None else before.object.get("type", "Opaque"),
            "metadata": {
                **held,
                "name": self._name,
                "namespace": self._namespace,
                "annotations": {**(before.annotations if before is not None else {}), **annotations},
            },
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }
        try:
            if before is None:
                answer = self._connection.send("POST", self._collection, body, timeout=SECRET_SECONDS)
            else:
                answer = self._connection.send("PUT", self._path, body, timeout=SECRET_SECONDS)
        except ApiError as error:
            if error.status in (_ABSENT, _CONFLICT):
                return None
            raise
        return _stored(answer.object())


def _stored(item: Mapping[str, Any]) -> StoredSecret:
    data: dict[str, bytes] = {}
    for key, value in mapping(item.get("data")).items():
        try:
            data[key] = base64.b64decode(text(value), validate=True)
        except binascii.Error:
            data[key] = b""  # what cannot be read is made anew
    return StoredSecret(data, texts(mapping(item.get("metadata")).get("annotations")), item)
