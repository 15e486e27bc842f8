"""Whether reviews are answered here now, or handed over to another replica."""

from dataclasses import dataclass

from webhook.cluster.source import FactSource


@dataclass(slots=True)
class Readiness:
    """Not ready before the first picture of the cluster is complete, nor from the moment that shutdown begins."""

    facts: FactSource
    draining: bool = False

    @property
    def obstacle(self) -> str:
        """Why reviews are not answered here, as a sentence; empty when they are."""
        if self.draining:
            return "This replica is shutting down."
        return "" if self.facts.synced else "This replica has not read the cluster yet."

    @property
    def retry_after(self) -> int:
        """Seconds after which the API server may call again: at once while draining, else a second."""
        return 0 if self.draining else 1
