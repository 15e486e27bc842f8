"""The documented procedure as next steps: what to do now, with the commands for the objects at hand (DOMAIN.md section
4)."""

from webhook.ownership.facts import Facts
from webhook.ownership.git_sync import sync_of
from webhook.ownership.objects import CustomResource, DaemonSet
from webhook.ownership.owners import Owner
from webhook.ownership.phase import Phase
from webhook.ownership.settings import Settings

_HAMI_KIND = "hamiascenddeviceplugin.hami.io"
_PLUGIN_LABELS = {
    Owner.NATIVE: "name=ascend-device-plugin-ds",
    Owner.MINDCLUSTER: "name=ascend-device-plugin-ds",
    Owner.HAMI: "app.kubernetes.io/component=hami-ascend-device-plugin",
}


def switch_native(facts: Facts, *, on: bool) -> str:
    """Return the command that sets devicePlugin.enabled where the administrator sets it.

    Where Git keeps that object, the step before it is to suspend the sync.
    """
    effective = next((resource for resource in facts.aml_clusters if resource.effective), None)
    if effective is not None:
        patch = (
            f'{{"spec":{{"components":{{"npuOperator":{{"values":{{"devicePlugin":{{"enabled":{_json(on)}}}}}}}}}}}}}'
        )
        return f"{_unsynced(effective)}kubectl patch amlcluster {effective.meta.ref.name} --type merge -p '{patch}'"
    patch = f'{{"spec":{{"devicePlugin":{{"enabled":{_json(on)}}}}}}}'
    asking = [resource for resource in facts.operator_ctls if resource.asks(Owner.NATIVE)]
    for resource in (*asking, *facts.operator_ctls):
        ref = resource.meta.ref
        command = f"kubectl -n {ref.namespace} patch npuoperatorctl {ref.name} --type merge -p '{patch}'"
        return _unsynced(resource) + command
    if not facts.operator_ctls and facts.policies:
        patch = f'{{"spec":{{"devicePlugin":{{"managed":{_json(on)}}}}}}}'
        policy = facts.policies[0]
        return f"{_unsynced(policy)}kubectl patch npuclusterpolicy {policy.meta.ref.name} --type merge -p '{patch}'"
    return f"kubectl -n <namespace> patch npuoperatorctl <name> --type merge -p '{patch}'"


def _unsynced(resource: CustomResource) -> str:
    """The step before a change that Git would undo, "" when nothing is seen to."""
    sync = sync_of(resource.meta)
    return f"{sync.suspend}, then " if sync is not None else ""


def _json(value: bool) -> str:
    return str(value).lower()


def remove(owner: Owner, facts: Facts) -> str:
    """Return the step that gives `owner` up through what the administrator owns: its custom resource, else its
    DaemonSet."""
    if owner is Owner.NATIVE and (facts.operator_ctls or facts.policies or facts.aml_clusters):
        return switch_native(facts, on=False)
    if owner is Owner.HAMI and facts.hami_plugins:
        plugin = facts.hami_plugins[0]
        ref = plugin.meta.ref
        return f"{_unsynced(plugin)}kubectl -n {ref.namespace} delete {_HAMI_KIND} {ref.name}"
    asking = next((one for one in facts.operator_ctls if owner in (Owner.VNPU, Owner.DRA) and one.asks(owner)), None)
    if asking is not None:
        ref, patch = asking.meta.ref, f'{{"spec":{{"{owner}":{{"enabled":false}}}}}}'
        command = f"kubectl -n {ref.namespace} patch npuoperatorctl {ref.name} --type merge -p '{patch}'"
        return _unsynced(asking) + command
    daemon_set = _daemon_set(owner, facts)
    if daemon_set is not None:
        ref = daemon_set.meta.ref
        return f"remove the owner the way it was installed (kubectl -n {ref.namespace} delete daemonset {ref.name})"
    return f"remove {owner} the way it was installed"


