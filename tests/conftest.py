"""What every test may use."""

pytest_plugins = ["tests.controlplane.fixtures", "tests.guard.fixtures"]
