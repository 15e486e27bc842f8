"""Who keeps an object as it stands in Git, by the marks of Argo CD and Flux."""

import pytest

from webhook.ownership.git_sync import sync_of
from webhook.ownership.reading import read_meta


@pytest.mark.parametrize(
    ("metadata", "step"),
    [
        ({}, ""),
        ({"labels": {"app.kubernetes.io/instance": "npu"}, "managedFields": [{"manager": "kubectl"}]}, ""),
        (
            {"annotations": {"argocd.argoproj.io/tracking-id": "npu:hami.io/HAMiAscendDevicePlugin:h/x"}},
            "suspend the sync of Argo CD application npu (argocd app set npu --sync-policy none)",
        ),
        (
            {"labels": {"argocd.argoproj.io/instance": "npu"}},
            "suspend the sync of Argo CD application npu (argocd app set npu --sync-policy none)",
        ),
        (
            {"labels": {"kustomize.toolkit.fluxcd.io/name": "npu", "kustomize.toolkit.fluxcd.io/namespace": "flux"}},
            "suspend the sync of Flux kustomization npu (flux suspend kustomization npu -n flux)",
        ),
        (
            {"labels": {"helm.toolkit.fluxcd.io/name": "npu"}},
            "suspend the sync of Flux helmrelease npu (flux suspend helmrelease npu)",
        ),
        ({"managedFields": [{"manager": "argocd-controller"}]}, "suspend the sync of its Argo CD application"),
        ({"managedFields": [{"manager": "kustomize-controller"}]}, "suspend the sync of its Flux kustomization"),
        ({"managedFields": [{"manager": "helm-controller"}]}, "suspend the sync of its Flux helmrelease"),
        ({"managedFields": "none", "labels": [1], "annotations": {"argocd.argoproj.io/tracking-id": 1}}, ""),
    ],
)
def test_what_writes_an_object_again_is_named(metadata: dict[str, object], step: str) -> None:
    sync = sync_of(read_meta({"apiVersion": "v1", "kind": "X", "metadata": metadata}))
    assert (sync.suspend if sync is not None else "") == step
