"""The serving process: gunicorn, set up from our configuration alone, with one worker of its `asgi` kind.

What was measured (DESIGN.md section 8) and follows here: idle and half-open connections are harmless in this worker;
one worker a replica, since two would double the watches and the memory; keep-alive longer than the API server's 90 s.

Forced close: the answer "call again" must not be called again on the same connection. gunicorn drops an application's
`Connection: close`, but a connection that was opened while keep-alive is 0 is closed after its answer, and so is every
connection of a worker that shuts down. Hence keep-alive is 0 until the facts are there.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.workers.gasgi import ASGIWorker

from webhook.audit.metrics import Metrics
from webhook.audit.record import record_of_release
from webhook.audit.trail import AuditTrail
from webhook.cluster.source import FactSource
from webhook.configuration import Configuration
from webhook.server.app import create_app
from webhook.server.asgi import Adapter
from webhook.server.decision import Guard
from webhook.server.gauges import ServerState
from webhook.server.keeper import CertificateKeeper
from webhook.server.readiness import Readiness
from webhook.server.remembering import RememberingFacts
from webhook.server.tls import ServingCertificate

_HANG_SECONDS = 30  # after which the master ends a worker whose event loop stands still
_ANNOUNCING_SECONDS = 2.0
_REQUEST_LINE_BYTES = 4094
_HEADER_FIELDS = 64
_HEADER_FIELD_BYTES = 8190


class Process(BaseApplication):  # type: ignore[misc]
    """One guard, ready to run. Everything that can be wrong with its parts was said when these were made."""

    def __init__(
        self,
        configuration: Configuration,
        facts: FactSource,
        certificate: ServingCertificate,
        version: str,
        when_listening: Callable[[], None] = lambda: None,
        keeper: CertificateKeeper | None = None,
    ) -> None:
        """`when_listening` is called once the port is open, before the first request is answered; `keeper` renews."""
        self._configuration = configuration
        self._facts = facts
        self._certificate = certificate
        self._version = version
        self._when_listening = when_listening
        self._keeper = keeper
        self.readiness = Readiness(facts)
        super().__init__()

    def load_config(self) -> None:
        """Set gunicorn's configuration; the files and variables that it would read itself are not read."""
        server = self._configuration.server
        host = f"[{server.host}]" if ":" in server.host else server.host
        settings: dict[str, Any] = {
            "bind": f"{host}:{server.port}",
            "workers": 1,
            "worker_class": Worker,
            "keepalive": 0,
            "graceful_timeout": max(1, int(server.graceful_timeout.total_seconds())),
            "timeout": _HANG_SECONDS,
            "certfile": str(self._certificate.certificate),
            "keyfile": str(self._certificate.key),
            "ssl_context": lambda _configuration, _default: self._certificate.context,
            "limit_request_line": _REQUEST_LINE_BYTES,
            "limit_request_fields": _HEADER_FIELDS,
            "limit_request_field_size": _HEADER_FIELD_BYTES,
            "asgi_lifespan": "on",
            "asgi_loop": "asyncio",
            "control_socket_disable": True,
            "proc_name": "ascend-guard",
            "when_ready": lambda _arbiter: self._when_listening(),
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Adapter:
        """Build the application; gunicorn calls this in the worker."""
        server = self._configuration.server
        if self._keeper is not None:
            self._keeper.start()
        metrics = Metrics(self._version)
        trail = AuditTrail(sys.stdout)
        metrics.registry.register(ServerState(self._facts, self.readiness, trail, self._certificate))
        live = self._facts if isinstance(self._facts, RememberingFacts) else None
        claims, view = (live.claims, live.view) if live is not None else (None, None)
        if view is not None:
            namespace = self._configuration.namespace
            view.when_released = lambda release: trail.write(
                record_of_release(release, namespace=namespace, guard_version=self._version)
            )
        guard = Guard(self._facts, self._configuration, trail, metrics, self._version, claims=claims, view=view)
        app = create_app(guard, self.readiness, metrics, server.max_body)
        return Adapter(app, guard, self._facts, server.threads)

    def keep_alive(self) -> int:
        """Seconds for which a connection opened now is kept: none before the facts are there."""
        return int(self._configuration.server.keep_alive.total_seconds()) if self._facts.synced else 0

    def run(self) -> None:
        """Serve until a signal ends it: SIGTERM answers what is under way, SIGINT does not wait. Raises SystemExit."""
        Arbiter(self).run()


class Worker(ASGIWorker):  # type: ignore[misc]
    """gunicorn's worker, which tells the application that it drains, and adapts keep-alive to the facts."""

    app: Process

    def notify(self) -> None:
        """Say that the event loop is alive (once a second), and drain when the master has died."""
        super().notify()
        if self.ppid != os.getppid() and self.alive:
            self.handle_exit_signal()
        if self.cfg.keepalive == 0:
            self.cfg.set("keepalive", self.app.keep_alive())

    def handle_exit_signal(self) -> None:
        """Begin to drain: from now on reviews are handed over to the other replicas, and connections are closed.

        gunicorn's own shutdown closes a connection after its answer whether that announced it or not, and the API
        server calls again on a connection that it thinks is kept. So for a while every answer announces it first.
        """
        if self.app.readiness.draining:
            return
        self.app.readiness.draining = True
        graceful = self.cfg.graceful_timeout
        announcing = min(_ANNOUNCING_SECONDS, graceful / 3)
        self.cfg.set("graceful_timeout", max(1, int(graceful - announcing)))
        self.loop.call_later(announcing, super().handle_exit_signal)
