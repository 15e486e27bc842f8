"""What a certificate says, in plain values."""

from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from certs.names import names_of


@dataclass(frozen=True)
class Summary:
    """A certificate for people and metrics. Times are UTC; `life_left` is a share between 0 and 1."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    life_left: float
    sha256: str


def summarise(certificate: x509.Certificate, now: datetime) -> Summary:
    """Describe a certificate as seen at `now` (with a time zone)."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return Summary(
        subject=certificate.subject.rfc4514_string(),
        issuer=certificate.issuer.rfc4514_string(),
        names=names_of(certificate),
        not_before=begin,
        not_after=end,
        life_left=min(1.0, max(0.0, (end - now) / (end - begin))) if end > begin else 0.0,
        sha256=certificate.fingerprint(hashes.SHA256()).hex(":").upper(),
    )
