"""Fixtures that hand out an installed guard."""

from collections.abc import Iterator

import pytest

from tests.controlplane.plane import ControlPlane
from tests.guard import installed as guards
from tests.guard.installed import InstalledGuard


@pytest.fixture
def guard(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[InstalledGuard]:
    """The chart, installed with its defaults for one test, and its server. Parametrize indirectly for other values.

    The nodes of the Deployment's Pods are the test's own; without any, one plain node is made.
    """
    plain = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "control", "labels": {"kubernetes.io/os": "linux"}},
    }
    control_plane.apply(plain)
    values = getattr(request, "param", None)
    with guards.InstalledGuard(control_plane, values) as installed:  # by its module: on kind another one is there
        yield installed
    control_plane.kubectl("delete", "node", "control", "--ignore-not-found")
