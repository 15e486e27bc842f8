"""The guarded products on a cluster: installed for a test, running beside it, and cleared away after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import yaml

from tests.products import aml_operator, hami_operator, helm_operator, npu_operator, samples
from tests.products.aml_operator import AmlOperator
from tests.products.api import Api, Object, path_of, path_to
from tests.products.hami_operator import HamiOperator
from tests.products.helm_operator import HelmOperator
from tests.products.kubelet import Kubelet, asks_for_npu
from tests.products.loop import Loop, Refusal
from tests.products.nodes import delete_node
from tests.products.npu_operator import NpuOperator
from tests.products.plugin import owner_of
from tests.waiting import eventually

AnyLoop = TypeVar("AnyLoop", bound=Loop)
_DAEMONSETS = path_of("apps/v1", "DaemonSet")
_NOBODY_IS_ASKED = "system:kube-controller-manager"
_MANIFESTS = Path(__file__).parent / "manifests"


@dataclass(frozen=True)
class Setup:
    """What is installed, and how it behaves. Times are in seconds."""

    npu_operator: bool = True
    hami: bool = True
    aml: bool = False
    policy_group: str = "npu.openfuyao.com"  # or openfuyao.com: DOMAIN.md section 3 has evidence for both
    native_namespace: str = "kube-system"  # or npu-operator
    hami_makes_runtime_class: bool = False
    counts: dict[str, str] = field(default_factory=lambda: {"native": "8", "hami": "32"})
    linger: float = 1.0  # a real kubelet keeps the key of a dead plugin's resource for 300
    reapply: float = 1.0
    period: float = 0.25


def manifests(name: str) -> list[Object]:
    """The objects of one file of `tests/products/manifests`, without its ending."""
    return list(yaml.safe_load_all((_MANIFESTS / f"{name}.yaml").read_text(encoding="utf-8")))


def crds(name: str, policy_group: str) -> Iterator[Object]:
    """The CRDs of one file, NPUClusterPolicy in this group."""
    for crd in manifests(name):
        if crd["spec"]["names"]["kind"] == "NPUClusterPolicy":
            crd["spec"]["group"] = policy_group
            crd["metadata"]["name"] = f"npuclusterpolicies.{policy_group}"
        yield crd


def _instances(crd: Object) -> str:
    return path_of(f"{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}", crd["spec"]["names"]["kind"])


class Products:
    """A context manager: installs on entering, stops and clears away on leaving.

    Attributes: `admin` (an `Api` with the kubeconfig's identity); the stand-ins `helm_operator`, `npu_operator`,
    `hami_operator`, `aml_operator`, `kubelet`, those that were chosen (AttributeError for the others).

    What a test makes in addition (nodes, and Pods that are on them or ask for NPUs) is cleared away too.
    Clearing away is done by force, as a system controller: no operator is asked, no admission stands in the way.
    """

    helm_operator: HelmOperator
    npu_operator: NpuOperator
    hami_operator: HamiOperator
    aml_operator: AmlOperator
    kubelet: Kubelet

    def __init__(self, kubeconfig: Path | str, setup: Setup | None = None) -> None:
        self.setup = setup or Setup()
        self.admin = Api.from_kubeconfig(kubeconfig)
        self._force = self.admin.impersonating(_NOBODY_IS_ASKED, "system:masters")
        self._kubeconfig = kubeconfig
        self._installed: list[Object] = []
        self.loops: list[Loop] = []

    def __enter__(self) -> Products:
        try:
            self._install()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for loop in self.loops:
                loop.switch_off()
                loop.stop()
        finally:
            self._clear_away()
        crashes = [f"{loop.identity}: {crash}" for loop in self.loops for crash in loop.crashes]
        if crashes:
            raise RuntimeError("a stand-in has a defect\n" + "\n".join(crashes))

    @property
    def refused(self) -> list[Refusal]:
        """Every request of a stand-in that was refused so far (each retry counts), in the order of the stand-ins."""
        return [refusal for loop in self.loops for refusal in loop.refused]

    def mindcluster(self) -> None:
        """Install MindCluster by hand: plain DaemonSets (910, and 310P system on a chip)."""
        self._apply(manifests("mindcluster"))

    def _install(self) -> None:
        setup = self.setup
        if setup.npu_operator or setup.aml:
            self._apply_crds("npu-operator-crds")
        if setup.hami:
            self._apply_crds("hami-crds")
        if setup.aml:
            self._apply_crds("aml-crds")
        self._apply(manifests("kubelet"))
        self.kubelet = self._begin(Kubelet(self.admin, setup.counts, setup.linger, setup.period))
        if setup.npu_operator:
            self._apply(manifests("npu-operator"))
            api = self._identity(helm_operator.IDENTITY)
            self.helm_operator = self._begin(HelmOperator(api, setup.policy_group, setup.period, setup.reapply))
            api = self._identity(npu_operator.IDENTITY)
            native = NpuOperator(api, setup.policy_group, setup.native_namespace, setup.period)
            self.npu_operator = self.kubelet.operators["native"] = self._begin(native)
        if setup.hami:
            self._apply(manifests("hami"))
            api = self._identity(hami_operator.IDENTITY)
            hami = HamiOperator(api, setup.hami_makes_runtime_class, setup.period)
            self.hami_operator = self.kubelet.operators["hami"] = self._begin(hami)
        if setup.aml:
            self._apply(manifests("aml"))
            api = self._identity(aml_operator.IDENTITY)
            self.aml_operator = self._begin(AmlOperator(api, samples.CTL, setup.period))

    def _begin(self, loop: AnyLoop) -> AnyLoop:
        self.loops.append(loop)
        loop.start()
        return loop

    def _identity(self, account: tuple[str, str]) -> Api:
        return Api.with_token(self._kubeconfig, self.admin.token(*account))

    def _apply(self, things: list[Object]) -> None:
        for thing in things:
            self._installed.append(thing)
            self.admin.apply(thing)

    def _apply_crds(self, name: str) -> None:
        found = list(crds(name, self.setup.policy_group))
        self._apply(found)
        paths = [_instances(crd) for crd in found]
        eventually(lambda: all(self.admin.get(path) for path in paths))

    def reset(self) -> None:
        """The products as freshly installed: faults off, custom resources, plugins, nodes and refusals gone."""
        self.kubelet.broken.clear()
        for loop in self.loops:
            loop.switch_off()
        eventually(lambda: not self._force_all_away())
        for loop in self.loops:
            loop.refused.clear()

    def _force_all_away(self) -> list[str]:
        """Delete what the products and their users made, and name what was found."""
        definitions = [thing for thing in self._installed if thing["kind"] == "CustomResourceDefinition"]
        found = [thing for crd in definitions for thing in self.admin.items(_instances(crd))]
        found += [ds for ds in self.admin.items(_DAEMONSETS) if owner_of(ds["spec"]["template"])]
        found += [pod for pod in self.admin.items("/api/v1/pods") if owner_of(pod) or asks_for_npu(pod)]
        for thing in found:
            self._force.force_away(thing)
        nodes = self.admin.items("/api/v1/nodes", labelSelector="accelerator")
        for node in nodes:
            delete_node(self._force, node["metadata"]["name"])
        runtime_class = self.admin.get(npu_operator.RUNTIME_CLASS)
        self._force.delete(npu_operator.RUNTIME_CLASS)
        return [path_to(thing) for thing in [*found, *nodes, *([runtime_class] if runtime_class else [])]]

    def _clear_away(self) -> None:
        eventually(lambda: not self._force_all_away())
        for thing in reversed(self._installed):
            self.admin.delete(path_to(thing))
        paths = [path_to(thing) for thing in self._installed]
        eventually(lambda: not any(self.admin.get(path) for path in paths), timeout=60)
