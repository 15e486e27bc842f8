"""Who keeps an object as it stands in Git, and would write it again after every change by hand.

Told by the marks that Argo CD and Flux leave: their annotations and labels, else their names among the field managers
(argo-cd docs, resource tracking; fluxcd kustomize-controller and helm-controller).
"""

from dataclasses import dataclass

from webhook.ownership.objects import Meta

ARGO_CD = frozenset({"argocd-controller", "argocd-application-controller"})
FLUX_KUSTOMIZE = frozenset({"kustomize-controller"})
FLUX_HELM = frozenset({"helm-controller"})


@dataclass(frozen=True, slots=True)
class Sync:
    """What writes an object again (`Argo CD application npu`), and the command that suspends it ("" when not known)."""

    name: str
    command: str

    @property
    def suspend(self) -> str:
        """The step: `suspend the sync of ... (command)`."""
        return f"suspend the sync of {self.name}" + (f" ({self.command})" if self.command else "")


def sync_of(meta: Meta) -> Sync | None:
    """Return what keeps this object as it stands in Git, None when nothing is seen to."""
    application = meta.annotations.get("argocd.argoproj.io/tracking-id", "").partition(":")[0]
    application = application or meta.labels.get("argocd.argoproj.io/instance", "")
    if application:
        return Sync(f"Argo CD application {application}", f"argocd app set {application} --sync-policy none")
    for tool, kind in (("kustomize", "kustomization"), ("helm", "helmrelease")):
        name = meta.labels.get(f"{tool}.toolkit.fluxcd.io/name", "")
        namespace = meta.labels.get(f"{tool}.toolkit.fluxcd.io/namespace", "")
        if name:
            where = f" -n {namespace}" if namespace else ""
            return Sync(f"Flux {kind} {name}", f"flux suspend {kind} {name}{where}")
    if meta.managers & ARGO_CD:
        return Sync("its Argo CD application", "")
    if meta.managers & FLUX_KUSTOMIZE:
        return Sync("its Flux kustomization", "")
    if meta.managers & FLUX_HELM:
        return Sync("its Flux helmrelease", "")
    return None
