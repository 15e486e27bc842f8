"""Every scenario of tests/cases gets the verdict that it expects, as far as the rules exist."""

from pathlib import Path

import pytest

from webhook.cli.scenarios import Scenario, load, run
from webhook.rules import RULES

CASES = Path(__file__).parents[1] / "cases"
IDS = {rule.id for rule in RULES}


def _within_reach(scenario: Scenario) -> bool:
    """Whether it needs only rules that exist, and no memory of a Lease."""
    expect = scenario.expect
    named = {*(expect.warns or ()), *((expect.rule,) if expect.rule else ())}
    return named <= IDS and not any(item.get("kind") == "Lease" for item in scenario.cluster)


SCENARIOS = [scenario for scenario in load(CASES) if _within_reach(scenario)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[f"{one.file}: {one.name}" for one in SCENARIOS])
def test_scenario(scenario: Scenario) -> None:
    assert run(scenario).differences == ()


def test_there_are_scenarios_for_every_rule() -> None:
    denied = {scenario.expect.rule for scenario in SCENARIOS} - {None}
    assert denied == IDS
