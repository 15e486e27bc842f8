"""What can go wrong between us and a cluster, each as one sentence that can be shown as it is."""


class ClusterError(Exception):
    """Base of this room's errors; `str()` is the sentence."""


class ConnectionConfigError(ClusterError):
    """The API server's address or our credentials could not be found or read."""


class ManifestError(ClusterError):
    """A manifest cannot be used: the sentence names file, document and remedy."""


class ApiError(ClusterError):
    """The API server refused a request (`status` is its HTTP status), or gave no answer in time (`status` 0)."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    @property
    def gone(self) -> bool:
        """Whether the resourceVersion or continue token is too old, so that only a new list helps."""
        return self.status == 410

    @property
    def refused(self) -> bool:
        """Whether trying again soon cannot help: the answer is a decision (401, 403, 405, ...), no passing trouble."""
        return 400 <= self.status < 500 and self.status not in (404, 408, 410, 429)
