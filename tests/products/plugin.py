"""What the stand-ins write: the plugins' DaemonSets and RuntimeClass `ascend`, in the shapes of DOMAIN.md section 3."""

from __future__ import annotations

from tests.products.api import Object

SOCKETS = "/var/lib/kubelet/device-plugins"
NATIVE_LABELS = {"name": "ascend-device-plugin-ds"}
HAMI_LABELS = {"app.kubernetes.io/component": "hami-ascend-device-plugin", "hami.io/webhook": "ignore"}


def owner_of(pod: Object) -> str:
    """`native` (MindCluster's Pods wear the same label), `hami`, or "" for a Pod that is no device plugin's."""
    labels = pod["metadata"].get("labels", {})
    if NATIVE_LABELS.items() <= labels.items():
        return "native"
    return "hami" if HAMI_LABELS.items() <= labels.items() else ""


def daemonset(
    name: str, namespace: str, labels: dict[str, str], node_selector: dict[str, str], driver: str, owner: Object
) -> Object:
    """A device plugin's DaemonSet, with `owner` as its controller; `driver` is a path on the host."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels),
            "ownerReferences": [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": owner["kind"],
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "selector": {"matchLabels": dict(labels)},
            "minReadySeconds": 0,
            "template": {
                "metadata": {"labels": dict(labels)},
                "spec": {
                    "nodeSelector": node_selector,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [
                        {
                            "name": "device-plugin",
                            "image": f"example/{name}:1",
                            "securityContext": {"privileged": True},
                            "volumeMounts": [
                                {"name": "device-plugin", "mountPath": SOCKETS},
                                {"name": "driver", "mountPath": driver, "readOnly": True},
                            ],
                        }
                    ],
                    "volumes": [
                        {"name": "device-plugin", "hostPath": {"path": SOCKETS}},
                        {"name": "driver", "hostPath": {"path": driver}},
                    ],
                },
            },
        },
    }


def runtime_class(release: str, namespace: str, managed_by: str) -> Object:
    """RuntimeClass `ascend`, marked by the release that made it (DOMAIN.md section 7)."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {
            "name": "ascend",
            "labels": {"app.kubernetes.io/managed-by": managed_by, "app.kubernetes.io/instance": release},
            "annotations": {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace},
        },
        "handler": "ascend",
    }


def holds(found: object, wanted: object, key: str = "") -> bool:
    """Whether what the API server keeps says what is wanted; what it added by defaulting is no difference.

    Node selectors must be equal: there a key too many says something else.
    """
    if isinstance(wanted, dict):
        kept = found if isinstance(found, dict) else {}
        if key == "nodeSelector":
            return kept == wanted
        return all(holds(kept.get(inner), value, inner) for inner, value in wanted.items())
    if isinstance(wanted, list):
        kept_list = found if isinstance(found, list) else []
        return len(kept_list) == len(wanted) and all(map(holds, kept_list, wanted))
    return found == wanted
