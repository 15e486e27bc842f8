"""A cluster's API server as a source of facts: cached for Pods, live for owner changes."""

from collections.abc import Mapping

from webhook.cluster.cache import ClusterCache
from webhook.cluster.connection import Connection
from webhook.cluster.live import LiveReader
from webhook.cluster.view import ViewStatistics
from webhook.cluster.watch import Pace
from webhook.ownership.facts import Facts
from webhook.ownership.settings import Settings


class ApiFacts:
    """A `FactSource` over one API server."""

    def __init__(self, connection: Connection, settings: Settings, pace: Pace | None = None) -> None:
        self._cache = ClusterCache(connection, settings, pace)
        self._live = LiveReader(connection, settings)
        self._synced = False

    def start(self) -> None:
        """Begin to read and watch. Returns at once."""
        self._cache.start()

    def stop(self) -> None:
        """End all background work, within two seconds."""
        self._cache.stop()
        self._live.stop()

    @property
    def synced(self) -> bool:
        """Whether each essential kind has been read, found absent, or refused."""
        self._synced = self._synced or self._cache.synced
        return self._synced

    def cached(self) -> Facts:
        """Return the watched picture, without any I/O."""
        return self._cache.facts()

    def live(self, deadline: float) -> Facts:
        """Read everything now, within `deadline` seconds."""
        return self._live.facts(deadline)

    @property
    def problems(self) -> Mapping[str, str]:
        """What is wrong at present with the watches. (What a live reading lacks is in its facts.)"""
        return self._cache.problems

    def statistics(self) -> tuple[ViewStatistics, ...]:
        """Return the numbers of every kind and group, for metrics and status."""
        return self._cache.statistics()
