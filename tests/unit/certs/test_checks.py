"""Each way in which certificates are wrong has a sentence of its own; what clients accept has none."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.authority import make_authority, sign_leaf
from certs.bundle import Bundle
from certs.checks import problems
from certs.errors import CertificateError
from certs.inspection import summarise
from certs.pair import Pair

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
NAME = "guard.ns.svc"
AUTHORITY = make_authority(NOW, life=timedelta(days=365))
LEAF = sign_leaf(AUTHORITY, [NAME], NOW, life=timedelta(days=30))
GOOD = Bundle((AUTHORITY.certificate,), LEAF, AUTHORITY.key)


def made_elsewhere(
    subject: str, issuer: Pair | None, extensions: Sequence[x509.ExtensionType], since: datetime = NOW
) -> Pair:
    """Make a certificate with these extensions only, as other tools do; without an issuer it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    builder = x509.CertificateBuilder(
        issuer.certificate.subject if issuer else name,
        name,
        key.public_key(),
        x509.random_serial_number(),
        since,
        since + timedelta(days=30),
    )
    for each in extensions:
        builder = builder.add_extension(each, critical=False)
    return Pair(builder.sign(issuer.key if issuer else key, hashes.SHA256()), key)


CA = x509.BasicConstraints(ca=True, path_length=None)
SAN = x509.SubjectAlternativeName([x509.DNSName(NAME)])


def test_what_the_authority_made_has_no_problem() -> None:
    assert problems(GOOD, [NAME], NOW) == ()


def test_a_set_without_a_signing_key_has_no_problem() -> None:
    assert problems(replace(GOOD, authority_key=None), [NAME], NOW) == ()


def test_a_foreign_key_is_told() -> None:
    foreign = replace(GOOD, pair=replace(LEAF, key=AUTHORITY.key))
    assert problems(foreign, [NAME], NOW) == ("tls.key does not belong to the first certificate in tls.crt.",)


def test_a_missing_name_is_told_with_the_names_that_are_there() -> None:
    assert problems(GOOD, [NAME, "other"], NOW) == (f"tls.crt is not for other: it is for {NAME}.",)


def test_a_question_about_no_host_name_is_an_error() -> None:
    with pytest.raises(CertificateError, match="neither a DNS name"):
        problems(GOOD, ["no name"], NOW)


def test_an_expired_leaf_is_told_as_that_and_nothing_else() -> None:
    assert problems(GOOD, [NAME], NOW + timedelta(days=31)) == (
        "The certificate CN=ascend-owner-guard has expired on 2025-07-01 12:00 UTC.",
    )


def test_a_leaf_from_the_future_is_told() -> None:
    early = problems(GOOD, [NAME], NOW - timedelta(days=1))
    assert (
        "The certificate CN=ascend-owner-guard is valid from 2025-06-01 10:00 UTC on; it is 2025-05-31 12:00." in early
    )


def test_an_authority_that_expired_before_its_leaf_is_told() -> None:
    root = made_elsewhere("root", None, [CA])
    leaf = made_elsewhere("leaf", root, [SAN], since=NOW + timedelta(days=20))
    sentences = problems(Bundle((root.certificate,), leaf), [NAME], NOW + timedelta(days=31))
    assert sentences == ("The certificate CN=root has expired on 2025-07-01 12:00 UTC.",)


def test_a_leaf_of_another_authority_is_told_with_both_names() -> None:
    other = make_authority(NOW)
    (sentence,) = problems(Bundle((other.certificate,), LEAF), [NAME], NOW)
    assert sentence.startswith("tls.crt does not lead to a certificate in ca.crt: issued by CN=ascend-owner-guard CA ")
    assert other.certificate.subject.rfc4514_string() in sentence


def test_an_expired_leaf_of_another_authority_is_told_as_both() -> None:
    sentences = problems(Bundle((make_authority(NOW).certificate,), LEAF), [NAME], NOW + timedelta(days=31))
    assert len(sentences) == 2
    assert "does not lead to" in sentences[0]
    assert "has expired" in sentences[1]


