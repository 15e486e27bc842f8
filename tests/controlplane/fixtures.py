"""Fixtures that hand out control planes, and show their logs when a test fails."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.controlplane.build import BuildError
from tests.controlplane.plane import ControlPlane
from tests.kind.cluster import KindCluster
from tests.kind.engine import KindError
from tests.kind.plugin import is_kind

_RUNNING: list[ControlPlane] = []


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The session's full control plane: one API server, controllers, scheduler, kwok. Tests leave it clean.

    With `--cluster kind` it is a kind cluster.
    """
    with ExitStack() as stack:
        yield _start(stack, KindCluster if is_kind(request.config) else ControlPlane)


@pytest.fixture
def make_control_plane() -> Iterator[Callable[..., ControlPlane]]:
    """A factory of further control planes (parameters of ControlPlane), stopped at the end of the test."""
    with ExitStack() as stack:
        yield lambda **parameters: _start(stack, ControlPlane, **parameters)


def _start(stack: ExitStack, make: Callable[..., ControlPlane], **parameters: Any) -> ControlPlane:
    try:
        plane = stack.enter_context(make(**parameters))
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)
    except KindError as error:
        pytest.exit(str(error), returncode=1)
    _RUNNING.append(plane)
    stack.callback(_RUNNING.remove, plane)
    return plane


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Attach the last lines of the logs of whatever ran to the report of a failed integration test."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed and item.get_closest_marker("integration"):
        for plane in _RUNNING:
            report.sections.append((f"control plane in {plane.folder}", plane.tails()))
