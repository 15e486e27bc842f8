"""The one interface through which the server and the commands get facts, wherever these come from."""

from collections.abc import Mapping
from typing import Protocol

from webhook.ownership.facts import Facts


class FactSource(Protocol):
    """A cluster that facts can be had from: an API server (`api.ApiFacts`) or a folder (`files.FileCluster`)."""

    def start(self) -> None:
        """Begin to keep the picture up to date in the background. Returns at once."""

    def stop(self) -> None:
        """End all background work, within two seconds. A second call does nothing."""

    @property
    def synced(self) -> bool:
        """Whether the first picture is complete (readiness). Once true it stays true: from then on `age` tells."""

    def cached(self) -> Facts:
        """Return the latest picture. Never any I/O, never blocks: this is the Pod path.

        What is wrong with it is told by `Facts.age` and `Facts.missing`; before `synced` every kind that has not been
        read is missing.
        """

    def live(self, deadline: float) -> Facts:
        """Read everything now and return it, within `deadline` seconds (more than 0).

        Kinds that fail or are late are in `Facts.missing` with the reason; nothing is raised for them.
        """

    @property
    def problems(self) -> Mapping[str, str]:
        """What is wrong at present, by kind id: a sentence each. Kinds that serve only warnings are included."""
