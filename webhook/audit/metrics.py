"""Prometheus metrics of decisions. Labels are rules, decisions and subjects, never names of objects."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from webhook.ownership.verdict import Verdict

# Seconds. Pods take well under a millisecond, owner changes (live reads) about ten, and a webhook call 10 s at most.
_BUCKETS = (
    *(0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01),
    *(0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)


class Metrics:
    """The metrics of one process, in a registry of its own."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        self._decisions = Counter(
            "ascend_guard_decisions",
            "Reviews answered, by what they were about, what became of them, and the rule that decided.",
            ("subject", "decision", "rule"),
            registry=self.registry,
        )
        self._latency = Histogram(
            "ascend_guard_decision_seconds",
            "Time from the last byte of a review to its verdict.",
            ("subject",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._refused = Counter(
            "ascend_guard_refused_requests",
            "Requests that got no verdict, by HTTP status.",
            ("status",),
            registry=self.registry,
        )
        build = Gauge("ascend_guard_build_info", "1; the label says the version.", ("version",), registry=self.registry)
        build.labels(version).set(1)

    def decided(self, verdict: Verdict, seconds: float) -> None:
        """Count a decision that took `seconds`."""
        self._decisions.labels(verdict.subject, verdict.decision, verdict.rule).inc()
        self._latency.labels(verdict.subject).observe(seconds)

    def refused(self, status: int) -> None:
        """Count a request that was answered with an HTTP error."""
        self._refused.labels(str(status)).inc()

    def exposition(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry)
