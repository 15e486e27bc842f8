"""Who can own the chips, and which object is whose device plugin (DOMAIN.md section 3).

Decided by structure, in DOMAIN's order: HAMi's component label or an ownerReference to its custom resource; a DRA
kubelet plugin that speaks of Ascend; openFuyao's vNPU plugin; native or MindCluster (a writable mount of the kubelet's
plugin folder, plus Pod label, image or name); else a foreign plugin that hands out Ascend resources. One that mounts
the kubelet's whole folder may be a DRA driver or not: the marks of the others tell, unless it says DRA.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache

from webhook.ownership.fields import at, items, mapping, mappings, text, texts
from webhook.ownership.makers import makers_of
from webhook.ownership.mounts import clean, host_mounts, host_paths
from webhook.ownership.request import Object
from webhook.ownership.settings import Resources, Settings
from webhook.ownership.templates import templates_in


class Owner(StrEnum):
    """An owner of Ascend NPUs, by the word that phases and messages use (DESIGN.md section 3)."""

    NATIVE = "native"
    HAMI = "hami"
    MINDCLUSTER = "mindcluster"
    VNPU = "vnpu"
    DRA = "dra"
    FOREIGN = "foreign"


HAMI_COMPONENT = "hami-ascend-device-plugin"
"""HAMi's value of the Pod label app.kubernetes.io/component (Project-HAMi/ascend-device-plugin)."""

NATIVE_NAME = "ascend-device-plugin"
NATIVE_POD_LABEL = "ascend-device-plugin-ds"
"""The native and MindCluster plugins' value of the Pod label `name` (Ascend/mind-cluster)."""

_COMPONENT = "app.kubernetes.io/component"
_NATIVE_KINDS = frozenset({"NPUClusterPolicy", "NPUOperatorCtl"})
_MIND_NAME = re.compile(r"^ascend-(device-plugin|manager)[0-9a-z]*(-.*)?$")
_MIND_IMAGES = ("ascend-k8sdeviceplugin", "ascend-manager")
_HAMI_IMAGE = re.compile(r"(^|/)(projecthami|hami-ascend)(/|:|$|-)")
_VNPU_NAME = re.compile(r"^npu-device-plugin(-.*)?$")
_DRA_EVIDENCE = re.compile(r"(^|[^a-z])(ascend|npu)([^a-z]|$)")
_DRA_WORD = re.compile(r"(^|[^a-z])dra([^a-z]|$)|kubelet-?plugin|npu\.huawei\.com|project-hami\.io")
_WILDCARD = re.compile(r"\[[^]]*\]|[*?]")
_POD_SUFFIX = re.compile(r"-[a-z0-9]{5}$")


def plugin_owner(workload: Object, settings: Settings) -> Owner | None:
    """Return whose device plugin `workload` is, by structure, or None when it is none.

    `workload` is a Pod, a DaemonSet, or any object with Pod templates: one of them is enough.
    """
    found = (_owner_of(workload, spec, metadata, settings) for spec, metadata in _pod_parts(workload))
    return next((owner for owner in found if owner is not None), None)


def plugin_spec(workload: Object, settings: Settings) -> Object:
    """Return the Pod spec that makes `workload` a device plugin, an empty one when it is none."""
    for spec, metadata in _pod_parts(workload):
        if _owner_of(workload, spec, metadata, settings) is not None:
            return spec
    return {}


def _owner_of(workload: Object, spec: Object, pod_metadata: Object, settings: Settings) -> Owner | None:
    mounts = frozenset(_kubelet_folders(spec, settings))
    if not mounts:
        return None
    labels = texts(pod_metadata.get("labels"))
    makers = makers_of(mapping(workload.get("metadata")), settings)
    sockets, name = "device-plugins" in mounts, _name(workload)
    if sockets and _is_hami(makers, labels, spec):
        return Owner.HAMI
    vnpu = sockets and _VNPU_NAME.match(name) is not None and _has_ascend_evidence(spec)
    native = sockets and _is_native_or_mindcluster(makers, name, labels, spec)
    # Agents mount the kubelet's whole folder, too: then it must say itself that it is a DRA driver.
    if "plugins_registry" in mounts and _speaks_of_npus(name, spec) and (not sockets or _says_dra(name, spec)):
        return Owner.DRA
    if vnpu:
        return Owner.VNPU
    if native:
        return Owner.NATIVE if name == NATIVE_NAME or makers & _NATIVE_KINDS else Owner.MINDCLUSTER
    return Owner.FOREIGN if sockets and _hands_out_npus(spec, settings) else None


def _pod_parts(workload: Object) -> Iterator[tuple[Object, Object]]:
    """Yield the Pod specs of an object, each with its metadata: of the Pod itself, or of its templates."""
    if workload.get("kind") == "Pod":
        yield mapping(workload.get("spec")), mapping(workload.get("metadata"))
        return
    for template in templates_in(workload):
        if not template.bare:
            yield template.spec, template.metadata


