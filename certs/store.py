"""A bundle's files in a folder."""

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from certs.bundle import FILES, KEYS
from certs.errors import CertificateError


class AlreadyThereError(CertificateError):
    """Files are there that must not be replaced."""


def read(folder: Path, names: Sequence[str] = FILES) -> dict[str, bytes]:
    """Return those of the named files that the folder has. Raises CertificateError where one cannot be read."""
    files = {}
    for name in names:
        try:
            files[name] = (folder / name).read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise CertificateError(f"{folder / name} cannot be read: {error.strerror}.") from error
    return files


def write(folder: Path, files: Mapping[str, bytes], *, replace: bool) -> None:
    """Write a bundle's files: keys with mode 0600, certificates 0644, the folder 0700 where it has to be made.

    All are on disk before the first takes its place, and each takes its place by a rename: a full disk leaves the
    old ones as they were, and nobody reads half a file. Between two renames certificate and key do not fit each
    other, so whoever loads them has to check that. Writers of one folder wait for each other.
    Raises AlreadyThereError where one exists and `replace` is false, CertificateError where one cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(folder) as descriptor, tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as staging:
            existing = [name for name in files if os.path.lexists(folder / name)]
            if existing and not replace:
                raise AlreadyThereError(f"{folder} has {', '.join(existing)} already.")
            for name, content in files.items():
                _write_new(Path(staging, name), content, 0o600 if name in KEYS else 0o644)
            for name in files:
                Path(staging, name).replace(folder / name)
            os.fsync(descriptor)
    except OSError as error:
        raise CertificateError(f"{folder} cannot be written: {error.strerror}.") from error


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    with path.open("xb") as file:  # in a folder of mode 0700
        os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
