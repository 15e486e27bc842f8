"""Whether a user may do something, by the API server's own authorizers: SubjectAccessReview."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from webhook.cluster.connection import Connection, api_path
from webhook.cluster.errors import ApiError
from webhook.ownership.fields import at, mapping, text
from webhook.ownership.request import User

ACCESS_SECONDS = 2.0
"""How long one question may take."""


@dataclass(frozen=True, slots=True)
class Access:
    """What somebody may or may not do: `verb` on the `resource` of this API `group` and `name`."""

    verb: str
    group: str
    resource: str
    name: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}.{self.group} {self.name}"


class AccessReviews:
    """Asks one API server. Thread-safe: it keeps nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def obstacle(self, user: User, what: Access) -> str:
        """Return why `user` may not do `what`, as a sentence without its full stop; "" when it may.

        A question that cannot be answered is an obstacle, too.
        """
        asked = {
            "user": user.name,
            "groups": sorted(user.groups),
            "uid": user.uid,
            "extra": {key: list(values) for key, values in user.extra},
        }
        return self._obstacle("SubjectAccessReview", asked, what, user.name)

    def own_obstacle(self, what: Access) -> str:
        """Return the same of whose connection this is."""
        return self._obstacle("SelfSubjectAccessReview", {}, what, "you")

    def _obstacle(self, kind: str, asked: dict[str, Any], what: Access, who: str) -> str:
        api_version = "authorization.k8s.io/v1"
        review = {
            "apiVersion": api_version,
            "kind": kind,
            "spec": {**asked, "resourceAttributes": asdict(what)},
        }
        path = api_path("apis", *api_version.split("/"), kind.lower() + "s")
        try:
            answer = self._connection.send("POST", path, review, timeout=ACCESS_SECONDS).object()
        except ApiError as error:
            return f"whether {who} may {what} could not be asked: {error}"
        if at(answer, "status.allowed") is True and at(answer, "status.denied") is not True:
            return ""
        why = text(at(answer, "status.reason"))
        return f"{who} may not {what}" + (f" ({why[:200]})" if why else "")

    def own_name(self) -> str:
        """Return the name of the user whose connection this is. Raises ApiError."""
        return text(at(self._myself(), "username"))

    def own_reference(self) -> list[dict[str, Any]]:
        """Return the ownerReference to the ServiceAccount whose connection this is, none for other users.

        What the guard makes carries it, so that it goes with the chart. Raises ApiError.
        """
        myself = self._myself()
        prefix, _, account = text(myself.get("username")).rpartition(":")
        uid = text(myself.get("uid"))
        if not prefix.startswith("system:serviceaccount:") or not uid:
            return []
        return [{"apiVersion": "v1", "kind": "ServiceAccount", "name": account, "uid": uid}]

    def _myself(self) -> Mapping[str, Any]:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        path = api_path("apis", "authentication.k8s.io", "v1", "selfsubjectreviews")
        answer = self._connection.send("POST", path, review, timeout=ACCESS_SECONDS).object()
        return mapping(at(answer, "status.userInfo"))
