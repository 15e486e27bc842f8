"""Write the bill of materials (CycloneDX, JSON) of what the image installs: every locked package by its hashes.

    python -m tests.image.sbom build/sbom.cdx.json

The same lock file gives the same bill to the byte; with SOURCE_DATE_EPOCH set it bears that time.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.image.dockerfile import ROOT

SPECIFICATION = "1.6"


def write(target: Path) -> None:
    """Write the bill, checked against its schema. Raises CalledProcessError with what the generator said."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # The generator reads no dependency graph out of a lock file, and warns that there is none.
    command = [sys.executable, "-W", "ignore::UserWarning", "-m", "cyclonedx_py", "requirements", "requirements.lock"]
    command += ["--pyproject=pyproject.toml", "--mc-type=application", "--output-format=JSON", "--validate"]
    command += [f"--spec-version={SPECIFICATION}", "--output-reproducible", f"--output-file={target.resolve()}"]
    # What index this machine asks is no part of the bill.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
    print(sys.argv[1])
