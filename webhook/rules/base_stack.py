"""base-stack: HAMi stands on the NPU Operator's driver, OCI runtime and RuntimeClass `ascend`.

Denied is switching the driver or the OCI runtime off, deleting RuntimeClass `ascend` or giving it another handler, and
deleting the last NPUOperatorCtl: while HAMi is active in any phase or somebody has just claimed it, in the change that
gives the native plugin up, and after it until some owner has settled. An AmlCluster that takes them away is judged
alike.

It is an ordinary uninstall, and passes, while the native plugin is settled, while nobody owns the chips and nobody gave
native up, and while the NPUOperatorCtl is being deleted: unless HAMi is active. Deleting the NPUOperatorCtl is one in
every phase, with a warning, while no other owner is active or claimed. HAMi's operator may remove the RuntimeClass that
its own release made.

Warned about: HAMi brought in without RuntimeClass `ascend`, with the OCI runtime off, or without an NPUOperatorCtl.
A driver or ociRuntime switch that is no boolean is answered 422 in every phase; a warning when it was so before.
"""

from collections.abc import Iterator

from webhook.ownership.change import Change
from webhook.ownership.giving_up import losses
from webhook.ownership.objects import Base, CustomResource, RuntimeClass
from webhook.ownership.owners import Owner
from webhook.ownership.procedure import next_step
from webhook.ownership.situation import Situation
from webhook.ownership.verdict import Finding, Observation

ID = "base-stack"
RUNTIME_CLASS = "ascend"

_BASE_FIELDS = (".driver", ".ociRuntime")


def judge(change: Change, standing: Situation) -> Iterator[Finding]:
    """Yield what this rule has to say about `change`."""
    yield from _malformed(change)
    yield from _hami_without_base(change, standing)
    taken = list(_taken(change, standing))
    if not taken:
        return
    needed = _needed(change, standing)
    uninstall = _is_uninstall(change, standing)
    if standing.unknown is not None:
        needed, uninstall = standing.unknown.evidence, False
    if not needed:
        return
    for what, field in taken:
        yield Finding(
            ID,
            "warn" if uninstall else "deny",
            f"{change.ref} would {what}, which HAMi stands on"
            if not uninstall
            else f"{change.ref}: this uninstalls the NPU stack",
            needed,
            "" if uninstall else _instead(change, standing),
            causes=(field,) if field else (),
        )


def _taken(change: Change, standing: Situation) -> Iterator[tuple[str, str]]:
    """What of the base the change takes away, in words, with the field that does it."""
    before, after = change.before, change.after
    if (
        isinstance(before, RuntimeClass)
        and before.meta.ref.name == RUNTIME_CLASS
        and not _hami_removes_its_own(change, before)
    ):
        if change.request.operation == "DELETE":
            yield "delete RuntimeClass ascend", ""
        elif isinstance(after, RuntimeClass) and after.handler != before.handler:
            yield f"give RuntimeClass ascend the handler {after.handler[:40]!r}", "handler"
    if not isinstance(before, CustomResource) or before.base is None or not before.effective:
        return
    if change.request.operation == "DELETE" or (isinstance(after, CustomResource) and after.removed):
        if before.meta.ref.kind == "AmlCluster" or not _others(before, standing):
            yield "remove the NPU Operator's driver, OCI runtime and RuntimeClass", ""
    elif isinstance(after, CustomResource) and after.base is not None:
        prefix = "spec" if after.meta.ref.kind == "NPUOperatorCtl" else "spec.components.npuOperator.values"
        if before.base.driver and not after.base.driver:
            yield "switch the driver off", f"{prefix}.driver.enabled"
        if before.base.oci_runtime and not after.base.oci_runtime:
            yield "switch the OCI runtime off", f"{prefix}.ociRuntime.enabled"


def _others(resource: CustomResource, standing: Situation) -> bool:
    ref = resource.meta.ref
    return any(ctl.meta.ref != ref and not ctl.meta.deleting for ctl in standing.facts.operator_ctls)


