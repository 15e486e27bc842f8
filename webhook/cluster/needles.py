"""Which Pods are worth decoding: a test of the raw bytes, since most Pods of a cluster have nothing to do with NPUs."""

import posixpath
import re

from webhook.ownership.settings import Settings

# Besides the configured names: every way of DOMAIN.md section 6, and every mark of a device plugin of section 3.
# A path may be written with "//" or "/./" in it, so only single segments are safe to look for. "ascend" covers
# variables, images, labels, driver trees and the runtime class; all spellings of resource claims (`resourceClaims`,
# `resourceClaimStatuses`, `extendedResourceClaimStatus`) share a stem. An expression may lead anywhere.
_KNOWN = (
    "ascend",
    "davinci",
    "devmm_svm",
    "hisi_hdc",
    "resourceclaim",
    "deviceclass.",
    "npu-",
    "npu.",
    '"subpathexpr":',
)
# All of / or /dev, or what is in /dev, however it is spelled; a probe's path is written in the same way.
_DEVICES = re.compile(rb'"path":"[./]*(dev[./"]|")')
# A resource with a domain, which a DeviceClass may have as its extendedResourceName: of a Pod that waits. Once it is
# bound, its status names the claim.
_EXTENDED = re.compile(rb'"(?:limits|requests)":\{[^{}]*/')
_BOUND = re.compile(rb'"nodename":"[^"]')
_WILDCARD = re.compile(r"\[[^]]*\]|[*?]")


def needles(settings: Settings) -> tuple[bytes, ...]:
    """Return lower-case texts of which every Pod that decides something has at least one in its JSON."""
    resources = settings.resources
    globs = (*resources.native, *resources.hami, *resources.both, *resources.vnpu, *resources.other)
    trees = (max(path.split("/"), key=len) for path in settings.driver_paths)
    folders = [posixpath.basename(posixpath.normpath(path)) for path in settings.kubelet_paths]
    kubelets = [text for folder in folders for text in (f"/{folder}", f'"subpath":"{folder}')]
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
    """Whether `line`, a Pod as the API server writes it, may decide something: it contains one of `wanted`, in letters
    of either case, or has one of the shapes that no configuration changes."""
    lowered = line.lower()
    if any(needle in lowered for needle in wanted) or _DEVICES.search(lowered):
        return True
    return _EXTENDED.search(lowered) is not None and _BOUND.search(lowered) is None
