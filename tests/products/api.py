"""Plain requests to an API server, under the identity that is wanted.

Objects are plain dicts, as the API server sends them. Every answer other than a success is an `ApiError`;
only reads of what does not exist answer `None` or an empty list.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes import client, config

_PLURALS = {
    "NPUClusterPolicy": "npuclusterpolicies",
    "RuntimeClass": "runtimeclasses",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}

Object = dict[str, Any]


class ApiError(Exception):
    """An answer that is no success: `status` is the HTTP code, `message` the API server's own text."""

    def __init__(self, verb: str, path: str, status: int, message: str) -> None:
        super().__init__(f"{verb} {path}: {status} {message}")
        self.verb = verb
        self.path = path
        self.status = status
        self.message = message


@dataclass(frozen=True)
class Answer:
    """An answer of the API server: HTTP status, body, and the warnings that came with it."""

    status: int
    data: bytes
    warnings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The API server's own text of an answer that is no success."""
        try:
            return str(json.loads(self.data)["message"])
        except (ValueError, KeyError, TypeError):
            return self.data.decode(errors="replace")


def path_of(api_version: str, kind: str, name: str = "", namespace: str = "") -> str:
    """The URL path of one object, of a namespace's collection, or (with neither) of the cluster's collection."""
    root = "/apis/" if "/" in api_version else "/api/"
    inside = f"/namespaces/{namespace}" if namespace else ""
    plural = _PLURALS.get(kind, kind.lower() + "s")
    return f"{root}{api_version}{inside}/{plural}" + (f"/{name}" if name else "")


def path_to(thing: Object) -> str:
    """The URL path of an object in hand."""
    meta = thing["metadata"]
    return path_of(thing["apiVersion"], thing["kind"], meta["name"], meta.get("namespace", ""))


def _configuration(kubeconfig: Path | str) -> client.Configuration:
    found = client.Configuration()
    config.load_kube_config(  # type: ignore[no-untyped-call]
        config_file=str(kubeconfig), client_configuration=found, persist_config=False
    )
    return found


class Api:
    """Requests under one identity. Safe to use from several threads."""

    def __init__(self, host: str, pool: urllib3.PoolManager, headers: dict[str, str]) -> None:
        self._host = host
        self._pool = pool
        self._headers = headers

    @classmethod
    def from_kubeconfig(cls, kubeconfig: Path | str) -> Api:
        """The identity that the kubeconfig holds."""
        connection = client.ApiClient(configuration=_configuration(kubeconfig))
        headers: dict[str, str] = {}
        connection.update_params_for_auth(headers, [], ["BearerToken"], "", "GET", None)
        return cls(connection.configuration.host, connection.rest_client.pool_manager, headers)

    @classmethod
    def with_token(cls, kubeconfig: Path | str, token: str) -> Api:
        """Whoever the token names, at the API server that the kubeconfig names; the credentials in it are unused."""
        admin = _configuration(kubeconfig)
        bare = client.Configuration(host=admin.host, ssl_ca_cert=admin.ssl_ca_cert)
        bare.verify_ssl = admin.verify_ssl
        pool = client.ApiClient(configuration=bare).rest_client.pool_manager
        return cls(admin.host, pool, {"authorization": f"Bearer {token}"})

    def impersonating(self, user: str, *groups: str) -> Api:
        """The same connection as another user. The API server adds `system:authenticated` by itself."""
        headers = urllib3.HTTPHeaderDict(self._headers)
        headers["Impersonate-User"] = user
        for group in groups:
            headers.add("Impersonate-Group", group)
        return Api(self._host, self._pool, headers)  # type: ignore[arg-type]

    def request(
        self, verb: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> Object:
        """One request with an object in its answer. Raises as `text` does."""
        return dict(json.loads(self.text(verb, path, body, content_type, **query)))

    def text(
        self, verb: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> bytes:
        """One request. Raises `ApiError` for an answer that is no success, urllib3's errors without an answer."""
        answer = self.answer(verb, path, body, content_type, **query)
        if answer.status >= 300:
            raise ApiError(verb, path, answer.status, answer.message)
        return answer.data

    def answer(
        self, verb: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> Answer:
        """One request, and whatever the API server says to it. Raises urllib3's errors without an answer."""
        headers = urllib3.HTTPHeaderDict(self._headers)
        if body is not None:
            headers["Content-Type"] = content_type
        for patience in range(20, -1, -1):
            answer = self._pool.request(
                verb,
                self._host + path + (f"?{urlencode(query)}" if query else ""),
                body=None if body is None else json.dumps(body),
                headers=headers,
                timeout=urllib3.Timeout(connect=5, read=35),
                retries=False,
            )
            if answer.status != 429 or not patience:
                break
            time.sleep(0.25)  # not begun: "storage is (re)initializing" right after a CRD was created
        return Answer(answer.status, bytes(answer.data), tuple(answer.headers.getlist("Warning")))

    def get(self, path: str) -> Object | None:
        """The object as stored, or None when there is none (or its kind is not installed)."""
        try:
            return self.request("GET", path)
        except ApiError as failure:
            if failure.status == 404:
                return None
            raise

    def items(self, path: str, **query: str) -> list[Object]:
        """The collection, each item with apiVersion and kind; empty when not installed.

        It comes from the API server's cache; `resourceVersion=""` asks for what is stored at this moment.
        """
        try:
            answer = self.request("GET", path, **{"resourceVersion": "0"} | query)
        except ApiError as failure:
            if failure.status == 404:
                return []
            raise
        kind = str(answer["kind"]).removesuffix("List")
        return [{"apiVersion": answer["apiVersion"], "kind": kind} | item for item in answer["items"]]

    def create(self, thing: Object) -> Object:
        """CREATE the object."""
        return self.request("POST", path_to(thing).rpartition("/")[0], thing)

    def replace(self, thing: Object) -> Object:
        """UPDATE the whole object (a resourceVersion in it makes a conflict answer 409)."""
        return self.request("PUT", path_to(thing), thing)

    def merge(self, path: str, patch: Object) -> Object:
        """UPDATE by a JSON merge patch; end the path with `/status` for that subresource."""
        return self.request("PATCH", path, patch, "application/merge-patch+json")

    def apply(self, thing: Object) -> Object:
        """CREATE or UPDATE by server-side apply, taking over every field that the object names."""
        content = "application/apply-patch+yaml"
        return self.request("PATCH", path_to(thing), thing, content, fieldManager="products", force="true")

    def delete(self, path: str, **options: Any) -> None:
        """DELETE with DeleteOptions such as `gracePeriodSeconds=0`. What is gone already is no failure."""
        try:
            self.request("DELETE", path, options or None)
        except ApiError as failure:
            if failure.status != 404:
                raise

    def token(self, namespace: str, service_account: str) -> str:
        """A token of an existing ServiceAccount, valid for an hour."""
        path = path_of("v1", "ServiceAccount", service_account, namespace) + "/token"
        return str(self.request("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"])

    def force_away(self, thing: Object) -> None:
        """Delete an object with its finalizers, at once, whoever would have to clean up after it."""
        path = path_to(thing)
        self.delete(path, gracePeriodSeconds=0, propagationPolicy="Background")
        left = self.get(path)
        if left is not None and left["metadata"].get("finalizers"):
            try:
                self.merge(path, {"metadata": {"finalizers": None}})
            except ApiError as failure:
                if failure.status != 404:
                    raise
