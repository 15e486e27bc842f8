"""Pod templates are found by their shape, in objects of any kind."""

from typing import Any

import pytest

from webhook.ownership.settings import Settings
from webhook.ownership.templates import templates_in
from webhook.ownership.workload import access_of

POD = {"containers": [{"name": "c", "image": "x"}]}


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({"template": {"metadata": {"labels": {"a": "b"}}, "spec": POD}}, ["spec.template.spec"]),
        ({"jobTemplate": {"spec": {"template": {"spec": POD}}}}, ["spec.jobTemplate.spec.template.spec"]),
        (
            {"tasks": [{"template": {"spec": POD}}, {"template": {"spec": POD}}]},
            ["spec.tasks[0].template.spec", "spec.tasks[1].template.spec"],
        ),
        ({"predictor": {"model": {"image": "x", "resources": {}}}}, ["spec.predictor.model"]),
        ({"predictor": {"model": {"image": "x", "env": []}}}, ["spec.predictor.model"]),
        ({"trainer": {"resourcesPerNode": {"limits": {"a": "1"}}}}, ["spec.trainer.resourcesPerNode"]),
        (
            {"trainer": {"image": "x", "env": [{"name": "A"}], "resourcesPerNode": {"limits": {"a": "1"}}}},
            ["spec.trainer", "spec.trainer.resourcesPerNode"],
        ),
        (
            {"trainer": {"env": [{"name": "A", "value": "0"}], "resourcesPerNode": {"requests": {"a": "1"}}}},
            ["spec.trainer.env", "spec.trainer.resourcesPerNode"],
        ),
        ({"trainer": {"env": []}}, []),
        ({"trainer": {"env": "A=0"}}, []),
        ({"trainer": {"env": {"A": "0"}}}, []),
        ({"image": "x"}, []),
        ({"containers": "many"}, []),
        ({"template": None}, []),
    ],
)
def test_where_a_template_is(spec: dict[str, Any], paths: list[str]) -> None:
    assert [one.path for one in templates_in({"kind": "Any", "spec": spec})] == paths


CHIP = {"name": "ASCEND_VISIBLE_DEVICES", "value": "0"}


@pytest.mark.parametrize(
    "spec",
    [
        {"template": {"spec": {"containers": [{"name": "c", "image": "x", "env": [CHIP]}]}}},
        {"template": {"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i", "env": [CHIP]}]}}},
        {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "c", "env": [CHIP]}]}}}}},
        {"predictor": {"model": {"image": "x", "env": [CHIP]}}},
        {"trainer": {"env": [CHIP], "numNodes": 2}},
        {"templates": [{"name": "a", "container": {"image": "x", "env": [CHIP]}}]},
    ],
)
def test_a_template_with_nothing_but_ids_in_a_variable_reaches_a_chip(spec: dict[str, Any]) -> None:
    found = [access_of(one.spec, one.metadata, Settings()).paths for one in templates_in({"spec": spec})]
    assert [[path.way for path in paths] for paths in found] == [["env"]]


def test_a_template_that_is_too_deep_or_an_object_that_is_too_large_costs_no_more() -> None:
    deep: dict[str, Any] = POD
    for _ in range(100):
        deep = {"x": deep}
    assert templates_in({"spec": deep}) == ()
    wide: dict[str, Any] = {f"k{number}": {} for number in range(200_000)}
    assert templates_in({"spec": wide}) == ()
