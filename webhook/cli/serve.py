"""`ascend-guard serve`: answer AdmissionReviews, over a cluster or over a folder of manifests."""

import atexit
import logging
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from webhook.cli import demo as demonstration
from webhook.cluster.connection import Connection
from webhook.cluster.files import FileCluster
from webhook.cluster.source import FactSource
from webhook.configuration import Configuration, load
from webhook.server.keeper import CertificateKeeper
from webhook.server.process import Process
from webhook.server.remembering import RememberingFacts
from webhook.server.tls import ServingCertificate

_ADDRESS = re.compile(r"(?:\[(?P<bracketed>[0-9A-Fa-f:.]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d{1,5})")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--cluster", type=click.Path(exists=True, path_type=Path), help="Guard a folder of YAML manifests.")
@click.option("--demo", is_flag=True, help="Guard the shipped sample cluster, with a certificate made for it.")
@click.option("--config", type=_FILE, help="Configuration file (YAML).")
@click.option("--kubeconfig", type=_FILE, help="Guard the cluster that this kubeconfig names.")
@click.option("--context", help="The kubeconfig's context to use instead of its current one.")
@click.option("--tls-cert", type=_FILE, help="Serving certificate (PEM, leaf first).")
@click.option("--tls-key", type=_FILE, help="Its unencrypted key (PEM).")
@click.option("--bind", metavar="HOST:PORT", help="Where to listen (default 127.0.0.1:8443).")
def serve(
    cluster: Path | None,
    demo: bool,
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    bind: str | None,
) -> None:
    """Serve /validate, /healthz, /readyz and /metrics over TLS.

    What is guarded: with --cluster a folder of manifests, with --kubeconfig or --context that cluster, else the cluster
    whose Pod this is. Options come before the configuration file and the environment (ASCEND_GUARD__A__B=value).
    """
    if sum((cluster is not None, demo, kubeconfig is not None or context is not None)) > 1:
        raise click.UsageError("--cluster, --demo and --kubeconfig (with --context) exclude each other; give one.")
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together.")
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    when_listening: Callable[[], None] = lambda: None  # noqa: E731 - a default for the one case that says something
    if demo:
        authority, tls_cert, tls_key = demonstration.make_certificate()
        cluster = demonstration.SAMPLE_CLUSTER
    configuration = _with_options(load(config, os.environ), tls_cert, tls_key, bind)
    _check_address(configuration.server.host, configuration.server.port)
    connect = _connect(kubeconfig, context)
    keeper = _keeper(configuration, connect)
    certificate = _certificate(configuration, keeper)
    facts = _facts(configuration, cluster, connect)
    if demo:
        server = configuration.server
        when_listening = lambda: click.echo(demonstration.guide(facts, configuration, authority, server.port))  # noqa: E731
    Process(configuration, facts, certificate, version("ascend-owner-guard"), when_listening, keeper).run()


def _with_options(
    configuration: Configuration, certificate: Path | None, key: Path | None, bind: str | None
) -> Configuration:
    changes: dict[str, Any] = {}
    if certificate is not None and key is not None:
        changes["tls"] = configuration.server.tls.model_copy(update={"certificate": certificate, "key": key})
    if bind is not None:
        match = _ADDRESS.fullmatch(bind)
        if match is None or not 0 < int(match["port"]) < 65536:
            raise click.UsageError(f"--bind {bind}: write HOST:PORT, for example 0.0.0.0:8443 or [::]:8443.")
        changes |= {"host": match["bracketed"] or match["host"], "port": int(match["port"])}
    return configuration.model_copy(update={"server": configuration.server.model_copy(update=changes)})


def _keeper(configuration: Configuration, connect: Callable[[], Connection]) -> CertificateKeeper | None:
    """Who looks after the certificate, None for files that somebody else looks after. Raises CertificateError."""
    server = configuration.server
    match server.certificates.mode:
        case "files":
            return None
        case "provided":
            folder = server.tls.certificate.parent if server.tls.certificate is not None else Path()
        case "self-managed":
            folder = _own_folder()
    keeper = CertificateKeeper(server.certificates, configuration.namespace, connect, folder)
    keeper.begin()
    return keeper


def _own_folder() -> Path:
    """A folder for this server's key, which goes when the server ends (not when a worker of it does)."""
    folder, owner = Path(tempfile.mkdtemp(prefix="ascend-guard-tls-")), os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    return folder


def _certificate(configuration: Configuration, keeper: CertificateKeeper | None) -> ServingCertificate:
    files = configuration.server.tls
    if keeper is not None and configuration.server.certificates.mode == "self-managed":
        return ServingCertificate(keeper.certificate, keeper.key)
    if files.certificate is None or files.key is None:
        raise click.UsageError(
            "The API server calls webhooks over TLS only: give --tls-cert and --tls-key (or server.tls in the "
            "configuration). `python -m certs init` makes a pair."
        )
    return ServingCertificate(files.certificate, files.key)


def _check_address(host: str, port: int) -> None:
    """Say in a sentence that nobody can listen there; gunicorn would try for five seconds, in ten lines."""
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            pass
    except OSError as error:
        raise click.UsageError(
            f"{host}:{port}: {error.strerror or error}; choose another address with --bind."
        ) from error


def _connect(kubeconfig: Path | None, context: str | None) -> Callable[[], Connection]:
    """How to connect to the cluster that is guarded. Calling it raises UsageError when none is named."""

    def connect() -> Connection:
        if kubeconfig is not None or context is not None:
            return Connection.from_kubeconfig(kubeconfig, context)
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            return Connection.in_cluster()
        raise click.UsageError(
            "This is no Pod of a cluster: say what to guard with --cluster DIR or --kubeconfig FILE, or try --demo."
        )

    return connect


def _facts(configuration: Configuration, cluster: Path | None, connect: Callable[[], Connection]) -> FactSource:
    if cluster is not None:
        return FileCluster(cluster, configuration)
    return RememberingFacts(connect(), configuration)
