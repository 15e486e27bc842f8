"""A folder of manifests is a cluster."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from webhook.cluster.errors import ManifestError
from webhook.cluster.files import FileCluster
from webhook.cluster.source import FactSource
from webhook.ownership.settings import Settings

NOW = datetime(2026, 5, 1, tzinfo=UTC)
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: %s}\n"


def node_names(source: FactSource) -> list[str]:
    return list(source.cached().nodes)


def test_the_files_of_a_folder_are_one_cluster_and_lists_are_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NODE % "one" + "---\n" + NODE % "two")
    (tmp_path / "b.yml").write_text(
        "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Node, metadata: {name: x}}]"
    )
    (tmp_path / "notes.txt").write_text("not: [yaml")
    (tmp_path / ".hidden.yaml").write_text("not: [yaml")
    facts = FileCluster(tmp_path, Settings()).facts(NOW)
    assert list(facts.nodes) == ["one", "two", "x"]
    assert (facts.now, facts.age, dict(facts.missing)) == (NOW, timedelta(), {})


def test_an_ordinary_object_is_no_fact_but_is_kept(tmp_path: Path) -> None:
    lease = "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: ascend-owner-guard, namespace: g}\n"
    (tmp_path / "a.yaml").write_text(lease)
    cluster = FileCluster(tmp_path, Settings())
    assert [item["kind"] for item in cluster.objects] == ["Lease"]


@pytest.mark.parametrize(
    "files, sentence",
    [
        ({}, "no *.yaml, *.yml, *.json in this folder; add manifests."),
        ({"a.yaml": "a: ["}, "a.yaml, document 1: bad YAML"),
        ({"a.yaml": NODE % "n", "b.yaml": "---\n---\n" + NODE % "n"}, "b.yaml, document 2: /Node//n is there twice"),
        ({"a.yaml": "x: 1"}, "a.yaml, document 1: apiVersion is missing"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(tmp_path: Path, files: dict[str, str], sentence: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ManifestError) as caught:
        FileCluster(tmp_path, Settings())
    assert sentence in str(caught.value)


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="No such file or directory; check the path"):
        FileCluster(tmp_path / "absent", Settings())


def test_the_same_name_in_another_namespace_or_group_is_another_object(tmp_path: Path) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: %s}\n---\n"
    (tmp_path / "a.yaml").write_text(pod % "a" + pod % "b")
    assert len(FileCluster(tmp_path, Settings()).objects) == 2


def test_a_changed_file_is_read_again_and_a_broken_one_ages_the_last_good_picture(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(NODE % "one")
    cluster = FileCluster(tmp_path, Settings(), every=timedelta(milliseconds=20))
    cluster.start()
    try:
        file.write_text(NODE % "two-of-them")
        assert _eventually(lambda: node_names(cluster) == ["two-of-them"])
        assert cluster.cached().age == timedelta()
        file.write_text("a: [")
        assert _eventually(lambda: "files" in cluster.problems)
        assert node_names(cluster) == ["two-of-them"]
        assert _eventually(lambda: cluster.cached().age > timedelta(milliseconds=200))
        assert "bad YAML" in cluster.live(1).missing["pods"]
        file.write_text(NODE % "three")
        assert _eventually(lambda: node_names(cluster) == ["three"] and not cluster.problems)
    finally:
        cluster.stop()


def test_a_live_read_sees_a_change_without_waiting(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NODE % "one")
    cluster = FileCluster(tmp_path, Settings())
    (tmp_path / "b.yaml").write_text(NODE % "two")
    assert list(cluster.live(1).nodes) == ["one", "two"]


def _eventually(condition: object, seconds: float = 5) -> bool:
    assert callable(condition)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False
