"""The entries' matchConditions, held to the recogniser at a real API server: what it sees, they send.

Loose the other way round, but for what must go on when no replica answers (test_guard_down).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from tests.controlplane.plane import ControlPlane
from tests.generated_pods import ACCOUNTS, pods, workload_of
from tests.guard.entries import NAMESPACE, PODS, SUFFIX, entries, entries_alone, pod, send
from tests.guard.installed import CHART, NAME
from tests.guard.installed import NAMESPACE as GUARD_NAMESPACE
from tests.products.api import Api
from tests.waiting import eventually
from webhook.ownership.owners import Owner, plugin_owner
from webhook.ownership.settings import Settings
from webhook.ownership.templates import templates_in
from webhook.ownership.workload import access_of

pytestmark = pytest.mark.integration

Object = dict[str, Any]

CORPUS = Path(__file__).parents[1] / "corpus"
SETTINGS = Settings()
ANY = pods() | pods(plugin=True)
FIXED = settings(
    max_examples=400, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
CHIPS = ("davinci", "devmm_svm", "hisi_hdc")


@pytest.fixture(scope="module")
def installed() -> Iterator[tuple[ControlPlane, Api]]:
    with entries_alone({*ACCOUNTS, *_accounts()}) as found:
        yield found


@pytest.fixture(scope="module")
def admin(installed: tuple[ControlPlane, Api]) -> Api:
    return installed[1]


def wanted(item: Object) -> tuple[set[str], set[str]]:
    """By the recogniser: entries that a Pod must meet, and entries of which it must meet one."""
    access = access_of(item["spec"], item["metadata"], SETTINGS)
    ways = {path.way for path in access.paths}
    chip = any(path.way == "device" and any(word in path.what for word in CHIPS) for path in access.paths)
    strong = bool(ways & {"resource", "env"}) or chip or plugin_owner(item, SETTINGS) is not None
    weak = bool(access.paths) or bool(access.claims)
    return ({"pods"} if strong else set()), ({"pods", "weak-pods"} if weak else set())


def assert_sent(api: Api, item: Object) -> None:
    must, either = wanted(item)
    met = entries(send(api, item))
    assert must <= met, f"the recogniser sees {must}, sent to {met}: {item}"
    assert not either or met & either, f"the recogniser sees an NPU, sent to {met}: {item}"
    assert not {"pods", "weak-pods"} <= met, f"asked twice: {item}"


def _documents() -> Iterator[tuple[Path, Object]]:
    for file in sorted(CORPUS.rglob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            inner = document["items"] if document["kind"] == "List" else [document]
            yield from ((file, item) for item in inner)


def _corpus_pods() -> Iterator[tuple[Path, Object]]:
    """Every Pod of the corpus, and a Pod of every template: as a controller names it, with what admission needs."""
    for file, item in _documents():
        if item["kind"] == "Pod":
            yield file, _accepted(item["metadata"], item["spec"])
            continue
        for template in templates_in(item):
            if not template.bare:
                name = {"generateName": item["metadata"]["name"] + "-"}
                yield file, _accepted({**template.metadata, **name}, template.spec)


def _accepted(metadata: Any, spec: Any) -> Object:
    """The Pod without what only an existing one has, and without what this cluster lacks."""
    kept = {key: value for key, value in metadata.items() if key not in ("namespace", "deletionTimestamp")}
    left_out = ("priorityClassName", "ephemeralContainers")
    plain = {key: value for key, value in spec.items() if key not in left_out}
    for container in (*plain["containers"], *plain.get("initContainers", [])):
        container.setdefault("image", "example/any:1")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": plain}


def _accounts() -> set[str]:
    specs = [item["spec"] for _, item in _corpus_pods()]
    return {spec["serviceAccountName"] for spec in specs if spec.get("serviceAccountName")}


def _named(value: object) -> str:
    return value.stem if isinstance(value, Path) else ""


@pytest.mark.parametrize("file, item", list(_corpus_pods()), ids=_named)
def test_a_pod_of_the_corpus_meets_an_entry_where_the_recogniser_sees_an_npu(
    admin: Api, file: Path, item: Object
) -> None:
    if "# apiserver: rejects" in file.read_text(encoding="utf-8"):
        assert admin.answer("POST", PODS, item, dryRun="All").status == 422
    else:
        assert_sent(admin, item)


def test_a_plugin_of_the_corpus_meets_an_entry_that_fails_closed(admin: Api) -> None:
    seen = set()
    for _, item in _documents():
        if item["kind"] == "DaemonSet" and item["apiVersion"] == "apps/v1":
            owner = plugin_owner(item, SETTINGS)
            met = entries(send(admin, {**item, "metadata": {**item["metadata"], "namespace": NAMESPACE}}))
            assert owner is None or "plugins" in met, item
            seen.add(owner)
    assert seen >= {None, Owner.NATIVE, Owner.MINDCLUSTER, Owner.HAMI, Owner.VNPU, Owner.DRA}


@given(item=ANY)
@FIXED
def test_a_generated_pod_meets_an_entry_where_the_recogniser_sees_an_npu(admin: Api, item: Object) -> None:
    assert_sent(admin, item)


@given(item=ANY)
@FIXED
def test_a_generated_plugin_meets_an_entry_that_fails_closed(admin: Api, item: Object) -> None:
    for kind in ("DaemonSet", "Deployment"):
        workload = workload_of(item, kind)
        met = entries(send(admin, workload))
        assert plugin_owner(workload, SETTINGS) is None or "plugins" in met, workload


@pytest.mark.parametrize("group", ["containers", "initContainers", "a restartable one"])
@pytest.mark.parametrize(
    "folder, container",
    [
        ("", {"resources": {"limits": {"huawei.com/Ascend910": "1"}}}),
        ("", {"resources": {"limits": {"npu.huawei.com/NPU": "1"}, "requests": {"npu.huawei.com/NPU": "1"}}}),
        ("", {"env": [{"name": "PATH", "value": ""}, {"name": "ASCEND_VISIBLE_DEVICES", "value": "0"}]}),
        ("", {"env": [{"name": "ASCEND_VNPU_SPECS", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
        ("/dev/davinci7", {"volumeMounts": [{"name": "v", "mountPath": "/mnt"}]}),
        ("/.//dev/./vdavinci100/", {"volumeMounts": [{"name": "v", "mountPath": "/mnt"}]}),
        ("/dev", {"volumeMounts": [{"name": "v", "mountPath": "/mnt", "subPath": "davinci0"}]}),
        ("/", {"volumeMounts": [{"name": "v", "mountPath": "/mnt", "subPath": "dev/hisi_hdc"}]}),
    ],
    ids=["limits", "requests", "ids", "a key", "a chip", "a chip spelled otherwise", "out of /dev", "out of /"],
)
def test_strong_evidence_in_any_container_meets_an_entry_that_fails_closed(
    admin: Api, group: str, folder: str, container: Object
) -> None:
    item = pod(container, volumes=[{"name": "v", "hostPath": {"path": folder}}] if folder else [])
    if group != "containers":
        item["spec"]["initContainers"] = item["spec"]["containers"]
        item["spec"]["containers"] = [{"name": "main", "image": "example/any:1"}]
    if group == "a restartable one":
        item["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    assert entries(send(admin, item)) == {"pods"}


def test_the_generated_pods_are_worth_the_trouble() -> None:
    """Plugins of every owner, every way to an NPU, and Pods that are neither, are among them."""
    seen: set[str] = set()

    @given(item=ANY)
    @settings(FIXED, max_examples=2000)
    def look(item: Object) -> None:
        owner = plugin_owner(item, SETTINGS)
        ways = {path.way for path in access_of(item["spec"], item["metadata"], SETTINGS).paths}
        seen.update(ways or {"nothing"}, {str(owner)})

    look()
    assert seen >= {"resource", "env", "device", "shape", "nothing", "None", *Owner}


@pytest.mark.parametrize(
    "folder, added, entry",
    [
        ("/data", {"env": [{"name": "ASCEND_VISIBLE_DEVICES", "value": "0"}]}, {"pods"}),
        ("/dev/davinci0", {"volumeMounts": [{"name": "v", "mountPath": "/dev/davinci0"}]}, {"pods"}),
        ("/dev", {"volumeMounts": [{"name": "v", "mountPath": "/dev"}]}, {"weak-pods"}),
        ("/data", {"volumeMounts": [{"name": "v", "mountPath": "/data"}]}, set()),
    ],
    ids=["ids", "chip", "all devices", "nothing"],
)
def test_an_ephemeral_container_is_sent_as_a_pod_would_be(
    admin: Api, folder: str, added: Object, entry: set[str]
) -> None:
    stored = pod(volumes=[{"name": "v", "hostPath": {"path": folder}}])
    stored["metadata"] = {"name": "debugged", "namespace": NAMESPACE}
    admin.create(stored)
    body = {"name": "debugger", "image": "example/sh:1", **added}
    patch = {"spec": {"ephemeralContainers": [body]}}
    strategic = "application/strategic-merge-patch+json"
    answer = admin.answer("PATCH", f"{PODS}/debugged/ephemeralcontainers", patch, strategic, dryRun="All")
    admin.force_away(stored)
    assert answer.status == 200, answer.message
    assert entries(answer) == entry


def _asks(name: str, part: str = "limits") -> Object:
    return pod({"resources": {part: {name: "1"}}})


def _mounts(path: str, below: str = "", *args: str, **mount: str) -> Object:
    found = {"name": "v", "mountPath": "/mnt", **({"subPath": below} if below else {}), **mount}
    container: Object = {"volumeMounts": [found], **({"args": list(args)} if args else {})}
    return pod(container, volumes=[{"name": "v", "hostPath": {"path": path}}])


@pytest.mark.parametrize("part", ["limits", "requests"])
@pytest.mark.parametrize(
    "name", ["deviceclass.resource.kubernetes.io/mine", "example.com/accelerator", "nvidia.com/gpu"]
)
def test_what_a_device_class_may_hand_out_is_asked_about_but_never_waited_for(admin: Api, name: str, part: str) -> None:
    item = _asks(name, part)
    answer = admin.answer("POST", PODS, item, dryRun="All")
    if part == "requests" and not name.startswith("deviceclass."):
        assert answer.status == 422  # Kubernetes wants a limit as well
    else:
        assert entries(send(admin, item)) == {"weak-pods"}


@pytest.mark.parametrize("name", ["kubernetes.io/batch-cpu", "ephemeral-storage", "cpu"])
def test_what_no_device_class_hands_out_is_not_asked_about(admin: Api, name: str) -> None:
    assert entries(send(admin, _asks(name))) == set()


@pytest.mark.parametrize(
    "folder, expression, entry",
    [
        ("/dev", "davinci$(N)", {"pods"}),
        ("/dev", "dav$(N)", {"weak-pods"}),
        ("/dev", "$(CHIP)", {"weak-pods"}),
        ("/", "d$(N)", {"weak-pods"}),
        ("/", "dev/hisi_hdc", {"pods"}),
        ("/usr/local", "Ascend/$(N)", {"weak-pods"}),
        ("/var/log", "$(POD)", set()),
        ("/var/log", "davinci", {"pods"}),
    ],
)
def test_an_expression_is_followed_wherever_it_may_lead(
    admin: Api, folder: str, expression: str, entry: set[str]
) -> None:
    item = _mounts(folder, subPathExpr=expression)
    assert_sent(admin, item)
    assert entries(send(admin, item)) == entry


CHANGED: Object = {
    "config": {
        "resources": {"other": ["chips.example/[!x]*", "*/pool-a*"], "ignored": ["chips.example/free-*"], "vnpu": []},
        "kubeletPaths": ["//data/k.d//kubelet/"],
        "driverPaths": ["/opt//chips/driver/"],
    }
}


@pytest.fixture(scope="module")
def changed(installed: tuple[ControlPlane, Api]) -> Iterator[Api]:
    """The chart's entries once more, as other values render them; their names are prefixed by `changed-`."""
    plane, admin = installed
    values = plane.folder / "changed.yaml"
    values.write_text(yaml.safe_dump(CHANGED))
    command = ("template", NAME, str(CHART), "-n", GUARD_NAMESPACE, "-f", str(values), "-s", "templates/webhook.yaml")
    rendered = yaml.safe_load(plane.helm(*command).stdout)
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    shipped = admin.request("GET", f"{path}/{NAME}")
    for webhook, live in zip(rendered["webhooks"], shipped["webhooks"], strict=True):
        client = live["clientConfig"]
        entry = f"/changed-{webhook['name'].removesuffix(SUFFIX)}"
        webhook["clientConfig"] = {**client, "service": {**client["service"], "path": entry}}
    rendered["metadata"] = {"name": "changed"}
    admin.request("POST", path, rendered)
    asks = pod({"resources": {"limits": {"chips.example/any": "1"}}})
    eventually(lambda: entries(send(admin, asks)) == {"changed-pods", "weak-pods"})
    yield admin
    admin.delete(f"{path}/changed")


