"""Which Pods are worth decoding: a test of the raw bytes, since most Pods of a cluster have nothing to do with NPUs."""

import posixpath
import re

from webhook.ownership.settings import Settings

# Besides the configured names: every way of DOMAIN.md section 6, and every mark of a device plugin of section 3.
# A path may be written with "//" or "/./" in it, so only single segments are safe to look for. "ascend" covers
# variables, images, labels, driver trees and the runtime class; both spellings of resource claims (`resourceClaims`,
# `extendedResourceClaimStatus`) share a stem.
_KNOWN = (
    "ascend",
    "davinci",
    "devmm_svm",
    "hisi_hdc",
    "resourceclaim",
    "deviceclass.",
    "npu-",
    "npu.",
    '"path":"/dev',
    '"path":"/"',
)
_WILDCARD = re.compile(r"\[[^]]*\]|[*?]")


def needles(settings: Settings) -> tuple[bytes, ...]:
    """Return lower-case texts of which every Pod that decides something has at least one in its JSON."""
    resources = settings.resources
    globs = (*resources.native, *resources.hami, *resources.both, *resources.vnpu, *resources.other)
    trees = (max(path.split("/"), key=len) for path in settings.driver_paths)
    kubelets = ("/" + posixpath.basename(posixpath.normpath(path)) for path in settings.kubelet_paths)
    wanted = {*_KNOWN, *trees, *kubelets, *(_literal(glob) for glob in globs)}
    lowered = {text.lower() for text in wanted}
    # One that contains another adds nothing.
    return tuple(
        sorted(text.encode() for text in lowered if not any(other in text for other in lowered if other != text))
    )


def _literal(glob: str) -> str:
    """Return the longest text that every name matched by `glob` contains."""
    return max(_WILDCARD.split(glob), key=len)


def matters(line: bytes, wanted: tuple[bytes, ...]) -> bool:
    """Whether `line` contains one of `wanted`, in letters of either case."""
    lowered = line.lower()
    return any(needle in lowered for needle in wanted)
