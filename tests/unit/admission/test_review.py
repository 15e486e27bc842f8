"""Any bytes give a request or a sentence."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.admission.review import ReviewError, check_content_type, parse, parse_strictly
from webhook.ownership.request import User

RECORDED = sorted((Path(__file__).parents[2] / "reviews").glob("*.json"))


def review(**changes: Any) -> dict[str, Any]:
    """A complete review; a change to None takes the field of the request away."""
    request: dict[str, Any] = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "userInfo": {"username": "alice", "groups": ["dev"]},
        "namespace": "team",
        "name": "web",
        "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}},
    }
    request = {key: value for key, value in {**request, **changes}.items() if value is not None}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def body(**changes: Any) -> bytes:
    return json.dumps(review(**changes)).encode()


def with_value(value: bytes) -> bytes:
    """A review whose object holds `value`, written as it is, in a place that nobody reads."""
    return body(object={"spec": {"x": "HERE"}}).replace(b'"HERE"', value)


def test_a_complete_review_becomes_a_request() -> None:
    request = parse(body(dryRun=True, subResource="status", oldObject={"a": 1}, options={"kind": "CreateOptions"}))
    assert (request.uid, request.operation, request.kind, request.resource) == ("u-1", "CREATE", "Pod", "pods")
    assert request.user == User("alice", frozenset({"dev"}))
    assert (request.namespace, request.name, request.sub_resource, request.dry_run) == ("team", "web", "status", True)
    assert (request.old_object, request.options) == ({"a": 1}, {"kind": "CreateOptions"})


def test_what_is_absent_or_null_is_empty() -> None:
    text = body(namespace=None, name=None).replace(b'"uid"', b'"oldObject": null, "dryRun": null, "name": null, "uid"')
    request = parse(text)
    assert (request.namespace, request.name, request.sub_resource) == ("", "", "")
    assert (request.dry_run, request.old_object, request.options) == (False, None, None)


def test_fields_that_are_not_known_yet_do_not_matter() -> None:
    assert parse(body(somethingNew={"of": "1.45"})).uid == "u-1"


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_a_recorded_review_is_read_at_first_sight(file: Path) -> None:
    recorded = json.loads(file.read_text())["review"]
    request = parse_strictly(json.dumps(recorded).encode())
    assert request is not None
    assert request == parse(json.dumps(recorded).encode())
    assert request.uid == recorded["request"]["uid"]
    assert request.object == recorded["request"].get("object")


BAD: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "The body is no JSON"),
    ("no JSON", b"hello", "The body is no JSON"),
    ("cut off", body()[:-5], "The body is no JSON"),
    ("two documents", body() + b"{}", "The body is no JSON"),
    ("a list", b"[]", "The body must be a JSON object"),
    ("null", b"null", "The body must be a JSON object"),
    ("a number", b"1", "The body must be a JSON object"),
    ("an empty object", b"{}", "apiVersion is missing"),
    ("no request", b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "request is missing"),
    (
        "request null",
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}',
        "request must be",
    ),
    ("an older version", body().replace(b"k8s.io/v1", b"k8s.io/v1beta1"), "admissionReviewVersions: [v1]"),
    ("another kind", body().replace(b'"AdmissionReview"', b'"TokenReview"'), "AdmissionReview"),
    ("no uid", body(uid=None), "request.uid is missing"),
    ("an empty uid", body(uid=""), "request.uid"),
    ("a uid without end", body(uid="u" * 129), "request.uid"),
    ("a uid that is a number", body(uid=7), "request.uid"),
    ("no operation", body(operation=None), "request.operation is missing"),
    ("another operation", body(operation="PATCH"), "CREATE, UPDATE, DELETE or CONNECT"),
    ("no kind", body(kind=None), "request.kind is missing"),
    ("a kind that is a text", body(kind="Pod"), "request.kind must be a JSON object"),
    ("a kind without group", body(kind={"version": "v1", "kind": "Pod"}), "request.kind.group is missing"),
    ("no resource", body(resource=None), "request.resource is missing"),
    ("no user", body(userInfo=None), "request.userInfo is missing"),
    ("a user without name", body(userInfo={"groups": []}), "request.userInfo.username is missing"),
    ("groups that are a text", body(userInfo={"username": "a", "groups": "dev"}), "request.userInfo.groups"),
    ("an object that is a text", body(object="Pod"), "request.object must be a JSON object"),
    ("an object that is a list", body(oldObject=[]), "request.oldObject must be a JSON object"),
    ("a dry run that is a list", body(dryRun=[]), "request.dryRun"),
    ("a name that is an object", body(name={}), "request.name"),
    ("a bad field behind deep nesting", body(uid=7, object={"x": "@"}).replace(b'"@"', b"[" * 999 + b"]" * 999), "uid"),
]


@pytest.mark.parametrize("text, sentence", [(text, sentence) for _, text, sentence in BAD], ids=[one[0] for one in BAD])
def test_what_is_wrong_is_said_in_a_sentence(text: bytes, sentence: str) -> None:
    assert parse_strictly(text) is None
    with pytest.raises(ReviewError) as raised:
        parse(text)
    assert raised.value.status == 400
    assert sentence in str(raised.value)
    assert str(raised.value).endswith(".")
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("depth", [190, 250, 1100, 5000, 100_000])
def test_nesting_however_deep_still_gives_a_request(depth: int) -> None:
    request = parse(with_value(b"[" * depth + b"]" * depth))
    assert (request.uid, request.kind, request.user.name) == ("u-1", "Pod", "alice")
    assert request.object is not None


@pytest.mark.parametrize(
    "value", [b"NaN", b"1e999", b"9" * 30, b"9" * 5000, b'"\\ud800"', b'"\xff"', b'"\\u0000"', b"-Infinity"]
)
def test_odd_values_still_give_a_request_with_clean_texts(value: bytes) -> None:
    request = parse(with_value(value))
    assert request.object is not None
    json.dumps(request.object, ensure_ascii=False).encode("utf-8")


def test_of_duplicate_keys_the_last_counts() -> None:
    assert parse(body().replace(b'"uid"', b'"uid": "first", "uid"')).uid == "u-1"


@given(st.binary(max_size=200))
def test_any_bytes_give_a_request_or_a_sentence(text: bytes) -> None:
    with pytest.raises(ReviewError):
        parse(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_value_in_any_field_gives_a_request_or_a_sentence(value: object) -> None:
    for field in ("uid", "kind", "userInfo", "object", "operation", "name", "options"):
        text = json.dumps(review(**{field: value})).encode()
        with contextlib.suppress(ReviewError):  # any other error fails the test
            assert parse(text).uid


@pytest.mark.parametrize("header", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_taken(header: str) -> None:
    check_content_type(header)


@pytest.mark.parametrize("header", [None, "", "text/plain", "application/yaml", "application/jsonp"])
def test_any_other_content_type_is_refused(header: str | None) -> None:
    with pytest.raises(ReviewError, match="application/json") as raised:
        check_content_type(header)
    assert raised.value.status == 415
