"""How a Pod reaches an NPU: all kinds of containers, all fields, all spellings (DOMAIN.md section 6)."""

from typing import Any

import pytest

from webhook.ownership.settings import Settings
from webhook.ownership.workload import access_of, claim_paths, device_claim, device_class

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
        ("0", False), (0, False), ("0.0", False), ("0k", False), ("-1", False), (-1, False),
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


@pytest.mark.parametrize(
    ("classes", "own", "found"),
    [
        (("npu.huawei.com",), False, {"claim"}),
        (("gpu.nvidia.com",), False, {"env"}),
        ((), False, {"env"}),
        (("gpu.nvidia.com",), True, {"claim"}),
    ],
    ids=["an NPU claim", "a GPU claim", "a claim that is not known", "a claim whose own selector names the driver"],
)
def test_only_a_claim_of_npus_accounts_for_ids_from_an_annotation(
    classes: tuple[str, ...], own: bool, found: set[str]
) -> None:
    spec = {
        "containers": [{"name": "c", "env": FIELD}],
        "resourceClaims": [{"name": "x", "resourceClaimName": "mine"}],
    }
    access = access_of(spec, {}, SETTINGS)
    selectors = [{"cel": {"expression": 'device.driver == "npu.huawei.com"'}}] if own else []
    requests = [{"name": "r", "exactly": {"deviceClassName": name, "selectors": selectors}} for name in classes]
    claim = device_claim({"kind": "ResourceClaim", "spec": {"devices": {"requests": requests}}})
    resolved = claim_paths(access, "team", {("ResourceClaim", "team", "mine"): claim}, {})
    assert access.paths == ()
    assert {path.way for path in resolved} == found


def test_the_last_of_many_claims_counts_too() -> None:
    many = [{"name": f"c{number}", "resourceClaimName": f"claim-{number}"} for number in range(1000)]
    access = access_of({"containers": [], "resourceClaims": many}, {}, SETTINGS)
    last = device_claim({"spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "npu.huawei.com"}}]}}})
    assert claim_paths(access, "team", {("ResourceClaim", "team", "claim-999"): last}, {})


@pytest.mark.parametrize(
    ("name", "amount", "counts"),
    [("npu.huawei.com", "1", True), ("mine", "1", True), ("gpu.example.com", "1", False), ("mine", "0", False)],
)
def test_a_device_class_may_be_asked_for_like_a_resource(name: str, amount: str, counts: bool) -> None:
    expression = "device.driver == 'npu.huawei.com'"
    mine = device_class(
        {"metadata": {"name": "mine"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}, SETTINGS
    )
    access = access_of(asks(f"deviceclass.resource.kubernetes.io/{name}", amount), {}, SETTINGS)
    assert bool(claim_paths(access, "team", {}, {"mine": mine})) is counts


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
        ("/dev", {"subPathExpr": "$(CHIP)"}, "shape"),
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
