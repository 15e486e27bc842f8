"""What the API server answers is read for what it is, and nothing that a user hides in an object stops the reading."""

import pytest

from webhook.cluster.connection import api_path
from webhook.cluster.discovery import Served, lists, versions
from webhook.cluster.errors import ApiError
from webhook.cluster.listing import read_page
from webhook.ownership.decoding import MAX_DEPTH, decode

PODS = Served("v1", "Pod", "/api/v1/pods")


def test_every_segment_of_a_path_is_escaped() -> None:
    assert api_path("api", "v1", "a/../b?c#d%2f") == "/api/v1/a%2F..%2Fb%3Fc%23d%252f"


@pytest.mark.parametrize("segment", ["", ".", ".."])
def test_a_segment_that_would_change_the_path_is_refused(segment: str) -> None:
    with pytest.raises(ValueError, match="no segment"):
        api_path("apis", segment, "x")


@pytest.mark.parametrize("depth", [1023, 1025, 100_000])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_an_object_nested_without_end_does_not_hide_its_neighbours(depth: int, brackets: str) -> None:
    inner = "[" * depth + "]" * depth if brackets == "[]" else '{"a":' * depth + "1" + "}" * depth
    items = decode(('{"items":[{"n":"\\"[{"},{"x":' + inner + '},{"n":2}]}').encode())["items"]
    assert (len(items), items[0], items[2]) == (3, {"n": '"[{'}, {"n": 2})


def test_what_is_cut_off_is_null_and_siblings_stay() -> None:
    deep = "[" * MAX_DEPTH + '[1,{"b":2}],3' + "]" * MAX_DEPTH
    value = decode((deep[:-MAX_DEPTH] + ',"\\ud800"' + "]" * MAX_DEPTH).encode())
    for _ in range(MAX_DEPTH - 1):
        value = value[0]
    assert value == [None, 3, "\ud800"]


@pytest.mark.parametrize("text", ['"\\ud800"', "1e999", "9" * 5000, "-" + "9" * 5000])
def test_a_value_that_strict_json_refuses_does_not_hide_its_neighbours(text: str) -> None:
    assert decode(f'{{"a":{text},"b":1}}'.encode())["b"] == 1


@pytest.mark.parametrize("raw", [b"", b"<html>", b"{", b'{"a":1e999'])
def test_what_is_no_json_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError):
        decode(raw)


def test_the_preferred_version_comes_first_and_the_others_follow() -> None:
    group = {
        "preferredVersion": {"groupVersion": "hami.io/v1"},
        "versions": [{"groupVersion": "hami.io/v1alpha1"}, {"groupVersion": "hami.io/v1"}],
    }
    assert versions(group, "hami.io") == ("hami.io/v1", "hami.io/v1alpha1")


@pytest.mark.parametrize("answer", [{}, {"versions": None}, {"versions": [{"groupVersion": "other/v1"}]}])
def test_a_group_without_versions_is_not_taken_for_an_absent_one(answer: dict[str, object]) -> None:
    with pytest.raises(ApiError, match="names no version of hami"):
        versions(answer, "hami.io")


def test_a_kind_is_found_by_its_plural_and_not_by_its_subresources() -> None:
    assert lists({"resources": [{"name": "pods/status"}, {"name": "pods"}]}, "pods")
    assert not lists({"resources": [{"name": "pods/status"}, None]}, "pods")
    with pytest.raises(ApiError, match="no list of resources"):
        lists({"kind": "Status"}, "pods")


def test_the_items_of_a_list_get_the_type_that_the_list_has() -> None:
    page, token = read_page(
        {"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "t"}, "items": [{"metadata": {}}]}, PODS
    )
    assert page.objects == ({"metadata": {}, "apiVersion": "v1", "kind": "Pod"},)
    assert (page.resource_version, token) == ("7", "t")


def test_an_empty_list_may_be_null_but_another_object_is_no_list() -> None:
    assert read_page({"kind": "PodList", "metadata": {}, "items": None}, PODS)[0].objects == ()
    with pytest.raises(ApiError, match="no list"):
        read_page({"kind": "Status", "metadata": {}}, PODS)


@pytest.mark.parametrize("status", [400, 401, 403, 405, 422])
def test_a_decision_of_the_api_server_is_a_refusal(status: int) -> None:
    assert ApiError(status, "").refused


@pytest.mark.parametrize("status", [0, 404, 408, 410, 429, 500, 503, 504])
def test_passing_trouble_is_no_refusal(status: int) -> None:
    assert not ApiError(status, "").refused
