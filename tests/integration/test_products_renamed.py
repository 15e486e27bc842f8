"""Where DOMAIN.md leaves names open the stand-ins can be installed under the other ones."""

from __future__ import annotations

import pytest

from tests.controlplane.plane import ControlPlane
from tests.products import samples
from tests.products.api import path_of
from tests.products.nodes import ascend_node, create_nodes
from tests.products.observe import HAMI_CR, RUNTIME_CLASS, field, until_advertised, until_gone
from tests.products.products import Products, Setup

pytestmark = pytest.mark.integration


def test_other_group_other_namespace_and_each_product_removes_its_own_runtime_class(
    control_plane: ControlPlane,
) -> None:
    setup = Setup(policy_group="openfuyao.com", native_namespace="npu-operator", hami_makes_runtime_class=True)
    made_by = ("metadata", "annotations", "meta.helm.sh/release-name")
    with Products(control_plane.kubeconfig, setup) as products:
        admin = products.admin
        create_nodes(admin, ascend_node("node-a1"))
        admin.create(samples.hamiascenddeviceplugin())
        until_advertised(admin, {"huawei.com/Ascend910B4": "32"}, "node-a1")
        assert field(admin, RUNTIME_CLASS, *made_by) == "hami-ascend-device-plugin"
        admin.delete(HAMI_CR)
        until_gone(admin, HAMI_CR, RUNTIME_CLASS)
        until_advertised(admin, {}, "node-a1")

        admin.create(samples.npuoperatorctl())
        until_advertised(admin, {"huawei.com/Ascend910": "8"}, "node-a1")
        assert admin.get(path_of("openfuyao.com/v1", "NPUClusterPolicy", "cluster")) is not None
        assert admin.get(path_of("apps/v1", "DaemonSet", "ascend-device-plugin", "npu-operator")) is not None
        assert field(admin, RUNTIME_CLASS, *made_by) == "npu-operator"
        assert products.refused == []

    installed = ["/api/v1/namespaces/npu-operator", "/api/v1/namespaces/hami-system", RUNTIME_CLASS]
    assert [path for path in installed if admin.get(path) is not None] == []
    crds = admin.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    assert [crd["metadata"]["name"] for crd in crds if "openfuyao" in crd["metadata"]["name"]] == []
    assert admin.items("/api/v1/nodes", labelSelector="accelerator") == []
