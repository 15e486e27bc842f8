"""What an administrator can configure about the domain (DESIGN.md section 12), as one frozen model.

Defaults are the facts of DOMAIN.md; what DOMAIN marks unknown is a key here. `webhook.configuration` reads the file
and the environment and adds the sections of the serving process.
"""

import re
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

Mode = Literal["enforce", "warn", "audit"]
PodPolicy = Literal["deny", "allow"]

_DURATION = re.compile(r"^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$")
_UNITS = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _duration(value: Any) -> Any:
    if isinstance(value, bool):  # pydantic reports ValueError, not TypeError
        raise ValueError(  # noqa: TRY004
            'a duration is a number of seconds or a text such as "3s" or "3m", not a boolean'
        )
    if isinstance(value, int | float):
        return timedelta(seconds=value)
    if isinstance(value, str):
        match = _DURATION.match(value.strip())
        if match is None:
            raise ValueError(f'{value!r} is no duration: write a number of seconds, or "500ms", "3s", "3m", "1h"')
        return timedelta(seconds=float(match.group(1)) * _UNITS[match.group(2)])
    return value


def _not_negative(value: timedelta) -> timedelta:
    if value < timedelta():
        raise ValueError("a duration must not be negative")
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration), AfterValidator(_not_negative)]


class Section(BaseModel):
    """One mapping of the configuration file: frozen, camelCase in the file, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Scope(Section):
    """How far an owner reaches: the whole cluster, or the nodes of its selector (DESIGN.md section 3)."""

    mode: Literal["cluster", "selectors"] = "cluster"


class RuleModes(Section):
    """The mode of each rule (DESIGN.md section 4)."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "-"))

    second_owner: Mode = "enforce"
    generated_object: Mode = "enforce"
    mid_switch: Mode = "enforce"
    workloads_running: Mode = "enforce"
    base_stack: Mode = "enforce"
    overlapping_maintenance: Mode = "enforce"
    placement: Mode = "enforce"
    node_relabel: Mode = "enforce"
    unaccounted_access: Mode = "warn"
    resource_mismatch: Mode = "warn"

    def of(self, rule: str) -> Mode:
        """Return the mode of the rule with id `rule` (with dashes)."""
        mode: Mode = getattr(self, rule.replace("-", "_"))
        return mode


class Unowned(Section):
    """What happens to NPU Pods while nobody owns the chips."""

    pods: PodPolicy = "deny"


class Unknown(Section):
    """What happens to NPU Pods while the facts are missing or too old."""

    pods: PodPolicy = "deny"


class Bindings(Section):
    """Whether the binding of a waiting NPU Pod is judged like its creation."""

    enabled: bool = True


_KUBE_SYSTEM = "system:serviceaccount:kube-system:"


class Identities(Section):
    """Exact user names that may do what others may not (DOMAIN.md section 7). Never prefixes."""

    native_operator: tuple[str, ...] = (
        "system:serviceaccount:npu-operator:npu-operator",
        "system:serviceaccount:npu-operator:npu-operator-controller-manager",
    )
    hami_operator: tuple[str, ...] = ()
    system_controllers: tuple[str, ...] = (
        _KUBE_SYSTEM + "daemon-set-controller",
        _KUBE_SYSTEM + "generic-garbage-collector",
        _KUBE_SYSTEM + "namespace-controller",
        _KUBE_SYSTEM + "pod-garbage-collector",
        _KUBE_SYSTEM + "taint-eviction-controller",
        _KUBE_SYSTEM + "node-controller",
        "system:kube-controller-manager",
    )
    infrastructure: tuple[str, ...] = (
        "npu-driver",
        "npu-driver-daemonset",
        "npu-rebooter",
        "npu-validator",
        "npu-exporter",
        "noded",
        "ascend-runtime-containerd",
    )


class Resources(Section):
    """Which extended resources are Ascend NPUs, and who serves them (DOMAIN.md section 5).

    Globs on the full name, letters of either case. The first list that matches decides, in the order
    ignored, native, hami, both, vnpu, other.
    """

    native: tuple[str, ...] = (
        "huawei.com/Ascend910",
        "huawei.com/Ascend310",
        "huawei.com/npu",
        "huawei.com/npu-core",
        "huawei.com/Ascend910-[0-9]*c*",
        "huawei.com/Ascend310P-[0-9]*c*",
        "huawei.com/Ascend310P-V",
        "huawei.com/Ascend310P-VPro",
        "huawei.com/Ascend310P-IPro",
    )
    hami: tuple[str, ...] = ("huawei.com/Ascend910[A-Z]*", "huawei.com/Ascend*-memory", "huawei.com/Ascend*-core")
    both: tuple[str, ...] = ("huawei.com/Ascend310P",)
    vnpu: tuple[str, ...] = ("huawei.com/vnpu-*",)
    other: tuple[str, ...] = ("huawei.com/ascend*", "npu.huawei.com/*")
    ignored: tuple[str, ...] = ("huawei.com/ub_rdma*", "huawei.com/vgpu-*")


class Kind(Section):
    """Where a product's kind is found: API groups and plural. The version is discovered."""

    groups: tuple[str, ...]
    plural: str


class HAMiKind(Kind):
    """HAMiAscendDevicePlugin; its field names are unknown (DOMAIN.md section 3), hence dotted paths."""

    node_selector: str = "spec.nodeSelector"
    driver_host_path: str = "spec.driverHostPath"


class Kinds(Section):
    """The products' custom resources."""

    npu_operator_ctl: Kind = Kind(groups=("npu-operator.alauda.io",), plural="npuoperatorctls")
    npu_cluster_policy: Kind = Kind(groups=("npu.openfuyao.com", "openfuyao.com"), plural="npuclusterpolicies")
    hami_ascend_device_plugin: HAMiKind = HAMiKind(groups=("hami.io",), plural="hamiascenddeviceplugins")
    aml_cluster: Kind = Kind(groups=("amlclusters.aml.dev",), plural="amlclusters")


class Freshness(Section):
    """How old what we know may be (DESIGN.md sections 6 and 7)."""

    max_age: Duration = timedelta(seconds=120)
    claim_poll: Duration = timedelta(seconds=1)
    claim_max_age: Duration = timedelta(seconds=3)
    landing: Duration = timedelta(seconds=2)


class ClaimSettings(Section):
    """The atomic claim (DESIGN.md section 6)."""

    timeout: Duration = timedelta(seconds=60)


class BreakGlass(Section):
    """Whether somebody with the right to may lift one rule for one write, and how long an annotation that was written
    counts for the deletion of its object by the same user."""

    enabled: bool = True
    window: Duration = timedelta(minutes=10)


class Settings(Section):
    """Everything that decides a verdict besides the request and the facts."""

    namespace: str = "ascend-owner-guard"
    scope: Scope = Scope()
    rules: RuleModes = RuleModes()
    unowned: Unowned = Unowned()
    unknown: Unknown = Unknown()
    bindings: Bindings = Bindings()
    adopt: bool = True
    identities: Identities = Identities()
    resources: Resources = Resources()
    markers: tuple[str, ...] = (
        "accelerator=huawei-*",
        "workerselector=dls-worker-node",
        "openfuyao.com/npu.present",
    )
    kubelet_paths: tuple[str, ...] = Field(default=("/var/lib/kubelet",), min_length=1)
    kinds: Kinds = Kinds()
    driver_paths: tuple[str, ...] = ("/var/lib/Ascend/driver",)
    freshness: Freshness = Freshness()
    claim: ClaimSettings = ClaimSettings()
    break_glass: BreakGlass = BreakGlass()
