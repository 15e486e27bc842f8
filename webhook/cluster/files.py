"""A folder (or single files) of YAML manifests as a cluster: the embedded default of `serve`, `review` and `verify`."""

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from webhook.cluster.errors import ManifestError
from webhook.cluster.manifests import MAX_BYTES, numbered_documents, objects_of
from webhook.cluster.picture import Picture
from webhook.ownership.facts import Facts
from webhook.ownership.kinds import fact_kinds
from webhook.ownership.objects import Record
from webhook.ownership.reading import group_of, read
from webhook.ownership.settings import Settings

log = logging.getLogger(__name__)

SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILES = 1000

Object = dict[str, Any]


def read_records(objects: Iterable[Object], settings: Settings) -> list[Record]:
    """Return the records of those `objects` that decide something."""
    return [record for item in objects if (record := read(item, settings)) is not None]


class FileCluster:
    """A `FactSource` over manifests.

    `objects` are the decoded objects as last read (Leases too). Once started it looks once a second whether a file
    changed. A change that cannot be read leaves the last good picture in place, which then ages; it is logged and
    named in `problems`.
    """

    def __init__(
        self, path: Path | Sequence[Path], settings: Settings, every: timedelta = timedelta(seconds=1)
    ) -> None:
        """Read the manifests now: a folder's *.yaml, *.yml and *.json (not its sub-folders), or the files given.

        Raises ManifestError when there is nothing to read, or something that cannot be read.
        """
        self._paths = (path,) if isinstance(path, Path) else tuple(path)
        self._settings = settings
        self._every = every
        self._stopping = threading.Event()
        self._reading = threading.Lock()
        self._thread: threading.Thread | None = None
        self._problem = ""
        self._read()

    def start(self) -> None:
        """Begin to look for changed files."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="files", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the background work."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(2)

    @property
    def synced(self) -> bool:
        """Always true: the constructor has read the files."""
        return True

    @property
    def problems(self) -> Mapping[str, str]:
        """The sentence about files that cannot be read, under `files`."""
        return {"files": self._problem} if self._problem else {}

    def facts(self, now: datetime) -> Facts:
        """Return the picture as last read, judged at `now`, of age 0."""
        return replace(self._picture.at(now, timedelta()), now=now)

    def cached(self) -> Facts:
        """Return the picture as last read (no I/O)."""
        picture, confirmed = self._picture, self._confirmed
        age = timedelta(seconds=time.monotonic() - confirmed) if self._problem else timedelta()
        return picture.at(datetime.now(UTC), age)

    def live(self, deadline: float) -> Facts:
        """Read the files again if they changed, and return the picture. Unreadable ones: every kind is missing."""
        del deadline  # reading a folder takes milliseconds
        self._refresh()
        facts = self.cached()
        if not self._problem:
            return facts
        missing = {kind.id: self._problem for kind in fact_kinds(self._settings) if kind.essential}
        return Facts.of((), now=facts.now, age=facts.age, missing=missing)

    @property
    def objects(self) -> tuple[Object, ...]:
        """Every object of the manifests as last read."""
        return self._objects

    def _look(self) -> None:
        while not self._stopping.wait(self._every.total_seconds()):
            self._refresh()

    def _refresh(self) -> None:
        with self._reading:
            try:
                if self._stamps() != self._seen or self._problem:
                    self._read()
                self._problem = ""
                self._confirmed = time.monotonic()
            except ManifestError as error:
                if self._problem != str(error):
                    log.warning("%s Until then the last good picture is used, and ages.", error)
                self._problem = str(error)

    def _read(self) -> None:
        seen = self._stamps()
        objects = tuple(_load(file for file, _, _ in seen))
        facts = Facts.of(read_records(objects, self._settings), now=datetime.now(UTC))
        self._seen, self._objects, self._picture = seen, objects, Picture(facts)
        self._confirmed = time.monotonic()

    def _stamps(self) -> tuple[tuple[Path, int, int], ...]:
        """Return the files to read, each with its time of change and size."""
        try:
            files = [file for path in self._paths for file in _files_of(path)]
            if len(files) > MAX_FILES:
                raise ManifestError(f"{self._paths[0]}: more than {MAX_FILES} files; join some of them.")
            stats = [(file, file.stat()) for file in files]
        except OSError as error:
            raise ManifestError(f"{error.filename}: {error.strerror}; check the path and its permissions.") from error
        return tuple((file, stat.st_mtime_ns, stat.st_size) for file, stat in stats)


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        path.stat()  # absent or unreadable: the OSError names it
        return [path]
    found = sorted(
        file for file in path.iterdir() if file.suffix in SUFFIXES and not file.name.startswith(".") and file.is_file()
    )
    if not found:
        raise ManifestError(
            f"{path}: no {', '.join('*' + suffix for suffix in SUFFIXES)} in this folder; add manifests."
        )
    return found


def _load(files: Iterable[Path]) -> Iterable[Object]:
    places: dict[str, str] = {}
    for file in files:
        try:
            with file.open("rb") as stream:
                raw = stream.read(MAX_BYTES + 1)
        except OSError as error:
            raise ManifestError(f"{file}: {error.strerror}; check the path and its permissions.") from error
        for number, document in numbered_documents(raw, str(file)):
            place = f"{file}, document {number}"
            for item in objects_of(document, place):
                identity = _identity(item)
                if identity in places:
                    raise ManifestError(f"{place}: {identity} is there twice, first in {places[identity]}; remove one.")
                if not identity.endswith("/"):
                    places[identity] = place
                yield item


def _identity(item: Object) -> str:
    """Return group, kind, namespace and name as one text; it ends with "/" for a generateName."""
    metadata = item["metadata"]
    return "/".join((group_of(item), item["kind"], metadata.get("namespace") or "", metadata.get("name") or ""))
