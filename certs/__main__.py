"""`python -m certs`: make, look at, check and renew the certificates in a folder."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from certs import store
from certs.authority import AUTHORITY_LIFE, LEAF_LIFE, make_authority, sign_leaf
from certs.bundle import AUTHORITY_CERTIFICATE, SERVING_CERTIFICATE, decode, encode_authority, encode_serving
from certs.checks import problems
from certs.errors import CertificateError
from certs.inspection import summarise
from certs.names import LOOPBACK, general_name, names_of, service_names
from certs.pair import Pair, decode_certificates


def _now() -> datetime:
    return datetime.now(UTC)


def _host_names(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for name in given:
        try:
            general_name(name)
        except CertificateError as error:
            raise click.BadParameter(str(error)) from error
    return given


def _folder(*, exists: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--dir",
        "folder",
        required=True,
        type=click.Path(file_okay=False, exists=exists, path_type=Path),
        help="Folder of ca.crt, ca.key, tls.crt and tls.key.",
    )


_dns_names = click.option(
    "--dns-name", "dns_names", multiple=True, callback=_host_names, help="A DNS name (or IP address); repeatable."
)
_days = click.option(
    "--days",
    type=click.IntRange(1, AUTHORITY_LIFE.days),
    default=LEAF_LIFE.days,
    show_default=True,
    help="Life of the server certificate.",
)


class _Sentences(click.Group):
    """Ends with the sentence of a CertificateError and exit code 1; wrong usage is exit code 2 as click has it."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except CertificateError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Sentences, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Make, look at, check and renew the certificates that the webhook serves with."""


@main.command()
@_folder(exists=False)
@_dns_names
@click.option("--service", help="A Kubernetes Service; stands for its DNS names.")
@click.option("--namespace", help="The namespace of the Service.")
@click.option("--loopback", is_flag=True, help="Also for localhost, 127.0.0.1 and ::1.")
@_days
@click.option("--force", is_flag=True, help="Replace what is there, the authority included.")
def init(
    folder: Path,
    dns_names: tuple[str, ...],
    service: str | None,
    namespace: str | None,
    loopback: bool,
    days: int,
    force: bool,
) -> None:
    """Make a new authority and a server certificate signed by it."""
    if (service is None) != (namespace is None):
        raise click.UsageError("--service and --namespace go together.")
    names = dns_names
    if service is not None and namespace is not None:
        try:
            general_name(service_names(service, namespace)[0])
        except CertificateError as error:
            raise click.UsageError(str(error)) from error
        names += service_names(service, namespace)
    names += LOOPBACK if loopback else ()
    if not names:
        raise click.UsageError("Name at least one host: --dns-name, --service with --namespace, or --loopback.")
    now = _now()
    authority = make_authority(now)
    leaf = sign_leaf(authority, names, now, timedelta(days=days))
    try:
        store.write(folder, encode_authority(authority) | encode_serving(leaf), replace=force)
    except store.AlreadyThereError as error:
        raise CertificateError(
            f"{error} Use `rotate` for a new server certificate, --force for a new authority."
        ) from None
    _say_written(folder, leaf)


@main.command()
@_folder(exists=True)
@_days
def rotate(folder: Path, days: int) -> None:
    """Replace the server certificate by a new one: new key, same names, same authority."""
    bundle = decode(store.read(folder))
    leaf = sign_leaf(bundle.authority(), names_of(bundle.pair.certificate), _now(), timedelta(days=days))
    store.write(folder, encode_serving(leaf), replace=True)
    _say_written(folder, leaf)


@main.command()
@_folder(exists=True)
def inspect(folder: Path) -> None:
    """Show what the certificates say. Reads no key."""
    files = store.read(folder, (AUTHORITY_CERTIFICATE, SERVING_CERTIFICATE))
    if not files:
        raise CertificateError(f"{folder} has neither {AUTHORITY_CERTIFICATE} nor {SERVING_CERTIFICATE}.")
    now = _now()
    for file, pem in files.items():
        for certificate in decode_certificates(pem, file):
            summary = summarise(certificate, now)
            click.echo(file)
            click.echo(f"  subject    {summary.subject}")
            click.echo(f"  issuer     {summary.issuer}")
            click.echo(f"  names      {', '.join(summary.names) or '-'}")
            click.echo(f"  valid      {summary.not_before:%Y-%m-%d %H:%M} to {summary.not_after:%Y-%m-%d %H:%M} UTC")
            click.echo(f"  life left  {summary.life_left:.0%}")
            click.echo(f"  sha256     {summary.sha256}")


@main.command()
@_folder(exists=True)
@_dns_names
def check(folder: Path, dns_names: tuple[str, ...]) -> None:
    """Say whether clients will accept the certificate: chain, names, key, validity. Exit code 1 when not."""
    now = _now()
    bundle = decode(store.read(folder))
    found = problems(bundle, dns_names, now)
    for sentence in found:
        click.echo(sentence)
    if found:
        raise click.exceptions.Exit(1)
    summary = summarise(bundle.pair.certificate, now)
    click.echo(
        f"Good: {SERVING_CERTIFICATE} is for {', '.join(summary.names)}, issued by {summary.issuer}, "
        f"valid until {summary.not_after:%Y-%m-%d %H:%M} UTC ({summary.life_left:.0%} of its life left)."
    )


def _say_written(folder: Path, leaf: Pair) -> None:
    certificate = leaf.certificate
    click.echo(
        f"Wrote {folder / SERVING_CERTIFICATE} for {', '.join(names_of(certificate))}, "
        f"valid until {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC."
    )


if __name__ == "__main__":
    main(prog_name="python -m certs")
