"""What every test may use."""

pytest_plugins = ["tests.kind.plugin", "tests.controlplane.fixtures", "tests.guard.fixtures"]
