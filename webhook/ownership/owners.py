"""Who can own the chips, and which object is whose device plugin (DOMAIN.md section 3)."""

from enum import StrEnum

from webhook.ownership.request import Object
from webhook.ownership.settings import Settings


class Owner(StrEnum):
    """An owner of Ascend NPUs, by the word that phases and messages use (DESIGN.md section 3)."""

    NATIVE = "native"
    HAMI = "hami"
    MINDCLUSTER = "mindcluster"
    VNPU = "vnpu"
    DRA = "dra"
    FOREIGN = "foreign"


def plugin_owner(workload: Object, settings: Settings) -> Owner | None:
    """Return whose device plugin `workload` is, by structure, or None when it is none.

    `workload` is a DaemonSet, a Pod, or any object with a Pod template at `spec.template`.
    """
    raise NotImplementedError
