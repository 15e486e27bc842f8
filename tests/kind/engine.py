"""The container engine and kind itself: what is said when they are missing, and how they are called."""

import subprocess
import sys
from pathlib import Path

import yaml

from tests.controlplane.build import binary
from tests.image.dockerfile import ROOT

CONFIGURATION = Path(__file__).with_name("kind.yaml")
NAME = str(yaml.safe_load(CONFIGURATION.read_text())["name"])
CREATION = 600.0  # seconds, the download of the node image included
NO_DOCKER = (
    "No Docker engine answers, and kind's nodes are Docker containers: start Docker (`docker info` must succeed), then "
    "run `make test-kind` again; `make test` needs none."
)


class KindError(Exception):
    """There is no cluster to test on; the message is the sentence that says why."""


def image() -> str:
    """The image that the chart's defaults run."""
    chart = ROOT / "charts" / "ascend-owner-guard"
    version = yaml.safe_load((chart / "Chart.yaml").read_text())["appVersion"]
    given = yaml.safe_load((chart / "values.yaml").read_text())["image"]
    return f"{given['repository']}:{given['tag'] or version}"


def require_docker() -> None:
    """Raise KindError when no Docker engine answers."""
    if not _succeeds("docker", "info"):
        raise KindError(NO_DOCKER)


def require_image() -> None:
    """Raise KindError when the image is not built."""
    if not _succeeds("docker", "image", "inspect", image()):
        raise KindError(f"The image {image()} is not built: run `make image`, or `make test-kind`, which does.")


def kind(*arguments: str, timeout: float = 300) -> str:
    """Run kind. Raises KindError with the last lines that it said, BuildError when it cannot be built."""
    command = [str(binary("kind")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        raise KindError(f"kind {' '.join(arguments)}: exit code {done.returncode}\n{tail}")
    return done.stdout


def create(kubeconfig: Path) -> None:
    """Make the cluster anew, with the image on its nodes, and write the administrator's kubeconfig file."""
    delete(kubeconfig)
    kind("create", "cluster", f"--config={CONFIGURATION}", f"--kubeconfig={kubeconfig}", "--wait=5m", timeout=CREATION)
    kind("load", "docker-image", image(), f"--name={NAME}")


def delete(kubeconfig: Path) -> None:
    """Take the cluster away, if it is there, also out of the kubeconfig file."""
    kind("delete", "cluster", f"--name={NAME}", f"--kubeconfig={kubeconfig}")


def _succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def main() -> int:
    """Say in one sentence what is missing, with exit code 1."""
    try:
        require_docker()
    except KindError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
