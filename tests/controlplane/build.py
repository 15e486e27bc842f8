"""Build the control plane's programs from their Go modules, once, into the user's cache folder.

    python3 -m tests.controlplane.build [PROGRAM...]

Standard library only: it runs before any virtual environment exists. Folders with ready binaries come first:
`KUBEBUILDER_ASSETS` and `ASCEND_GUARD_TEST_ASSETS`.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent
READY = ("KUBEBUILDER_ASSETS", "ASCEND_GUARD_TEST_ASSETS")
MINIMUM_GO = (1, 26)
KUBERNETES_VERSION = "v1.37.2"

_VERSION = "k8s.io/component-base/version"
_STRIP = "-s -w"
_STAMPED = f"{_STRIP} -X {_VERSION}.gitVersion={KUBERNETES_VERSION} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=37"


class BuildError(Exception):
    """A program that cannot be built; the message names the remedy."""


@dataclass(frozen=True)
class Program:
    """A program: the folder of its module, the package to build, the linker's flags."""

    name: str
    module: str
    package: str
    flags: str = _STRIP

    @property
    def key(self) -> str:
        """What it is made of: module files, package and flags."""
        folder = MODULES / self.module
        digest = hashlib.sha256(f"{self.package} {self.flags}".encode())
        for name in ("go.mod", "go.sum", "main.go"):
            if (folder / name).exists():
                digest.update((folder / name).read_bytes())
        return digest.hexdigest()[:16]

    @property
    def cached(self) -> Path:
        """Where the built binary is or will be."""
        return cache_folder() / f"{self.name}-{self.key}" / self.name


PROGRAMS = (
    Program("etcd", "etcd", "."),
    *(
        Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", _STAMPED)
        for name in ("kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler")
    ),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Program("helm", "helm", "helm.sh/helm/v4/cmd/helm"),
)
# Not needed by `make test`: built when first asked for.
ON_DEMAND = (Program("kind", "kind", "sigs.k8s.io/kind"),)


def cache_folder() -> Path:
    """Return the folder of all built binaries, shared by every clone of one user."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "ascend-owner-guard" / "controlplane"


def find(name: str) -> Path | None:
    """Return the ready binary of a program, None when it has yet to be built."""
    program = next(one for one in (*PROGRAMS, *ON_DEMAND) if one.name == name)
    for variable in READY:
        folder = os.environ.get(variable)
        if folder and (Path(folder) / name).exists():
            return Path(folder) / name
    return program.cached if program.cached.exists() else None


def binary(name: str) -> Path:
    """Return the binary of a program, built if need be. Raises BuildError."""
    found = find(name)
    if found is None:
        build_missing(PROGRAMS if any(one.name == name for one in PROGRAMS) else ON_DEMAND)
        found = find(name)
    if found is None:
        raise BuildError(f"{name} was built but is not in {cache_folder()}; is the folder writable and not cleaned?")
    return found


def build_missing(programs: Sequence[Program] = PROGRAMS) -> None:
    """Build what is not there yet. Raises BuildError."""
    if all(find(program.name) for program in programs):
        return
    cache_folder().mkdir(parents=True, exist_ok=True)
    with _alone():
        missing = [program for program in programs if find(program.name) is None]
        if not missing:
            return
        _require_go()
        what = "the test control plane" if programs is PROGRAMS else ", ".join(one.name for one in programs)
        took = "about 15 minutes on two cores" if programs is PROGRAMS else "a few minutes"
        _say(f"Building {what} into {cache_folder()}: {took}, once.")
        for position, program in enumerate(missing, start=1):
            started = time.monotonic()
            _say(f"[{position}/{len(missing)}] {program.name} …")
            _build(program)
            _say(f"[{position}/{len(missing)}] {program.name} done in {time.monotonic() - started:.0f} s")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Let one build at a time go on; a second one waits and then finds the binaries."""
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _require_go() -> None:
    wanted = ".".join(map(str, MINIMUM_GO))
    remedy = (
        f"Install Go {wanted} or newer, or set KUBEBUILDER_ASSETS and ASCEND_GUARD_TEST_ASSETS to folders with the "
        f"binaries ({', '.join(program.name for program in PROGRAMS)})."
    )
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"The test control plane has to be built, and there is no `go` on the PATH. {remedy}")
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"go(\d+)\.(\d+)", said)
    if version is None or tuple(map(int, version.groups())) < MINIMUM_GO:
        raise BuildError(f"The test control plane needs Go {wanted}, this is {said.strip() or 'unknown'}. {remedy}")


def _build(program: Program) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        made = Path(folder) / program.name
        command = ["go", "build", "-trimpath", "-ldflags", program.flags, "-o", str(made), program.package]
        done = subprocess.run(
            command, cwd=MODULES / program.module, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            tail = "\n".join(done.stderr.splitlines()[-20:])
            raise BuildError(f"go build of {program.name} failed; is the Go module proxy reachable?\n{tail}")
        program.cached.parent.mkdir(parents=True, exist_ok=True)
        made.replace(program.cached)


def main() -> int:
    """Build what is missing of the programs named, or of all; a failure is a sentence and exit code 1."""
    named = [program for program in (*PROGRAMS, *ON_DEMAND) if program.name in sys.argv[1:]]
    try:
        build_missing(named or PROGRAMS)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
