"""The custom resources as an administrator writes them, and a workload."""

from __future__ import annotations

import json

from tests.products import aml_operator, hami_operator
from tests.products.api import Object

CTL = "npuoperatorctl-sample"


def npuoperatorctl(enabled: bool | None = None, name: str = CTL, **spec: object) -> Object:
    """A NPUOperatorCtl in npu-operator; `enabled=None` leaves devicePlugin out, which means true."""
    if enabled is not None:
        spec["devicePlugin"] = {"enabled": enabled}
    meta = {"name": name, "namespace": "npu-operator"}
    return {"apiVersion": "npu-operator.alauda.io/v1", "kind": "NPUOperatorCtl", "metadata": meta, "spec": spec}


def hamiascenddeviceplugin(**spec: object) -> Object:
    """HAMi's custom resource in hami-system, with the chart's node selector unless `nodeSelector=` says otherwise."""
    meta = {"name": "hami-ascend-device-plugin", "namespace": "hami-system"}
    spec = {"nodeSelector": {"ascend": "on"}, "driverHostPath": hami_operator.DRIVER} | spec
    return {"apiVersion": hami_operator.VERSION, "kind": "HAMiAscendDevicePlugin", "metadata": meta, "spec": spec}


def amlcluster(state: str = "Managed", enabled: bool = True) -> Object:
    """AmlCluster/default with its component npuOperator in this managementState."""
    component = {"managementState": state, "values": {"devicePlugin": {"enabled": enabled}}}
    spec = {"components": {"npuOperator": component}}
    return {"apiVersion": aml_operator.VERSION, "kind": "AmlCluster", "metadata": {"name": "default"}, "spec": spec}


def workload(name: str, resource: str, namespace: str = "default", count: int = 1) -> Object:
    """A Pod that asks for so many of an NPU resource, with runtimeClassName ascend."""
    container = {"name": "train", "image": "example/train:1", "resources": {"limits": {resource: str(count)}}}
    spec = {"runtimeClassName": "ascend", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def as_json(item: Object) -> str:
    """The object as kubectl reads it from a file."""
    return json.dumps(item)
