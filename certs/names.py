"""Host names in certificates: DNS names and IP addresses, both written as plain text at the border."""

import ipaddress
import re

from cryptography import x509

from certs.errors import CertificateError

LOOPBACK = ("localhost", "127.0.0.1", "::1")

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the DNS names of a Kubernetes Service; the API server calls a webhook by the first one."""
    return f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"


def general_name(text: str) -> x509.GeneralName:
    """Turn an IP address or a DNS name (a leading `*.` allowed, any case) into what a certificate holds.

    Raises CertificateError where it is neither.
    """
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        name = text.lower()
    if len(name) > 253 or not _DNS_NAME.fullmatch(name):
        raise CertificateError(f"{text!r} is neither a DNS name in ASCII form nor an IP address.")
    return x509.DNSName(name)


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the DNS names and IP addresses of a certificate's SAN, in its order; empty where it has none."""
    return tuple(str(name.value) for name in _alternative_names(certificate))


def covers(certificate: x509.Certificate, name: str) -> bool:
    """Say whether a client that calls `name` accepts the certificate's SAN; `*.` stands for one label.

    Raises CertificateError where `name` is neither a DNS name nor an IP address.
    """
    wanted = general_name(name)
    held = {
        x509.DNSName(each.value.lower()) if isinstance(each, x509.DNSName) else each
        for each in _alternative_names(certificate)
    }
    if isinstance(wanted, x509.DNSName) and x509.DNSName(f"*.{wanted.value.partition('.')[2]}") in held:
        return True
    return wanted in held


def _alternative_names(certificate: x509.Certificate) -> list[x509.DNSName | x509.IPAddress]:
    try:
        san = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [name for name in san if isinstance(name, x509.DNSName | x509.IPAddress)]
