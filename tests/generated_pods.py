"""Pods that an API server accepts, generated: every way to reach an NPU, every way to be a plugin, and their likes."""

from typing import Any

from hypothesis import strategies as st

Object = dict[str, Any]
Names = st.SearchStrategy[str]

_PLUGIN_FOLDERS = (
    "/var/lib/kubelet/device-plugins", "/var/lib/kubelet/device-plugins/x.sock", "/var/lib/kubelet",
    "/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins_registry/npu",
)  # fmt: skip
_FOLDERS = (
    *_PLUGIN_FOLDERS, "/", "/dev", "/dev/davinci0", "/dev/vdavinci100", "/dev/davinci_manager", "/dev/devmm_svm",
    "/dev/hisi_hdc", "/dev/davinci-look-alike", "/dev/shm", "/usr/local", "/usr/local/Ascend",
    "/usr/local/Ascend/driver/lib64", "/var/lib/Ascend/driver", "/var", "/var/lib", "/var/lib/kubelet/pods",
    "/var/lib/kubelet/pod-resources", "/etc/cni/net.d", "/data",
)  # fmt: skip
_BELOW = {
    # what may be picked by subPath out of a folder; of any other, "other"
    "/": ("dev", "dev/davinci1", "./dev//hisi_hdc", "usr/local/Ascend/driver", "var/lib/kubelet/device-plugins"),
    "/dev": ("davinci0", "./vdavinci2", "devmm_svm", "shm", "."),
    "/usr/local": ("Ascend", "Ascend/driver", "bin"),
    "/usr/local/Ascend": ("driver", "driver/lib64", "log"),
    "/var": ("lib/Ascend/driver", "lib/kubelet", "lib/kubelet//plugins_registry", "log"),
    "/var/lib": ("Ascend/driver/", "kubelet", "kubelet/device-plugins", "kubelet/./device-plugins/x", "docker"),
    "/var/lib/kubelet": ("device-plugins", "./plugins_registry", "pods", "."),
    "/var/lib/kubelet/device-plugins": ("x", "."),
}
_RESOURCES = (
    "huawei.com/Ascend910", "huawei.com/ascend910", "huawei.com/ASCEND310P", "huawei.com/npu", "huawei.com/npu-core",
    "huawei.com/Ascend910-16c", "huawei.com/Ascend310P-4c.3cpu", "huawei.com/Ascend310P-VPro", "huawei.com/Ascend910B4",
    "huawei.com/Ascend910B4-memory", "huawei.com/vnpu-cores", "huawei.com/ascend-1980", "npu.huawei.com/NPU",
    "huawei.com/ub_rdma", "huawei.com/vgpu-1", "nvidia.com/gpu", "not-huawei.com/Ascend910", "huawei.com.evil.io/npu",
)  # fmt: skip
_QUANTITIES = ("0", "1", "8", "1k", "1e0", "2000m")
_VALUES = ("", " ", "void", "VOID ", "0", "0,2", "0-3", "Ascend910-0", " 1", "\t", "npu-0")
_WORDS = (
    "serve", "--resource=huawei.com/Ascend910", "--devices=/dev/davinci*", "npu.huawei.com/NPU", "--input",
    "nvidia.com/gpu",
)  # fmt: skip
_IMAGES = (
    "example/any:1", "ascend-k8sdeviceplugin:v26", "registry.example:5000/x/ascend-manager@sha256:" + "a" * 64,
    "projecthami/ascend-device-plugin:v1", "example/npu-device-plugin", "example/davinci:2", "example/csi-driver:1",
)  # fmt: skip
_NAMES = (
    "any", "any", "ascend-device-plugin", "ascend-device-plugin-daemonset-910", "ascend-manager",
    "npu-dra-kubeletplugin", "hami-ascend-device-plugin", "npu-device-plugin-daemonset", "csi-node", "input-agent",
)  # fmt: skip
_LABELS: tuple[Object | None, ...] = (
    None, None, None, {}, {"app": "any"}, {"name": "ascend-device-plugin-ds"}, {"name": "Ascend-Device-Plugin-DS"},
    {"app.kubernetes.io/component": "hami-ascend-device-plugin"}, {"hami.io/webhook": "ignore"},
)  # fmt: skip
ACCOUNTS = ("default", "hami-ascend", "ascend-device-plugin-sa", "npu-dra")
_OWNERS: tuple[Object | None, ...] = (
    None,
    None,
    None,
    {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ascend-device-plugin", "uid": "u1", "controller": True},
    {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "any", "uid": "u1", "controller": True},
    {"apiVersion": "hami.io/v1alpha1", "kind": "HAMiAscendDevicePlugin", "name": "any", "uid": "u1"},
    {"apiVersion": "npu.openfuyao.com/v1", "kind": "NPUClusterPolicy", "name": "cluster", "uid": "u1"},
)


@st.composite
def _spelled(draw: st.DrawFn, path: str) -> str:
    """The same path, written in another way that the API server lets pass."""
    separator = draw(st.sampled_from(("/", "/", "/", "//", "/./")))
    return path.replace("/", separator) + draw(st.sampled_from(("", "", "/", "/.")))


def _below(folder: str) -> st.SearchStrategy[str]:
    return st.sampled_from(_BELOW.get(folder, ("other",)))


@st.composite
def _part_of(draw: st.DrawFn, folder: str) -> Object:
    """What a mount picks out of its volume: all of it, a path, or a path with variables in it."""
    match draw(st.integers(0, 5)):
        case 0 | 1:
            return {"subPath": draw(_below(folder))}
        case 2:
            literal = draw(st.sampled_from(("", "davinci", "Ascend/", "kubelet/", "device-plug", "other-")))
            return {"subPathExpr": literal + draw(st.sampled_from(("", "$(ANY)", "$(ANY)/x")))}
        case 3:
            return {"subPathExpr": draw(_below(folder))}
        case _:
            return {}


@st.composite
def _container(draw: st.DrawFn, name: str, folders: list[str]) -> Object:
    """`folders` are those of the volumes v0, v1, …, "" where one is none of the host's."""
    container: Object = {"name": name, "image": draw(st.sampled_from(_IMAGES))}
    if draw(st.booleans()):
        asked = draw(st.dictionaries(st.sampled_from(_RESOURCES), st.sampled_from(_QUANTITIES), max_size=2))
        container["resources"] = {"limits": asked}
        if draw(st.booleans()):
            container["resources"]["requests"] = dict(asked)
    if draw(st.booleans()):
        container["env"] = draw(st.lists(_variable(), max_size=3))
    mounts: list[int] = draw(st.lists(st.integers(0, len(folders) - 1), max_size=2)) if folders else []
    empty: bool = draw(st.booleans())
    if mounts or empty:
        container["volumeMounts"] = [
            {
                "name": f"v{volume}",
                "mountPath": f"/mnt/{position}",
                **draw(_part_of(folders[volume])),
                **({"readOnly": True} if draw(st.integers(0, 3)) == 0 else {}),
            }
            for position, volume in enumerate(mounts)
        ]
    if draw(st.integers(0, 2)) == 0:
        container[draw(st.sampled_from(("command", "args")))] = draw(st.lists(st.sampled_from(_WORDS), max_size=2))
    if draw(st.integers(0, 3)) == 0:
        container["securityContext"] = {"privileged": True}
    return container


@st.composite
def _variable(draw: st.DrawFn) -> Object:
    name = draw(st.sampled_from(("ASCEND_VISIBLE_DEVICES", "ASCEND_VNPU_SPECS", "ASCEND_RT_VISIBLE_DEVICES", "PATH")))
    match draw(st.integers(0, 5)):
        case 0:
            path = "metadata.annotations['huawei.com/Ascend910']"
            return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        case 1:
            return {"name": name, "valueFrom": {"configMapKeyRef": {"name": "any", "key": "ids"}}}
        case 2:
            return {"name": name}
        case _:
            return {"name": name, "value": draw(st.sampled_from((*_VALUES, *_WORDS)))}


@st.composite
def pods(draw: st.DrawFn, plugin: bool = False) -> Object:
    """A Pod without a namespace. Optional fields are absent, empty or filled. A `plugin` has a kubelet's folder."""
    folders = draw(st.lists(st.sampled_from(_FOLDERS), max_size=3))
    if plugin:
        folders.insert(0, draw(st.sampled_from(_PLUGIN_FOLDERS)))
    volumes: list[Object] = [
        {"name": f"v{index}", "hostPath": {"path": draw(_spelled(folder))}} for index, folder in enumerate(folders)
    ]
    if draw(st.integers(0, 3)) == 0:
        volumes.append({"name": f"v{len(volumes)}", "emptyDir": {}})
        folders.append("")
    spec: Object = {
        "containers": [draw(_container(f"c{index}", folders)) for index in range(draw(st.sampled_from((1, 1, 2))))]
    }
    if plugin:
        mounts = spec["containers"][0].setdefault("volumeMounts", [])
        mounts.append({"name": "v0", "mountPath": "/mnt/plugin"})
    empty: bool = draw(st.booleans())
    if volumes or empty:
        spec["volumes"] = volumes
    if draw(st.integers(0, 2)) == 0:
        spec["initContainers"] = [draw(_container("i0", folders))]
        if draw(st.booleans()):
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if draw(st.integers(0, 2)) == 0:
        spec["serviceAccountName"] = draw(st.sampled_from(ACCOUNTS))
    if draw(st.integers(0, 4)) == 0:
        spec["runtimeClassName"] = "ascend"
    if draw(st.integers(0, 6)) == 0:
        kind = draw(st.sampled_from(("resourceClaimName", "resourceClaimTemplateName")))
        spec["resourceClaims"] = draw(st.sampled_from(([], [{"name": "npu", kind: "any"}])))
    name = draw(st.sampled_from(_NAMES))
    metadata: Object = draw(st.sampled_from(({"name": name + "-x7k2p"}, {"generateName": name + "-"})))
    metadata = dict(metadata)
    if (labels := draw(st.sampled_from(_LABELS))) is not None:
        metadata["labels"] = dict(labels)
    if (owner := draw(st.sampled_from(_OWNERS))) is not None:
        metadata["ownerReferences"] = [dict(owner)]
    if draw(st.integers(0, 5)) == 0:
        metadata["annotations"] = {"operator-sdk/primary-resource-type": "NPUOperatorCtl.npu-operator.alauda.io"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def workload_of(pod: Object, kind: str) -> Object:
    """A DaemonSet or Deployment whose Pods look like this one, and whose own metadata are the Pod's."""
    metadata = dict(pod["metadata"])
    name = metadata.pop("generateName", "") or metadata["name"]
    metadata["name"] = name.removesuffix("-x7k2p").removesuffix("-")
    labels = {**metadata.get("labels", {}), "select": "these"}
    spec = {"selector": {"matchLabels": {"select": "these"}}}
    template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {**spec, "template": template}}
