"""The READMEs say what the code does: rules, ids, phases, configuration; and both languages say the same."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from tests.messages.catalogue import rendered
from webhook.cli.main import main
from webhook.configuration import PREFIX, Configuration, load
from webhook.ownership.phase import PhaseName
from webhook.rules import RULES

ROOT = Path(__file__).parents[2]
ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh.md").read_text(encoding="utf-8")

MORE = "…"
Row = tuple[str, ...]

_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) ", re.MULTILINE)
_TABLE = re.compile(r"(?:^\|.*\|\n)+", re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")


def _blocks(text: str) -> list[str]:
    return _FENCE.findall(text)


def _headings(text: str) -> list[str]:
    return _HEADING.findall(_FENCE.sub("", text))


def _tables(text: str) -> list[list[Row]]:
    """The rows of each table below its head."""
    return [
        [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table.splitlines()[2:]]
        for table in _TABLE.findall(_FENCE.sub("", text))
    ]


def _code(cell: str) -> str:
    """What a cell says that is one span of code and nothing else."""
    found = re.fullmatch(_SPAN, cell)
    assert found, f"{cell!r} is no code"
    return found[1]


RULES_TABLE, IDS_TABLE, PHASES_TABLE, KEYS_TABLE = _tables(ENGLISH)


def _leaves(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, key))
        else:
            yield ".".join((*above, key)), value


DEFAULTS = dict(_leaves(Configuration().model_dump(by_alias=True)))
MODES = {key.removeprefix("rules."): mode for key, mode in DEFAULTS.items() if key.startswith("rules.")}


def _written_out(key: str, default: str) -> str:
    """The default that the table shows, with the rest of a list that it shortens."""
    shown, real = yaml.safe_load(default), DEFAULTS[key]
    if not isinstance(shown, list) or shown[-1:] != [MORE]:
        return default
    assert 1 < len(shown) <= len(real), f"{key} is shortened, but nothing is left out or shown"
    return json.dumps([*shown[:-1], *real[len(shown) - 1 :]])


def test_the_rules_are_those_of_the_code_in_its_order() -> None:
    assert [_code(row[0]) for row in RULES_TABLE] == [rule.id for rule in RULES if not rule.only_warns]


def test_the_modes_are_the_defaults() -> None:
    assert {_code(rule): _code(mode) for rule, _, mode in RULES_TABLE} == MODES


def test_the_ids_besides_are_all_that_messages_have() -> None:
    ids = {finding.rule for finding in rendered()[0].values()}
    assert sorted(_code(row[0]) for row in IDS_TABLE) == sorted(ids - MODES.keys())


def test_the_phases_are_those_of_the_code() -> None:
    assert {_code(row[0]).partition("(")[0] for row in PHASES_TABLE} == set(get_args(PhaseName))


def test_every_key_is_in_the_table_and_no_other() -> None:
    assert [_code(row[0]) for row in KEYS_TABLE] == list(DEFAULTS)


def test_the_defaults_are_those_of_the_model() -> None:
    """Read as the guard reads them, so that a duration may be written in any unit."""
    shown = {_code(key): _code(default) for key, default, _ in KEYS_TABLE}
    variables = {PREFIX + key.replace(".", "__"): _written_out(key, default) for key, default in shown.items()}
    assert dict(_leaves(load(None, variables).model_dump(by_alias=True))) == DEFAULTS


@pytest.mark.parametrize("block", [block for block in _blocks(ENGLISH) if block.lstrip().startswith("```yaml")])
def test_an_example_of_the_chart_s_values_is_a_configuration(block: str) -> None:
    values = yaml.safe_load(block.strip().removeprefix("```yaml").removesuffix("```"))
    Configuration.model_validate(values["config"])


def test_a_variable_in_an_example_is_understood() -> None:
    found = dict(re.findall(rf"^\s*({PREFIX}\w+)=(\S+)", "\n".join(_blocks(ENGLISH)), re.MULTILINE))
    assert found
    assert load(None, found) != load(None, {})


def test_the_commands_exist() -> None:
    used = re.findall(r"ascend-guard (\w+)", "\n".join(_blocks(ENGLISH)))
    assert {*used} == main.commands.keys()


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["English", "Chinese"])
def test_links_lead_to_files(text: str) -> None:
    assert [link for link in _LINK.findall(text) if not (ROOT / link).is_file()] == []


def test_each_language_leads_to_the_other_at_the_top() -> None:
    assert "(README.zh.md)" in ENGLISH.splitlines()[2]
    assert "(README.md)" in CHINESE.splitlines()[2]


def test_both_languages_have_the_same_headings() -> None:
    assert _headings(CHINESE) == _headings(ENGLISH)


def test_both_languages_have_the_same_blocks_of_code() -> None:
    assert _blocks(CHINESE) == _blocks(ENGLISH)


def test_both_languages_have_the_same_code_in_each_row_of_their_tables() -> None:
    def spans(text: str) -> list[list[list[str]]]:
        return [[sorted(chain.from_iterable(map(_SPAN.findall, row))) for row in table] for table in _tables(text)]

    assert spans(CHINESE) == spans(ENGLISH)
