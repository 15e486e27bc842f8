"""The option `--cluster kind`: the same tests, on a kind cluster and with the guard's image in it."""

import pytest

from tests.guard import installed
from tests.kind.guard import KindGuard

OWN = "it makes a control plane of its own, to configure it or to break it"
ELSEWHERE = {
    "test_control_plane": "it is about the control plane that the tests build",
    "test_guard_down": "it plays kubelets that do more than kind's API server, with NodeRestriction, lets them do",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    told = "own: the control plane that tests/controlplane builds; kind: a kind cluster, which needs Docker"
    parser.addoption("--cluster", choices=("own", "kind"), default="own", help=told)


def is_kind(config: pytest.Config) -> bool:
    """Whether the tests run on a kind cluster."""
    return bool(config.getoption("--cluster") == "kind")


def pytest_configure(config: pytest.Config) -> None:
    """Put the Deployment's guard in the place of the process's, before any test module takes that by its name."""
    if is_kind(config):
        vars(installed)["InstalledGuard"] = KindGuard


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip, with the reason, what a kind cluster is no place for."""
    for item in items if is_kind(config) else ():
        reason = unsuited(item.path.stem, getattr(item, "fixturenames", ()))
        if reason and item.get_closest_marker("integration"):
            item.add_marker(pytest.mark.skip(reason=reason))


def unsuited(module: str, fixtures: list[str] | tuple[str, ...]) -> str:
    """Why an integration test is not for kind; empty when it is."""
    if module in ELSEWHERE:
        return ELSEWHERE[module]
    return "" if "control_plane" in fixtures and "make_control_plane" not in fixtures else OWN
