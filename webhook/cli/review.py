"""`ascend-guard review`: the verdict on requests in files, as the server would answer them."""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import orjson

from webhook.admission.respond import warnings
from webhook.admission.review import ReviewError, parse
from webhook.cli.requests import request_for
from webhook.cluster.errors import ManifestError
from webhook.cluster.files import FileCluster
from webhook.cluster.manifests import numbered_documents, objects_of
from webhook.configuration import ConfigurationError, load
from webhook.ownership.reading import group_of, read_meta
from webhook.ownership.request import Request, User
from webhook.ownership.verdict import Verdict
from webhook.rules import judge

SAMPLE_CLUSTER = Path(__file__).parents[1] / "sample_cluster"


@click.command()
@click.argument("file", metavar="FILE|-", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--cluster", type=click.Path(path_type=Path), help="Folder of manifests: the cluster to judge against.")
@click.option("--config", type=click.Path(path_type=Path), help="Configuration file, as for serve.")
@click.option("--user", default="alice", show_default=True, help="Who applies plain manifests.")
@click.option("--group", "groups", multiple=True, default=("system:authenticated",), help="The user's groups.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list for machines.")
def review(
    file: Path, cluster: Path | None, config: Path | None, user: str, groups: tuple[str, ...], as_json: bool
) -> None:
    """Judge the requests in FILE (- is standard input) against a cluster in a folder.

    A document is an AdmissionReview, or a plain manifest (for example of `helm template`), which is judged as if the
    user applied it: created, or updated when the cluster holds it. Each is judged by itself, against the cluster as it
    is in the folder. Without --cluster that is the shipped sample, in the middle of a switch. Exit code 0 when all are
    allowed, 1 when any is denied, 2 when something cannot be read.
    """
    try:
        configuration = load(config, {})
        if cluster is None:
            click.echo(
                f"Judged against the shipped sample cluster in {SAMPLE_CLUSTER}; --cluster names another.", err=True
            )
        embedded = FileCluster(cluster or SAMPLE_CLUSTER, configuration)
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        origin = "standard input" if str(file) == "-" else str(file)
        requests = list(_requests(raw, origin, embedded, User(user, frozenset(groups))))
    except (OSError, ManifestError, ReviewError, ConfigurationError) as error:
        raise click.UsageError(str(error)) from error
    if not requests:
        raise click.UsageError(f"{origin}: there is no document to judge.")
    facts = embedded.facts(datetime.now(UTC))
    verdicts = [(request, judge(request, facts, configuration)) for request in requests]
    if as_json:
        click.echo(json.dumps([_as_json(request, verdict) for request, verdict in verdicts], indent=2))
    else:
        for request, verdict in verdicts:
            click.echo("\n".join(_lines(request, verdict)))
    if not all(verdict.allowed for _, verdict in verdicts):
        raise click.exceptions.Exit(1)


def _requests(raw: bytes, origin: str, cluster: FileCluster, user: User) -> Iterator[Request]:
    stored = {_identity(item): item for item in cluster.objects}
    for number, document in numbered_documents(raw, origin):
        if document.get("kind") == "AdmissionReview":
            yield parse(orjson.dumps(document))
            continue
        for item in objects_of(document, f"{origin}, document {number}"):
            old = stored.get(_identity(item))
            yield request_for("CREATE" if old is None else "UPDATE", user, item=item, old_item=old)


def _identity(item: dict[str, Any]) -> tuple[str, str, str, str]:
    ref = read_meta(item).ref
    return group_of(item), ref.kind, ref.namespace, ref.name


def _title(request: Request) -> str:
    place = f"{request.namespace}/" if request.namespace else ""
    resource = request.kind + (f" {request.sub_resource}" if request.sub_resource else "")
    return f"{request.operation} {resource} {place}{request.object_name} by {request.user.name}"


def _lines(request: Request, verdict: Verdict) -> Iterator[str]:
    yield f"{'allowed' if verdict.allowed else 'DENIED '}  {_title(request)}"
    for judged in verdict.denials:
        yield f"         {judged.finding.message()}"
    for warning in warnings(verdict.warnings):
        yield f"         Warning: {warning}"


def _as_json(request: Request, verdict: Verdict) -> dict[str, object]:
    return {
        "request": _title(request),
        "allowed": verdict.allowed,
        "phase": verdict.phase,
        "denials": [{"rule": one.finding.rule, "message": one.finding.message()} for one in verdict.denials],
        "warnings": warnings(verdict.warnings),
    }
