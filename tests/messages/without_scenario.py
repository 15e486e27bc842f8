"""Messages that no scenario can make: about the Lease, about the time, about a break-glass annotation."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from webhook.claim.claims import Claims
from webhook.claim.course import Failed, Held
from webhook.cli.requests import request_for
from webhook.configuration import Configuration
from webhook.ownership.change import Change
from webhook.ownership.facts import Facts
from webhook.ownership.memory import Memory
from webhook.ownership.request import Request, User
from webhook.ownership.verdict import Verdict
from webhook.rules import judge
from webhook.rules.break_glass import ANNOTATION, Plea, lift, refuse
from webhook.server.decision import Arrival, too_late

NOW = datetime(2026, 12, 2, 1, 0, tzinfo=UTC)
HAMI = {
    "apiVersion": "hami.io/v1alpha1",
    "kind": "HAMiAscendDevicePlugin",
    "metadata": {"name": "hami-ascend-device-plugin", "namespace": "hami-system"},
    "spec": {"nodeSelector": {"ascend": "on"}, "driverHostPath": "/var/lib/Ascend/driver"},
}


class _LeaseThatFails:
    """A Lease that can be read and not be written."""

    def read(self, timeout: float = 0) -> Held | Failed:
        return Held(Memory(decides=True), "1", NOW, NOW + timedelta(seconds=1))

    def swap(self, held: Held, memory: Memory, timeout: float = 0) -> Held | Failed | None:
        return Failed("the API server answered 403: leases.coordination.k8s.io is forbidden")


def make() -> None:
    """Make each of them once."""
    settings = Configuration()
    create = _create(HAMI)
    facts = Facts.of((), now=NOW)
    Claims(_LeaseThatFails(), settings, judge).decide(create, lambda _: facts, lambda: 10)
    too_late("owner", Arrival(at=time.monotonic() - 11, timeout=10))
    change = Change(create, settings)
    plea = Plea("workloads-running", "the node is dead", "workloads-running: the node is dead")
    lift(Verdict("owner"), plea, change)
    refuse(Verdict("owner"), plea, "alice may not override rules.ascend-owner-guard workloads-running", change)


def _create(item: dict[str, Any]) -> Request:
    annotations = {ANNOTATION: "workloads-running: the node is dead"}
    item = {**item, "metadata": {**item["metadata"], "annotations": annotations}}
    return request_for("CREATE", User("alice"), item=item, old_item=None)
