"""Whether a user may do something, by the API server's own authorizers: SubjectAccessReview."""

from typing import Any

from webhook.cluster.connection import Connection, api_path
from webhook.cluster.errors import ApiError
from webhook.ownership.fields import at, text
from webhook.ownership.request import User

ACCESS_SECONDS = 2.0
"""How long one question may take."""


class AccessReviews:
    """Asks one API server. Thread-safe: it keeps nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._path = api_path("apis", "authorization.k8s.io", "v1", "subjectaccessreviews")

    def obstacle(self, user: User, verb: str, group: str, resource: str, name: str) -> str:
        """Return why `user` may not `verb` this object, as a sentence without its full stop; "" when it may.

        A question that cannot be answered is an obstacle, too.
        """
        review: dict[str, Any] = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.name,
                "groups": sorted(user.groups),
                "uid": user.uid,
                "extra": {key: list(values) for key, values in user.extra},
                "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "name": name},
            },
        }
        try:
            answer = self._connection.send("POST", self._path, review, timeout=ACCESS_SECONDS).object()
        except ApiError as error:
            return f"whether {user.name} may {verb} {resource}.{group} {name} could not be asked: {error}"
        if at(answer, "status.allowed") is True and at(answer, "status.denied") is not True:
            return ""
        why = text(at(answer, "status.reason"))
        return f"{user.name} may not {verb} {resource}.{group} {name}" + (f" ({why[:200]})" if why else "")