# A resource that is no NPU by name may be one by its DeviceClass: weak evidence.
@pytest.mark.parametrize(
    "item, met",
    [
        (_asks("chips.example/a1"), {"changed-pods", "weak-pods"}),
        (_asks("chips.example/x1"), {"changed-weak-pods", "weak-pods"}),
        (_asks("chips.example/free-a"), {"changed-weak-pods", "weak-pods"}),
        (_asks("chips-example/a1"), {"changed-weak-pods", "weak-pods"}),
        (_asks("huawei.com/vnpu-cores"), {"changed-weak-pods", "pods"}),
        (_asks("huawei.com/Ascend910"), {"pods", "changed-pods"}),
        (_mounts("/data/k.d/kubelet/device-plugins"), {"changed-pods"}),
        (_mounts("/data/./k.d//kubelet/device-plugins/any"), {"changed-pods"}),
        (_mounts("/data/kxd/kubelet/device-plugins"), set()),
        (_mounts("/var/lib/kubelet/device-plugins"), {"pods"}),
        (_mounts("/data", "k.d/kubelet/./device-plugins", "--serve=vendor.example/pool-a1"), {"changed-pods"}),
        (_mounts("/data", "k.d/kubelet/./device-plugins", "--serve=vendor.example/pool-b"), set()),
        (_mounts("/opt/chips/driver/lib"), {"changed-weak-pods"}),
        (_mounts("/opt", "chips/driver"), {"changed-weak-pods"}),
        (_mounts("/opt/chips", subPathExpr="driver$(REST)"), {"changed-weak-pods"}),
        (_mounts("/opt/chips", subPathExpr="driver-old/$(REST)"), set()),
    ],
    ids=[
        "a resource", "one that the glob leaves out", "one that is ignored", "a dot is a dot",
        "none of vnpu's any more", "what stayed", "a plugin folder", "the same, spelled otherwise",
        "a dot in a path is a dot", "where the folder was", "a plugin by the second text of a glob",
        "a plugin of others", "a driver tree", "a driver tree by subPath", "a driver tree by an expression",
        "another tree by an expression",
    ],
)  # fmt: skip
def test_the_conditions_follow_the_values(changed: Api, item: Object, met: set[str]) -> None:
    default = SETTINGS.model_dump(by_alias=True)["resources"]
    values = CHANGED["config"]
    configuration = Settings.model_validate({**values, "resources": {**default, **values["resources"]}})
    sees = access_of(item["spec"], item["metadata"], configuration)
    seen = bool(sees.paths or sees.claims) or plugin_owner(item, configuration) is not None
    assert not seen or any(entry.startswith("changed-") for entry in met)
    assert entries(send(changed, item)) == met
