"""Pod templates are found by their shape, in objects of any kind."""

from typing import Any

import pytest

from webhook.ownership.templates import templates_in

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
        ({"image": "x"}, []),
        ({"containers": "many"}, []),
        ({"template": None}, []),
    ],
)
def test_where_a_template_is(spec: dict[str, Any], paths: list[str]) -> None:
    assert [one.path for one in templates_in({"kind": "Any", "spec": spec})] == paths


def test_a_template_that_is_too_deep_or_an_object_that_is_too_large_costs_no_more() -> None:
    deep: dict[str, Any] = POD
    for _ in range(100):
        deep = {"x": deep}
    assert templates_in({"spec": deep}) == ()
    wide: dict[str, Any] = {f"k{number}": {} for number in range(200_000)}
    assert templates_in({"spec": wide}) == ()
