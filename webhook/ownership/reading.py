"""From a decoded Kubernetes object to the record of its fields that decide. Total: any object gives a record or None."""

from webhook.ownership.objects import Record
from webhook.ownership.request import Object
from webhook.ownership.settings import Settings


def read(item: Object, settings: Settings) -> Record | None:
    """Return the record of `item`, or None when it decides nothing (another kind, an ordinary Pod or DaemonSet)."""
    raise NotImplementedError
