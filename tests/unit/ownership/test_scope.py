"""Selectors: what they select, and when two can never mean the same node."""

import pytest

from webhook.ownership.scope import NODE_NAME, Requirement, Selector, Toleration

NODE = {"npu-pool": "direct", "zone": "a", "generation": "3"}


@pytest.mark.parametrize(
    "selector, selected",
    [
        (Selector(), True),
        (Selector({"npu-pool": "direct"}), True),
        (Selector({"npu-pool": "direct", "zone": "a"}), True),
        (Selector({"npu-pool": "shared"}), False),
        (Selector({"absent": ""}), False),
        (Selector(terms=((Requirement("zone", "In", ("a", "b")),),)), True),
        (Selector(terms=((Requirement("zone", "NotIn", ("a",)),),)), False),
        (Selector(terms=((Requirement("absent", "NotIn", ("a",)),),)), True),
        (Selector(terms=((Requirement("zone", "Exists"),),)), True),
        (Selector(terms=((Requirement("zone", "DoesNotExist"),),)), False),
        (Selector(terms=((Requirement("generation", "Gt", ("2",)),),)), True),
        (Selector(terms=((Requirement("generation", "Lt", ("2",)),),)), False),
        (Selector(terms=((Requirement("zone", "Gt", ("2",)),),)), False),
        (Selector(terms=((Requirement("zone", "Near", ("a",)),),)), False),
        (Selector(terms=((Requirement(NODE_NAME, "In", ("node-1",)),),)), True),
        (Selector(terms=((Requirement(NODE_NAME, "In", ("node-2",)),),)), False),
    ],
)
def test_a_selector_selects_by_labels_affinity_and_name(selector: Selector, selected: bool) -> None:
    assert selector.selects("node-1", NODE) is selected


def test_one_affinity_term_is_enough_but_all_of_its_expressions_must_hold() -> None:
    wrong = (Requirement("zone", "In", ("b",)),)
    half = (Requirement("zone", "In", ("a",)), Requirement("npu-pool", "In", ("shared",)))
    right = (Requirement("zone", "In", ("a",)), Requirement("npu-pool", "In", ("direct",)))
    assert not Selector(terms=(wrong, half)).selects("node-1", NODE)
    assert Selector(terms=(wrong, half, right)).selects("node-1", NODE)


@pytest.mark.parametrize(
    "one, other, contradicting",
    [
        ({"npu-pool": "direct"}, {"npu-pool": "shared"}, True),
        ({"npu-pool": "direct"}, {"npu-pool": "direct"}, False),
        ({"npu-pool": "direct"}, {"ascend": "on"}, False),
        ({"npu-pool": "direct", "zone": "a"}, {"zone": "b"}, True),
        ({}, {"zone": "b"}, False),
    ],
)
def test_selectors_contradict_only_by_the_same_key_with_different_values(
    one: dict[str, str], other: dict[str, str], contradicting: bool
) -> None:
    assert Selector(one).contradicts(Selector(other)) is contradicting
    assert Selector(other).contradicts(Selector(one)) is contradicting


@pytest.mark.parametrize(
    "toleration, tolerated",
    [
        (Toleration("", "Exists", "", ""), True),
        (Toleration("npu", "Exists", "", "NoSchedule"), True),
        (Toleration("npu", "Exists", "", "NoExecute"), False),
        (Toleration("npu", "Equal", "only", ""), True),
        (Toleration("npu", "", "only", ""), True),
        (Toleration("npu", "Equal", "other", ""), False),
        (Toleration("gpu", "Exists", "", ""), False),
    ],
)
def test_a_toleration_tolerates_as_kubernetes_does(toleration: Toleration, tolerated: bool) -> None:
    assert toleration.tolerates("npu", "only", "NoSchedule") is tolerated
