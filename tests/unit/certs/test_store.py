"""Files: what is written is what is read, with the right modes, whole or not at all."""

import os
from datetime import UTC, datetime
from pathlib import Path
from stat import S_IMODE

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from certs import store
from certs.authority import make_authority, sign_leaf
from certs.bundle import FILES, decode, encode_authority, encode_serving
from certs.errors import CertificateError
from certs.pair import decode_certificates, decode_key, encode_key

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
AUTHORITY = make_authority(NOW)
LEAF = sign_leaf(AUTHORITY, ["guard.ns.svc"], NOW)
WHOLE = encode_authority(AUTHORITY) | encode_serving(LEAF)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    store.write(tmp_path, WHOLE, replace=False)
    bundle = decode(store.read(tmp_path))
    assert bundle.anchors == (AUTHORITY.certificate,)
    assert bundle.pair.certificate == LEAF.certificate
    assert encode_key(bundle.pair.key) == encode_key(LEAF.key)
    assert bundle.authority().certificate == AUTHORITY.certificate


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_keys_are_for_the_owner_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store.write(tmp_path / "new", WHOLE, replace=False)
    finally:
        os.umask(before)
    modes = {path.name: S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "tls.crt": 0o644, "tls.key": 0o600}
    assert S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_the_mode_of_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    store.write(tmp_path, WHOLE, replace=False)
    assert S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.parametrize("name", FILES)
def test_one_file_that_is_there_keeps_all_of_them_from_being_written(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(store.AlreadyThereError, match=f"has {name} already"):
        store.write(tmp_path, WHOLE, replace=False)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


def test_a_dangling_symlink_is_something_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "tls.key").symlink_to("nowhere")
    with pytest.raises(store.AlreadyThereError):
        store.write(tmp_path, WHOLE, replace=False)


def test_replacing_leaves_other_files_alone_and_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("mine")
    store.write(tmp_path, WHOLE, replace=False)
    store.write(tmp_path, encode_serving(sign_leaf(AUTHORITY, ["other"], NOW)), replace=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["note", *FILES])
    assert (tmp_path / "ca.key").read_bytes() == WHOLE["ca.key"]
    assert (tmp_path / "tls.crt").read_bytes() != WHOLE["tls.crt"]


def test_a_disk_that_is_full_leaves_the_old_files_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(tmp_path, WHOLE, replace=False)
    calls = iter([None, OSError(28, "No space left on device")])

    def full(descriptor: int) -> None:
        if error := next(calls):
            raise error

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CertificateError, match="cannot be written: No space left"):
        store.write(tmp_path, encode_serving(sign_leaf(AUTHORITY, ["other"], NOW)), replace=True)
    assert store.read(tmp_path) == WHOLE
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CertificateError, match="cannot be written: "):
        store.write(tmp_path / "file" / "folder", WHOLE, replace=False)


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "tls.crt").mkdir()
    with pytest.raises(CertificateError, match=r"tls\.crt cannot be read: Is a directory"):
        store.read(tmp_path)


@pytest.mark.parametrize("name", ["ca.crt", "tls.crt", "tls.key"])
def test_a_missing_or_unreadable_file_is_named(name: str) -> None:
    with pytest.raises(CertificateError, match=f"{name} is missing"):
        decode({other: content for other, content in WHOLE.items() if other != name})
    for rubbish in (b"", b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", WHOLE["tls.crt"][:200]):
        with pytest.raises(CertificateError, match=f"{name} holds no readable PEM"):
            decode(WHOLE | {name: rubbish})


def test_without_a_signing_key_all_but_signing_is_possible() -> None:
    bundle = decode({name: content for name, content in WHOLE.items() if name != "ca.key"})
    with pytest.raises(CertificateError, match=r"There is no ca\.key"):
        bundle.authority()


def test_the_signing_certificate_is_found_among_several_trusted_ones() -> None:
    other = make_authority(NOW)
    both = encode_authority(other)["ca.crt"] + WHOLE["ca.crt"]
    assert decode(WHOLE | {"ca.crt": both}).authority().certificate == AUTHORITY.certificate


def test_a_chain_keeps_its_order() -> None:
    bundle = decode(WHOLE | {"tls.crt": WHOLE["tls.crt"] + WHOLE["ca.crt"]})
    assert bundle.pair.intermediates == (AUTHORITY.certificate,)
    assert encode_serving(bundle.pair)["tls.crt"] == WHOLE["tls.crt"] + WHOLE["ca.crt"]


def test_text_around_the_pem_does_not_disturb() -> None:
    assert decode_certificates(b"subject=x\n" + WHOLE["tls.crt"] + b"# end\n", "tls.crt") == (LEAF.certificate,)


def test_rsa_keys_are_read_and_others_refused_in_a_sentence() -> None:
    keep = rsa.generate_private_key(65537, 2048)
    assert decode_key(encode_key(keep), "tls.key").public_key() == keep.public_key()
    refused = ed25519.Ed25519PrivateKey.generate()
    pem = refused.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(CertificateError, match=r"tls\.key holds a key that is neither EC nor RSA"):
        decode_key(pem, "tls.key")


def test_an_encrypted_key_is_refused_in_a_sentence() -> None:
    pem = LEAF.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    with pytest.raises(CertificateError, match=r"tls\.key is encrypted"):
        decode_key(pem, "tls.key")
