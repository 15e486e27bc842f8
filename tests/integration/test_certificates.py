"""The certificates at a real API server: made, trusted, renewed and replaced while admissions go on."""

import base64
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography import x509

from certs.pair import decode_certificates
from tests.controlplane.plane import ControlPlane
from tests.guard.installed import NAME, NAMESPACE, InstalledGuard
from tests.guard.load import Load
from tests.products.api import Api
from tests.waiting import eventually

pytestmark = pytest.mark.integration

SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/ascend-owner-guard-tls"
ENTRIES = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{NAME}"
QUICK = {
    "certificates": {"leafLife": "12s", "authorityLife": "36s"},
    "config": {"server": {"gracefulTimeout": "3s", "certificates": {"trustBeforeUse": "3s"}}},
}


class Site:
    """Two API servers and three replicas whose certificates live for seconds."""

    def __init__(self, plane: ControlPlane, guard: InstalledGuard) -> None:
        self.plane = plane
        self.guard = guard
        self.admin = Api.from_kubeconfig(plane.kubeconfig)

    def secret(self) -> dict[str, bytes]:
        found = self.admin.get(SECRET) or {}
        return {key: base64.b64decode(value) for key, value in found.get("data", {}).items()}

    def trusted(self) -> set[str]:
        """What the entries trust; one value, when they all trust the same."""
        return {entry["clientConfig"].get("caBundle", "") for entry in self.admin.request("GET", ENTRIES)["webhooks"]}

    def authorities(self) -> tuple[x509.Certificate, ...]:
        return decode_certificates(self.secret()["ca.crt"], "ca.crt")

    def leaf(self) -> x509.Certificate:
        return decode_certificates(self.secret()["tls.crt"], "tls.crt")[0]

    def served(self, port: int, *, named: bool = True) -> x509.Certificate:
        """The certificate that a new client gets, which trusts what the entries trust. Raises ssl.SSLError."""
        context = self.guard.tls
        with (
            socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=f"{NAME}.{NAMESPACE}.svc" if named else None) as connection,
        ):
            return x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with ControlPlane(servers=2, controllers=False) as plane:
        admin = Api.from_kubeconfig(plane.kubeconfig)
        eventually(lambda: admin.get("/api/v1/namespaces/default"))
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "default"},
        }
        admin.apply(account)
        handler = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "ascend"}}
        admin.apply({**handler, "handler": "ascend"})
        with InstalledGuard(plane, QUICK, replicas=3) as guard:
            yield Site(plane, guard)


def test_replicas_agree_on_one_secret_that_goes_with_the_chart(site: Site) -> None:
    secret: dict[str, Any] = site.admin.request("GET", SECRET)
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("ServiceAccount", NAME)
    account = site.admin.request("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{NAME}")
    assert owner["uid"] == account["metadata"]["uid"]
    assert len(site.trusted()) == 1
    serials = {site.served(port).issuer for port in site.guard.ports}
    assert len(serials) == 1


def test_a_certificate_is_served_to_clients_that_name_nobody(site: Site) -> None:
    assert site.served(site.guard.ports[0], named=False).issuer == site.authorities()[0].subject


def test_trust_that_somebody_takes_away_is_back_in_seconds(site: Site) -> None:
    live = site.admin.request("GET", ENTRIES)
    patch = [
        {"op": "remove", "path": f"/webhooks/{index}/clientConfig/caBundle"} for index in range(len(live["webhooks"]))
    ]
    site.plane.kubectl("patch", "validatingwebhookconfiguration", NAME, "--type=json", "-p", json.dumps(patch))
    assert site.trusted() == {""}
    began = time.monotonic()
    eventually(lambda: site.trusted() != {""} and len(site.trusted()) == 1, timeout=10)
    assert time.monotonic() - began < 8


def test_leaf_and_authority_take_over_under_load_and_no_admission_fails(site: Site) -> None:
    eventually(site.guard.is_called, timeout=10)
    leaves: set[int] = set()
    authorities: set[bytes] = set()
    handshakes = 0
    with Load(site.plane) as load:
        end = time.monotonic() + 34
        while time.monotonic() < end:
            leaves.add(site.leaf().serial_number)
            authorities |= {
                one.fingerprint(one.signature_hash_algorithm)
                for one in site.authorities()
                if one.signature_hash_algorithm
            }
            for port in site.guard.ports:
                site.served(port)  # raises when what is trusted and what is served do not go together
                handshakes += 1
            time.sleep(0.3)
    print(f"\n{dict(load.answers)}, {len(leaves)} leaves, {len(authorities)} authorities, {handshakes} handshakes")
    assert set(load.answers) == {"denied"}
    assert load.answers["denied"] > 500
    assert len(leaves) >= 4
    assert len(authorities) >= 2


def test_replicas_are_replaced_one_by_one_under_load_and_no_admission_fails(site: Site) -> None:
    with Load(site.plane) as load:
        time.sleep(1)
        codes = [site.guard.replace(index, pre_stop=0.5) for index in range(3)]
        time.sleep(1)
    print(f"\n{dict(load.answers)}, exit codes {codes}")
    assert set(load.answers) == {"denied"}
    assert codes == [0, 0, 0]
    folders = list(site.guard.folder.glob("ascend-guard-tls-*"))
    assert len(folders) == 3, "a server that has ended leaves no key behind"
