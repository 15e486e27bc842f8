"""Finds every place in the code that makes a message, renders each from a scenario, and writes the table of them.

`python -m tests.messages.catalogue` writes `charts/ascend-owner-guard/docs/messages.md`.
"""

import ast
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tests.messages import without_scenario
from webhook.cli.scenarios import load
from webhook.ownership.owners import Owner
from webhook.ownership.procedure import next_step
from webhook.ownership.situation import situation
from webhook.ownership.verdict import Finding
from webhook.rules import RULES, judge

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "charts" / "ascend-owner-guard" / "docs" / "messages.md"
CASES = ROOT / "tests" / "cases"

_HEAD = """# Every message of the guard

What a denied request or a warning says, where it is said, and what to do next. Each row is one message of the code with
an example of it; names of objects are those of the example. A denial reads
`[rule] what. Because: evidence. Next: step.`
Rules in mode `warn` or `audit` say the same without refusing anything.

This file is made by `python -m tests.messages.catalogue`; a test holds it to the code.
"""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where the code makes a message: file and lines."""

    file: str
    first: int
    last: int


def places() -> list[Place]:
    """Every call of `Finding` in the product."""
    found = []
    for file in sorted((ROOT / "webhook").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                found.append(Place(str(file.relative_to(ROOT)), node.lineno, node.end_lineno or node.lineno))
    return sorted(found)


Message = tuple[Place, str, str]
"""One message of the code: its place, and what is said and what is next as far as these are words of the code."""


def rendered() -> tuple[dict[Message, Finding], dict[str, str]]:
    """The first example of each message that the scenarios make, and of the next step in each phase."""
    found: dict[Message, Finding] = {}
    steps: dict[str, str] = {}
    known = places()

    def made(frame: FrameType, finding: Finding) -> None:
        for place in known:
            if frame.f_code.co_filename.endswith("/" + place.file) and place.first <= frame.f_lineno <= place.last:
                found.setdefault((place, _words(finding.what), _words(finding.next_step)), finding)

    with _watched(made):
        for scenario in load(CASES):
            judge(scenario.request, scenario.facts, scenario.settings)
            for pool in situation(scenario.facts, scenario.settings).pools:
                steps.setdefault(str(pool.phase), next_step(pool.phase, scenario.facts, scenario.settings))
        without_scenario.make()
    return found, steps


def _words(text: str) -> str:
    """The plain words of a message, without commands, names and what is in brackets."""
    text = re.sub(r"kubectl .*?(?= or kubectl|; |, then|\)|$)", "", text)
    text = re.sub(r"\(.*?\)", "", text)
    owners = {str(owner) for owner in Owner}
    words = (word.strip(",.;:") for word in text.split())
    return " ".join(word for word in words if re.fullmatch(r"[a-z]+('s)?", word) and word not in owners)


@contextmanager
def _watched(made: Any) -> Iterator[None]:
    plain = Finding.__init__

    def watching(self: Finding, *arguments: Any, **named: Any) -> None:
        plain(self, *arguments, **named)
        made(sys._getframe(1), self)

    Finding.__init__ = watching  # type: ignore[method-assign]
    try:
        yield
    finally:
        Finding.__init__ = plain  # type: ignore[method-assign]


def table() -> str:
    """The table, in the order of the rules."""
    found, steps = rendered()
    order = [rule.id for rule in RULES]
    by_rule: dict[str, list[Finding]] = {}
    for message in sorted(found):
        by_rule.setdefault(found[message].rule, []).append(found[message])
    parts = [_HEAD]
    for rule in sorted(by_rule, key=lambda rule: (order.index(rule) if rule in order else len(order), rule)):
        rows = sorted(by_rule[rule], key=lambda one: one.effect)
        parts.append(f"## {rule}\n\n| effect | what | because (example) | next |\n|---|---|---|---|\n")
        parts[-1] += "".join(f"{_row(one)}\n" for one in rows)
    parts.append("## The next step in each phase\n\n| phase | next |\n|---|---|\n")
    parts[-1] += "".join(f"| `{phase}` | {_cell(steps[phase])} |\n" for phase in sorted(steps))
    return "\n".join(parts)


def _row(finding: Finding) -> str:
    effect = {"deny": "denied", "warn": "warned"}[finding.effect] + (" (422)" if finding.code == 422 else "")
    because = "; ".join(map(str, finding.because[:2])) + ("; …" if len(finding.because) > 2 else "")
    return f"| {effect} | {_cell(finding.what)} | {_cell(because)} | {_cell(finding.next_step)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


if __name__ == "__main__":
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(table())
