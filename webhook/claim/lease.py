"""The Lease that the claim is swapped on: read, create, compare-and-swap by resourceVersion.

A Lease that somebody deleted is made anew: a creation is a compare-and-swap, too, and a replacement of what is gone is
refused, since it names the uid that it was read with.
"""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

from webhook.claim.course import LEASE_SECONDS, Failed, Held
from webhook.cluster.connection import Connection, api_path
from webhook.cluster.errors import ApiError
from webhook.ownership.fields import at, mapping, text
from webhook.ownership.memory import ANNOTATIONS, LEASE_NAME, Memory, holder, read_memory, write_memory

log = logging.getLogger(__name__)

_CONFLICT = 409
_ABSENT = 404
_GRANULARITY = timedelta(seconds=1)  # a Date header tells whole seconds


class Leases(Protocol):
    """Where the guard's Lease is kept."""

    def read(self, timeout: float = LEASE_SECONDS) -> Held | Failed:
        """Return the Lease, by a quorum read within `timeout` seconds."""

    def swap(self, held: Held, memory: Memory, timeout: float = LEASE_SECONDS) -> Held | Failed | None:
        """Write `memory` within `timeout` seconds if the Lease is still `held`; None when it is not.

        `Failed` tells that it is not known whether it was written.
        """


class LeaseStore:
    """The guard's Lease at one API server. Thread-safe: it keeps nothing."""

    def __init__(
        self, connection: Connection, namespace: str, owners: Callable[[], list[dict[str, Any]]] = list
    ) -> None:
        """`owners` gives the ownerReferences of a new Lease, so that it goes with the chart. It may raise ApiError."""
        self._connection = connection
        self._owners = owners
        self._namespace = namespace
        self._collection = api_path("apis", "coordination.k8s.io", "v1", "namespaces", namespace, "leases")
        self._path = f"{self._collection}/{LEASE_NAME}"

    def read(self, timeout: float = LEASE_SECONDS) -> Held | Failed:
        """See `Leases`."""
        try:
            lease = self._connection.get(self._path, timeout=timeout).object()
        except ApiError as error:
            if error.status != _ABSENT:
                return Failed(str(error))
            lease = {}
        return self._held(lease)

    def swap(self, held: Held, memory: Memory, timeout: float = LEASE_SECONDS) -> Held | Failed | None:
        """See `Leases`. What others have written into the object besides is kept."""
        claims = memory.claims
        metadata = mapping(held.lease.get("metadata"))
        others = {key: value for key, value in mapping(metadata.get("annotations")).items() if key not in ANNOTATIONS}
        annotations = {**others, **write_memory(memory)}
        body: dict[str, Any] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**metadata, "name": LEASE_NAME, "namespace": self._namespace, "annotations": annotations},
            "spec": {
                **mapping(held.lease.get("spec")),
                "holderIdentity": holder(memory) or None,
                "renewTime": claims[-1].time.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if claims else None,
            },
        }
        try:
            if held.version:
                answer = self._connection.send("PUT", self._path, body, timeout=timeout)
            else:
                body["metadata"]["ownerReferences"] = self._owners()
                answer = self._connection.send("POST", self._collection, body, timeout=timeout)
            return self._held(answer.object())
        except ApiError as error:
            if error.status in (_CONFLICT, _ABSENT):
                return None
            return Failed(str(error))

    def _held(self, lease: dict[str, Any]) -> Held:
        memory = read_memory(lease, decides=True) if lease else Memory(decides=True)
        now = self._connection.now()
        return Held(memory, text(at(lease, "metadata.resourceVersion")), now, now + _GRANULARITY, lease)
