"""`ascend-guard classify`: what the recogniser sees in a manifest, in the words of the corpus
(tests/corpus/README.md)."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from webhook.cluster.errors import ManifestError
from webhook.cluster.manifests import load_documents
from webhook.ownership.fields import at, items, mapping, text
from webhook.ownership.infrastructure import looks_like_infrastructure
from webhook.ownership.objects import DeviceClaimRecord, DeviceClassRecord
from webhook.ownership.owners import Owner, plugin_owner
from webhook.ownership.reading import read, read_pod
from webhook.ownership.settings import Settings
from webhook.ownership.templates import Template, templates_in
from webhook.ownership.workload import Access, claim_paths
from webhook.ownership.workload import Path as Way


@dataclass(frozen=True, slots=True)
class Classification:
    """What a file's first document is: whether it uses an NPU, how, whose plugin it is, and whose plugin it needs."""

    file: str
    npu: str
    how: str
    owner: str
    owner_hint: str


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list for machines.")
@click.option("--check", is_flag=True, help="Compare with the headers of corpus files and print what differs.")
def classify(paths: tuple[Path, ...], as_json: bool, check: bool) -> None:
    """Say of the first document of each file in PATH... whether it uses an NPU, how, and whose plugin it is or needs.

    Further documents of a file are its surroundings (ResourceClaims, DeviceClasses). With --check, `npu` and `owner`
    must be equal to the header's (a foreign plugin is `expect: foreign-ascend-owner` there); each way that was found
    must be named in the header's `how`, whose first word must have been found. Decorations (annotation, label, what
    stands in brackets) and `owner-hint` are not compared, and resource-in-cr is a resource. Files marked
    `confidence: judgement` count like all others. Exit code 0 when all agree, 1 when any differs, 2 when a file cannot
    be read.
    """
    settings = Settings()
    results = []
    try:
        for file in _files(paths):
            results.append((file, classify_file(file, settings)))
    except (OSError, ManifestError) as error:
        raise click.UsageError(str(error)) from error
    if check:
        _print_check(results)
        return
    if as_json:
        click.echo(json.dumps([asdict(result) for _, result in results], indent=2))
        return
    for _, result in results:
        click.echo(
            f"{result.file}: npu={result.npu} how={result.how} owner={result.owner} owner-hint={result.owner_hint}"
        )


def _files(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(entry for entry in path.rglob("*") if entry.suffix in (".yaml", ".yml", ".json"))
        else:
            yield path


def classify_file(file: Path, settings: Settings) -> Classification:
    """Return what the first document of `file` is. Raises OSError and ManifestError."""
    documents = load_documents(file.read_bytes(), str(file))
    if not documents:
        raise ManifestError(f"{file}: there is no document in this file.")
    first = documents[0]
    plugin = plugin_owner(first, settings)
    if plugin is not None:
        return Classification(file.name, "no", "none", str(plugin), "none")
    accesses = list(_accesses(first, documents[1:], settings))
    ways = [(way, template) for access, claims, template in accesses for way in (*access.paths, *claims)]
    proving = [(way, template) for way, template in ways if way.way != "shape"]
    if not proving:
        return Classification(file.name, "no", "none", "none", "none")
    how = list(dict.fromkeys(_word(way, template) for way, template in proving))
    return Classification(file.name, "yes", "+".join(how), "none", _needed(accesses))


_Accessed = tuple[Access, tuple[Way, ...], Template]


def _accesses(first: dict[str, Any], others: list[dict[str, Any]], settings: Settings) -> Iterator[_Accessed]:
    records = [read(item, settings) for item in others]
    classes = {r.meta.ref.name: r.device_class for r in records if isinstance(r, DeviceClassRecord)}
    claims = {
        (r.meta.ref.kind, r.meta.ref.namespace, r.meta.ref.name): r.device_claim
        for r in records
        if isinstance(r, DeviceClaimRecord)
    }
    entries = items(first.get("items")) if text(first.get("kind")).endswith("List") else [first]
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        for template in _pods(entry):
            pod = read_pod({"kind": "Pod", "metadata": mapping(entry.get("metadata")), "spec": template.spec}, settings)
            if not looks_like_infrastructure(pod):
                yield pod.access, claim_paths(pod.access, pod.meta.ref.namespace, claims, classes), template


def _pods(item: dict[str, Any]) -> tuple[Template, ...]:
    if item.get("kind") == "Pod":
        return (Template("spec", mapping(item.get("metadata")), mapping(item.get("spec"))),)
    return templates_in(item)


def _word(way: Way, template: Template) -> str:
    match way.way:
        case "resource" if template.bare:
            return "resource-in-cr"
        case "resource":
            return "init-resource" if way.container.startswith("initContainers") else "resource"
        case "env":
            return "env"
        case "claim":
            return "dra"
        case _:
            privileged = any(
                at(container, "securityContext.privileged") is True
                for container in items(template.spec.get("containers"))
            )
            chip = "davinci" in way.what or "devmm_svm" in way.what or "hisi_hdc" in way.what
            return "hostPath" if chip or not privileged else "privileged+hostPath"


def _needed(accesses: list[_Accessed]) -> str:
    """The owner that must hold the node: native, hami, either of both, or none of the two."""
    servers = [access.servers for access, _, _ in accesses if access.resources]
    if not servers:
        return "none"
    common = frozenset.intersection(*servers)
    if {Owner.NATIVE, Owner.HAMI} <= common:
        return "either"
    return next((str(owner) for owner in (Owner.NATIVE, Owner.HAMI) if owner in common), "none")


def _print_check(results: list[tuple[Path, Classification]]) -> None:
    failed = 0
    for file, result in results:
        header = read_header(file)
        differences = list(_differences(header, result))
        if differences:
            failed += 1
            judgement = " (confidence: judgement)" if header.get("confidence") == "judgement" else ""
            click.echo(f"FAIL  {result.file}{judgement}: {'; '.join(differences)}")
    click.echo(f"{len(results) - failed} passed, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)


def read_header(file: Path) -> dict[str, str]:
    """Return the `# key: value` lines of a corpus file. Raises OSError."""
    header: dict[str, str] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            break
        key, colon, value = line[2:].partition(": ")
        if colon:
            header[key] = value.strip()
    return header


def _differences(header: dict[str, str], result: Classification) -> Iterator[str]:
    if "npu" in header and header["npu"] != result.npu:
        yield f"npu: the header says {header['npu']}, found {result.npu}"
    expected = "foreign" if header.get("expect") == "foreign-ascend-owner" else header.get("owner")
    if expected is not None and expected != result.owner:
        yield f"owner: the header says {expected}, found {result.owner}"
    if header.get("npu") == "yes" == result.npu:
        said, found = _ways(header.get("how", "")), _ways(result.how)
        if not set(found) <= set(said) or said[0] not in found:
            yield f"how: the header says {header.get('how')}, found {result.how}"


def _ways(how: str) -> list[str]:
    words = [word.partition("(")[0].strip() for word in how.split("+")]
    return ["resource" if word == "resource-in-cr" else word for word in words]
