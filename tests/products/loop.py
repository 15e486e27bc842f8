"""What every stand-in is: a reconcile loop under one identity, with faults and a record of refused writes."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import urllib3

from tests.products.api import Api, ApiError, Object

# Gone meanwhile, a lost race: a controller tries again and nobody is told.
_ORDINARY = frozenset({404, 409})
_LONGEST_PAUSE = 2.0


class Fault(Enum):
    """How a stand-in can misbehave: the ways in which a switch goes wrong (DOMAIN.md section 4, "Stop and return")."""

    HANGS = "it does nothing any more"
    POLICY_STAYS_TRUE = "the generated policy keeps managed: true"
    DAEMONSET_STAYS = "the DaemonSet is not deleted"
    NEVER_READY = "the plugin's Pods are on the nodes and crash as soon as they have started"
    POD_STAYS = "the kubelet does not end the plugin's Pods: they stay Terminating"
    ALLOCATABLE_STAYS = "the nodes' allocatable does not follow the plugins any more"
    WORKLOAD_FAILS = "a Pod that asks for an NPU fails on its node"


@dataclass(frozen=True)
class Refusal:
    """A request that was answered neither by success nor by an ordinary race: who, what, and the answer."""

    identity: str
    verb: str
    path: str
    status: int
    message: str


class Loop:
    """A stand-in that looks at its objects several times a second and brings each one on.

    `period` is in seconds; after refusals the pause doubles up to 2 s, as a controller's queue does. One object's
    refusal does not keep the others waiting.
    """

    possible: ClassVar[frozenset[Fault]] = frozenset({Fault.HANGS})

    def __init__(self, identity: str, api: Api, period: float = 0.25) -> None:
        self.identity = identity
        self.api = api
        self.refused: list[Refusal] = []
        self.crashes: list[str] = []
        self.faults: set[Fault] = set()
        self._period = period
        self._failures = 0
        self._pass = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=identity, daemon=True)

    def objects(self) -> Iterable[Object | None]:
        """What there is to reconcile in this pass."""
        raise NotImplementedError

    def reconcile(self, thing: Object | None) -> None:
        """Bring one object on. An `ApiError` ends this object's turn; it is recorded unless it is an ordinary race."""
        raise NotImplementedError

    def switch_on(self, fault: Fault) -> None:
        """From the return on the fault holds, and a pass has seen it. ValueError for another product's fault."""
        if fault not in self.possible:
            raise ValueError(f"{self.identity} cannot have the fault {fault.name}")
        with self._pass:
            self.faults.add(fault)
            self._turn()

    def switch_off(self, *faults: Fault) -> None:
        """Without arguments: every fault."""
        with self._pass:
            self.faults -= set(faults) or set(Fault)
            self._turn()

    def start(self) -> None:
        """Begin to run in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a request under way is finished first."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(min(_LONGEST_PAUSE, self._period * 2.0**self._failures)):
            with self._pass:
                self._turn()

    def _turn(self) -> None:
        if Fault.HANGS in self.faults:
            return
        things: list[Object | None] = []
        clean = self._try(lambda: things.extend(self.objects()))
        for thing in things:
            clean &= self._try(lambda thing=thing: self.reconcile(thing))  # type: ignore[misc]
        self._failures = 0 if clean else min(self._failures + 1, 10)

    def _try(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except ApiError as failure:
            if failure.status in _ORDINARY:
                return True
            self.refused.append(
                Refusal(self.identity, failure.verb, failure.path, failure.status, failure.message),
            )
            return False
        except urllib3.exceptions.HTTPError:
            return False
        except Exception:  # noqa: BLE001 - a defect must not end in silence: Products raises what is kept here
            self.crashes.append(traceback.format_exc())
            return False
        return True
