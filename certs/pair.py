"""A certificate with its private key, and both in PEM."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from certs.errors import CertificateError

PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Pair:
    """A certificate, its private key, and the certificates between it and a trusted one (nearest first).

    Whether the key belongs to the certificate is for `belongs` to say: a pair from disk may be a wrong one.
    """

    certificate: x509.Certificate
    key: PrivateKey = field(repr=False)
    intermediates: tuple[x509.Certificate, ...] = ()


def belongs(key: PrivateKey, certificate: x509.Certificate) -> bool:
    """Say whether the certificate was made for this key."""
    return key.public_key() == certificate.public_key()


def encode_certificates(certificates: Sequence[x509.Certificate]) -> bytes:
    """Return the certificates as PEM, in the order given."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def encode_key(key: PrivateKey) -> bytes:
    """Return the key as unencrypted PKCS #8 PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def decode_certificates(pem: bytes, file: str) -> tuple[x509.Certificate, ...]:
    """Read one or more certificates, in their order. `file` is what the sentence of a CertificateError calls them."""
    try:
        certificates = tuple(x509.load_pem_x509_certificates(pem))
        for each in certificates:  # both are parsed on first use: here, so that nothing later can fail on them
            _ = each.extensions, each.public_key()
    except (
        ValueError,
        UnsupportedAlgorithm,
        x509.InvalidVersion,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise CertificateError(f"{file} holds no readable PEM certificate.") from error
    return certificates


def decode_key(pem: bytes, file: str) -> PrivateKey:
    """Read an unencrypted EC or RSA private key. `file` is what the sentence of a CertificateError calls it."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise CertificateError(f"{file} is encrypted; the server needs the key without a passphrase.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateError(f"{file} holds no readable PEM private key.") from None
    if not isinstance(key, PrivateKey):
        raise CertificateError(f"{file} holds a key that is neither EC nor RSA.")
    return key
