"""Renewal over years, as a walk: at every moment whoever trusts what was given out accepts whatever may be served."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from cryptography import x509

from certs.authority import make_authority, sign_leaf
from certs.bundle import AUTHORITY_CERTIFICATE, FILES, SERVING_CERTIFICATE, SERVING_KEY, Bundle, decode, encode_serving
from certs.checks import problems
from certs.pair import decode_certificates, encode_certificates
from certs.renewal import Kept, Lives, due

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("guard.ns.svc",)
LIVES = Lives(leaf=timedelta(hours=9), authority=timedelta(hours=90), trust_before_use=timedelta(minutes=10))


def anchors(files: dict[str, bytes] | Kept) -> tuple[x509.Certificate, ...]:
    held = files.files if isinstance(files, Kept) else files
    return decode_certificates(held[AUTHORITY_CERTIFICATE], AUTHORITY_CERTIFICATE)


def first() -> Kept:
    kept = due(None, NAMES, b"", NOW, LIVES)
    assert kept is not None
    return kept


@dataclass
class World:
    """A Secret, what clients trust, and a slow replica that serves an older leaf as long as that is valid."""

    injects: Callable[[datetime], bool] = lambda _: True
    now: datetime = NOW
    kept: Kept | None = None
    trusted: bytes = b""
    served: list[Bundle] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    def step(self) -> None:
        """One look of a replica."""
        after = due(self.kept, NAMES, self.trusted, self.now, LIVES)
        if after is not None:
            self.kept = after
            self.written.append(f"{self.now:%d %H:%M}")
        assert self.kept is not None
        if self.injects(self.now):
            self.trusted = self.kept.files[AUTHORITY_CERTIFICATE]
        self.served.append(decode(self.kept.files))

    def accepted(self) -> bool:
        """Whether clients accept the newest leaf, and every older one that has not expired."""
        trust = decode_certificates(self.trusted, "trusted")
        return all(
            problems(Bundle(trust, one.pair), NAMES, self.now) == ()
            for one in {one.pair.certificate: one for one in self.served}.values()
            if one.pair.certificate.not_valid_after_utc > self.now
        )


def test_the_first_replica_makes_an_authority_and_a_leaf_that_clients_accept() -> None:
    kept = first()
    assert set(kept.files) == set(FILES)
    assert problems(decode(kept.files), NAMES, NOW) == ()
    assert due(kept, NAMES, kept.files[AUTHORITY_CERTIFICATE], NOW, LIVES) is None


def test_for_years_clients_accept_whatever_is_served() -> None:
    world = World()
    for _ in range(4 * 24 * 12):
        world.step()
        assert world.accepted(), world.now
        world.now += timedelta(minutes=15)
    issuers = {one.pair.certificate.issuer.rfc4514_string() for one in world.served}
    leaves = {one.pair.certificate.serial_number for one in world.served}
    assert (len(issuers), len(leaves)) == (5, 52)
    trusted_at_once = [len(one.anchors) for one in world.served]
    assert set(trusted_at_once) == {1, 2}  # each earlier authority is dropped in the end
    assert sum(before > after for before, after in pairwise(trusted_at_once)) == 4


def test_a_new_authority_signs_only_after_it_was_trusted_for_a_while() -> None:
    world = World()
    world.step()
    world.now += timedelta(hours=61)  # the leaf has expired meanwhile, too
    assert world.kept is not None
    fresh = sign_leaf(decode(world.kept.files).authority(), NAMES, world.now, LIVES.leaf)
    world.kept = replace(world.kept, files={**world.kept.files, **encode_serving(fresh)})
    world.injects = lambda now: now >= NOW + timedelta(hours=63)
    for _ in range(5 * 12):
        world.step()
        signed_by_new = decode(world.kept.files).pair.certificate.issuer == anchors(world.kept)[0].subject
        assert signed_by_new == (world.now >= NOW + timedelta(hours=63, minutes=15)), world.now
        world.now += timedelta(minutes=5)


def test_who_takes_the_trust_away_makes_it_wait_anew() -> None:
    world = World()
    world.step()
    world.now += timedelta(hours=60)
    assert world.kept is not None
    fresh = sign_leaf(decode(world.kept.files).authority(), NAMES, world.now, LIVES.leaf)
    world.kept = replace(world.kept, files={**world.kept.files, **encode_serving(fresh)})
    world.step()
    world.step()
    assert world.kept.trusted_since == world.now
    world.trusted = b""
    world.injects = lambda _: False
    world.step()
    assert world.kept.trusted_since is None


def test_an_expired_leaf_is_replaced_at_once_whoever_is_trusted() -> None:
    kept = first()
    later = NOW + timedelta(hours=10)
    after = due(kept, NAMES, b"", later, LIVES)
    assert after is not None
    assert decode(after.files).pair.certificate.not_valid_after_utc > later


def test_everything_may_have_expired() -> None:
    later = NOW + timedelta(days=400)
    world = World(kept=first(), now=later)
    world.step()
    world.step()
    assert world.accepted()
    assert problems(decode(world.kept.files), NAMES, later) == () if world.kept is not None else False


def test_a_leaf_for_other_names_is_replaced() -> None:
    after = due(first(), ("renamed.ns.svc",), b"", NOW, LIVES)
    assert after is not None
    assert problems(decode(after.files), ["renamed.ns.svc"], NOW) == ()


@pytest.mark.parametrize(
    "spoil",
    [
        {SERVING_CERTIFICATE: b"garbage"},
        {SERVING_KEY: b""},
        {AUTHORITY_CERTIFICATE: b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
        encode_serving(sign_leaf(make_authority(NOW), NAMES, NOW)),
        {"ca.key": b"x"},
    ],
    ids=["certificate", "key", "authority", "a leaf of another authority", "authority's key"],
)
def test_what_cannot_be_used_is_made_anew(spoil: dict[str, bytes]) -> None:
    kept = first()
    after = due(replace(kept, files={**kept.files, **spoil}), NAMES, b"", NOW, LIVES)
    assert after is not None
    assert problems(decode(after.files), NAMES, NOW) == ()


def test_who_loses_the_notes_on_the_secret_keeps_the_old_authority_for_a_leafs_life() -> None:
    kept = first()
    old = make_authority(NOW, LIVES.authority).certificate
    both = kept.files[AUTHORITY_CERTIFICATE] + encode_certificates([old])
    noted = due(replace(kept, files={**kept.files, AUTHORITY_CERTIFICATE: both}), NAMES, both, NOW, LIVES)
    assert noted is not None
    assert noted.earlier_until == NOW + LIVES.leaf
    assert len(anchors(noted)) == 2


@pytest.mark.parametrize("kind", ["ec-p256", "ec-p384", "rsa-2048"])
def test_the_kind_of_key_is_a_choice(kind: str) -> None:
    kept = due(None, NAMES, b"", NOW, replace(LIVES, key=kind))  # type: ignore[arg-type]
    assert kept is not None
    assert problems(decode(kept.files), NAMES, NOW) == ()
