"""The domain: who owns the NPUs. Pure functions over frozen values; no I/O, no clock, no Kubernetes client."""
