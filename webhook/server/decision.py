"""The way of one request: is it ours, facts, rules, audit, bytes. Everything else in this room is transport."""

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from webhook.admission.respond import respond
from webhook.audit.metrics import Metrics
from webhook.audit.record import is_recorded, record_of
from webhook.audit.trail import AuditTrail
from webhook.claim.claims import Claims
from webhook.claim.view import ClaimView
from webhook.cluster.source import FactSource
from webhook.configuration import Configuration
from webhook.ownership.request import Request
from webhook.ownership.verdict import Finding, Judged, Observation, Subject, Verdict
from webhook.rules import judge, rests_on_phase, subject_of

DEFAULT_TIMEOUT = 10.0
MAX_TIMEOUT = 30.0
RETRY_SECONDS = 1
"""After how long the API server calls again when it is told to; it does so within the same deadline."""
_REMEMBERED_UIDS = 1000

_DURATION = re.compile(r"(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?", re.ASCII)
_READ_LIVE: tuple[Subject, ...] = ("owner", "node")


@dataclass(frozen=True, slots=True)
class Arrival:
    """When a review was complete (seconds of the monotonic clock), how long its caller waits, and its trace."""

    at: float = field(default_factory=time.monotonic)
    timeout: float = DEFAULT_TIMEOUT
    traceparent: str = ""

    @property
    def elapsed(self) -> float:
        """Seconds since then."""
        return time.monotonic() - self.at

    @property
    def left(self) -> float:
        """Seconds that judging may still take: what the caller waits, less a margin for the way back."""
        return self.timeout - min(0.5, self.timeout / 4) - self.elapsed


def timeout_of(text: str | None) -> float:
    """Return the seconds that `?timeout=` says, as Go writes durations (`5s`, `1m30s`, `500ms`).

    Absent or unreadable: the API server's default of 10 s. Never more than 30 s, its own limit.
    """
    match = _DURATION.fullmatch(text[:20]) if text else None
    if match is None:
        return DEFAULT_TIMEOUT
    minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    return min(minutes * 60 + seconds + milliseconds / 1000, MAX_TIMEOUT)


class HandOverError(Exception):
    """The request is for another replica: this one does not know well enough what the Lease says."""


class Guard:
    """Decides. Thread-safe: what is judged by cached facts is judged on the event loop, the rest in threads."""

    def __init__(
        self,
        facts: FactSource,
        configuration: Configuration,
        trail: AuditTrail,
        metrics: Metrics,
        version: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        claims: Claims | None = None,
        view: ClaimView | None = None,
    ) -> None:
        """`claims` decides the owner changes of a live cluster, `view` tells what its Lease says; a folder of manifests
        has no Lease."""
        self._facts = facts
        self._configuration = configuration
        self._trail = trail
        self._metrics = metrics
        self._version = version
        self._now = now
        self._claims = claims
        self._view = view
        self._handed_over: OrderedDict[str, None] = OrderedDict()

    def waits(self, request: Request) -> bool:
        """Whether judging this request waits for the API server."""
        return subject_of(request, self._configuration) in _READ_LIVE

    def lacks_lease(self, request: Request) -> bool:
        """Whether what is known of the Lease is too old to judge this Pod's request by; most do not depend on it."""
        if self._view is None or self._view.fresh or subject_of(request, self._configuration) != "pod":
            return False
        return rests_on_phase(request, self._facts.cached(), self._configuration)

    def answer(self, request: Request, arrival: Arrival) -> bytes:
        """Return the AdmissionReview that answers `request`. Decisions that are to be recorded leave a record.

        Raises HandOverError when another replica should be asked first.
        """
        verdict = self._judge(request, arrival)
        latency = arrival.elapsed
        self._metrics.decided(verdict, latency)
        if is_recorded(verdict):
            self._trail.write(
                record_of(
                    request,
                    verdict,
                    now=self._now(),
                    latency=latency,
                    guard_version=self._version,
                    traceparent=arrival.traceparent,
                    max_evidence=self._configuration.audit.max_evidence,
                )
            )
        return respond(request.uid, verdict)

    def _judge(self, request: Request, arrival: Arrival) -> Verdict:
        subject = subject_of(request, self._configuration)
        if subject not in _READ_LIVE:
            if self.lacks_lease(request):
                self._hand_over(request, arrival)
            return judge(request, self._facts.cached(), self._configuration)
        left = arrival.left
        if left <= 0:
            return too_late(subject, arrival)
        if self._claims is None:
            return judge(request, self._facts.live(left), self._configuration)
        return self._claims.decide(request, self._facts.live, lambda: max(0.1, arrival.left))

    def _hand_over(self, request: Request, arrival: Arrival) -> None:
        """Raise HandOverError. A request that came back, or has no time for that, is judged: as `unknown`."""
        if request.uid in self._handed_over or arrival.left < RETRY_SECONDS:
            return
        self._handed_over[request.uid] = None
        if len(self._handed_over) > _REMEMBERED_UIDS:
            self._handed_over.popitem(last=False)
        raise HandOverError("This replica could not read the guard's Lease in time.")


def too_late(subject: Subject, arrival: Arrival) -> Verdict:
    """The answer when there is no time left to read the cluster: `unknown` is a verdict of its own, and no pass."""
    waited = Observation(
        "the request", "", f"waited {arrival.elapsed:.1f} s of the {arrival.timeout:.1f} s that it has"
    )
    finding = Finding(
        rule="unknown",
        effect="deny",
        what="the change could not be judged in time",
        because=(waited,),
        next_step="try again; if that does not help, see whether the API server or the guard is overloaded",
    )
    return Verdict(subject, denials=(Judged(finding, "enforce"),), phase="unknown", evidence=(waited,))