def test_an_authority_of_the_same_name_but_another_key_is_told() -> None:
    root, impostor = (made_elsewhere("root", None, [CA]) for _ in range(2))
    leaf = made_elsewhere("leaf", root, [SAN])
    (sentence,) = problems(Bundle((impostor.certificate,), leaf), [NAME], NOW)
    assert "does not lead to" in sentence


@pytest.mark.parametrize("new_first", [True, False])
def test_either_of_two_trusted_authorities_will_do(new_first: bool) -> None:
    new = make_authority(NOW)
    anchors = (new.certificate, AUTHORITY.certificate) if new_first else (AUTHORITY.certificate, new.certificate)
    assert problems(Bundle(anchors, LEAF, AUTHORITY.key), [NAME], NOW) == ()
    assert problems(Bundle(anchors, sign_leaf(new, [NAME], NOW), new.key), [NAME], NOW) == ()


def test_a_signing_key_of_no_trusted_authority_is_told() -> None:
    stray = replace(GOOD, authority_key=make_authority(NOW).key)
    assert problems(stray, [NAME], NOW) == ("ca.key belongs to no certificate in ca.crt.",)


def test_an_intermediate_is_found_in_the_served_chain_and_missed_without() -> None:
    root = made_elsewhere("root", None, [CA])
    middle = made_elsewhere("middle", root, [CA])
    leaf = made_elsewhere("leaf", middle, [SAN])
    whole = replace(leaf, intermediates=(middle.certificate,))
    assert problems(Bundle((root.certificate,), whole), [NAME], NOW) == ()
    (sentence,) = problems(Bundle((root.certificate,), leaf), [NAME], NOW)
    assert "issued by CN=middle, trusted are CN=root" in sentence


def test_an_issuer_that_may_not_sign_is_told() -> None:
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    for extensions in ([CA, usage], []):
        root = made_elsewhere("root", None, extensions)
        (sentence,) = problems(Bundle((root.certificate,), made_elsewhere("leaf", root, [SAN])), [NAME], NOW)
        assert "does not lead to" in sentence


def test_a_certificate_that_is_its_own_authority_has_no_problem() -> None:
    own = made_elsewhere("own", None, [SAN])
    assert problems(Bundle((own.certificate,), own), [NAME], NOW) == ()


def test_a_certificate_with_only_a_common_name_is_told() -> None:
    root = made_elsewhere("root", None, [CA])
    (sentence,) = problems(Bundle((root.certificate,), made_elsewhere(NAME, root, [])), [NAME], NOW)
    assert sentence.startswith("tls.crt names no host")


def test_an_address_that_was_written_as_a_dns_name_is_told() -> None:
    root = made_elsewhere("root", None, [CA])
    leaf = made_elsewhere("leaf", root, [x509.SubjectAlternativeName([x509.DNSName("127.0.0.1")])])
    assert problems(Bundle((root.certificate,), leaf), ["127.0.0.1"], NOW) == (
        "tls.crt holds 127.0.0.1 as a DNS name; clients look for an IP address.",
    )


def test_a_certificate_for_clients_only_is_told() -> None:
    root = made_elsewhere("root", None, [CA])
    leaf = made_elsewhere("leaf", root, [SAN, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])])
    (sentence,) = problems(Bundle((root.certificate,), leaf), [NAME], NOW)
    assert "lacks serverAuth" in sentence


@pytest.mark.parametrize("days, left", [(-1, 1.0), (0, 0.997), (15, 0.5), (30, 0.0), (99, 0.0)])
def test_the_share_of_life_left_lies_between_one_and_zero(days: int, left: float) -> None:
    assert summarise(LEAF.certificate, NOW + timedelta(days=days)).life_left == pytest.approx(left, abs=0.005)


def test_a_summary_says_what_the_certificate_says() -> None:
    summary = summarise(LEAF.certificate, NOW)
    assert summary.subject == "CN=ascend-owner-guard"
    assert summary.issuer == AUTHORITY.certificate.subject.rfc4514_string()
    assert summary.names == (NAME,)
    assert summary.not_after == NOW + timedelta(days=30)
    assert summary.sha256.replace(":", "").lower() == LEAF.certificate.fingerprint(hashes.SHA256()).hex()
