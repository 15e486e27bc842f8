"""The Lease that the claim is swapped on: read, create, compare-and-swap by resourceVersion."""

from dataclasses import dataclass
from typing import Any

from webhook.cluster.connection import Connection, api_path
from webhook.cluster.errors import ApiError
from webhook.ownership.fields import at, mapping, text
from webhook.ownership.memory import CLAIM, LEASE_NAME, SETTLED, Memory, holder, read_memory, write_memory

_CONFLICT = 409
_ABSENT = 404


@dataclass(frozen=True, slots=True)
class Held:
    """What was read: the memory, and the object to swap against (empty when there is no Lease)."""

    memory: Memory
    lease: dict[str, Any]

    @property
    def version(self) -> str:
        """The resourceVersion that was read, "" when there is no Lease."""
        return text(at(self.lease, "metadata.resourceVersion"))


class LeaseStore:
    """The guard's Lease at one API server. Thread-safe."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._collection = api_path("apis", "coordination.k8s.io", "v1", "namespaces", namespace, "leases")
        self._path = f"{self._collection}/{LEASE_NAME}"

    def read(self, timeout: float) -> Held:
        """Return what the Lease says, by a quorum read within `timeout` seconds. Raises ApiError."""
        try:
            lease = self._connection.get(self._path, timeout=timeout).object()
        except ApiError as error:
            if error.status != _ABSENT:
                raise
            return Held(Memory(decides=True), {})
        return Held(read_memory(lease, decides=True), lease)

    def swap(self, held: Held, memory: Memory, timeout: float) -> Held | None:
        """Write `memory` if the Lease is still as it was read; None when somebody was faster.

        Raises ApiError when it cannot be told whether the write landed, too: then the answer to the user is no, and the
        claim that may have landed binds nobody for longer than claim.timeout.
        """
        metadata = mapping(held.lease.get("metadata"))
        kept = {
            key: value for key, value in mapping(metadata.get("annotations")).items() if key not in (SETTLED, CLAIM)
        }
        claims = memory.claims
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                **metadata,
                "name": LEASE_NAME,
                "namespace": self._namespace,
                "annotations": {**kept, **write_memory(memory)},
            },
            "spec": {
                **mapping(held.lease.get("spec")),
                "holderIdentity": holder(memory) or None,
                "renewTime": claims[-1].time.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if claims else None,
            },
        }
        method, path = ("PUT", self._path) if held.version else ("POST", self._collection)
        try:
            lease = self._connection.send("PUT" if method == "PUT" else "POST", path, body, timeout=timeout).object()
        except ApiError as error:
            if error.status in (_CONFLICT, _ABSENT):
                return None
            raise
        return Held(read_memory(lease, decides=True), lease)
