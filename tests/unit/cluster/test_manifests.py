"""YAML text becomes documents, or a sentence that names file, document and remedy."""

import pytest

from webhook.cluster.errors import ManifestError
from webhook.cluster.manifests import load_documents, numbered_documents, objects_of

BOMB = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 2)}]\n" for i in range(1, 40))
MERGE_BOMB = "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40))


def test_several_documents_are_several_mappings_and_empty_ones_are_skipped() -> None:
    assert load_documents("a: 1\n---\n# nothing\n---\nb: 2\n", "x.yaml") == [{"a": 1}, {"b": 2}]


def test_an_empty_document_still_counts_in_the_numbers() -> None:
    assert [number for number, _ in numbered_documents("---\n# nothing\n---\na: 1\n---\nb: 2\n", "x")] == [2, 3]


def test_a_time_stamp_stays_a_text_as_the_api_server_gives_it() -> None:
    assert load_documents("t: 2026-01-02T03:04:05Z", "x") == [{"t": "2026-01-02T03:04:05Z"}]


def test_json_is_read_too() -> None:
    assert load_documents('{"a": {"b": [1, null]}}', "x") == [{"a": {"b": [1, None]}}]


def test_an_alias_and_a_merge_key_are_read() -> None:
    assert load_documents("b: &b {x: 1}\nc: {<<: *b, y: *b}", "x") == [{"b": {"x": 1}, "c": {"x": 1, "y": {"x": 1}}}]


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("a: 1\n---\na: [1", "x.yaml, document 2: bad YAML in line 4"),
        ("- 1", "x.yaml, document 1: a mapping is expected, this is a list"),
        ("a: 1\na: 2", "x.yaml, document 1, line 2: the key 'a' is there twice; remove one."),
        ("1: a", "the key '1' is no text; put it in quotes."),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("a: !!binary aGk=", "could not determine a constructor"),
        ("a: &a [*a]", "an alias contains itself"),
        ("a0: &a0 [1]\n" + BOMB, "values with its aliases"),
        ("a0: &a0 {k: 1}\n" + MERGE_BOMB, "values with its aliases"),
        ("a: " + "[" * 150 + "]" * 150, "nested deeper than 100"),
        ("a: &a " + "[" * 60 + "]" * 60 + "\nb: " + "[" * 60 + "*a" + "]" * 60, "nested deeper than 100"),
        ("[" * 100_000, "exceeded maximum nesting depth"),
        ('{"a":' * 100_000, "exceeded maximum nesting depth"),
        ("a: " + "9" * 5000, "bad YAML"),
        ("a: \x00", "bad YAML"),
        (b"a: \xff", "not UTF-8 at byte 3; save it as UTF-8."),
        (b" " * (8 * 1024 * 1024 + 1), "split the file"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_cannot_be_read_is_a_sentence_of_one_line(text: str | bytes, sentence: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load_documents(text, "x.yaml")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_list_is_unpacked_and_its_items_get_their_type() -> None:
    pod = {"metadata": {"name": "a"}}
    assert list(objects_of({"apiVersion": "v1", "kind": "PodList", "items": [pod]}, "x")) == [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    ]
    typed = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a"}}
    assert list(objects_of({"apiVersion": "v1", "kind": "List", "items": [typed]}, "x")) == [typed]


@pytest.mark.parametrize(
    "document, sentence",
    [
        ({"kind": "Pod"}, "x: apiVersion is missing or no text; is this a Kubernetes object?"),
        ({"apiVersion": "v1", "kind": 1}, "x: kind is missing or no text"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": None}, "x: metadata.name is missing"),
        ({"apiVersion": "v1", "kind": "List", "items": [{"kind": "Pod"}]}, "x, items[0]: apiVersion is missing"),
        ({"apiVersion": "v1", "kind": "List", "items": [3]}, "x: items[0] is no mapping"),
    ],
)
def test_what_is_no_object_is_named_with_its_place(document: dict[str, object], sentence: str) -> None:
    with pytest.raises(ManifestError) as caught:
        list(objects_of(document, "x"))
    assert sentence in str(caught.value)
