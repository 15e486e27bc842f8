"""A scenario's request, sent through the API server's own admission chain as the scenario's user."""

import re
from dataclasses import dataclass
from typing import Any

from tests.products.api import Answer, Api, Object
from tests.replay.stage import NotReplayableError, Stage, path_to
from webhook.cli.scenarios import Scenario

_SET_BY_THE_SERVER = ("uid", "resourceVersion", "deletionTimestamp", "creationTimestamp")
_BY_POLICY = "ValidatingAdmissionPolicy 'ascend-owner-guard-"
_RULE = re.compile(r"\[([a-z-]+)\]")


@dataclass(frozen=True)
class Reply:
    """What came back: whether it was admitted, which rules denied, which warned, and all that was said."""

    allowed: bool
    denying: tuple[str, ...]
    warning: tuple[str, ...]
    text: str
    code: int


class Replay:
    """Sends the request of one scenario against the stage that holds its cluster."""

    def __init__(self, admin: Api, stage: Stage) -> None:
        self._admin = admin
        self._stage = stage

    def send(self, scenario: Scenario, *, dry_run: bool) -> Reply:
        """Send the request. Raises NotReplayableError when the API server itself refuses it, or never asks."""
        request = scenario.request
        user = self._admin.impersonating(request.user.name, *sorted(request.user.groups), "system:masters")
        query = {"dryRun": "All"} if dry_run or request.dry_run else {}
        answer = self._call(user, scenario, query)
        reply = _reply(answer)
        if not reply.allowed and not reply.denying:
            raise NotReplayableError(f"the API server itself answers {answer.status}: {answer.message[:300]}")
        return reply

    def _call(self, user: Api, scenario: Scenario, query: dict[str, str]) -> Answer:
        request = scenario.request
        new = self._stage.mapped(dict(request.object)) if request.object is not None else None
        old = dict(request.old_object) if request.old_object is not None else None
        match (request.operation, request.sub_resource):
            case ("CREATE", ""):
                assert new is not None
                self._stage.account_for(new)
                return user.answer("POST", path_to(new, collection=True), _plain(new), **query)
            case ("CREATE", "binding" | "eviction" as sub):
                assert new is not None
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": new["metadata"]}
                return user.answer("POST", f"{path_to(pod)}/{sub}", _plain(new), **query)
            case ("UPDATE", sub):
                assert new is not None
                stored = self._present(old or new)
                body = {**(stored if _is_pod_metadata(new, sub) else _plain(new)), "metadata": _merged(stored, new)}
                path = path_to(new) + (f"/{sub}" if sub else "")
                return user.answer("PUT", path, body, **query)
            case ("DELETE", ""):
                assert old is not None
                self._present(old)
                return user.answer("DELETE", path_to(old), None, **query)
            case _:
                raise NotReplayableError(f"{request.operation} {request.sub_resource} is not sent by the replay")

    def _present(self, item: Object) -> Object:
        stored = self._stage.stored(item)
        return stored if stored is not None else self._stage.make(item)


def _is_pod_metadata(item: Object, sub_resource: str) -> bool:
    """Whether only a Pod's metadata may differ: the API server has filled its spec with defaults."""
    return item["kind"] == "Pod" and not sub_resource


def _plain(item: Object) -> Object:
    body = dict(item)
    body["metadata"] = {key: value for key, value in item["metadata"].items() if key not in _SET_BY_THE_SERVER}
    return body


def _merged(stored: Object, new: Object) -> dict[str, Any]:
    """The metadata of an update: the scenario's, on the object as it is stored."""
    kept = {key: stored["metadata"][key] for key in ("uid", "resourceVersion") if key in stored["metadata"]}
    held = [entry for entry in stored["metadata"].get("finalizers", ()) if entry == "tests/hold"]
    metadata = _plain(new)["metadata"]
    if held:
        metadata["finalizers"] = [*metadata.get("finalizers", ()), *held]
    return {**metadata, **kept}


def _reply(answer: Answer) -> Reply:
    said = answer.message if answer.status >= 300 else ""
    warnings = "\n".join(answer.warnings)
    ours = ("ascend-owner-guard.io" in said and "denied the request" in said) or _BY_POLICY in said
    return Reply(
        allowed=answer.status < 300,
        denying=tuple(dict.fromkeys(_RULE.findall(said))) if ours else (),
        warning=tuple(dict.fromkeys(_RULE.findall(warnings))),
        text=f"{said}\n{warnings}".replace('\\"', '"'),
        code=answer.status,
    )
