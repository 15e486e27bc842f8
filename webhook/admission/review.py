"""AdmissionReview v1 in: bytes to a Request. Total: any bytes give a Request or a ReviewError, nothing else.

Read through a partial model, straight from the bytes: only what decides is looked at, so new fields of new API servers
do not matter. The object itself stays as it was decoded; nothing about its inside is taken for granted here.

Of keys that appear twice in one JSON object the last counts, as for everybody in Kubernetes: the API server has
decoded and encoded the object once more before it comes here, so a duplicate cannot mean one thing to it and another
to us. What strict JSON reading refuses but an API server may send (nesting thousands deep in a schemaless custom
resource, lone surrogates, numbers out of range) is read leniently instead of being refused: a refusal would make such
an object impossible to delete, and what decides is never that deep.
"""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from webhook.ownership.decoding import decode_leniently
from webhook.ownership.request import Operation, Request, User

MAX_BODY = 7 * 1024 * 1024
"""Bytes of the largest body that is read: an UPDATE carries an object twice, each at most 1.5 MiB in etcd."""

_API_VERSION = "admission.k8s.io/v1"


class ReviewError(Exception):
    """The body cannot be judged; `str()` is a sentence with the remedy, `status` the HTTP status of the answer."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")


class _Kind(_Part):
    group: str
    version: str
    kind: str


class _Resource(_Part):
    resource: str


class _UserInfo(_Part):
    username: str
    groups: tuple[str, ...] | None = None
    uid: str | None = None
    extra: dict[str, tuple[str, ...]] | None = None

    def user(self) -> User:
        return User(
            self.username, frozenset(self.groups or ()), self.uid or "", tuple(sorted((self.extra or {}).items()))
        )


class _Request(_Part):
    uid: str = Field(min_length=1, max_length=128)
    operation: Operation
    kind: _Kind
    resource: _Resource
    user_info: _UserInfo
    sub_resource: str | None = None
    namespace: str | None = None
    name: str | None = None
    dry_run: bool | None = None
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    options: dict[str, Any] | None = None


class _Review(_Part):
    api_version: str
    kind: str
    request: _Request


def check_content_type(content_type: str | None) -> None:
    """Raise ReviewError (415) unless the header says JSON."""
    if (content_type or "").partition(";")[0].strip().lower() != "application/json":
        raise ReviewError(415, "The content type must be application/json; send an AdmissionReview as JSON.")


def parse_strictly(body: bytes) -> Request | None:
    """Return the request of a well-formed review, else None: then `parse` knows more. This is the way of every Pod."""
    try:
        return _request(_Review.model_validate_json(body))
    except (ValidationError, ReviewError):
        return None


def parse(body: bytes) -> Request:
    """Return the request of a review. Raises ReviewError (400) with a sentence that names the field and the remedy."""
    try:
        return _request(_Review.model_validate_json(body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] != "json_invalid":
        raise ReviewError(400, _sentence(first))
    try:
        readable = json.dumps(decode_leniently(body), ensure_ascii=False).encode("utf-8", "replace")
        return _request(_Review.model_validate_json(readable))
    except ValidationError as error:
        raise ReviewError(400, _sentence(error.errors(include_url=False, include_input=False)[0])) from error
    except (ValueError, RecursionError) as error:
        reason = str(first["ctx"]["error"])[:200]
        raise ReviewError(400, f"The body is no JSON: {reason}. Send an AdmissionReview as JSON.") from error


def _request(review: _Review) -> Request:
    if review.kind != "AdmissionReview" or review.api_version != _API_VERSION:
        raise ReviewError(
            400,
            f"apiVersion and kind must be {_API_VERSION} and AdmissionReview; "
            "set admissionReviewVersions: [v1] in the webhook configuration.",
        )
    request = review.request
    return Request(
        uid=request.uid,
        operation=request.operation,
        group=request.kind.group,
        version=request.kind.version,
        kind=request.kind.kind,
        resource=request.resource.resource,
        user=request.user_info.user(),
        sub_resource=request.sub_resource or "",
        namespace=request.namespace or "",
        name=request.name or "",
        dry_run=request.dry_run or False,
        object=request.object,
        old_object=request.old_object,
        options=request.options,
    )


def _sentence(error: ErrorDetails) -> str:
    field = ".".join(str(part) for part in error["loc"]) or "The body"
    match error["type"]:
        case "missing":
            return f"{field} is missing; send a complete AdmissionReview of {_API_VERSION}."
        case "model_type" | "dict_type" | "model_attributes_type":
            return f"{field} must be a JSON object; send an AdmissionReview of {_API_VERSION}."
        case "literal_error":
            return f"{field} must be CREATE, UPDATE, DELETE or CONNECT; no other operation is known."
        case _:
            return f"{field}: {error['msg']}; send an AdmissionReview of {_API_VERSION}."
