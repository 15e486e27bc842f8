"""What the authority makes is what the API server, curl and OpenSSL accept."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.verification import PolicyBuilder, Store

from certs.authority import make_authority, sign_leaf
from certs.errors import CertificateError
from certs.names import covers, names_of, service_names
from certs.pair import belongs

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
NAMES = service_names("guard", "ns")


def test_a_leaf_passes_the_strict_rules_of_the_web_for_each_of_its_names() -> None:
    authority = make_authority(NOW)
    leaf = sign_leaf(authority, [*NAMES, "127.0.0.1"], NOW)
    policy = PolicyBuilder().store(Store([authority.certificate])).time(NOW)
    subjects: list[x509.DNSName | x509.IPAddress] = [x509.IPAddress(ip_address("127.0.0.1"))]
    for subject in subjects + [x509.DNSName(name) for name in NAMES]:
        chain = policy.build_server_verifier(subject).verify(leaf.certificate, [])
        assert chain == [leaf.certificate, authority.certificate]


def test_a_service_is_called_by_its_short_and_its_full_name() -> None:
    assert NAMES == ("guard.ns.svc", "guard.ns.svc.cluster.local")


def test_keys_are_p256_and_each_certificate_has_its_own() -> None:
    authority = make_authority(NOW)
    first, second = (sign_leaf(authority, NAMES, NOW) for _ in range(2))
    for pair in (authority, first, second):
        assert isinstance(pair.key, ec.EllipticCurvePrivateKey)
        assert isinstance(pair.key.curve, ec.SECP256R1)
        assert belongs(pair.key, pair.certificate)
    assert not belongs(first.key, second.certificate)
    assert first.certificate.serial_number != second.certificate.serial_number


def test_a_peer_whose_clock_is_an_hour_behind_accepts_both() -> None:
    authority = make_authority(NOW)
    leaf = sign_leaf(authority, NAMES, NOW, life=timedelta(days=30))
    for pair in (authority, leaf):
        assert pair.certificate.not_valid_before_utc < NOW - timedelta(hours=1)
    assert leaf.certificate.not_valid_after_utc == NOW + timedelta(days=30)


def test_a_leaf_does_not_outlive_its_authority() -> None:
    authority = make_authority(NOW, life=timedelta(days=10))
    leaf = sign_leaf(authority, NAMES, NOW, life=timedelta(days=30))
    assert leaf.certificate.not_valid_after_utc == authority.certificate.not_valid_after_utc


def test_an_expired_authority_signs_nothing() -> None:
    with pytest.raises(CertificateError, match="expired on 2025-06-11 12:00 UTC"):
        sign_leaf(make_authority(NOW, life=timedelta(days=10)), NAMES, NOW + timedelta(days=10))


def test_two_authorities_differ_in_name_so_that_both_can_be_trusted_at_once() -> None:
    assert make_authority(NOW).certificate.subject != make_authority(NOW).certificate.subject


def test_the_longest_service_name_fits() -> None:
    names = service_names("s" * 63, "n" * 63)
    assert names_of(sign_leaf(make_authority(NOW), names, NOW).certificate) == names


@pytest.mark.parametrize(
    "name", ["", "a b", "-a", "a..b", "a_b", "ü.example", "a" * 64, "*", "a.*", "." * 3, "a." * 127]
)
def test_what_is_no_host_name_is_refused(name: str) -> None:
    with pytest.raises(CertificateError, match="neither a DNS name"):
        sign_leaf(make_authority(NOW), [name], NOW)


def test_a_leaf_without_a_name_is_refused() -> None:
    with pytest.raises(CertificateError, match="at least one name"):
        sign_leaf(make_authority(NOW), [], NOW)


@pytest.mark.parametrize(
    "held, called, fits",
    [
        ("guard.ns.svc", "GUARD.ns.svc", True),
        ("Guard.ns.svc", "guard.ns.svc", True),
        ("guard.ns.svc", "other.ns.svc", False),
        ("*.ns.svc", "guard.ns.svc", True),
        ("*.ns.svc", "a.guard.ns.svc", False),
        ("*.ns.svc", "ns.svc", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("::1", "0:0:0:0:0:0:0:1", True),
    ],
)
def test_names_are_compared_as_clients_do(held: str, called: str, fits: bool) -> None:
    assert covers(sign_leaf(make_authority(NOW), [held], NOW).certificate, called) is fits


def test_nothing_that_holds_a_key_shows_it_when_printed() -> None:
    pair = make_authority(NOW)
    assert "key" not in repr(pair)
