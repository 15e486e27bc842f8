"""Making a certificate authority, and leaves signed by it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.errors import CertificateError
from certs.names import general_name
from certs.pair import Pair, PrivateKey

AUTHORITY_LIFE = timedelta(days=3650)
LEAF_LIFE = timedelta(days=90)

KeyKind = Literal["ec-p256", "ec-p384", "rsa-2048", "rsa-3072"]
DEFAULT_KEY: KeyKind = "ec-p256"

# How far notBefore lies in the past: a peer whose clock is this much behind still accepts the certificate.
BACKDATED = timedelta(hours=2)

_SUBJECT = "ascend-owner-guard"


def make_authority(now: datetime, life: timedelta = AUTHORITY_LIFE, kind: KeyKind = DEFAULT_KEY) -> Pair:
    """Make a self-signed authority with a new key of this kind, valid for `life` from `now` (with a time zone).

    Its name carries a part of its key's identifier: two authorities that are trusted at once (while one takes over
    from the other) are told apart by name.
    """
    key = _new_key(kind)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    name = _name(f"{_SUBJECT} CA {identifier.digest.hex()[:8]}")
    builder = (
        _builder(name, name, key, now, now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def sign_leaf(
    authority: Pair,
    names: Sequence[str],
    now: datetime,
    life: timedelta = LEAF_LIFE,
    kind: KeyKind = DEFAULT_KEY,
) -> Pair:
    """Make a server certificate with a new key of this kind for the names (DNS names or IP addresses).

    Valid for `life` from `now` (with a time zone), but no longer than the authority. The pair carries no
    intermediates: clients hold the authority's certificate already, so it need not travel in every handshake.
    Raises CertificateError for a name that is none, no name at all, or an authority that has expired.
    """
    if not names:
        raise CertificateError("A server certificate needs at least one name.")
    issuer = authority.certificate
    if issuer.not_valid_after_utc <= now:
        raise CertificateError(f"The authority has expired on {issuer.not_valid_after_utc:%Y-%m-%d %H:%M} UTC.")
    key = _new_key(kind)
    identifier = x509.SubjectKeyIdentifier.from_public_key(issuer.public_key())
    until = min(now + life, issuer.not_valid_after_utc)
    # A common name holds 64 characters at most, a DNS name 253, and clients look at the SAN alone: it stays fixed.
    builder = (
        _builder(_name(_SUBJECT), issuer.subject, key, now, until)
        .add_extension(
            x509.SubjectAlternativeName([general_name(each) for each in dict.fromkeys(names)]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def _new_key(kind: KeyKind) -> PrivateKey:
    match kind:
        case "ec-p256":
            return ec.generate_private_key(ec.SECP256R1())
        case "ec-p384":
            return ec.generate_private_key(ec.SECP384R1())
        case "rsa-2048":
            return rsa.generate_private_key(65537, 2048)
        case "rsa-3072":
            return rsa.generate_private_key(65537, 3072)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
