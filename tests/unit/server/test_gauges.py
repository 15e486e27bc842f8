"""What the guard knows, as metrics."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

from certs import store
from certs.authority import make_authority, sign_leaf
from certs.bundle import encode_serving
from tests.unit.server.doubles import Cluster
from webhook.audit.metrics import Metrics
from webhook.audit.trail import AuditTrail
from webhook.server.gauges import ServerState
from webhook.server.readiness import Readiness
from webhook.server.tls import ServingCertificate


def test_readiness_age_and_the_certificates_end_are_shown(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    store.write(
        tmp_path,
        encode_serving(sign_leaf(make_authority(now), ["localhost"], now, life=timedelta(days=2))),
        replace=True,
    )
    cluster = Cluster(synced=False)
    metrics = Metrics("1")
    certificate = ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    metrics.registry.register(ServerState(cluster, Readiness(cluster), AuditTrail(io.StringIO()), certificate))
    values = dict(line.rsplit(" ", 1) for line in metrics.exposition().decode().splitlines() if line[0] != "#")
    assert (values["ascend_guard_synced"], values["ascend_guard_ready"]) == ("0.0", "0.0")
    assert values["ascend_guard_facts_age_seconds"] == "0.0"
    left = timedelta(seconds=float(values["ascend_guard_certificate_expiry_seconds"]))
    assert timedelta(days=1, hours=23) < left <= timedelta(days=2)
