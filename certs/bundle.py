"""Everything that belongs to one serving certificate, as files of PEM: those of a folder, or of a Secret's data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography import x509

from certs.errors import CertificateError
from certs.pair import (
    Pair,
    PrivateKey,
    belongs,
    decode_certificates,
    decode_key,
    encode_certificates,
    encode_key,
)

AUTHORITY_CERTIFICATE = "ca.crt"
AUTHORITY_KEY = "ca.key"
SERVING_CERTIFICATE = "tls.crt"
SERVING_KEY = "tls.key"
FILES = (AUTHORITY_CERTIFICATE, AUTHORITY_KEY, SERVING_CERTIFICATE, SERVING_KEY)
KEYS = frozenset({AUTHORITY_KEY, SERVING_KEY})


@dataclass(frozen=True)
class Bundle:
    """What the files hold: the certificates that clients trust, the pair that is served, and the signing key.

    There may be several anchors (a new authority is trusted before it signs), and no signing key at all (a
    certificate that somebody else issued).
    """

    anchors: tuple[x509.Certificate, ...]
    pair: Pair
    authority_key: PrivateKey | None = field(default=None, repr=False)

    def authority(self) -> Pair:
        """Return the anchor that the signing key belongs to, with that key. Raises CertificateError without one."""
        if self.authority_key is None:
            raise CertificateError(f"There is no {AUTHORITY_KEY}: whoever issued the certificate has to renew it.")
        for anchor in self.anchors:
            if belongs(self.authority_key, anchor):
                return Pair(anchor, self.authority_key)
        raise CertificateError(f"{AUTHORITY_KEY} belongs to no certificate in {AUTHORITY_CERTIFICATE}.")


def encode_authority(authority: Pair) -> dict[str, bytes]:
    """Return the two files of an authority."""
    return {
        AUTHORITY_CERTIFICATE: encode_certificates([authority.certificate]),
        AUTHORITY_KEY: encode_key(authority.key),
    }


def encode_serving(pair: Pair) -> dict[str, bytes]:
    """Return the two files that a server loads; the leaf comes first, then its intermediates."""
    return {
        SERVING_CERTIFICATE: encode_certificates([pair.certificate, *pair.intermediates]),
        SERVING_KEY: encode_key(pair.key),
    }


def decode(files: Mapping[str, bytes]) -> Bundle:
    """Read a bundle; `ca.key` may be absent. Raises CertificateError that names the missing or unreadable file."""
    for name in FILES:
        if name not in files and name != AUTHORITY_KEY:
            raise CertificateError(f"{name} is missing.")
    leaf, *intermediates = decode_certificates(files[SERVING_CERTIFICATE], SERVING_CERTIFICATE)
    return Bundle(
        anchors=decode_certificates(files[AUTHORITY_CERTIFICATE], AUTHORITY_CERTIFICATE),
        pair=Pair(leaf, decode_key(files[SERVING_KEY], SERVING_KEY), tuple(intermediates)),
        authority_key=decode_key(files[AUTHORITY_KEY], AUTHORITY_KEY) if AUTHORITY_KEY in files else None,
    )