def _needed(change: Change, standing: Situation) -> tuple[Observation, ...]:
    """Why the base is needed now; empty when it is not."""
    facts = standing.facts
    hami = tuple(trace.observation for trace in standing.traces if trace.owner is Owner.HAMI)
    claim = facts.memory.claim_of(Owner.HAMI)
    if hami:
        return hami
    if claim is not None and claim.state == "activating" and claim.is_young(facts.now, standing.settings.claim.timeout):
        return (Observation("Lease ascend-owner-guard", "", f"says that {claim.user} brings hami in"),)
    if facts.operator_ctls and all(ctl.meta.deleting for ctl in facts.operator_ctls):
        return ()
    if change.request.operation != "DELETE" and any(
        loss.owner is Owner.NATIVE and loss.whole for loss in losses(change, facts, standing.settings)
    ):
        return (Observation(str(change.ref), "", "gives the native plugin up in the same change"),)
    return _between(standing)


def _between(standing: Situation) -> tuple[Observation, ...]:
    """Native has been given up and no owner has settled since."""
    native = [pool.phase for pool in standing.pools if pool.phase.owner is Owner.NATIVE]
    for phase in native:
        if phase.name == "leaving":
            return phase.evidence
    claim = standing.facts.memory.claim_of(Owner.NATIVE)
    if claim is not None and claim.state == "leaving" and not standing.active:
        return (Observation("Lease ascend-owner-guard", "", f"says that {claim.user} gave native up"),)
    return ()


def _is_uninstall(change: Change, standing: Situation) -> bool:
    """Whether the NPUOperatorCtl itself goes while no other owner is there or claimed."""
    before = change.before
    if change.request.operation != "DELETE" or not isinstance(before, CustomResource):
        return False
    facts = standing.facts
    claimed = any(
        claim.owner is not Owner.NATIVE
        and claim.state == "activating"
        and claim.is_young(facts.now, standing.settings.claim.timeout)
        for claim in facts.memory.claims
    )
    return not claimed and not (set(standing.active) - {Owner.NATIVE})


def _hami_removes_its_own(change: Change, runtime_class: RuntimeClass) -> bool:
    """Whether HAMi's operator deletes the RuntimeClass of HAMi's own release, told by the release's marks."""
    marks = (*runtime_class.meta.labels.values(), *runtime_class.meta.annotations.values())
    if not any("hami" in mark.lower() for mark in marks):
        return False
    user, identities = change.request.user, change.settings.identities
    if identities.hami_operator:
        return user.name in identities.hami_operator
    return user.is_service_account and user.name not in identities.native_operator


def _instead(change: Change, standing: Situation) -> str:
    if standing.unknown is not None:
        return next_step(standing.unknown, standing.facts, standing.settings)
    if any(trace.owner is Owner.HAMI for trace in standing.traces):
        return "keep it while HAMi is there; remove HAMi first to uninstall"
    if change.request.operation == "UPDATE" and change.claimed_before and not change.claimed_after:
        return "set devicePlugin.enabled to false alone, and keep driver and ociRuntime enabled"
    return "keep it until some owner has settled"


def _hami_without_base(change: Change, standing: Situation) -> Iterator[Finding]:
    if not any(claiming.owner is Owner.HAMI for claiming in change.activated) or standing.unknown is not None:
        return
    facts = standing.facts
    if not any(one.meta.ref.name == RUNTIME_CLASS for one in facts.runtime_classes):
        yield _warning(
            "HAMi comes where RuntimeClass ascend is missing: its Pods need it", "RuntimeClass ascend", "is missing"
        )
    bases: list[Base] = [ctl.base for ctl in facts.operator_ctls if ctl.base is not None]
    if not bases:
        yield _warning(
            "HAMi comes where no NPUOperatorCtl is: nobody installs driver and runtime", "NPUOperatorCtl", "is missing"
        )
    elif not any(base.oci_runtime for base in bases):
        name = str(facts.operator_ctls[0].meta.ref)
        yield _warning("HAMi comes where the OCI runtime is off", name, "has spec.ociRuntime.enabled false")


def _warning(what: str, name: str, seen: str) -> Finding:
    return Finding(ID, "warn", what, (Observation(name, "", seen),), "verify the base stack before the switch")


def _malformed(change: Change) -> Iterator[Finding]:
    was = {(one.field, one.value) for one in change.malformed_before}
    for one in change.malformed:
        if not any(part in one.field for part in _BASE_FIELDS):
            continue
        kind = "no boolean" if one.field.endswith(".enabled") else "no mapping"
        known = (one.field, one.value) in was
        yield Finding(
            ID,
            "warn" if known else "deny",
            f"{change.ref} {one.field} is {one.value}, which is {kind}",
            next_step=f"write true or false, without quotes, into {one.field}",
            causes=(one.field,),
            code=422,
        )
