"""Run a Dockerfile's RUN and COPY steps in a fresh folder, as a container engine would in a fresh root.

A fresh virtual environment stands for the base image's Python. The steps are the Dockerfile's own text; the only thing
changed in them is that the paths which the Dockerfile makes begin with the folder.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.image.dockerfile import ROOT, Dockerfile, Instruction, Stage, context, expand

# How this machine reaches its package registry is no part of the image.
_REGISTRY = re.compile(r"PIP_(?!NO_CACHE_DIR)\w+|(HTTPS?|NO|ALL)_PROXY|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE", re.I)
_PIP_FILES = (Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf")


class StepError(Exception):
    """A step that failed; the message carries the last lines of what it said."""


class Image:
    """The stages of a Dockerfile, built one after the other at the same place, `root`.

    When a stage is done the next one begins with a fresh `root`; `COPY --from` finds what the earlier one left.
    """

    def __init__(self, dockerfile: Dockerfile, folder: Path, arguments: Mapping[str, str] | None = None) -> None:
        """Build `folder`/root, which must not exist. A second build in a folder gets the context of the first.

        Raises StepError.
        """
        self.root = folder / "root"
        self._context = folder / "context"
        self._work = folder / "work"
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir()
        self._arguments = dict(arguments or {})
        self._own = re.compile("|".join(rf"(?<![\w./-]){re.escape(path)}(?![\w-])" for path in dockerfile.own_paths()))
        self._finished: dict[str, Path] = {}
        self.environment: dict[str, str] = {}
        if not self._context.exists():
            self._copy_context()
        self._make_base(self._work / "base")
        for stage in dockerfile.stages:
            self._build(stage)

    def inside(self, path: str) -> Path:
        """Where an absolute path of the image is."""
        return self.root / path.lstrip("/")

    def _copy_context(self) -> None:
        for name in context():
            (self._context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, self._context / name)

    def _make_base(self, target: Path) -> None:
        """A virtual environment with pip, made where it will be used and put aside."""
        self._run([sys.executable, "-m", "venv", str(self.inside("/usr/local"))], {"PATH": os.defpath}, self._work)
        self.root.rename(target)

    def _build(self, stage: Stage) -> None:
        shutil.copytree(self._work / "base", self.root, symlinks=True)
        base = self.inside("/usr/local/bin")
        self.environment = {"PATH": f"{base}:/usr/bin:/bin", "HOME": str(self.inside("/home")), "LC_ALL": "C.UTF-8"}
        arguments: dict[str, str] = {}
        here = self.root
        for one in stage.instructions:
            match one.keyword:
                case "ARG":
                    arguments |= {name: self._arguments.get(name, value) for name, value in one.pairs.items()}
                case "ENV":
                    known = arguments | self.environment
                    self.environment |= {name: expand(self._moved(text), known) for name, text in one.pairs.items()}
                case "WORKDIR":
                    here = self.inside(one.text)
                    here.mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(one, here)
                case "RUN":
                    variables = _registry() | arguments | self.environment
                    self._run(["/bin/sh", "-ec", self._moved(one.text)], variables, here)
        self._finish(stage)

    def _finish(self, stage: Stage) -> None:
        if stage.name:
            self._finished[stage.name] = self._work / f"stage-{stage.name}"
            self.root.rename(self._finished[stage.name])

    def _moved(self, text: str) -> str:
        return self._own.sub(lambda found: str(self.inside(found[0])), text)

    def _copy(self, instruction: Instruction, here: Path) -> None:
        """A folder's content goes into the target, a file into a target that ends in a slash or dot."""
        *sources, target = instruction.words
        origin = self._context
        if sources[0].startswith("--from="):
            origin = self._finished[sources.pop(0).removeprefix("--from=")]
        into = self.inside(target) if target.startswith("/") else here / target
        for source in sources:
            found = origin / source.lstrip("/")
            if found.is_dir():
                shutil.copytree(found, into, symlinks=True, dirs_exist_ok=True)
            else:
                into.mkdir(parents=True, exist_ok=True)
                shutil.copy2(found, into)

    def _run(self, command: list[str], environment: Mapping[str, str], here: Path) -> None:
        done = subprocess.run(
            command, cwd=here, env=dict(environment), capture_output=True, text=True, check=False, timeout=300
        )
        if done.returncode:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise StepError(f"exit code {done.returncode}: {command[-1]}\n{tail}")


def _registry() -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if _REGISTRY.fullmatch(name)}
    files = [str(file) for file in _PIP_FILES if file.exists()]
    return ({"PIP_CONFIG_FILE": files[0]} if files else {}) | found
