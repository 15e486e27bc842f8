"""Will a client that trusts `ca.crt` accept what the server serves? Problems as sentences."""

from collections.abc import Sequence
from datetime import datetime

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import Criticality, ExtensionPolicy, Policy, PolicyBuilder, Store, VerificationError

from certs.bundle import AUTHORITY_CERTIFICATE, SERVING_CERTIFICATE, SERVING_KEY, Bundle
from certs.errors import CertificateError
from certs.names import covers, names_of
from certs.pair import belongs


def problems(bundle: Bundle, names: Sequence[str], now: datetime) -> tuple[str, ...]:
    """Return a sentence for everything that stops clients which call the server by `names`; empty when all is well.

    Looked at: key, names, purpose, the chain to one of the anchors, the validity of every certificate in that chain
    at `now` (with a time zone), and whether the signing key, where there is one, can sign the next leaf.
    Raises CertificateError where one of `names` is neither a DNS name nor an IP address.
    """
    leaf = bundle.pair.certificate
    found = []
    if not belongs(bundle.pair.key, leaf):
        found.append(f"{SERVING_KEY} does not belong to the first certificate in {SERVING_CERTIFICATE}.")
    found += _name_problems(leaf, names)
    if not _may_serve(leaf):
        found.append(f"{SERVING_CERTIFICATE} is not made for servers: its extended key usage lacks serverAuth.")
    found += _chain_problems(bundle, now)
    if bundle.authority_key is not None:
        try:
            bundle.authority()
        except CertificateError as error:
            found.append(str(error))
    return tuple(found)


def _name_problems(leaf: x509.Certificate, names: Sequence[str]) -> list[str]:
    held = names_of(leaf)
    if not held:
        return [f"{SERVING_CERTIFICATE} names no host: it has no subject alternative name (a common name is ignored)."]
    return [
        f"{SERVING_CERTIFICATE} holds {name} as a DNS name; clients look for an IP address."
        if name in held
        else f"{SERVING_CERTIFICATE} is not for {name}: it is for {', '.join(held)}."
        for name in names
        if not covers(leaf, name)
    ]


def _may_serve(leaf: x509.Certificate) -> bool:
    try:
        purposes = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.SERVER_AUTH in purposes or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in purposes


def _chain_problems(bundle: Bundle, now: datetime) -> list[str]:
    leaf = bundle.pair.certificate
    try:
        chain = _chain(bundle, now)
    except VerificationError as refused:
        try:  # at a time when it was valid, so that an expired chain is told from a broken one
            chain = _chain(bundle, leaf.not_valid_before_utc)
        except VerificationError:
            return [
                f"{SERVING_CERTIFICATE} does not lead to a certificate in {AUTHORITY_CERTIFICATE}: issued by "
                f"{leaf.issuer.rfc4514_string()}, trusted are "
                f"{'; '.join(each.subject.rfc4514_string() for each in bundle.anchors)} ({refused}).",
                *_validity_problems(leaf, now),
            ]
    return [sentence for each in chain for sentence in _validity_problems(each, now)]


def _validity_problems(certificate: x509.Certificate, now: datetime) -> list[str]:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    subject = certificate.subject.rfc4514_string()
    if now < begin:
        return [f"The certificate {subject} is valid from {begin:%Y-%m-%d %H:%M} UTC on; it is {now:%Y-%m-%d %H:%M}."]
    if now > end:
        return [f"The certificate {subject} has expired on {end:%Y-%m-%d %H:%M} UTC."]
    return []


def _chain(bundle: Bundle, at: datetime) -> list[x509.Certificate]:
    """Find the way from the leaf to an anchor: signatures, validity, and the right to sign.

    As strict as the API server's library, not as strict as the web's rules (which want extensions that many private
    authorities leave out). Names and purpose are looked at apart: "client" here means only that nobody asks for them.
    """
    policy = PolicyBuilder().store(Store(list(bundle.anchors))).time(at)
    signers = (
        ExtensionPolicy.permit_all()
        .require_present(x509.BasicConstraints, Criticality.AGNOSTIC, None)
        .may_be_present(x509.KeyUsage, Criticality.AGNOSTIC, _may_sign)
    )
    verifier = policy.extension_policies(ca_policy=signers, ee_policy=ExtensionPolicy.permit_all())
    return verifier.build_client_verifier().verify(bundle.pair.certificate, list(bundle.pair.intermediates)).chain


def _may_sign(_policy: Policy, _signer: x509.Certificate, usage: x509.KeyUsage | None) -> None:
    if usage is not None and not usage.key_cert_sign:
        raise ValueError("the issuer's key usage does not allow it to sign certificates")
