"""generated-object: what an operator generates is changed through the operator's own custom resource only.

Denied is every write, collection deletes included, by anyone but the owning operator and the system controllers to

* an NPUClusterPolicy that is generated: an NPUOperatorCtl exists, or its annotations or ownerReferences say so. Without
  one it is the administrator's own resource, and judged like an NPUOperatorCtl;
* a device-plugin DaemonSet that is generated: its owning custom resource exists, or an ownerReference points to it.
  Never by name alone. It may go with its namespace, where its custom resource goes in the same deletion.

The native operator is every identity of `identities.nativeOperator`, for policy and DaemonSet. HAMi's operator is
`identities.hamiOperator`; while none is configured, any ServiceAccount may write HAMi's DaemonSet, with the warning
`unverified-identity`, and a person may not.

Deleting a Pod of the native plugin is no way to stop it: denied while the scope is not settled, a warning when it is
(the Pod comes back). Allowed with a warning: a Pod that is not Ready while its owner starts, and one whose DaemonSet is
gone while its owner leaves. Eviction only ever warns.
"""

from collections.abc import Iterator

from webhook.ownership.change import Change
from webhook.ownership.objects import CustomResource, DaemonSet, Pod, Ref
from webhook.ownership.owners import Owner
from webhook.ownership.procedure import next_step, remove, switch_native, watch_leaving
from webhook.ownership.situation import Situation
from webhook.ownership.traces import daemon_set_is_generated, policy_is_generated
from webhook.ownership.verdict import Finding, Observation

ID = "generated-object"
UNVERIFIED = "unverified-identity"


def judge(change: Change, standing: Situation) -> Iterator[Finding]:
    """Yield what this rule has to say about `change`."""
    request = change.request
    if request.resource == "pods":
        if request.operation == "DELETE" and isinstance(change.before, Pod):
            yield from _plugin_pod_deleted(change, change.before, standing)
        elif request.sub_resource == "eviction":
            yield from _plugin_pod_evicted(change, standing)
        return
    if request.user.name in change.settings.identities.system_controllers or change.deleting_already:
        return
    if any(resource.meta.ref.kind == "NPUClusterPolicy" for resource in change.custom_resources):
        yield from _policy(change, standing)
    for record in (change.before, change.after):
        if isinstance(record, DaemonSet) and daemon_set_is_generated(record, standing.facts):
            if not _goes_with_its_owner(change, record, standing):
                yield from _daemon_set(change, record, standing)
            return


def _goes_with_its_owner(change: Change, record: DaemonSet, standing: Situation) -> bool:
    """Whether the custom resource that it is made for goes in the same deletion of a namespace."""
    resources = standing.facts.hami_plugins if record.owner is Owner.HAMI else standing.facts.operator_ctls
    namespace = record.meta.ref.namespace
    return change.deleted is not None and any(one.meta.ref.namespace == namespace for one in resources)


def _policy(change: Change, standing: Situation) -> Iterator[Finding]:
    generated = [resource for resource in change.custom_resources if policy_is_generated(resource, standing.facts)]
    if not generated or change.request.user.name in change.settings.identities.native_operator:
        return
    yield Finding(
        ID,
        "deny",
        f"{change.ref} is generated and is not edited by hand",
        _generators(generated[0], standing),
        f"{_where_it_is_made(change, generated[0], standing)}{_let_in(change)}",
    )


def _where_it_is_made(change: Change, policy: CustomResource, standing: Situation) -> str:
    if not standing.facts.operator_ctls and not standing.facts.aml_clusters:
        name = policy.primary or "that it was made for"
        return f"apply the NPUOperatorCtl {name} again, and change the setting there; it is gone"
    return f"change the setting where it is made: {_setting(change, standing)}"


def _setting(change: Change, standing: Situation) -> str:
    wants_native = any(claiming.owner is Owner.NATIVE for claiming in change.claimed_after)
    return switch_native(standing.facts, on=wants_native)


def _generators(policy: CustomResource, standing: Situation) -> tuple[Observation, ...]:
    if standing.facts.operator_ctls:
        return tuple(Observation(str(ctl.meta.ref), "", "generates it") for ctl in standing.facts.operator_ctls)
    if policy.primary:
        return (Observation("NPUOperatorCtl " + policy.primary, "", "generates it, says its annotation"),)
    if "npuoperatorctls" in standing.facts.missing:
        return (Observation("NPUOperatorCtl", "", "cannot be read, so it must be taken for generated"),)
    return (Observation("metadata.ownerReferences", "", "name an NPUOperatorCtl"),)


def _let_in(change: Change) -> str:
    """For a ServiceAccount: the configuration key that would let it in."""
    user = change.request.user
    if not user.is_service_account:
        return ""
    return f" (if {user.name} is the operator, add it to identities.nativeOperator)"


