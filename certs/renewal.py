"""When and how the certificates in a Secret are renewed, as a pure function: what to write, given what is there.

Every replica asks the same question and writes the answer against the version that it read, so nobody has to lead:
of two that answer at once, one is refused and looks again.

An authority takes over in this order, so that at every moment whoever trusts what was given out accepts whatever is
served: the new one is added to what clients trust; once it has been seen to be trusted for a while, it signs the next
leaf; the old one is dropped when the last leaf that it signed has expired, since until then a replica might serve it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from certs.authority import AUTHORITY_LIFE, BACKDATED, DEFAULT_KEY, LEAF_LIFE, KeyKind, make_authority, sign_leaf
from certs.bundle import (
    AUTHORITY_CERTIFICATE,
    AUTHORITY_KEY,
    Bundle,
    decode,
    encode_serving,
)
from certs.errors import CertificateError
from certs.names import covers
from certs.pair import Pair, belongs, encode_certificates, encode_key

SPENT = 2 / 3
"""The share of its life after which a certificate is replaced."""


@dataclass(frozen=True)
class Lives:
    """How long certificates live, how long a new authority is trusted before it signs, and what kind their keys are."""

    leaf: timedelta = LEAF_LIFE
    authority: timedelta = AUTHORITY_LIFE
    trust_before_use: timedelta = timedelta(minutes=2)
    key: KeyKind = DEFAULT_KEY


@dataclass(frozen=True)
class Kept:
    """What the Secret keeps: its files, since when the newest authority has been seen to be trusted (None: not yet),
    and until when a leaf of an earlier authority may still be served."""

    files: Mapping[str, bytes]
    trusted_since: datetime | None = None
    earlier_until: datetime | None = None


def due(kept: Kept | None, names: Sequence[str], trusted: bytes, now: datetime, lives: Lives) -> Kept | None:
    """Return what the Secret should keep, None when it is as it should be.

    `kept` is None when there is no Secret. `names` are those that clients call, `trusted` the PEM certificates that
    they trust at present. Something unreadable in the Secret is made anew. Raises CertificateError for a name that is
    none.
    """
    bundle = _usable(kept)
    if kept is None or bundle is None:
        return _anew(names, now, lives)
    authority, leaf = bundle.authority(), bundle.pair.certificate
    if _is_spent(authority.certificate, now):
        return _with_new_authority(kept, bundle, names, now, lives)
    if not _signed(authority.certificate, leaf):
        return _taking_over(kept, bundle, names, trusted, now, lives)
    if _is_spent(leaf, now) or not all(covers(leaf, name) for name in names):
        return replace(kept, files={**kept.files, **encode_serving(_leaf(authority, names, now, lives))})
    if len(bundle.anchors) > 1 and kept.earlier_until is None:
        return replace(kept, earlier_until=now + lives.leaf)
    if len(bundle.anchors) > 1 and kept.earlier_until is not None and now > kept.earlier_until:
        only = {AUTHORITY_CERTIFICATE: encode_certificates([authority.certificate])}
        return replace(kept, files={**kept.files, **only}, earlier_until=None)
    return None


def _usable(kept: Kept | None) -> Bundle | None:
    """The bundle, None when it cannot be read or its parts do not belong together."""
    if kept is None:
        return None
    try:
        bundle = decode(kept.files)
        bundle.authority()
    except CertificateError:
        return None
    known = any(_signed(anchor, bundle.pair.certificate) for anchor in bundle.anchors)
    return bundle if known and belongs(bundle.pair.key, bundle.pair.certificate) else None


def _anew(names: Sequence[str], now: datetime, lives: Lives) -> Kept:
    authority = _authority(now, lives)
    return Kept({**_authority_files(authority, ()), **encode_serving(_leaf(authority, names, now, lives))}, now)


def _with_new_authority(kept: Kept, bundle: Bundle, names: Sequence[str], now: datetime, lives: Lives) -> Kept:
    """Another authority beside those that are trusted. The old one signs once more before its key is forgotten: that
    leaf lasts until the new authority is trusted, too."""
    old = bundle.authority()
    earlier = tuple(each for each in bundle.anchors if each.not_valid_after_utc > now)
    leaf = _leaf(old, names, now, lives) if old.certificate.not_valid_after_utc > now else bundle.pair
    return replace(
        kept,
        files={**kept.files, **_authority_files(_authority(now, lives), earlier), **encode_serving(leaf)},
        trusted_since=None,
        earlier_until=leaf.certificate.not_valid_after_utc,
    )


def _taking_over(
    kept: Kept, bundle: Bundle, names: Sequence[str], trusted: bytes, now: datetime, lives: Lives
) -> Kept | None:
    authority = bundle.authority()
    if bundle.pair.certificate.not_valid_after_utc > now:
        if authority.certificate.public_bytes(serialization.Encoding.PEM).strip() not in trusted:
            return replace(kept, trusted_since=None) if kept.trusted_since is not None else None
        if kept.trusted_since is None:
            return replace(kept, trusted_since=now)
        if now - kept.trusted_since < lives.trust_before_use:
            return None
    return replace(
        kept,
        files={**kept.files, **encode_serving(_leaf(authority, names, now, lives))},
        earlier_until=bundle.pair.certificate.not_valid_after_utc,
    )


def _authority(now: datetime, lives: Lives) -> Pair:
    return make_authority(now, lives.authority, lives.key)


def _leaf(authority: Pair, names: Sequence[str], now: datetime, lives: Lives) -> Pair:
    return sign_leaf(authority, names, now, lives.leaf, lives.key)


def _authority_files(authority: Pair, earlier: Sequence[x509.Certificate]) -> dict[str, bytes]:
    return {
        AUTHORITY_CERTIFICATE: encode_certificates([authority.certificate, *earlier]),
        AUTHORITY_KEY: encode_key(authority.key),
    }


def _signed(issuer: x509.Certificate, leaf: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _is_spent(certificate: x509.Certificate, now: datetime) -> bool:
    begin, end = certificate.not_valid_before_utc + BACKDATED, certificate.not_valid_after_utc
    return now >= begin + (end - begin) * SPENT
