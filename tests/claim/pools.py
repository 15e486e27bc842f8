"""Pools in the model: native serves one and HAMi comes to the other, while a node is on its way between them.

Stored is, besides: the pool of that node, and whether native's Pod is on it still. `placement` only watches, as in the
whole model, so that nothing but the Lease and the labels keeps the two apart.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.claim.explorer import Walk
from tests.claim.model import WRITTEN, Model, Protocol, Running, State, ViolationError
from tests.claim.world import (
    DIRECT,
    NONE,
    RELABELS,
    SETTINGS,
    SHARED,
    TIMEOUT,
    Picture,
    Rules,
    hami_plugin,
    operator_ctl,
    plugin,
    pool_node,
)
from webhook.ownership.memory import Memory
from webhook.ownership.owners import Owner
from webhook.ownership.request import Request
from webhook.ownership.settings import Settings

POOLS = Settings.model_validate({**SETTINGS.model_dump(by_alias=True), "scope": {"mode": "selectors"}})
LEFT = "Pod of native's plugin on n"
_DEPENDS = {DIRECT, SHARED, NONE}


class PoolRules(Rules):
    """The product's judgement where there are pools."""

    def __init__(self) -> None:
        super().__init__(POOLS)

    def objects(self, picture: Picture) -> list[dict[str, Any]]:
        """Native on its node `base`, HAMi's node `spare`, and the node `n` between them."""
        stored, _ = picture
        ctl = operator_ctl(True)
        ctl["spec"]["daemonsets"] = {"nodeSelector": {"pool": "direct"}}
        found = [ctl, pool_node("base", DIRECT), pool_node("spare", SHARED), pool_node("n", _pool(stored))]
        found += plugin(Owner.NATIVE, {"pool": "direct"}, "base", *(["n"] if LEFT in stored else []))
        found += [_hami()] if "hami" in stored else []
        ascend = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "ascend"}}
        return [*found, {**ascend, "handler": "ascend"}]

    def request(self, kind: str, uid: str) -> Request:
        """The review of such a request."""
        asked = super().request(kind, uid)
        return asked if kind in RELABELS else replace(asked, object=_hami())


def _hami() -> dict[str, Any]:
    hami = hami_plugin("hami")
    return {**hami, "spec": {**hami["spec"], "nodeSelector": {"pool": "shared"}}}


def _pool(stored: frozenset[str]) -> str:
    (pool,) = stored & _DEPENDS
    return pool


class PoolModel(Model):
    """The steps where there are pools: the node's writes land, and native's Pod leaves it."""

    def __init__(self, protocol: Protocol, first: Picture) -> None:
        super().__init__(protocol, first, PoolRules())

    def _others(self, state: State) -> Iterator[tuple[str, State]]:
        stored, rolled = state.picture
        if LEFT in stored and DIRECT not in stored:
            yield "native's Pod leaves n", replace(state, picture=(stored - {LEFT}, rolled))

    def _land(self, state: State, one: Running) -> Iterator[tuple[str, State]]:
        if one.kind not in RELABELS:
            yield from super()._land(state, one)
            return
        stored, rolled = state.picture
        before, after = RELABELS[one.kind]
        if state.written[_NODE] == one.seen:
            yield f"{one.kind} lands", self.stored(state, one, (stored - {before} | {after}, rolled))
            return
        # The node has changed since: the API server asks about the write once more, as one from what it is now.
        rest = replace(state, running=tuple(other for other in state.running if other is not one))
        kind = next((kind for kind, way in RELABELS.items() if way == (_pool(stored), after)), None)
        yield f"{one.kind} is judged anew", self._begun(rest, one.uid + "'", kind) if kind else rest

    def checked(self, state: State) -> State:
        """Return the state. Raises ViolationError where HAMi meets native's Pod."""
        if {"hami", SHARED, LEFT} <= state.picture[0]:
            raise ViolationError("a node under two owners")
        return state


_NODE = WRITTEN.index("node")


class PoolWalk(Walk):
    """The walk where there are pools."""

    def _rest(self, state: State) -> None:
        """Nothing is under way: HAMi may come, and the node change its pool, unless they would meet native's Pod."""
        later = replace(state, now=state.now + TIMEOUT)
        key = later.key()
        if key in self.rests:
            return
        self.rests.add(key)
        stored = later.picture[0]
        meets = LEFT in stored
        if "hami" not in stored and self._succeeds(later, "create") == (meets and SHARED in stored):
            raise ViolationError("HAMi comes to its pool: the answer is wrong")
        for kind, (before, after) in RELABELS.items():
            denied = after == SHARED and "hami" in stored and (meets or before == DIRECT)
            if before in stored and self._succeeds(later, kind) == denied:
                raise ViolationError(f"n goes from {kind}: the answer is wrong")


def explore_pools(pool: str, *requests: str, protocol: Protocol | None = None, faults: int = 1) -> PoolWalk:
    """Walk from where native has settled, its Pod is on n, and n is in `pool`. Raises ViolationError."""
    picture: Picture = (frozenset({pool, LEFT}), frozenset())
    memory = Memory(exists=True, settled=frozenset({Owner.NATIVE}), decides=True)
    named = tuple((f"{kind} {index}", kind) for index, kind in enumerate(requests))
    walk = PoolWalk(PoolModel(protocol or Protocol(), picture))
    walk.from_state(State(0, picture, (0,) * len(WRITTEN), memory, 1, (memory, 0), named, faults=faults))
    return walk
