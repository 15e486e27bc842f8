"""Continuous load: NPU Pods in dry runs, from every API server, each answer counted."""

import threading
import time
from collections import Counter
from types import TracebackType
from typing import Self

from tests.controlplane.plane import ControlPlane
from tests.products import samples
from tests.products.api import Api


class Load:
    """A context manager: as long as it lasts, every API server is asked for an NPU Pod again and again.

    `answers` counts what came: `denied` by the guard, `allowed`, or the text of anything else.
    """

    def __init__(self, plane: ControlPlane, pause: float = 0.02, namespace: str = "default") -> None:
        """`pause` is the seconds between two requests of one of the two clients of each API server."""
        self.answers: Counter[str] = Counter()
        self._pause = pause
        self._pod = samples.workload("load", "huawei.com/Ascend910", namespace=namespace)
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._over = threading.Event()
        apis = [Api.from_kubeconfig(config) for config in plane.kubeconfigs for _ in range(2)]
        self._threads = [threading.Thread(target=self._ask, args=(api,), daemon=True) for api in apis]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=30)

    def _ask(self, api: Api) -> None:
        while not self._over.is_set():
            answer = api.answer("POST", self._path, self._pod, dryRun="All")
            if answer.status < 300:
                said = "allowed"
            elif answer.status == 403 and "[mid-switch]" in answer.message:
                said = "denied"
            else:
                said = f"{answer.status} {answer.message[:300]}"
            self.answers[said] += 1
            time.sleep(self._pause)
