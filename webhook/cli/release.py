"""`ascend-guard release`: take a stuck claim, or a wrong memory of who has settled, out of the guard's Lease.

For whoever may `override` the resource `claims.ascend-owner-guard` named `ascend-owner-guard`; the Lease keeps who did
it last and why, and every replica that runs records it.
"""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from webhook.claim.course import Failed, Held
from webhook.claim.lease import LeaseStore
from webhook.cluster.access import Access, AccessReviews
from webhook.cluster.connection import Connection
from webhook.cluster.errors import ApiError
from webhook.configuration import load
from webhook.ownership.memory import CLAIM, LEASE_NAME, SETTLED, Claim, Memory, Release
from webhook.ownership.owners import Owner

OVERRIDE_CLAIM = Access("override", "ascend-owner-guard", "claims", LEASE_NAME)


@click.command()
@click.argument("what", type=click.Choice(["claim", "settled"]))
@click.option("--owner", type=click.Choice([str(owner) for owner in Owner]), help="Only what is about this owner.")
@click.option("--reason", required=True, help="Why; it is kept in the Lease and in the audit trail.")
@click.option("--force", is_flag=True, help="Also a claim whose write may still be on its way.")
@click.option("--dry-run", is_flag=True, help="Say what would be released, and change nothing.")
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The guard's configuration."
)
@click.option("-n", "--namespace", help="The guard's namespace, else what the configuration says.")
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="As for kubectl.")
@click.option("--context", help="The kubeconfig's context to use instead of its current one.")
def release(
    what: str,
    owner: str | None,
    reason: str,
    force: bool,
    dry_run: bool,
    config: Path | None,
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Release a stuck claim, or the memory that an owner has SETTLED, when it is wrong.

    \b
    claim    who brings an owner in or gives one up; it binds nobody for longer than claim.timeout by itself
    settled  who has been rolled out; an owner that is rolled out settles again within seconds

    Never delete the Lease instead: a guard that finds none takes the cluster for one in operation. Exit code 0 when it
    is released or there was nothing to release, 1 when it was refused.
    """
    configuration = load(config, {})
    namespace, timeout = namespace or configuration.namespace, configuration.claim.timeout
    connection = Connection.from_kubeconfig(kubeconfig, context)
    leases = LeaseStore(connection, namespace)
    access = AccessReviews(connection)
    obstacle = access.own_obstacle(OVERRIDE_CLAIM)
    if obstacle:
        raise _refused(f"{obstacle}. A cluster administrator can bind you to ClusterRole {LEASE_NAME}-override.")
    held = leases.read()
    if isinstance(held, Failed):
        raise _refused(f"The Lease {namespace}/{LEASE_NAME} cannot be read: {held.reason}.")
    click.echo(f"The Lease {namespace}/{LEASE_NAME} says: {'; '.join(_told(held.memory, held)) or 'nothing'}.")
    lost = {"claim": SETTLED, "settled": CLAIM}[what]
    if lost in held.memory.problem:
        other = "settled" if what == "claim" else "claim"
        raise _refused(f"{lost} would be lost, since it cannot be understood. Release it first: {other}.")
    after = _without(held.memory, what, Owner(owner) if owner else None)
    gone = [one for one in held.memory.claims if one not in after.claims]
    if after == held.memory and not held.memory.problem:
        click.echo("There is nothing to release.")
        return
    young = next((one for one in gone if one.is_young(held.now, timeout)), None)
    if young is not None and not force:
        left = timeout - young.age(held.now)
        raise _refused(
            f"The write that {young.user} claimed {young.owner} for may still be on its way; it binds nobody any more "
            f"in {left.total_seconds():.0f} s. Wait, or be sure that nothing comes and repeat this with --force."
        )
    said = f"{what}{f' of {owner}' if owner else ''}"
    if dry_run:
        click.echo(f"Would release: {said}.")
        return
    try:
        user = access.own_name()
    except ApiError as error:
        raise _refused(f"Who you are could not be asked: {error}.") from error
    written = leases.swap(
        held, replace(after, exists=True, problem="", released=Release(str(uuid.uuid4()), user, said, reason, held.now))
    )
    if written is None:
        raise _refused("Somebody else wrote the Lease at the same moment. Look again, and repeat this if it is right.")
    if isinstance(written, Failed):
        raise _refused(f"It is not known whether the Lease was written: {written.reason}. Look again.")
    click.echo(f"Released: {said}. Now it says: {'; '.join(_told(written.memory, written)) or 'nothing'}.")


def _without(memory: Memory, what: str, owner: Owner | None) -> Memory:
    if what == "settled":
        return replace(memory, settled=memory.settled - ({owner} if owner else memory.settled))
    return replace(memory, claims=tuple(one for one in memory.claims if owner is not None and one.owner is not owner))


def _told(memory: Memory, held: Held) -> Iterator[str]:
    if memory.problem:
        yield f"something that cannot be understood ({memory.problem})"
    if memory.settled:
        yield "settled: " + ", ".join(owner for owner in Owner if owner in memory.settled)
    for claim in memory.claims:
        yield _claim(claim, held)


def _claim(claim: Claim, held: Held) -> str:
    doing = "brings in" if claim.state == "activating" else "gives up"
    age = int(claim.age(held.now).total_seconds())
    return f"{claim.user} {doing} {claim.owner} by {claim.object}, {age} s ago"


def _refused(sentence: str) -> click.ClickException:
    return click.ClickException(sentence[0].upper() + sentence[1:])
