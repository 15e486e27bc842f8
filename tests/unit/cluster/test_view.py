"""How good the knowledge of a kind is: unread, known, absent, refused, or just getting older."""

import time

import pytest

from webhook.cluster.errors import ApiError
from webhook.cluster.view import View
from webhook.ownership.kinds import FactKind
from webhook.ownership.objects import Meta, Node, Record, Ref


def node(name: str, *, ready: bool = True) -> Record:
    return Node(Meta(Ref("Node", "", name)), ready=ready, cordoned=False)


@pytest.fixture
def view() -> View:
    return View(FactKind("nodes", "Node", ("",), "nodes"), "")


def test_a_kind_is_missing_until_it_has_been_read(view: View) -> None:
    assert view.missing == "it has not been read yet"
    view.failed(ApiError(503, "busy"))
    assert (view.missing, view.tried) == ("busy", False)
    view.replace({"n": node("n")}, time.monotonic())
    assert (view.missing, view.tried, view.problem) == ("", True, "")


def test_trouble_ages_what_is_known_and_a_refusal_makes_it_missing_at_once(view: View) -> None:
    view.replace({}, time.monotonic())
    view.failed(ApiError(0, "the API server cannot be reached"))
    assert (view.missing, view.problem) == ("", "the API server cannot be reached")
    view.failed(ApiError(403, "forbidden"))
    assert view.missing == "forbidden"
    view.opened()
    assert (view.missing, view.problem) == ("", "")


def test_a_kind_that_is_not_served_is_known_to_be_empty(view: View) -> None:
    view.replace({"n": node("n")}, time.monotonic())
    view.gone()
    assert (view.absent, view.missing, view.records()) == (True, "", [])
    view.replace({}, time.monotonic())
    assert not view.absent


def test_only_what_facts_are_made_of_makes_a_new_version(view: View) -> None:
    view.replace({"n": node("n")}, time.monotonic())
    before = view.version
    view.put("n", node("n"))
    view.heard()
    view.opened()
    view.failed(ApiError(503, "busy"))
    view.put("absent", None)
    assert view.version == before
    view.put("n", node("n", ready=False))
    assert view.version == before + 1
    view.put("n", None)
    assert view.version == before + 2


def test_the_age_counts_from_when_a_list_was_asked_for(view: View) -> None:
    view.replace({}, time.monotonic() + 0.0)
    young = view.age
    time.sleep(0.05)
    assert view.age >= young + 0.05
    view.heard()
    assert view.age < 0.05
