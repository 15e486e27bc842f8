"""Requests from manifests: what the API server would put around an object that somebody writes."""

from webhook.ownership.fields import mapping, text
from webhook.ownership.reading import group_of
from webhook.ownership.request import Object, Operation, Request, User

NO_UID = "00000000-0000-0000-0000-000000000000"


def request_for(
    operation: Operation,
    user: User,
    *,
    item: Object | None,
    old_item: Object | None,
    sub_resource: str = "",
    uid: str = NO_UID,
    dry_run: bool = False,
    options: Object | None = None,
) -> Request:
    """Return the request that writes `item` (or, for DELETE, removes `old_item`); the rest follows from the object."""
    subject = item if item is not None else old_item or {}
    metadata = mapping(subject.get("metadata"))
    kind = text(subject.get("kind"))
    of_pod = sub_resource in ("binding", "eviction")
    return Request(
        uid=uid,
        operation=operation,
        group="" if of_pod else group_of(subject),
        version=text(subject.get("apiVersion")).rpartition("/")[2],
        kind=kind,
        resource="pods" if of_pod else plural(kind),
        user=user,
        sub_resource=sub_resource,
        namespace=text(metadata.get("namespace")),
        name=text(metadata.get("name")),
        dry_run=dry_run,
        object=item,
        old_object=old_item,
        options=options,
    )


def plural(kind: str) -> str:
    """Return the resource name of a kind, by the rule that Kubernetes' own kinds follow."""
    lower = kind.lower()
    if lower.endswith("s"):
        return lower + "es"
    return lower[:-1] + "ies" if lower.endswith("y") else lower + "s"
