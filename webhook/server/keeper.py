"""Keeps the serving certificate: renewed in a Secret, written where the server reads it, trusted by the API server.

Every replica does the same, every two seconds: look at the Secret, write what `certs.renewal` finds due against the
version that was read, put the pair into this replica's own folder, and see that the webhook configuration trusts the
authority. So a caBundle that somebody strips is back in seconds, and all replicas serve a new leaf without a restart.

A certificate that is `provided` is only looked at: that it can be used, and that its authority is trusted.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from certs import store
from certs.bundle import AUTHORITY_CERTIFICATE, SERVING_CERTIFICATE, SERVING_KEY, decode
from certs.checks import problems
from certs.errors import CertificateError
from certs.names import service_names
from certs.renewal import Kept, Lives, due
from webhook.cluster.access import AccessReviews
from webhook.cluster.connection import Connection
from webhook.cluster.errors import ApiError
from webhook.cluster.secrets import SecretStore, StoredSecret
from webhook.cluster.trust import WebhookTrust
from webhook.configuration import CertificateSettings

log = logging.getLogger(__name__)

NOTES = "ascend-owner-guard/renewal"
"""Annotation of the Secret: what `certs.renewal.Kept` says besides the files, as JSON."""
LOOK_SECONDS = 2.0
FIRST_SECONDS = 60.0
"""For how long a starting server tries to get a certificate."""


class CertificateKeeper:
    """Looks after one replica's certificate. `folder` is where the server reads the pair: its own, or a mounted one."""

    def __init__(
        self,
        settings: CertificateSettings,
        namespace: str,
        connect: Callable[[], Connection],
        folder: Path,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`connect` makes a connection; one is made for the start and another one for the process that serves."""
        self._settings = settings
        self._namespace = namespace
        self._connect = connect
        self._folder = folder
        self._now = now
        self._names = service_names(settings.service, namespace)
        self._written: Mapping[str, bytes] = {}
        self.problem = ""
        """Why the last look came to nothing, as a sentence; "" when it did not."""

    @property
    def certificate(self) -> Path:
        """The file of the certificate that is served."""
        return self._folder / SERVING_CERTIFICATE

    @property
    def key(self) -> Path:
        """The file of its key."""
        return self._folder / SERVING_KEY

    def begin(self) -> None:
        """Get a certificate before the server listens.

        Raises CertificateError when there is none within a minute, or the provided one cannot be used.
        """
        if self._settings.mode == "provided":
            self._provided()
            return
        connection = self._connect()
        end = time.monotonic() + FIRST_SECONDS
        while not self._written:
            self.look(connection)
            if not self._written and time.monotonic() > end:
                raise CertificateError(f"There is no certificate to serve with: {self.problem}.")
            if not self._written:
                time.sleep(LOOK_SECONDS / 4)
        connection.close()

    def start(self) -> None:
        """Go on looking, in a thread of the process that serves."""
        threading.Thread(target=self._run, name="certificates", daemon=True).start()

    def _run(self) -> None:
        connection = self._connect()
        while True:
            self.look(connection)
            time.sleep(LOOK_SECONDS)

    def look(self, connection: Connection) -> None:
        """Look once; what is wrong is logged when it is new, and told by `problem`."""
        problem = ""
        try:
            trust = WebhookTrust(connection, self._settings.webhook)
            if self._settings.mode == "provided":
                authority = self._provided()
            else:
                authority = self._renewed(connection, _common(trust.read()))
            if authority and trust.inject(authority):
                log.info("The webhook configuration %s trusts the authority now.", self._settings.webhook)
        except (ApiError, CertificateError) as error:
            problem = str(error)
        if problem and problem != self.problem:
            log.warning("The certificate cannot be looked after: %s", problem)
        self.problem = problem

    def _provided(self) -> bytes:
        """The provided authority. Raises CertificateError for what would make the API server's calls fail."""
        files = store.read(self._folder)
        found = problems(decode(files), self._names[:1], self._now())
        if found:
            raise CertificateError(f"The certificate in {self._folder} cannot be used: {' '.join(found)}")
        return files[AUTHORITY_CERTIFICATE]

    def _renewed(self, connection: Connection, trusted: bytes) -> bytes:
        """The authority in the Secret, after what was due to it; the pair is in the folder then."""
        secrets = SecretStore(connection, self._namespace, self._settings.secret_name)
        stored = secrets.read()
        after = due(_kept(stored), self._names, trusted, self._now(), self._lives())
        if after is not None:
            owners = AccessReviews(connection).own_reference() if stored is None else []
            stored = secrets.write(stored, after.files, {NOTES: _notes(after)}, owners) or secrets.read()
        files = stored.data if stored is not None else {}
        pair = {name: files.get(name, b"") for name in (SERVING_CERTIFICATE, SERVING_KEY)}
        if all(pair.values()) and pair != self._written:
            store.write(self._folder, pair, replace=True)
            self._written = pair
        return files.get(AUTHORITY_CERTIFICATE, b"")

    def _lives(self) -> Lives:
        settings = self._settings
        return Lives(settings.leaf_life, settings.authority_life, settings.trust_before_use, settings.key)


def _common(trusted: Mapping[str, bytes]) -> bytes:
    """What all entries trust: nothing, when they do not trust the same."""
    values = set(trusted.values())
    return values.pop() if len(values) == 1 else b""


def _kept(stored: StoredSecret | None) -> Kept | None:
    """What the Secret says; notes that cannot be read are none, which only makes the renewal more patient."""
    if stored is None:
        return None
    try:
        notes = json.loads(stored.annotations.get(NOTES, "{}"))
        times = [datetime.fromisoformat(notes[key]) if notes.get(key) else None for key in ("trusted", "earlier")]
        return Kept(stored.data, times[0], times[1])
    except (ValueError, TypeError, AttributeError):
        return Kept(stored.data)


def _notes(kept: Kept) -> str:
    return json.dumps(
        {
            "trusted": kept.trusted_since.isoformat() if kept.trusted_since else None,
            "earlier": kept.earlier_until.isoformat() if kept.earlier_until else None,
        }
    )
