"""The configuration is one file and the environment, and every mistake in it is a sentence."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from webhook.configuration import Configuration, ConfigurationError, load


def from_text(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> Configuration:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return load(file, environ or {})


def problems(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as raised:
        from_text(tmp_path, text, environ)
    return raised.value.problems


def test_no_file_and_no_variable_are_the_defaults() -> None:
    assert load(None, {"PATH": "/bin", "ASCEND_GUARD_TEST_ASSETS": "/x"}) == Configuration()


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}"])
def test_an_empty_file_is_the_defaults(tmp_path: Path, text: str) -> None:
    assert from_text(tmp_path, text) == Configuration()


def test_a_file_sets_what_it_names(tmp_path: Path) -> None:
    configuration = from_text(
        tmp_path, "rules: {second-owner: audit}\nfreshness: {maxAge: 3m}\nmarkers: [a=b]\nserver: {port: 9443}\n"
    )
    assert configuration.rules.second_owner == "audit"
    assert configuration.freshness.max_age == timedelta(minutes=3)
    assert configuration.markers == ("a=b",)
    assert (configuration.server.port, configuration.server.threads) == (9443, 8)


def test_the_environment_comes_after_the_file(tmp_path: Path) -> None:
    environ = {
        "ASCEND_GUARD__RULES__SECOND_OWNER": "warn",
        "ASCEND_GUARD__FRESHNESS__MAXAGE": "3s",
        "ASCEND_GUARD__FRESHNESS__CLAIM_POLL": "2",
        "ASCEND_GUARD__MARKERS": "[x=y, z]",
        "ASCEND_GUARD__ADOPT": "false",
        "ASCEND_GUARD__IDENTITIES__HAMIOPERATOR": "['system:serviceaccount:hami-system:hami']",
        "ascend_guard__server__tls__certificate": "/tls/tls.crt",
        "ASCEND_GUARD__SERVER__TLS__KEY": "/tls/tls.key",
    }
    configuration = from_text(tmp_path, "rules: {second-owner: audit, mid-switch: audit}\nmarkers: [a]\n", environ)
    assert (configuration.rules.second_owner, configuration.rules.mid_switch) == ("warn", "audit")
    assert configuration.freshness.max_age == timedelta(seconds=3)
    assert configuration.freshness.claim_poll == timedelta(seconds=2)
    assert (configuration.markers, configuration.adopt) == (("x=y", "z"), False)
    assert configuration.identities.hami_operator == ("system:serviceaccount:hami-system:hami",)
    assert configuration.server.tls.certificate == Path("/tls/tls.crt")


def test_an_unknown_key_is_named_with_the_one_that_was_meant(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "freshness: {maxage: 3s}")
    assert "freshness.maxage is no key of the configuration; did you mean maxAge?" in problem
    assert problem.startswith(str(tmp_path))


def test_an_unknown_key_without_a_near_one_lists_what_there_is(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "scope: {zzz: 1}")
    assert problem.endswith("scope.zzz is no key of the configuration; here are: mode.")


def test_an_unknown_variable_is_named(tmp_path: Path) -> None:
    environ = {"ASCEND_GUARD__RULES__SECOND_OWNR": "warn", "ASCEND_GUARD__PORT__X": "1", "ASCEND_GUARD__ADOPT__X": "1"}
    first, second, third = problems(tmp_path, "", environ)
    assert first.startswith("ASCEND_GUARD__ADOPT__X: adopt.x is no key")
    assert second.startswith("ASCEND_GUARD__PORT__X: port is no key")
    assert third == (
        "ASCEND_GUARD__RULES__SECOND_OWNR: rules.second_ownr is no key of the configuration; did you mean second-owner?"
    )


def test_all_mistakes_are_said_at_once(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "rules: {mid-switch: off}\nserver: {port: 0, keepAlive: 5s, tls: {key: /k}}\nfreshness: {maxAge: soon}\n",
        {"ASCEND_GUARD__SCOPE__MODE": "town"},
    )
    said = "\n".join(found)
    assert len(found) == 6
    for part in (
        "rules.mid-switch",
        "server.port",
        "server.keepAlive: the API server keeps idle connections for 90 s",
        "server.tls: certificate and key go together",
        "freshness.maxAge: 'soon' is no duration",
        "ASCEND_GUARD__SCOPE__MODE: scope.mode: Input should be 'cluster' or 'selectors'.",
    ):
        assert part in said


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("a: [", "bad YAML"),
        ("- a", "a mapping is expected"),
        ("scope: {}\n---\nscope: {}\n", "2 documents"),
        ("a: &a [*a]", "alias"),
        ("x: " + "[" * 500 + "]" * 500, "deep"),
        ("server: null", "server"),
        ("1: 2", "'1' is no text"),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in "\n".join(problems(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        load(tmp_path / "absent.yaml", {})


@pytest.mark.parametrize("value, sentence", [("{a: b}", "mapping"), ("[", "no YAML"), ("", "scope.mode")])
def test_a_variable_that_is_no_scalar_or_list(tmp_path: Path, value: str, sentence: str) -> None:
    (problem,) = problems(tmp_path, "", {"ASCEND_GUARD__SCOPE__MODE": value})
    assert problem.startswith("ASCEND_GUARD__SCOPE__MODE: ")
    assert sentence in problem
