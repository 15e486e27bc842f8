"""The Dockerfile's own steps, run in a fresh folder: what they make works, is small, closed and the same every time."""

import hashlib
import importlib.metadata
import os
import re
import shutil
import ssl
import stat
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.process import Process, free_port
from tests.image.dockerfile import ROOT
from tests.image.steps import Image
from tests.image.test_dockerfile import DOCKERFILE, PROJECT
from tests.waiting import eventually

pytestmark = pytest.mark.image

HOME = "/opt/ascend-owner-guard"
EPOCH = "1700000000"
BUILDS = re.compile(r"(?:.*-)?(?:gcc|g\+\+|cc|c\+\+|clang|ld|as|make|rustc|cargo|go|pip|uv|wheel)[\d.]*")


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    # Not pytest's folder: that keeps the last three runs, and this is large.
    with tempfile.TemporaryDirectory(prefix="ascend-owner-guard-image-") as folder:
        yield Image(DOCKERFILE, Path(folder), {"SOURCE_DATE_EPOCH": EPOCH})


@pytest.fixture(scope="module")
def home(image: Image) -> Path:
    return image.inside(HOME)


def entry_point(image: Image) -> str:
    """The command that the image runs, found as a container engine finds it."""
    (name,) = DOCKERFILE.final.of("ENTRYPOINT")[0].words
    found = shutil.which(name, path=image.environment["PATH"])
    assert found
    assert Path(found).is_relative_to(image.inside(HOME))
    return found


def paths(home: Path) -> list[Path]:
    return sorted([home, *home.rglob("*")])


def prints(home: Path) -> dict[str, str]:
    """What there is: each path with its mode, time and a digest of its content."""
    found = {}
    for path in paths(home):
        status = path.lstat()
        content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        digest = hashlib.sha256(content).hexdigest()
        found[str(path.relative_to(home))] = f"{status.st_mode:o} {status.st_mtime_ns} {digest}"
    return found


def test_the_command_tells_its_version_in_a_clean_environment(image: Image) -> None:
    done = subprocess.run([entry_point(image), "--version"], env={}, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == PROJECT["version"]


def test_it_serves_and_writes_nothing_where_it_is_installed(image: Image, home: Path, tmp_path: Path) -> None:
    before, port = prints(home), free_port()
    environment = image.environment | {"HOME": "/nonexistent", "TMPDIR": str(tmp_path)}
    command = [entry_point(image), "serve", "--demo", f"--bind=127.0.0.1:{port}"]
    server = Process("image", command, tmp_path / "log", environment=environment)
    context = ssl._create_unverified_context()

    def is_ready() -> bool:
        assert server.running, server.tail()
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{port}/readyz", timeout=2, context=context) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        eventually(is_ready, every=0.2)
    finally:
        assert server.stop(grace=20) == 0
    assert prints(home) == before


def test_what_is_installed_is_what_the_lock_file_says(home: Path) -> None:
    (packages,) = home.glob("lib/python*/site-packages")
    found = importlib.metadata.distributions(path=[str(packages)])
    installed = {re.sub(r"[-_.]+", "-", one.name).lower(): one.version for one in found}
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.M))
    assert installed == {**locked, PROJECT["name"]: PROJECT["version"]}


def test_nothing_that_compiles_or_downloads_and_no_cache_is_copied(home: Path) -> None:
    programs = [path.name for path in (home / "bin").iterdir()]
    assert [name for name in programs if BUILDS.fullmatch(name)] == []
    (packages,) = home.glob("lib/python*/site-packages")
    assert not {"pip", "setuptools", "wheel", "pkg_resources"} & {path.name for path in packages.iterdir()}
    left = [path for path in paths(home) if path.name in (".cache", "pip-cache", "http-v2", "selfcheck")]
    left += [path for path in paths(home) if path.suffix in (".whl", ".o", ".a", ".gz")]
    assert left == []


def test_everybody_may_read_and_nobody_else_may_write(home: Path) -> None:
    for path in paths(home):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            assert not mode & stat.S_IWOTH, path
            assert not mode & (stat.S_ISUID | stat.S_ISGID), path
            assert mode & stat.S_IROTH, path
            assert mode & stat.S_IXOTH or not path.is_dir(), path


def test_every_module_has_its_bytecode(home: Path) -> None:
    (packages,) = home.glob("lib/python*/site-packages")
    compiled = {path.name.partition(".")[0] for path in (packages / "webhook").rglob("__pycache__/*.pyc")}
    assert compiled == {path.stem for path in (packages / "webhook").rglob("*.py")}


@pytest.mark.skipif("IMAGE_TWICE" not in os.environ, reason="it takes as long again: `make image-check`")
def test_a_second_build_is_the_same_to_the_bit(image: Image, home: Path) -> None:
    first = prints(home)
    aside = image.root.rename(image.root.with_name("first"))
    try:
        again = Image(DOCKERFILE, aside.parent, {"SOURCE_DATE_EPOCH": EPOCH})
        second = prints(again.inside(HOME))
        assert [path for path in first.keys() | second.keys() if first.get(path) != second.get(path)] == []
    finally:
        shutil.rmtree(image.root, ignore_errors=True)
        aside.rename(image.root)
    assert {path.lstat().st_mtime for path in paths(home)} == {float(EPOCH)}
