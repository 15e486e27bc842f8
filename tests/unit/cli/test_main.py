"""The command as people use it: help, mistakes as sentences, the demonstration."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from webhook.cli.demo import SAMPLE_CLUSTER, SAMPLE_REQUESTS, guide, make_certificate
from webhook.cli.main import main
from webhook.cluster.files import FileCluster
from webhook.ownership.settings import Settings


def run(*words: str | Path, **environ: str) -> Result:
    environment = {"KUBERNETES_SERVICE_HOST": None, **environ}
    return CliRunner().invoke(main, [str(word) for word in words], env=environment)


def test_the_help_names_every_command() -> None:
    said = run("--help").output
    for command in ("serve", "review", "verify", "classify"):
        assert command in said


def test_the_version_is_said() -> None:
    assert run("--version").output.startswith("ascend-guard, version ")


@pytest.fixture
def tls(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "tls.crt").write_text("no certificate")
    (tmp_path / "tls.key").write_text("no key")
    return (f"--tls-cert={tmp_path / 'tls.crt'}", f"--tls-key={tmp_path / 'tls.key'}")


def test_serving_needs_a_certificate() -> None:
    result = run("serve", "--cluster", SAMPLE_CLUSTER)
    assert (result.exit_code, "python -m certs init" in result.output) == (2, True)


def test_files_that_are_no_pair_are_refused_before_anything_starts(tls: tuple[str, ...]) -> None:
    result = run("serve", "--cluster", SAMPLE_CLUSTER, *tls)
    assert (result.exit_code, "no pair of unencrypted PEM" in result.output) == (2, True)


def test_certificate_and_key_go_together(tls: tuple[str, ...]) -> None:
    result = run("serve", "--cluster", SAMPLE_CLUSTER, tls[0])
    assert (result.exit_code, "go together" in result.output) == (2, True)


def test_one_thing_is_guarded(tmp_path: Path) -> None:
    result = run("serve", "--demo", "--cluster", SAMPLE_CLUSTER)
    assert (result.exit_code, "exclude each other" in result.output) == (2, True)


@pytest.mark.parametrize("address", ["8443", "localhost:", "localhost:0", "localhost:99999", "::1:8443", "a b"])
def test_an_address_is_host_and_port(tls: tuple[str, ...], address: str) -> None:
    result = run("serve", "--cluster", SAMPLE_CLUSTER, *tls, "--bind", address)
    assert (result.exit_code, "write HOST:PORT" in result.output or "pair" in result.output) == (2, True)


def test_a_mistake_in_the_configuration_is_a_sentence_and_no_traceback(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("rules: {second-ownr: warn}")
    result = run("serve", "--cluster", SAMPLE_CLUSTER, "--config", config)
    assert result.exit_code == 2
    assert "did you mean second-owner?" in result.output
    assert "Traceback" not in result.output


def test_debug_shows_where_a_mistake_was_found(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("rules: {second-ownr: warn}")
    result = run("--debug", "serve", "--cluster", SAMPLE_CLUSTER, "--config", config)
    assert (result.exit_code, "Traceback" in result.output) == (2, True)


def test_a_mistake_in_the_environment_names_the_variable() -> None:
    result = run("serve", "--cluster", SAMPLE_CLUSTER, ASCEND_GUARD__SCOPE__MODE="town")
    assert (result.exit_code, "ASCEND_GUARD__SCOPE__MODE" in result.output) == (2, True)


def test_the_demonstration_shows_the_phase_its_evidence_and_what_to_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    authority, certificate, key = make_certificate()
    assert key.stat().st_mode & 0o777 == 0o600
    assert not (certificate.parent / "ca.key").exists()
    said = guide(FileCluster(SAMPLE_CLUSTER, Settings()), Settings(), authority, 8443)
    assert "Phase: leaving(native). Because:" in said
    assert "Pod kube-system/ascend-device-plugin-7xk2q is on node npu-2" in said
    assert f"--cacert {authority}" in said


@pytest.mark.parametrize(
    "request_file, exit_code, word",
    [
        ("second-owner", 1, "[second-owner]"),
        ("generated-object", 1, "[generated-object]"),
        ("mid-switch", 1, "[mid-switch]"),
        ("allowed-pod", 0, "allowed"),
    ],
)
def test_each_shipped_request_gets_the_verdict_that_it_is_named_after(
    request_file: str, exit_code: int, word: str
) -> None:
    result = run("review", SAMPLE_REQUESTS / f"{request_file}.json", "--cluster", SAMPLE_CLUSTER)
    assert (result.exit_code, word in result.output) == (exit_code, True)
    assert json.loads((SAMPLE_REQUESTS / f"{request_file}.json").read_text())["kind"] == "AdmissionReview"
