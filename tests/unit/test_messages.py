"""Every message of the code is rendered, readable, and in the table of the chart's docs."""

import pytest

from tests.messages.catalogue import TABLE, places, rendered, table
from webhook.admission.respond import MAX_MESSAGE
from webhook.ownership.verdict import Finding

FOUND, STEPS = rendered()


def test_every_place_that_makes_a_message_is_rendered() -> None:
    assert [place for place in places() if place not in {message[0] for message in FOUND}] == []


def test_the_table_is_what_the_code_says() -> None:
    assert TABLE.read_text() == table(), "run python -m tests.messages.catalogue and read what has changed"


@pytest.mark.parametrize("finding", FOUND.values(), ids=lambda one: f"{one.rule}: {one.what[:60]}")
def test_a_message_is_one_that_can_be_acted_on(finding: Finding) -> None:
    assert finding.effect == "warn" or finding.next_step
    assert finding.effect == "warn" or finding.because or finding.code == 422
    assert not finding.what.endswith(".")
    assert not finding.next_step.endswith(".")
    assert "None" not in finding.message()
    assert len(finding.message()) < MAX_MESSAGE / 2


def test_every_phase_has_a_next_step() -> None:
    assert {phase.partition("(")[0] for phase in STEPS} == {
        "unowned", "settled", "starting", "leaving", "conflict", "unknown",
    }  # fmt: skip
    assert all(STEPS.values())
