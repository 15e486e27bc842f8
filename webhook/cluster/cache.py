"""The watch-fed picture of the cluster."""

import threading
import time
from collections.abc import Mapping
from datetime import timedelta

from webhook.cluster.connection import Connection
from webhook.cluster.picture import Picture
from webhook.cluster.view import View, ViewStatistics
from webhook.cluster.watch import Pace, Watcher
from webhook.ownership.facts import Facts
from webhook.ownership.kinds import fact_kinds
from webhook.ownership.settings import Settings


class ClusterCache:
    """Every kind that facts are made of, each kept up to date by its own watch."""

    def __init__(self, connection: Connection, settings: Settings, pace: Pace | None = None) -> None:
        self._connection = connection
        self._views = tuple(View(kind, group) for kind in fact_kinds(settings) for group in kind.groups)
        self._essential = tuple(view for view in self._views if view.kind.essential)
        pace = pace or Pace.for_age(settings.freshness.max_age)
        self._watchers = tuple(Watcher(connection, view, settings, pace) for view in self._views)
        self._building = threading.Lock()
        self._built: tuple[int, ...] = ()
        self._picture = Picture(Facts.of((), now=connection.now()))

    def start(self) -> None:
        """Begin to read and watch. Returns at once."""
        for watcher in self._watchers:
            watcher.start()

    def stop(self) -> None:
        """End all watches, within two seconds."""
        for watcher in self._watchers:
            watcher.stop()
        end = time.monotonic() + 2
        for watcher in self._watchers:
            watcher.join(max(0.0, end - time.monotonic()))

    @property
    def synced(self) -> bool:
        """Whether each essential kind has been read, found absent, or refused (then `facts().missing` says why)."""
        return all(view.tried for view in self._essential)

    @property
    def age(self) -> timedelta:
        """How long ago the least recently confirmed essential kind was known to be complete."""
        return timedelta(seconds=max(view.age for view in self._essential))

    @property
    def problems(self) -> Mapping[str, str]:
        """What is wrong at present, by kind id."""
        return {view.kind.id: view.problem for view in self._views if view.problem}

    def statistics(self) -> tuple[ViewStatistics, ...]:
        """Return the numbers of every kind and group."""
        return tuple(view.statistics() for view in self._views)

    def facts(self) -> Facts:
        """Return the picture: sorted anew after a change, else the same with its age. Makes no API call."""
        versions = tuple(view.version for view in self._views)
        if versions != self._built:
            with self._building:
                if versions != self._built:
                    self._picture = Picture(self._sort())
                    self._built = versions
        return self._picture.at(self._connection.now(), self.age)

    def _sort(self) -> Facts:
        absent = {view.kind.id for view in self._views if view.absent}
        present = {view.kind.id for view in self._views if not view.absent}
        return Facts.of(
            (record for view in self._views for record in view.records()),
            now=self._connection.now(),
            age=self.age,
            missing={view.kind.id: reason for view in self._essential if (reason := view.missing)},
            absent=frozenset(absent - present),
        )
