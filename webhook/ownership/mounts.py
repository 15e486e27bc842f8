"""What of the host's files a container mounts: by path, by subPath, or by an expression that may lead anywhere below.

Kubernetes refuses `..` in all three, before and after an expression is expanded: a mount never leads upwards.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from webhook.ownership.fields import at, mappings, text
from webhook.ownership.request import Object
from webhook.ownership.settings import Settings

_CHIP = re.compile(r"^/dev/v?davinci([0-9_][^/]*)?$|^/dev/(devmm_svm|hisi_hdc)$")
_CHIPS = ("/dev/davinci", "/dev/vdavinci", "/dev/devmm_svm", "/dev/hisi_hdc")
_ASCEND = ("/usr/local/Ascend", "/var/lib/Ascend")


@dataclass(frozen=True, slots=True)
class Mount:
    """A host path that a container mounts, cleaned. One that is `open_ended` may be any path that begins so: the rest
    is an expression. `volume` is the host path of the volume that it is a part of, `shown` what messages say."""

    volume: str
    path: str
    shown: str
    open_ended: bool
    read_only: bool

    def may_lead_to(self, path: str) -> bool:
        """Whether it is `path`, a part of it, or may be once its expression is expanded."""
        exact = self.path == path or self.path.startswith(path.rstrip("/") + "/")
        return exact or (self.open_ended and path.startswith(self.path))


def clean(path: str) -> str:
    """Return a path as the kubelet takes it: absolute, with one slash in front (POSIX keeps two)."""
    return posixpath.normpath("/" + path.lstrip("/"))


def host_paths(spec: Object) -> Mapping[str, str]:
    """Return the host paths of a Pod spec's volumes, by the name of the volume, as they are written."""
    return {
        text(volume.get("name")): path
        for volume in mappings(spec.get("volumes"))
        if (path := text(at(volume, "hostPath.path")))
    }


def host_mounts(container: Object, paths: Mapping[str, str]) -> Iterator[Mount]:
    """Yield what a container mounts of the volumes in `paths` (see `host_paths`); others are none of the host's."""
    for mount in mappings(container.get("volumeMounts")) if paths else ():
        volume = paths.get(text(mount.get("name")))
        if volume is None:
            continue
        expression = text(mount.get("subPathExpr"))
        literal, expands, _ = expression.partition("$(")
        below = literal if expression else text(mount.get("subPath"))
        folder, path = clean(volume), clean(f"{volume}/{below}")
        yield Mount(
            volume=folder,
            path=path,
            shown=f"{folder.rstrip('/')}/{expression[:80]}" if expands else path,
            open_ended=bool(expands),
            read_only=mount.get("readOnly") is True,
        )


def is_chip(mount: Mount) -> bool:
    """Whether it is a chip's device file, or one that all chips share."""
    return _CHIP.match(mount.path) is not None


def holds_chips(mount: Mount) -> bool:
    """Whether chips are among what it leads to, and other devices too: all of / or /dev, or an open-ended part."""
    return mount.path in ("/", "/dev") or (mount.open_ended and any(chip.startswith(mount.path) for chip in _CHIPS))


def is_driver_tree(mount: Mount, settings: Settings) -> bool:
    """Whether it is the Ascend driver's folder, known or configured, or a part of it."""
    exact, below = _trees(settings.driver_paths)
    if mount.path in exact or mount.path.startswith(below):
        return True
    return mount.open_ended and mount.volume in _ASCEND and any(tree.startswith(mount.path) for tree in exact)


@lru_cache(maxsize=8)
def _trees(configured: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the folders that are driver trees, and the beginnings of what lies in them."""
    trees = {*(clean(path) for path in configured), *(f"{folder}/driver" for folder in _ASCEND)}
    return frozenset({*trees, *_ASCEND}), tuple(tree + "/" for tree in trees)
