"""A live cluster with its memory: the facts of the API server, together with what the Lease says."""

from collections.abc import Mapping
from dataclasses import replace

from webhook.claim.claims import Claims
from webhook.claim.lease import LeaseStore
from webhook.claim.overrides import Overrides
from webhook.claim.settler import Settler
from webhook.claim.view import ClaimView
from webhook.cluster.access import AccessReviews
from webhook.cluster.api import ApiFacts
from webhook.cluster.connection import Connection
from webhook.cluster.view import ViewStatistics
from webhook.ownership.facts import Facts
from webhook.ownership.settings import Settings


class RememberingFacts:
    """A `FactSource` over one API server and the guard's Lease there.

    `claims` decides owner changes; `view` is what is known of the Lease at any moment.
    """

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self._facts = ApiFacts(connection, settings)
        access = AccessReviews(connection)
        leases = LeaseStore(connection, settings.namespace, access.own_reference)
        self.view = ClaimView(leases, settings.freshness)
        self._settler = Settler(leases, settings, self._facts.cached, self._facts.live, self.view.current)
        self.claims = Claims(leases, settings, Overrides(access).judge)

    def start(self) -> None:
        """Begin to read, to watch and to remember. Returns at once."""
        self._facts.start()
        self.view.start()
        self._settler.start()

    def stop(self) -> None:
        """End all background work."""
        self._settler.stop()
        self.view.stop()
        self._facts.stop()

    @property
    def synced(self) -> bool:
        """Whether the first picture is complete and the Lease has been read."""
        return self._facts.synced and self.view.synced

    def cached(self) -> Facts:
        """Return the watched picture with what the Lease said last. Never any I/O."""
        return replace(self._facts.cached(), memory=self.view.current())

    def live(self, deadline: float) -> Facts:
        """Read everything now; what the Lease says is read by whoever changes it (`claims`)."""
        return self._facts.live(deadline)

    @property
    def problems(self) -> Mapping[str, str]:
        """What is wrong at present: with the watches, and with the Lease."""
        problem = self.view.current().problem
        return {**self._facts.problems, **({"lease": problem} if problem else {})}

    def statistics(self) -> tuple[ViewStatistics, ...]:
        """Return the numbers of every kind and group, for metrics and status."""
        return self._facts.statistics()
