"""How a Pod reaches an NPU: all kinds of containers, all fields, all spellings (DOMAIN.md section 6)."""

from typing import Any

import pytest

from webhook.ownership.owners import Owner
from webhook.ownership.settings import Settings
from webhook.ownership.workload import access_of, added_access

SETTINGS = Settings()
KINDS = ("containers", "initContainers", "ephemeralContainers")


def ways(spec: dict[str, Any], settings: Settings = SETTINGS) -> set[str]:
    return {path.way for path in access_of(spec, {}, settings).paths}


def asks(name: str, amount: Any = "1", kind: str = "containers", part: str = "limits") -> dict[str, Any]:
    return {kind: [{"name": "c", "resources": {part: {name: amount}}}]}


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("part", ["limits", "requests"])
def test_a_request_counts_in_every_container_and_either_part(kind: str, part: str) -> None:
    assert ways(asks("huawei.com/Ascend910", kind=kind, part=part)) == {"resource"}


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("huawei.com/Ascend910", True),
        ("HUAWEI.COM/ascend910", True),
        ("huawei.com/Ascend910-16c", True),
        ("huawei.com/Ascend310P-V", True),
        ("huawei.com/Ascend910B4-memory", True),
        ("huawei.com/vnpu-cores", True),
        ("npu.huawei.com/NPU", True),
        ("huawei.com/Аscend910", False),  # a Cyrillic letter: no resource that a plugin serves
        ("huawei.com/Ascend９10", True),  # a full-width digit, where a glob takes any end
        ("huawei.com/npu\u200b", False),
        ("huawei․com/Ascend910", False),  # a leader dot
        ("huawei.com/ıpu", False),
        (" huawei.com/Ascend910", False),
        ("huawei.com/ub_rdma", False),
        ("huawei.com/vgpu-1", False),
        ("not-huawei.com/Ascend910", False),
        ("huawei.com.evil.io/npu", False),
        ("Ascend910", False),
    ],
)
def test_the_full_name_decides_whatever_its_case(name: str, counts: bool) -> None:
    assert bool(ways(asks(name))) is counts


