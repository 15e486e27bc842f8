"""Metrics count decisions with few label values."""

from webhook.audit.metrics import Metrics
from webhook.ownership.verdict import Finding, Judged, Verdict


def test_decisions_are_counted_by_subject_decision_and_rule() -> None:
    metrics = Metrics("1.2.3")
    metrics.decided(Verdict("pod"), 0.0004)
    metrics.decided(Verdict("pod", denials=(Judged(Finding("mid-switch", "deny", "x"), "enforce"),)), 0.02)
    metrics.refused(400)
    text = metrics.exposition().decode()
    assert 'ascend_guard_decisions_total{decision="allowed",rule="",subject="pod"} 1.0' in text
    assert 'ascend_guard_decisions_total{decision="denied",rule="mid-switch",subject="pod"} 1.0' in text
    assert 'ascend_guard_refused_requests_total{status="400"} 1.0' in text
    assert 'ascend_guard_build_info{version="1.2.3"} 1.0' in text


def test_latencies_are_resolved_below_ten_milliseconds() -> None:
    metrics = Metrics("1")
    metrics.decided(Verdict("pod"), 0.0004)
    text = metrics.exposition().decode()
    assert 'ascend_guard_decision_seconds_bucket{le="0.0003",subject="pod"} 0.0' in text
    assert 'ascend_guard_decision_seconds_bucket{le="0.0005",subject="pod"} 1.0' in text
