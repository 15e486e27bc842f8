"""resource-mismatch: a Pod asks for what the settled owner serves.

By default these are warnings. A Pod that asks for a resource which the owner of its settled scope does not serve would
wait
for ever; one that asks for names of two owners can never run. A HAMi Pod without runtimeClassName `ascend` may find no
chip (only a warning whatever the mode: the node's default runtime may be `ascend`).

A direct Pod that asks for a name which both owners serve (310P) is rewritten by HAMi's webhook where that is installed
and its device configuration names the resource: the warning `hijack`. The label `hami.io/webhook: ignore` keeps it out.
"""

from collections.abc import Iterator

from webhook.ownership.change import Change
from webhook.ownership.infrastructure import creates_infrastructure
from webhook.ownership.objects import Pod
from webhook.ownership.owners import Owner
from webhook.ownership.pods import pools_open_to
from webhook.ownership.situation import Situation
from webhook.ownership.traces import foreign_is_unseen
from webhook.ownership.verdict import Finding, Observation

ID = "resource-mismatch"
HIJACK = "hijack"


def judge(change: Change, standing: Situation) -> Iterator[Finding]:
    """Yield what this rule has to say about `change`."""
    pod, request = change.after, change.request
    if request.resource != "pods" or request.operation != "CREATE" or request.sub_resource or not isinstance(pod, Pod):
        return
    if not pod.access.resources or creates_infrastructure(request.user, pod, standing.facts, standing.settings):
        return
    asked = ", ".join(sorted(pod.access.resources))
    if not pod.access.servers:
        yield Finding(
            ID,
            "deny",
            f"{change.ref} asks for resources of two owners: no owner serves them all",
            (Observation(str(change.ref), "", f"asks for {asked}"),),
            "ask for the resources of one owner only",
        )
        return
    owners = [
        pool.phase.owner
        for pool in pools_open_to(pod, standing)
        if pool.phase.name == "settled" and pool.phase.owner is not None
    ]
    if not owners or (Owner.FOREIGN in owners and foreign_is_unseen(standing.facts)):
        return
    if not any(owner in pod.access.servers for owner in owners):
        names = " and ".join(owners)
        yield Finding(
            ID,
            "deny",
            f"{change.ref} asks for {asked}, which {names} does not serve",
            tuple(Observation(owner, "", "is the settled owner") for owner in owners),
            f"ask for a resource of {names}",
        )
        return
    if Owner.HAMI in owners and Owner.HAMI in pod.access.servers and pod.runtime_class != "ascend":
        yield Finding(
            ID,
            "warn",
            f"{change.ref} has no runtimeClassName ascend: it may find no chip",
            (Observation("hami", "", "is the settled owner"),),
            "set runtimeClassName: ascend, unless it is the nodes' default runtime",
        )
    if Owner.NATIVE in owners and {Owner.NATIVE, Owner.HAMI} <= pod.access.servers:
        yield from _hijacked(change, pod, standing)


def _hijacked(change: Change, pod: Pod, standing: Situation) -> Iterator[Finding]:
    facts = standing.facts
    rewritten = [name for name in pod.access.resources if name in facts.hami_resources]
    if not rewritten or not facts.hami_webhook or pod.meta.labels.get("hami.io/webhook") == "ignore":
        return
    yield Finding(
        HIJACK,
        "warn",
        f"{change.ref} asks for {rewritten[0]}, which HAMi's webhook rewrites to its own scheduler",
        (Observation("ConfigMap hami-scheduler-device", "", f"names {rewritten[0]}"),),
        "label the Pod hami.io/webhook: ignore",
    )