@pytest.mark.parametrize(
    ("amount", "counts"),
    [
        ("1", True), (1, True), ("1k", True), ("1e0", True), ("0.5", True), ("1m", True),
        ("9" * 5000, True), ("x", True), (None, True), ([], True), (True, True), ("1e999999", True),
        ("1E", True), ("1E0", True), (".1", True), ("1n", True), ("1Ki", True), ("+1", True), (0.5, True),
        (float("inf"), True), (float("nan"), True), ("1e-999999", True), ("0e99999999999999999999", True),
        ("٠", True), ("１", True), ("0x0", True), ("0 1", True), ("", True), (10**400, True),
        ("0", False), (0, False), ("0.0", False), ("0k", False), ("-1", False), (-1, False), (0.0, False),
        ("0e0", False), ("0E9", False), ("-0", False), ("+0", False), ("00", False), (".0", False), ("0.", False),
        ("0Ei", False), ("-1k", False), (-(10**400), False),
    ],
)  # fmt: skip
def test_every_spelling_of_a_quantity_is_read_and_zero_is_no_use(amount: Any, counts: bool) -> None:
    assert bool(ways(asks("huawei.com/npu", amount))) is counts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("env", "counts"),
    [
        ([{"name": "ASCEND_VISIBLE_DEVICES", "value": "0"}], True),
        ([{"name": "ASCEND_VISIBLE_DEVICES", "value": " 0-3 "}], True),
        ([{"name": "ASCEND_VNPU_SPECS", "value": "vir04"}], True),
        ([{"name": "ASCEND_VISIBLE_DEVICES", "value": "void"}], False),
        ([{"name": "ASCEND_VISIBLE_DEVICES", "value": " VOID"}], False),
        ([{"name": "ASCEND_VISIBLE_DEVICES"}], False),
        ([{"name": "ASCEND_RT_VISIBLE_DEVICES", "value": "0"}], False),
        ([{"name": "ASCEND_VISIBLE_DEVICES", "value": "0"}, {"name": "ASCEND_VISIBLE_DEVICES", "value": ""}], False),
        ([{"name": "ASCEND_VISIBLE_DEVICES", "value": ""}, {"name": "ASCEND_VISIBLE_DEVICES", "value": "0"}], True),
        ([{"name": "ASCEND_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "x"}}}], True),
        ([{"name": "ASCEND_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}], True),
    ],
)
def test_ids_in_the_environment(kind: str, env: list[dict[str, Any]], counts: bool) -> None:
    assert (ways({kind: [{"name": "c", "env": env}]}) == {"env"}) is counts


def test_a_number_that_python_refuses_to_write_out_is_read_too() -> None:
    assert ways(asks("huawei.com/npu", 10**5000)) == {"resource"}
    assert ways(asks("huawei.com/npu", -(10**5000))) == set()


FIELD = [{"name": "ASCEND_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]


def test_ids_from_an_annotation_are_accounted_for_by_a_request() -> None:
    spec = {"containers": [{"name": "c", "env": FIELD, "resources": {"limits": {"huawei.com/Ascend910": "1"}}}]}
    assert ways(spec) == {"resource"}


def mounts(path: str, kind: str = "containers", **mount: Any) -> dict[str, Any]:
    return {
        kind: [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v", **mount}]}],
        "volumes": [{"name": "v", "hostPath": {"path": path}}],
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("path", "mount", "way"),
    [
        ("/dev/davinci0", {}, "device"),
        ("//dev/./davinci_manager/", {}, "device"),
        ("/dev/vdavinci100", {}, "device"),
        ("/dev/devmm_svm", {}, "device"),
        ("/dev/hisi_hdc", {}, "device"),
        ("/dev", {"subPath": "davinci0"}, "device"),
        ("/dev", {"subPathExpr": "davinci$(N)"}, "device"),
        ("/", {"subPathExpr": "dev/davinci0"}, "device"),
        ("/", {"subPathExpr": "dev/vdavinci$(N)"}, "device"),
        ("/dev", {"subPathExpr": "davinci$(N)/$(M)"}, "device"),
        ("/dev", {"subPathExpr": "$(CHIP)"}, "shape"),
        ("/dev", {"subPathExpr": "dav$(CHIP)"}, "shape"),
        ("/dev", {"subPathExpr": "./hisi_$(CHIP)"}, "shape"),
        ("/", {"subPathExpr": "$(CHIP)"}, "shape"),
        ("/", {"subPathExpr": "d$(CHIP)"}, "shape"),
        ("/", {"subPathExpr": "dev/$(CHIP)"}, "shape"),
        ("/usr/local/Ascend", {"subPathExpr": "dri$(X)"}, "shape"),
        ("/usr/local/Ascend", {"subPathExpr": "$(X)"}, "shape"),
        ("/usr/local/Ascend", {"subPathExpr": "log/$(X)"}, ""),
        ("/usr/local", {"subPathExpr": "$(X)"}, ""),
        ("/dev", {"subPathExpr": "shm/$(X)"}, ""),
        ("/dev", {"subPathExpr": "net$(X)"}, ""),
        ("/var/log", {"subPathExpr": "$(POD)"}, ""),
        ("/dev", {}, "shape"),
        ("/", {}, "shape"),
        ("/usr/local/Ascend/driver/lib64", {}, "shape"),
        ("/usr/local", {"subPathExpr": "Ascend/driver/$(X)"}, "shape"),
        ("/dev/shm", {}, ""),
        ("/dev/davinci-look-alike", {}, ""),
        ("/data/dev/davinci0", {}, ""),
    ],
)
def test_paths_of_the_host(kind: str, path: str, mount: dict[str, Any], way: str) -> None:
    assert ways(mounts(path, kind, **mount)) == ({way} if way else set())


@pytest.mark.parametrize("tree", ["/opt/chip/driver", "/opt/chipdriver", "/opt/chipdriver/"])
def test_a_configured_driver_tree_counts_with_all_below_it_whatever_its_name(tree: str) -> None:
    settings = Settings(driver_paths=(tree,))
    assert ways(mounts(tree.rstrip("/")), settings) == {"shape"}
    assert ways(mounts(tree.rstrip("/") + "/lib64"), settings) == {"shape"}
    assert ways(mounts(tree.rstrip("/") + "-other"), settings) == set()


def test_a_volume_that_is_not_mounted_is_no_path() -> None:
    assert (
        ways({"containers": [{"name": "c"}], "volumes": [{"name": "v", "hostPath": {"path": "/dev/davinci0"}}]})
        == set()
    )


@pytest.mark.parametrize("tree", ["//opt//chipdriver", "/opt/./chipdriver/"])
def test_a_driver_tree_may_be_configured_in_any_spelling(tree: str) -> None:
    assert ways(mounts("/opt/chipdriver/lib64"), Settings(driver_paths=(tree,))) == {"shape"}


TREE = {"name": "t", "hostPath": {"path": "/usr/local/Ascend/driver"}}
IN_TREE = {"name": "t", "mountPath": "/t"}


@pytest.mark.parametrize("path", ["/dev", "/"])
@pytest.mark.parametrize("expression", ["", "$(CHIP)"])
@pytest.mark.parametrize(
    ("beside", "proved"),
    [
        ({}, False),
        ({"runtimeClassName": "ascend"}, True),
        ({"runtimeClassName": "runc"}, False),
        ({"initContainers": [{"name": "i", "env": [{"name": "ASCEND_RT_VISIBLE_DEVICES", "value": "0"}]}]}, True),
        ({"initContainers": [{"name": "i", "env": [{"name": "ASCEND_VISIBLE_DEVICES", "value": ""}]}]}, False),
        ({"initContainers": [{"name": "i", "securityContext": {"privileged": True}}]}, False),
    ],
)
def test_all_devices_are_chips_where_something_in_the_pod_speaks_of_ascend(
    path: str, expression: str, beside: dict[str, Any], proved: bool
) -> None:
    mount = {"subPathExpr": expression} if expression else {}
    assert ways({**mounts(path, **mount), **beside}) == ({"device"} if proved else {"shape"})


@pytest.mark.parametrize("privileged", [True, False])
def test_a_privileged_container_beside_the_driver_tree_reaches_chips(privileged: bool) -> None:
    spec = mounts("/usr/local/Ascend/driver")
    spec["initContainers"] = [{"name": "i", "securityContext": {"privileged": privileged}}]
    assert ways(spec) == ({"device"} if privileged else {"shape"})


def test_what_an_ephemeral_container_adds_is_judged_with_the_evidence_of_all() -> None:
    old = {
        "containers": [{"name": "c", "volumeMounts": [IN_TREE]}],
        "volumes": [TREE, {"name": "d", "hostPath": {"path": "/dev"}}],
    }
    added = {"name": "e", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    new = {**old, "ephemeralContainers": [added]}
    assert [(path.way, path.container) for path in added_access(old, new, SETTINGS)] == [
        ("device", "ephemeralContainers[0] e")
    ]
    assert added_access(new, new, SETTINGS) == ()


@pytest.mark.parametrize(
    ("main", "init", "sidecar", "needed"),
    [(["1", "2"], [], False, 3), (["1"], ["4"], False, 4), (["3"], ["2"], False, 3), (["1"], ["4"], True, 5)],
)
def test_a_pod_needs_the_larger_of_its_init_containers_and_its_main_ones(
    main: list[str], init: list[str], sidecar: bool, needed: int
) -> None:
    def body(amount: str) -> dict[str, Any]:
        return {"name": "c", "resources": {"limits": {"huawei.com/Ascend910": amount}}}

    inits = [{**body(amount), **({"restartPolicy": "Always"} if sidecar else {})} for amount in init]
    spec = {"containers": [body(amount) for amount in main], "initContainers": inits}
    assert access_of(spec, {}, SETTINGS).resources == {"huawei.com/Ascend910": needed}


@pytest.mark.parametrize(
    ("names", "servers"),
    [
        (["huawei.com/Ascend910"], {Owner.NATIVE, Owner.MINDCLUSTER}),
        (["huawei.com/Ascend310P"], {Owner.NATIVE, Owner.MINDCLUSTER, Owner.HAMI}),
        (["huawei.com/Ascend310P", "huawei.com/Ascend310P-memory"], {Owner.HAMI}),
        (["huawei.com/Ascend910", "huawei.com/ascend910-core"], {Owner.HAMI}),
        (["huawei.com/Ascend910", "huawei.com/Ascend910B4"], set()),
        (["huawei.com/vnpu-cores"], {Owner.VNPU}),
        (["npu.huawei.com/NPU"], {Owner.FOREIGN}),
        ([], set()),
    ],
)
def test_who_could_serve_all_that_is_asked_for(names: list[str], servers: set[Owner]) -> None:
    spec = {"containers": [{"name": "c", "resources": {"limits": dict.fromkeys(names, "1")}}]}
    assert access_of(spec, {}, SETTINGS).servers == servers
