"""Keys, certificates and kubeconfig files of a control plane that lives as long as a test session."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)
_CN, _O = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME
NOT_ENCRYPTED = serialization.NoEncryption()


@dataclass(frozen=True)
class Keys:
    """The files of one authority: itself, the API server's serving pair, the administrator's client pair."""

    ca: Path
    serving_certificate: Path
    serving_key: Path
    admin_certificate: Path
    admin_key: Path
    service_account_key: Path


def make_keys(folder: Path) -> Keys:
    """Write a fresh authority and what it signs into `folder`."""
    now = datetime.datetime.now(datetime.UTC)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(_CN, "test control plane")])
    ca = (
        x509.CertificateBuilder()
        .subject_name(ca_name)
        .issuer_name(ca_name)
        .public_key(ca_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + 2 * _DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    (folder / "ca.crt").write_bytes(ca.public_bytes(serialization.Encoding.PEM))

    def sign(stem: str, name: x509.Name, usage: x509.ObjectIdentifier, alternatives: list[x509.GeneralName]) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(ca_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + 2 * _DAY)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        certificate = builder.sign(ca_key, hashes.SHA256())
        (folder / f"{stem}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_key(folder / f"{stem}.key", key)

    loopback = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    sign("apiserver", x509.Name([x509.NameAttribute(_CN, "kube-apiserver")]), ExtendedKeyUsageOID.SERVER_AUTH, loopback)
    admin = x509.Name([x509.NameAttribute(_O, "system:masters"), x509.NameAttribute(_CN, "admin")])
    sign("admin", admin, ExtendedKeyUsageOID.CLIENT_AUTH, [])
    _write_key(folder / "service-accounts.key", ec.generate_private_key(ec.SECP256R1()))
    return Keys(
        folder / "ca.crt",
        folder / "apiserver.crt",
        folder / "apiserver.key",
        folder / "admin.crt",
        folder / "admin.key",
        folder / "service-accounts.key",
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    path.chmod(0o600)


def write_kubeconfig(path: Path, server: str, ca: Path, user: dict[str, Any]) -> Path:
    """Write a kubeconfig file with one context; `user` is its user entry (client certificate or token)."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    return path