def _daemon_set(change: Change, record: DaemonSet, standing: Situation) -> Iterator[Finding]:
    user, identities = change.request.user, change.settings.identities
    owner = record.owner
    operators = identities.hami_operator if owner is Owner.HAMI else identities.native_operator
    if user.name in operators:
        return
    if owner is Owner.HAMI and not operators and user.is_service_account:
        yield Finding(
            UNVERIFIED,
            "warn",
            f"{change.ref} is written by {user.name}, which nobody has confirmed to be HAMi's operator",
            (Observation("identities.hamiOperator", "", "is empty"),),
            "add it to identities.hamiOperator if it is",
        )
        return
    key = "hamiOperator" if owner is Owner.HAMI else "nativeOperator"
    hint = f" (if {user.name} is the operator, add it to identities.{key})" if user.is_service_account else ""
    yield Finding(
        ID,
        "deny",
        f"{change.ref} is the generated plugin of {owner} and belongs to its operator",
        _makers(record, standing),
        f"{_instead(change, owner, standing)}{hint}",
    )


def _makers(record: DaemonSet, standing: Situation) -> tuple[Observation, ...]:
    references = [reference for reference in record.meta.owners if reference.kind in record.makers]
    if references:
        return tuple(
            Observation(str(record.meta.ref), "metadata.ownerReferences", f"name {reference.kind} {reference.name}")
            for reference in references
        )
    facts = standing.facts
    resources = facts.hami_plugins if record.owner is Owner.HAMI else (*facts.operator_ctls, *facts.policies)
    return tuple(Observation(str(resource.meta.ref), "", "exists and generates it") for resource in resources)


def _instead(change: Change, owner: Owner | None, standing: Situation) -> str:
    if owner is None:
        return "leave it to its operator"
    if change.request.operation == "CREATE":
        return f"leave it to the operator, which makes it when the custom resource of {owner} asks for it"
    leaving = next((pool.phase for pool in standing.pools_of(owner) if pool.phase.name == "leaving"), None)
    if leaving is not None:
        return next_step(leaving, standing.facts, standing.settings)
    if _restarts(change):
        return f"to restart the plugin delete its Pods one by one ({watch_leaving(owner, standing.facts)} lists them)"
    return f"to stop the plugin give its owner up: {remove(owner, standing.facts)}"


def _restarts(change: Change) -> bool:
    template = change.request.object
    return (
        change.request.operation == "UPDATE"
        and template is not None
        and "kubectl.kubernetes.io/restartedAt" in str(template.get("spec"))
    )


def _plugin_pod_deleted(change: Change, pod: Pod, standing: Situation) -> Iterator[Finding]:
    facts, user = standing.facts, change.request.user
    if (
        facts.owner_of(pod) is not Owner.NATIVE
        or pod.finished
        or user.name in change.settings.identities.native_operator
    ):
        return
    pool = standing.pool_of_node(pod.node)
    phase = pool.phase if pool is not None else standing.pools[0].phase
    where = (Observation("the phase", "", f"is {phase}"), *phase.evidence)
    ref = _named(change, pod)
    if phase.name == "settled":
        yield Finding(
            ID, "warn", f"deleting {ref} does not stop the native plugin: its DaemonSet makes it again", where,
            f"to stop it: {switch_native(facts, on=False)}",
        )  # fmt: skip
    elif phase.name == "starting" and not pod.ready:
        yield Finding(ID, "warn", f"{ref} is not Ready and is made again by its DaemonSet", where)
    elif phase.name == "leaving" and facts.daemon_set_of(pod) is None and not _plugin_left(standing):
        yield Finding(ID, "warn", f"{ref} is left over: its DaemonSet is gone", where)
    else:
        yield Finding(
            ID, "deny", f"deleting {ref} is no way to stop the native plugin", where,
            next_step(phase, facts, standing.settings),
        )  # fmt: skip


def _plugin_left(standing: Situation) -> bool:
    return any(daemon_set.owner is Owner.NATIVE for daemon_set in standing.facts.daemon_sets)


def _plugin_pod_evicted(change: Change, standing: Situation) -> Iterator[Finding]:
    request = change.request
    pod = standing.facts.pods_by_name.get((request.namespace, request.object_name))
    if pod is None or standing.facts.owner_of(pod) is not Owner.NATIVE:
        return
    pool = standing.pool_of_node(pod.node)
    phase = pool.phase if pool is not None else standing.pools[0].phase
    settled = phase.name == "settled"
    yield Finding(
        ID,
        "warn",
        f"evicting {pod.meta.ref} does not stop the native plugin: its DaemonSet makes it again",
        (Observation("the phase", "", f"is {phase}"),),
        f"to stop it: {switch_native(standing.facts, on=False)}"
        if settled
        else next_step(phase, standing.facts, standing.settings),
    )


def _named(change: Change, pod: Pod) -> Ref:
    return Ref("Pod", change.request.namespace, change.request.object_name or pod.meta.ref.name)