def ask_back(owner: Owner, facts: Facts) -> str:
    """Return the step that makes `owner` the owner again."""
    if owner is Owner.NATIVE:
        return switch_native(facts, on=True)
    if owner is Owner.HAMI:
        gone = "once it is gone, " if any(one.meta.deleting for one in facts.hami_plugins) else ""
        return f"{gone}apply the saved HAMiAscendDevicePlugin again"
    return f"install {owner} again the way it was"


def watch_leaving(owner: Owner, facts: Facts) -> str:
    """Return the command that shows whether the last plugin Pod of `owner` has left."""
    label = _PLUGIN_LABELS.get(owner)
    if label is not None:
        return f"kubectl get pods -A -l {label} -o wide"
    daemon_set = _daemon_set(owner, facts)
    return (
        f"kubectl -n {daemon_set.meta.ref.namespace} get pods -o wide"
        if daemon_set
        else "kubectl get daemonset -A -o wide"
    )


def watch_starting(owner: Owner, facts: Facts) -> str:
    """Return the command that waits for the roll-out of `owner`."""
    daemon_set = _daemon_set(owner, facts)
    if daemon_set is None:
        return "kubectl get daemonset -A -o wide"
    ref = daemon_set.meta.ref
    return f"kubectl -n {ref.namespace} rollout status daemonset/{ref.name} --timeout=5m"


def next_step(phase: Phase, facts: Facts, settings: Settings) -> str:
    """Return the procedure's next step in `phase`, for somebody who wants NPU Pods to run, and the way back where there
    is one."""
    match phase.name:
        case "unowned":
            return f"enable one owner: {switch_native(facts, on=True)} or create the HAMiAscendDevicePlugin"
        case "starting":
            return _start(phase, facts)
        case "leaving":
            return _leave(phase, facts)
        case "conflict":
            choices = " or ".join(remove(owner, facts) for owner in phase.desired)
            return f"leave one owner only: {choices}"
        case "unknown":
            logs = f"kubectl -n {settings.namespace} logs -l app.kubernetes.io/name=ascend-owner-guard"
            return f"see why the guard cannot read the cluster: {logs}"
        case "settled":
            return f"keep {phase.owners[0]}, or give it up first: {remove(phase.owners[0], facts)}"


def _start(phase: Phase, facts: Facts) -> str:
    owner = phase.owners[0]
    excuse = "; cordoning a broken node excuses it" if phase.lacking else ""
    return (
        f"wait for the roll-out ({watch_starting(owner, facts)}){excuse}; "
        f"if it does not come up, take it back: {remove(owner, facts)}"
    )


def _leave(phase: Phase, facts: Facts) -> str:
    gone = " and ".join(phase.owners)
    commands = "; ".join(dict.fromkeys(watch_leaving(owner, facts) for owner in phase.owners))
    step = (
        f"wait until nothing of {gone} is left ({commands}), then enable the new owner; if it stays, stop and look at "
    )
    step += f"the status and the logs of its operator{_operator(phase.owners[0], facts)}"
    return f"{step}, or ask it back: {ask_back(phase.owners[0], facts)}" if len(phase.owners) == 1 else step


def _operator(owner: Owner, facts: Facts) -> str:
    """The command that shows the status of what the owner's operator works on, "" when there is nothing to show."""
    resources = {Owner.NATIVE: facts.operator_ctls, Owner.HAMI: facts.hami_plugins}.get(owner, ())
    kinds = {Owner.NATIVE: "npuoperatorctl", Owner.HAMI: _HAMI_KIND}
    for resource in resources:
        ref = resource.meta.ref
        return f" (kubectl -n {ref.namespace} get {kinds[owner]} {ref.name} -o yaml)"
    return ""


def _daemon_set(owner: Owner, facts: Facts) -> DaemonSet | None:
    return next((daemon_set for daemon_set in facts.daemon_sets if daemon_set.owner is owner), None)
