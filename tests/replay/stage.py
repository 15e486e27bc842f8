"""A scenario's cluster, created object by object in a control plane without controllers.

Set up under identities that the shipped entries never ask about, so that the guard under test has no say in it: what
decides ownership as the controller manager, Pods and what is on nodes as a kubelet.
"""

import copy
from collections.abc import Iterable
from typing import Any

from tests.products.api import Api, ApiError, Object
from webhook.cli.requests import plural

_HOLD = "tests/hold"
_ORDER = {"Pod": 1, "MutatingWebhookConfiguration": 2}
_THERE_ALREADY = ("Namespace", "CustomResourceDefinition")
_CLUSTER_SCOPED = (
    "Node", "Namespace", "RuntimeClass", "NPUClusterPolicy", "AmlCluster", "DeviceClass", "ResourceSlice",
    "MutatingWebhookConfiguration", "CustomResourceDefinition",
)  # fmt: skip


class NotReplayableError(Exception):
    """What a scenario says cannot be made at an API server; the message is the reason."""


def path_to(item: Object, *, collection: bool = False) -> str:
    """The URL path of an object, or of the collection it belongs to."""
    version, kind, metadata = item["apiVersion"], item["kind"], item["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    inside = "" if kind in _CLUSTER_SCOPED else f"/namespaces/{metadata.get('namespace', 'default')}"
    path = f"{root}{inside}/{plural(kind)}"
    return path if collection else f"{path}/{metadata['name']}"


class Stage:
    """Creates the objects of one scenario after another, and clears them away."""

    def __init__(self, admin: Api) -> None:
        self._admin = admin
        self._controller = admin.impersonating("system:kube-controller-manager", "system:masters")
        self._kubelet = admin.impersonating("system:node:replay", "system:nodes", "system:masters")
        self._uids: dict[str, str] = {}
        self._made: list[Object] = []

    def build(self, items: Iterable[Object], controller: str) -> None:
        """Create `items`, owners before what they own, webhooks last.

        `controller` is a user that the entries never ask about. Raises NotReplayableError when the API server refuses
        an object.
        """
        self._controller = self._admin.impersonating(controller, "system:masters")
        for item in sorted(items, key=lambda item: _ORDER.get(item["kind"], 0)):
            self.make(item)

    def make(self, item: Object) -> Object:
        """Create one object with its status; one with a deletionTimestamp is deleted and held back."""
        wanted = self.mapped(item)
        metadata = wanted["metadata"]
        if wanted["kind"] not in _CLUSTER_SCOPED:
            metadata.setdefault("namespace", "default")
            self._namespace(metadata["namespace"], wanted)
        deleted = metadata.pop("deletionTimestamp", None)
        metadata.pop("resourceVersion", None)
        uid = metadata.pop("uid", None)
        metadata.pop("creationTimestamp", None)
        if deleted:
            metadata["finalizers"] = [*metadata.get("finalizers", ()), _HOLD]
        for webhook in wanted.get("webhooks", ()):
            webhook["failurePolicy"] = "Ignore"  # nobody answers for HAMi here
        status = wanted.pop("status", None)
        if wanted["kind"] in _THERE_ALREADY and (found := self.stored(wanted)) is not None:
            return found
        api = self._kubelet if wanted["kind"] in ("Pod", "Node") else self._controller
        try:
            stored = api.request("POST", path_to(wanted, collection=True), wanted)
        except ApiError as error:
            raise NotReplayableError(
                f"the API server refuses {wanted['kind']} {metadata['name']}: {error.message}"
            ) from error
        self._made.append(stored)
        if uid:
            self._uids[uid] = stored["metadata"]["uid"]
        if status:
            api.merge(path_to(stored) + "/status", {"status": status})
        if deleted:
            api.request("DELETE", path_to(stored), {"gracePeriodSeconds": 30} if wanted["kind"] == "Pod" else None)
        return stored

    def mapped(self, item: Object) -> Object:
        """Return a copy of `item` in which the scenario's uids are those of the objects that stand for them."""
        found = copy.deepcopy(item)
        for reference in found.get("metadata", {}).get("ownerReferences", ()):
            reference["uid"] = self._uids.get(reference.get("uid", ""), reference.get("uid") or "none")
        return found

    def stored(self, item: Object) -> Object | None:
        """Return the object as the API server holds it, None when it does not."""
        return self._admin.get(path_to(item))

    def clear(self) -> None:
        """Delete everything that was made, whatever holds it."""
        for item in reversed(self._made):
            api = self._kubelet if item["kind"] in ("Pod", "Node") else self._controller
            api.delete(path_to(item), gracePeriodSeconds=0)
            left = api.get(path_to(item))
            if left is not None and left["metadata"].get("finalizers"):
                api.merge(path_to(item), {"metadata": {"finalizers": None}})
        self._made.clear()
        self._uids.clear()

    def _namespace(self, name: str, item: Object) -> None:
        spec: Any = item.get("spec") if item["kind"] == "Pod" else None
        account = (spec or {}).get("serviceAccountName") or (spec or {}).get("serviceAccount") or "default"
        for thing in (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": name}},
        ):
            try:
                self._controller.request("POST", path_to(thing, collection=True), thing)
            except ApiError as error:
                if error.status != 409:
                    raise

    def forget(self, item: Object) -> None:
        """Have `item`, which a request made, cleared away too."""
        self._made.append(item)

    def account_for(self, item: Object) -> None:
        """Make the namespace and ServiceAccount that creating `item` needs."""
        if item["kind"] not in _CLUSTER_SCOPED:
            item["metadata"].setdefault("namespace", "default")
            self._namespace(item["metadata"]["namespace"], item)
