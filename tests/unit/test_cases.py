"""Every scenario of tests/cases gets the verdict that it expects."""

from pathlib import Path

import pytest

from webhook.cli.scenarios import Scenario, load, run
from webhook.rules import RULES

CASES = Path(__file__).parents[1] / "cases"
SCENARIOS = list(load(CASES))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[f"{one.file}: {one.name}" for one in SCENARIOS])
def test_scenario(scenario: Scenario) -> None:
    assert run(scenario).differences == ()


def test_every_rule_denies_in_some_scenario() -> None:
    denied = {scenario.expect.rule for scenario in SCENARIOS} - {None}
    assert denied == {rule.id for rule in RULES if not rule.only_warns}
