"""Which claims, DeviceClasses and resources of a Pod mean Ascend chips (dynamic resource allocation)."""

from typing import Any

import pytest

from webhook.ownership.devices import DeviceClass, device_claim, device_class
from webhook.ownership.settings import Settings
from webhook.ownership.workload import access_of, claim_paths

SETTINGS = Settings()
FIELD = [{"name": "ASCEND_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]


def asks(name: str, amount: Any = "1", kind: str = "containers", part: str = "limits") -> dict[str, Any]:
    return {kind: [{"name": "c", "resources": {part: {name: amount}}}]}


def claim_of(name: str, expression: str = "") -> dict[str, Any]:
    """A ResourceClaim of one request, in the form of v1."""
    selectors = [{"cel": {"expression": expression}}] if expression else []
    requests = [{"name": "r", "exactly": {"deviceClassName": name, "selectors": selectors}}]
    return {"kind": "ResourceClaim", "spec": {"devices": {"requests": requests}}}


OF_NPUS = 'device.driver == "npu.huawei.com"'


@pytest.mark.parametrize(
    ("claim", "found"),
    [
        (claim_of("npu.huawei.com"), {"claim"}),
        (claim_of("gpu.nvidia.com"), {"env"}),
        (claim_of("gpu.nvidia.com", 'device.driver == "gpu.nvidia.com"'), {"env"}),
        (claim_of("any", OF_NPUS), {"claim"}),
        ({"spec": {}}, {"env"}),
        (None, {"claim"}),
    ],
    ids=[
        "an NPU claim", "a GPU claim", "a GPU claim with a selector", "a claim whose own selector names the driver",
        "a claim of nothing", "a claim that is not known",
    ],
)  # fmt: skip
def test_only_a_claim_of_npus_accounts_for_ids_from_an_annotation(
    claim: dict[str, Any] | None, found: set[str]
) -> None:
    """One that is not known may be of NPUs, and then it is the use of one."""
    spec = {
        "containers": [{"name": "c", "env": FIELD}],
        "resourceClaims": [{"name": "x", "resourceClaimName": "mine"}],
    }
    access = access_of(spec, {}, SETTINGS)
    known = {("ResourceClaim", "team", "mine"): device_claim(claim)} if claim is not None else {}
    assert access.paths == ()
    assert {path.way for path in claim_paths(access, "team", known, {})} == found


def test_a_claim_that_is_not_known_is_nothing_where_no_ids_stand_beside_it() -> None:
    access = access_of({"containers": [], "resourceClaims": [{"name": "x", "resourceClaimName": "mine"}]}, {}, SETTINGS)
    assert claim_paths(access, "team", {}, {}) == ()


def test_a_gpu_that_is_asked_for_by_name_accounts_for_no_ids_from_an_annotation() -> None:
    spec = {"containers": [{"name": "c", "env": FIELD, "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    assert [path.way for path in claim_paths(access_of(spec, {}, SETTINGS), "team", {}, {})] == ["env"]


@pytest.mark.parametrize(
    ("devices", "asks_for_chips"),
    [
        ({"requests": [{"name": "r", "deviceClassName": "npu.huawei.com"}]}, True),
        ({"requests": [{"name": "r", "exactly": {"deviceClassName": "elastic.npu.huawei.com"}}]}, True),
        ({"requests": [{"firstAvailable": [{"deviceClassName": "gpu"}, {"deviceClassName": "npu.huawei.com"}]}]}, True),
        ({"requests": [{"exactly": {"deviceClassName": "gpu"}}, {"exactly": {"deviceClassName": "mine"}}]}, True),
        ({"requests": [{"deviceClassName": "x", "selectors": [{"cel": {"expression": OF_NPUS}}]}]}, True),
        ({"requests": [{"firstAvailable": [{"selectors": [{"cel": {"expression": OF_NPUS}}]}]}]}, True),
        ({"requests": [{"exactly": {"deviceClassName": "hami-ascend910b.project-hami.io"}}]}, True),
        ({"requests": [{"exactly": {"deviceClassName": "gpu"}}]}, False),
        ({"requests": [{"exactly": {"deviceClassName": "not-npu.huawei.com"}}]}, False),
        ({"requests": "many"}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("template", [False, True])
def test_every_form_of_a_request_of_devices(devices: dict[str, Any], asks_for_chips: bool, template: bool) -> None:
    kind = "ResourceClaimTemplate" if template else "ResourceClaim"
    spec = {"devices": devices}
    claim = device_claim({"kind": kind, "spec": {"spec": spec} if template else spec})
    mine = device_class(
        {"metadata": {"name": "mine"}, "spec": {"selectors": [{"cel": {"expression": OF_NPUS}}]}}, SETTINGS
    )
    access = access_of({"resourceClaims": [{"name": "x", f"resource{kind[8:]}Name": "c"}]}, {}, SETTINGS)
    found = claim_paths(access, "team", {(kind, "team", "c"): claim}, {"mine": mine})
    assert bool(found) is asks_for_chips
    assert claim_paths(access, "other", {(kind, "team", "c"): claim}, {"mine": mine}) == ()


@pytest.mark.parametrize(("driver", "counts"), [("npu.huawei.com", True), ("gpu.nvidia.com", False)])
def test_what_was_allocated_to_a_claim_counts_whatever_became_of_its_class(driver: str, counts: bool) -> None:
    result = {"request": "r", "driver": driver, "pool": "p", "device": "d"}
    claim = device_claim({**claim_of("gone"), "status": {"allocation": {"devices": {"results": [result]}}}})
    access = access_of({"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}, {}, SETTINGS)
    assert bool(claim_paths(access, "team", {("ResourceClaim", "team", "c"): claim}, {})) is counts


@pytest.mark.parametrize(
    "status",
    [
        {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "made-1"}]},
        {"extendedResourceClaimStatus": {"resourceClaimName": "made-1", "requestMappings": []}},
    ],
)
def test_the_claim_that_was_made_for_a_pod_counts_when_its_template_is_gone(status: dict[str, Any]) -> None:
    access = access_of({"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "gone"}]}, {}, SETTINGS, status)
    made = {("ResourceClaim", "team", "made-1"): device_claim(claim_of("npu.huawei.com"))}
    assert [path.what for path in claim_paths(access, "team", made, {})] == [
        "ResourceClaim made-1: DeviceClass npu.huawei.com"
    ]


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


def extended(name: str, resource: str, expression: str = OF_NPUS) -> dict[str, DeviceClass]:
    spec = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": resource}
    return {name: device_class({"metadata": {"name": name}, "spec": spec}, SETTINGS)}


@pytest.mark.parametrize("part", ["limits", "requests"])
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("asked", "classes", "counts"),
    [
        ("example.com/chip", extended("mine", "example.com/chip"), True),
        ("example.com/other", extended("mine", "example.com/chip"), False),
        ("example.com/chip", extended("mine", "example.com/chip", "true"), False),
        ("example.com/chip", extended("npu.huawei.com", "example.com/chip", "true"), True),
        ("example.com/chip", {}, False),
        ("nvidia.com/gpu", extended("mine", "nvidia.com/gpu", 'device.driver == "gpu.nvidia.com"'), False),
    ],
)
def test_a_resource_that_a_class_of_npus_hands_out(
    kind: str, part: str, asked: str, classes: dict[str, DeviceClass], counts: bool
) -> None:
    access = access_of(asks(asked, kind=kind, part=part), {}, SETTINGS)
    assert access.paths == ()
    assert {path.way for path in claim_paths(access, "team", {}, classes)} == ({"claim"} if counts else set())


def test_a_class_that_hands_out_an_npu_by_name_is_one_of_npus() -> None:
    classes = extended("any", "huawei.com/Ascend910", "true")
    access = access_of(asks("deviceclass.resource.kubernetes.io/any"), {}, SETTINGS)
    assert claim_paths(access, "team", {}, classes)


@pytest.mark.parametrize("name", ["cpu", "ephemeral-storage", "hugepages-2Mi", "example.kubernetes.io/any"])
def test_what_kubernetes_itself_counts_is_asked_of_no_class(name: str) -> None:
    assert access_of(asks(name), {}, SETTINGS).claims == ()
