"""`ascend-guard serve --demo`: the shipped sample cluster in the middle of a switch, and what to try on it."""

import os
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

from certs import store
from certs.authority import make_authority, sign_leaf
from certs.bundle import AUTHORITY_CERTIFICATE, SERVING_CERTIFICATE, SERVING_KEY, encode_authority, encode_serving
from certs.names import LOOPBACK
from webhook.cluster.source import FactSource
from webhook.ownership.settings import Settings
from webhook.ownership.situation import situation

SAMPLE_CLUSTER = Path(__file__).parent.parent / "sample_cluster"
SAMPLE_REQUESTS = Path(__file__).parent.parent / "sample_requests"


def make_certificate() -> tuple[Path, Path, Path]:
    """Make a fresh authority and a pair for localhost in the user's cache folder.

    Returns the paths of the authority's certificate, the serving certificate and its key. Raises CertificateError.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "ascend-owner-guard" / "demo"
    now = datetime.now(UTC)
    authority = make_authority(now, life=timedelta(days=2))
    public = {AUTHORITY_CERTIFICATE: encode_authority(authority)[AUTHORITY_CERTIFICATE]}  # its key is forgotten
    store.write(
        folder, public | encode_serving(sign_leaf(authority, LOOPBACK, now, life=timedelta(days=1))), replace=True
    )
    return folder / AUTHORITY_CERTIFICATE, folder / SERVING_CERTIFICATE, folder / SERVING_KEY


def guide(facts: FactSource, settings: Settings, authority: Path, port: int) -> str:
    """Return what is guarded, where it stands and why, and the lines to try in a second terminal."""
    picture = facts.cached()
    lines = [
        f"Guarding {_shown(SAMPLE_CLUSTER)}: {len(picture.nodes)} nodes; edit its manifests, the guard follows.",
        "",
    ]
    for pool in situation(picture, settings).pools:
        lines += [f"Phase: {pool.phase}. Because:", *(f"  - {observation}" for observation in pool.phase.evidence)]
    curl = (
        f"curl --silent --show-error --cacert {_shown(authority)} --header 'Content-Type: application/json' "
        f"--data-binary @{_shown(SAMPLE_REQUESTS)}/$request.json 'https://127.0.0.1:{port}/validate?timeout=10s'"
    )
    lines += [
        "",
        "Paste in a second terminal, in this folder:",
        "  # a second owner, and the generated policy edited by hand: both denied",
        f"  {_review('second-owner.json')}",
        f"  {_review('generated-object.json')}",
        "  # over TLS, as the API server asks: a Pod that wants an NPU is denied, one that does not is allowed",
        f"  for request in mid-switch allowed-pod; do {curl}; echo; done",
        "",
        f"Serving https://127.0.0.1:{port}. Audit records follow, one line each. Ctrl-C ends.",
    ]
    return "\n".join(lines)


def _review(request: str) -> str:
    return f".venv/bin/ascend-guard review {_shown(SAMPLE_REQUESTS / request)} --cluster {_shown(SAMPLE_CLUSTER)}"


def _shown(path: Path) -> str:
    """The path as somebody in the current folder writes it."""
    relative = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return shlex.quote(str(relative))