def _name(workload: Object) -> str:
    """The DaemonSet's name: for a Pod its controller's, else the name that its own was generated from."""
    metadata = mapping(workload.get("metadata"))
    if workload.get("kind") != "Pod":
        return text(metadata.get("name"))
    for reference in mappings(metadata.get("ownerReferences")):
        if reference.get("kind") == "DaemonSet" and text(reference.get("apiVersion")).startswith("apps/"):
            return text(reference.get("name"))
    generated = text(metadata.get("generateName")).removesuffix("-")
    return generated or _POD_SUFFIX.sub("", text(metadata.get("name")))


def _is_hami(makers: frozenset[str], labels: Mapping[str, str], spec: Object) -> bool:
    if labels.get(_COMPONENT) == HAMI_COMPONENT or "HAMiAscendDevicePlugin" in makers:
        return True
    if labels.get("name") == NATIVE_POD_LABEL:
        return False
    return spec.get("serviceAccountName") == "hami-ascend" or any(
        _HAMI_IMAGE.search(image) and "ascend" in image for image in _images(spec)
    )


def _is_native_or_mindcluster(makers: frozenset[str], name: str, labels: Mapping[str, str], spec: Object) -> bool:
    return (
        labels.get("name", "").lower() == NATIVE_POD_LABEL
        or _MIND_NAME.match(name) is not None
        or any(_image_name(image) in _MIND_IMAGES for image in _images(spec))
        or (bool(makers & _NATIVE_KINDS) and "device-plugin" in name)
    )


def _speaks_of_npus(name: str, spec: Object) -> bool:
    """Whether a kubelet plugin's names, images or paths say that it serves Ascend NPUs, and no other vendor's."""
    said = [name, text(spec.get("serviceAccountName")), *map(_image_name, _images(spec)), *_host_paths(spec)]
    if any("csi" in part for part in said):
        return False
    return any(_DRA_EVIDENCE.search(part.lower()) for part in said)


def _says_dra(name: str, spec: Object) -> bool:
    """Whether a plugin that mounts the kubelet's whole folder says that it is a DRA driver."""
    words = (word for container in _containers(spec) for word in _configured_words(container))
    said = (name, text(spec.get("serviceAccountName")), *map(_image_name, _images(spec)), *words)
    return any(_DRA_WORD.search(part.lower()) for part in said)


def _has_ascend_evidence(spec: Object) -> bool:
    paths = [path.lower() for path in _host_paths(spec)]
    return any("/ascend" in path or "npu-smi" in path or "davinci" in path for path in paths) or any(
        "npu" in image.lower() or "ascend" in image.lower() for image in _images(spec)
    )


def _hands_out_npus(spec: Object, settings: Settings) -> bool:
    """Whether a plugin of nobody we know says in its configuration that it serves davinci devices or Ascend
    resources."""
    said = _names_of_resources(settings.resources)
    for container in _containers(spec):
        for word in _configured_words(container):
            lower = word.lower()
            if "davinci" in lower or said.search(lower):
                return True
    return any("davinci" in path for path in _host_paths(spec)) or any(
        "ascend" in _image_name(image).lower() or "davinci" in image.lower() for image in _images(spec)
    )


@lru_cache(maxsize=8)
def _names_of_resources(resources: Resources) -> re.Pattern[str]:
    """Return what finds the beginning of an NPU resource's name in lower-case text: the first text of its glob."""
    found: set[str] = set()
    for glob in (*resources.native, *resources.hami, *resources.both, *resources.vnpu, *resources.other):
        first = next((part for part in _WILDCARD.split(glob.lower()) if part), "")
        if first:
            found.add((r"(?<![a-z0-9])" if glob.lower().startswith(first) else "") + re.escape(first))
    return re.compile("|".join(sorted(found)) or "(?!)")


def _configured_words(container: Object) -> Iterator[str]:
    for field in ("command", "args"):
        yield from (text(word) for word in items(container.get(field)))
    yield from (text(entry.get("value")) for entry in mappings(container.get("env")))


def _containers(spec: Object) -> Iterator[Object]:
    for field in ("containers", "initContainers"):
        yield from mappings(spec.get(field))


def _images(spec: Object) -> Iterator[str]:
    return (text(container.get("image")) for container in _containers(spec))


def _image_name(image: str) -> str:
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def _host_paths(spec: Object) -> Iterator[str]:
    return (text(at(volume, "hostPath.path")) for volume in mappings(spec.get("volumes")))


def _kubelet_folders(spec: Object, settings: Settings) -> Iterator[str]:
    """Yield `device-plugins` and `plugins_registry` for each that a container has mounted writable.

    The folder itself, one below it, or the kubelet's whole folder counts, however it is spelled and also when a subPath
    picks it out of a volume. Nothing higher: agents that mount `/` or `/var` are no plugins. A read-only mount is a
    monitoring agent's.
    """
    paths = host_paths(spec)
    kubelets = tuple(clean(path) for path in settings.kubelet_paths)
    for container in _containers(spec):
        for mount in host_mounts(container, paths):
            if mount.read_only:
                continue
            for folder in ("device-plugins", "plugins_registry"):
                if any(mount.path == path or mount.may_lead_to(f"{path.rstrip('/')}/{folder}") for path in kubelets):
                    yield folder
