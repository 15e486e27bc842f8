"""The command `ascend-guard`. Exit codes: 0 allowed or passed, 1 denied or failed, 2 wrong usage or bad input."""

import traceback
from importlib.metadata import version

import click

from certs.errors import CertificateError
from webhook.cli.classify import classify
from webhook.cli.release import release
from webhook.cli.review import review
from webhook.cli.serve import serve
from webhook.cli.verify import verify
from webhook.cluster.errors import ClusterError
from webhook.configuration import ConfigurationError
from webhook.server.tls import UnusablePairError

VERSION = version("ascend-owner-guard")
_EXPECTED = (ConfigurationError, ClusterError, UnusablePairError, CertificateError)


class _BadInput(click.ClickException):
    exit_code = 2


class _Sentences(click.Group):
    """Ends with the sentence of an error that bad input caused, and exit code 2; --debug shows where it came from."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except _EXPECTED as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            raise _BadInput(str(error)) from error


@click.group(cls=_Sentences, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="ascend-guard")
@click.option("--debug", is_flag=True, help="Show tracebacks of errors that are otherwise one sentence.")
def main(debug: bool) -> None:
    """Let exactly one device-plugin owner hold a cluster's Ascend NPUs."""
    del debug  # read by _Sentences


for _command in (serve, review, verify, classify, release):
    main.add_command(_command)

if __name__ == "__main__":
    main(prog_name="ascend-guard")
