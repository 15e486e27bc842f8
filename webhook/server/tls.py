"""The TLS context that the server listens with; certificates are swapped under it without a restart.

The server keeps one context for its whole life. In each handshake, before the certificate goes out, Python calls that
context's `sni_callback`, which puts a context with the newest certificate in its place for this one connection.
OpenSSL makes the call for a hello without a server name as well (then the name is None), and the API server's probes
and people's curls to an address send none. Connections that are already open are left alone. (Loading a chain into
the context in use instead was measured to lose connections.)

There is no thread and no file watcher: the callback itself looks at the files, at most once in an interval. It
compares content, since the kubelet updates a mounted Secret by renaming a symlink above the files, and since time
stamps are too coarse to tell two writes in a row apart. Two small files cost less to read than a handshake.
"""

import hashlib
import logging
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509

_log = logging.getLogger(__name__)

# TLS 1.2 suites with forward secrecy and authenticated encryption, for EC and RSA keys; those of TLS 1.3 are all fine.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


class UnusablePairError(Exception):
    """The files hold no pair to serve with; the text is a sentence without key material."""


@dataclass(frozen=True)
class _Loaded:
    context: ssl.SSLContext
    not_after: datetime
    digest: bytes


class ServingCertificate:
    """The pair in two files, always the newest whole one.

    A pair that cannot be read, or whose key does not belong to its certificate (a half-written one), is kept out with
    one log line, the pair before it stays, and the files are looked at again after the interval.
    """

    def __init__(
        self,
        certificate: Path,
        key: Path,
        *,
        interval: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Load the pair: `certificate` in PEM, leaf first, and its unencrypted `key`.

        `interval` is how long (seconds on `clock`) the files are not looked at again. Raises UnusablePairError where
        there is no usable pair to begin with.
        """
        self.certificate = certificate
        self.key = key
        self._interval = interval
        self._clock = clock
        self._looking = threading.Lock()
        self._next_look = clock() + interval
        self._refused = ""
        self._newest = self._load(self._digest())
        self.context = self._newest.context  # the one to listen with; only its callback ever changes what it serves
        self.context.sni_callback = self._assign

    @property
    def not_after(self) -> datetime:
        """The end of validity (UTC) of the certificate that the next handshake gets."""
        self.refresh()
        return self._newest.not_after

    def refresh(self) -> None:
        """Take the pair in the files if it is a new and whole one. Does nothing within the interval; never raises."""
        if not self._looking.acquire(blocking=False):
            return  # another thread is at it
        try:
            if self._clock() < self._next_look:
                return
            self._next_look = self._clock() + self._interval
            self._look()
        finally:
            self._looking.release()

    def _assign(self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        self.refresh()
        connection.context = self._newest.context

    def _look(self) -> None:
        try:
            digest = self._digest()
            if digest != self._newest.digest:
                self._newest = self._load(digest)
                _log.info("Serving a new certificate, valid until %s.", self._newest.not_after.isoformat())
            self._refused = ""
        except UnusablePairError as error:
            if str(error) != self._refused:
                _log.warning(
                    "New certificate refused: %s The one valid until %s stays.",
                    error,
                    self._newest.not_after.isoformat(),
                )
            self._refused = str(error)

    def _digest(self) -> bytes:
        content = hashlib.sha256()
        for path in (self.certificate, self.key):
            content.update(hashlib.sha256(_read(path)).digest())
        return content.digest()

    def _load(self, digest: bytes) -> _Loaded:
        """Load what had this digest a moment ago, and make sure that it is what was loaded: OpenSSL reads by path."""
        context = _new_context()
        try:
            context.load_cert_chain(self.certificate, self.key, password="")  # never ask on the terminal
            leaf = x509.load_pem_x509_certificates(_read(self.certificate))[0]
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise UnusablePairError(f"{self.key} does not belong to {self.certificate}.") from None
            raise UnusablePairError(f"{self.certificate} and {self.key} hold no pair of unencrypted PEM.") from None
        except (OSError, ValueError, x509.InvalidVersion):
            raise UnusablePairError(f"{self.certificate} and {self.key} cannot be read.") from None
        if self._digest() != digest:
            raise UnusablePairError(f"{self.certificate} and {self.key} were written to while they were read.")
        return _Loaded(context, leaf.not_valid_after_utc, digest)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnusablePairError(f"{path} cannot be read: {error.strerror}.") from None


def _new_context() -> ssl.SSLContext:
    """Make a server context. Every setting of the protocol has to be here: the swap exchanges the whole context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    # No tickets: a resumed session shows no certificate, so its client would never see the new one.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    return context
