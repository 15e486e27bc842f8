"""`ascend-guard verify`: run scenario files (DESIGN.md section 11) through the rules, without a cluster."""

import json
from pathlib import Path

import click

from webhook.cli.scenarios import Outcome, ScenarioError, load, run


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for machines.")
def verify(paths: tuple[Path, ...], as_json: bool) -> None:
    """Check that each scenario in PATH... gets the verdict that it expects.

    A PATH is a YAML file with one scenario a document, or a folder of such files. Exit code 0 when all pass, 1 when any
    fails, 2 when a file cannot be read as scenarios.
    """
    try:
        outcomes = [run(scenario) for path in paths for scenario in load(path)]
    except ScenarioError as error:
        raise click.UsageError(str(error)) from error
    failed = [outcome for outcome in outcomes if outcome.differences]
    summary = f"{len(outcomes) - len(failed)} passed, {len(failed)} failed"
    if as_json:
        click.echo(json.dumps({"summary": summary, "cases": [_as_json(outcome) for outcome in outcomes]}, indent=2))
    else:
        for outcome in outcomes:
            click.echo(_line(outcome))
        click.echo(summary)
    if failed:
        raise click.exceptions.Exit(1)


def _line(outcome: Outcome) -> str:
    origin = f"{outcome.scenario.file}: {outcome.scenario.name}"
    if not outcome.differences:
        return f"ok    {origin}"
    return "\n".join([f"FAIL  {origin}", *(f"        {difference}" for difference in outcome.differences)])


def _as_json(outcome: Outcome) -> dict[str, object]:
    return {
        "file": outcome.scenario.file,
        "name": outcome.scenario.name,
        "passed": not outcome.differences,
        "differences": list(outcome.differences),
    }
