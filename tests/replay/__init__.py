"""The scenarios of tests/cases at a real API server."""
