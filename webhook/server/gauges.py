"""Metrics of what the guard knows and serves with, read when Prometheus asks."""

from collections.abc import Iterator
from datetime import UTC, datetime

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.audit.trail import AuditTrail
from webhook.cluster.source import FactSource
from webhook.server.readiness import Readiness
from webhook.server.remembering import RememberingFacts
from webhook.server.tls import ServingCertificate


class ServerState(Collector):
    """Readiness, the age of the facts, the watches, the certificate's end, and lost audit records."""

    def __init__(
        self, facts: FactSource, readiness: Readiness, trail: AuditTrail, certificate: ServingCertificate
    ) -> None:
        self._facts = facts
        self._readiness = readiness
        self._trail = trail
        self._certificate = certificate

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        facts = self._facts.cached()
        yield GaugeMetricFamily("ascend_guard_synced", "1 once the cluster has been read.", int(self._facts.synced))
        yield GaugeMetricFamily(
            "ascend_guard_ready", "1 while reviews are answered here.", int(not self._readiness.obstacle)
        )
        yield GaugeMetricFamily(
            "ascend_guard_facts_age_seconds", "Age of the picture that Pods are judged by.", facts.age.total_seconds()
        )
        yield GaugeMetricFamily(
            "ascend_guard_facts_missing_kinds", "Essential kinds that cannot be read.", len(facts.missing)
        )
        until_end = (self._certificate.not_after - datetime.now(UTC)).total_seconds()
        yield GaugeMetricFamily(
            "ascend_guard_certificate_expiry_seconds", "Seconds until the serving certificate ends.", until_end
        )
        yield CounterMetricFamily(
            "ascend_guard_audit_records_lost", "Audit records that could not be written.", self._trail.lost
        )
        if isinstance(self._facts, RememberingFacts):
            yield from _watches(self._facts)


def _watches(facts: RememberingFacts) -> Iterator[Metric]:
    labels = ("kind", "group")
    records = GaugeMetricFamily("ascend_guard_watched_objects", "Objects kept, by kind.", labels=labels)
    lists = CounterMetricFamily("ascend_guard_lists", "Complete lists read, by kind.", labels=labels)
    watches = CounterMetricFamily("ascend_guard_watch_starts", "Watches opened, by kind.", labels=labels)
    events = CounterMetricFamily("ascend_guard_watch_events", "Watch events, by kind.", labels=labels)
    errors = CounterMetricFamily("ascend_guard_watch_errors", "Lists and watches that failed, by kind.", labels=labels)
    for view in facts.statistics():
        place = (view.kind, view.group)
        records.add_metric(place, view.records)
        lists.add_metric(place, view.lists)
        watches.add_metric(place, view.watches)
        events.add_metric(place, view.events)
        errors.add_metric(place, view.errors)
    yield from (records, lists, watches, events, errors)
