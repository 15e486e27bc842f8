"""`python -m certs` as people use it."""

import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import certs.__main__ as command
from certs import store
from certs.bundle import Bundle, decode
from certs.names import names_of


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command.main, [str(each) for each in arguments])


def bundle_in(folder: Path) -> Bundle:
    return decode(store.read(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    result = run("init", "--dir", tmp_path / "tls", "--service", "guard", "--namespace", "ns", "--loopback")
    assert result.exit_code == 0, result.output
    return tmp_path / "tls"


def test_init_covers_the_service_names_the_given_names_and_loopback_on_request(tmp_path: Path) -> None:
    arguments = ("--dns-name", "a.example", "--dns-name", "b.example", "--service", "guard", "--namespace", "ns")
    run("init", "--dir", tmp_path / "one", *arguments)
    run("init", "--dir", tmp_path / "two", *arguments, "--loopback")
    expected = ("a.example", "b.example", "guard.ns.svc", "guard.ns.svc.cluster.local")
    assert names_of(bundle_in(tmp_path / "one").pair.certificate) == expected
    assert names_of(bundle_in(tmp_path / "two").pair.certificate) == (*expected, "localhost", "127.0.0.1", "::1")


def test_init_takes_the_life_of_the_leaf_in_days(tmp_path: Path) -> None:
    run("init", "--dir", tmp_path, "--loopback", "--days", "3")
    leaf = bundle_in(tmp_path).pair.certificate
    assert timedelta(days=3) < leaf.not_valid_after_utc - leaf.not_valid_before_utc < timedelta(days=3, hours=3)


def test_init_replaces_nothing_unless_forced(folder: Path) -> None:
    before = store.read(folder)
    refused = run("init", "--dir", folder, "--loopback")
    assert refused.exit_code == 1
    assert "has ca.crt, ca.key, tls.crt, tls.key already" in refused.output
    assert store.read(folder) == before
    assert run("init", "--dir", folder, "--loopback", "--force").exit_code == 0
    after = store.read(folder)
    assert all(after[name] != before[name] for name in before)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ((), "Name at least one host"),
        (("--service", "guard"), "--service and --namespace go together"),
        (("--namespace", "ns"), "--service and --namespace go together"),
        (("--dns-name", "a b"), "'a b' is neither a DNS name"),
        (("--service", "a_b", "--namespace", "ns"), "neither a DNS name"),
        (("--loopback", "--days", "0"), "0 is not in the range"),
        (("--loopback", "--colour"), "No such option"),
    ],
)
def test_wrong_usage_is_exit_code_two_with_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    result = run("init", "--dir", tmp_path, *arguments)
    assert result.exit_code == 2
    assert sentence in result.output
    assert list(tmp_path.iterdir()) == []


def test_check_says_good_and_for_whom(folder: Path) -> None:
    result = run("check", "--dir", folder, "--dns-name", "guard.ns.svc", "--dns-name", "127.0.0.1")
    assert result.exit_code == 0
    assert result.output.startswith("Good: tls.crt is for guard.ns.svc, guard.ns.svc.cluster.local, localhost")


def test_check_prints_every_problem_and_ends_with_one(folder: Path, tmp_path: Path) -> None:
    run("init", "--dir", tmp_path / "other", "--loopback")
    (folder / "tls.crt").write_bytes((tmp_path / "other" / "tls.crt").read_bytes())
    result = run("check", "--dir", folder, "--dns-name", "guard.ns.svc")
    assert result.exit_code == 1
    assert [line.split(":")[0].split(" belong")[0] for line in result.output.splitlines()] == [
        "tls.key does not",
        "tls.crt is not for guard.ns.svc",
        "tls.crt does not lead to a certificate in ca.crt",
    ]


def test_check_of_a_folder_that_lacks_a_file_is_exit_code_one(folder: Path) -> None:
    (folder / "tls.crt").unlink()
    result = run("check", "--dir", folder)
    assert (result.exit_code, result.output) == (1, "Error: tls.crt is missing.\n")


def test_check_of_a_folder_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    assert run("check", "--dir", tmp_path / "no").exit_code == 2


def test_check_notices_expiry(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = command._now()

    def later() -> datetime:
        return now + timedelta(days=91)

    monkeypatch.setattr(command, "_now", later)
    result = run("check", "--dir", folder)
    assert result.exit_code == 1
    assert "has expired on" in result.output


def test_rotate_keeps_names_and_authority_and_renews_certificate_and_key(folder: Path) -> None:
    before, files = bundle_in(folder), store.read(folder)
    assert run("rotate", "--dir", folder, "--days", "5").exit_code == 0
    after = bundle_in(folder)
    assert names_of(after.pair.certificate) == names_of(before.pair.certificate)
    assert after.pair.certificate.serial_number != before.pair.certificate.serial_number
    assert after.pair.key.public_key() != before.pair.key.public_key()
    assert all(store.read(folder)[name] == files[name] for name in ("ca.crt", "ca.key"))
    assert run("check", "--dir", folder, "--dns-name", "guard.ns.svc").exit_code == 0


def test_rotate_without_the_signing_key_changes_nothing(folder: Path) -> None:
    (folder / "ca.key").unlink()
    before = store.read(folder)
    result = run("rotate", "--dir", folder)
    assert result.exit_code == 1
    assert "There is no ca.key" in result.output
    assert store.read(folder) == before


def test_inspect_shows_certificates_and_needs_no_key(folder: Path) -> None:
    (folder / "ca.key").unlink()
    (folder / "tls.key").write_text("unreadable")
    result = run("inspect", "--dir", folder)
    assert result.exit_code == 0
    for part in ("ca.crt", "tls.crt", "names      guard.ns.svc, ", "life left  100%", "sha256     "):
        assert part in result.output


def test_no_command_prints_key_material(folder: Path) -> None:
    def secrets() -> set[str]:
        return {line for name in ("ca.key", "tls.key") for line in (folder / name).read_text().splitlines()}

    for arguments in (("inspect",), ("check",), ("init", "--loopback"), ("init", "--loopback", "--force"), ("rotate",)):
        before = secrets()
        output = run(*arguments, "--dir", folder).output
        assert output
        assert not any(line in output for line in before | secrets())


def test_inspect_of_an_empty_folder_is_a_sentence(tmp_path: Path) -> None:
    result = run("inspect", "--dir", tmp_path)
    assert result.exit_code == 1
    assert "has neither ca.crt nor tls.crt" in result.output


def test_it_runs_as_a_module_and_loads_nothing_of_the_webhook(tmp_path: Path) -> None:
    program = "import sys, certs.__main__; sys.exit(any(name.split('.')[0] == 'webhook' for name in sys.modules))"
    root = Path(command.__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", program], cwd=root, check=False).returncode == 0
    made = subprocess.run(
        [sys.executable, "-m", "certs", "init", "--dir", tmp_path, "--loopback"], cwd=root, check=False
    )
    assert made.returncode == 0
