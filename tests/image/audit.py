"""Ask which locked packages have known vulnerabilities, and never take silence for a good answer.

    python -m tests.image.audit [further options of pip-audit, such as --vulnerability-service=osv]

pip-audit alone says "No known vulnerabilities found" also of packages that the service does not know. Exit codes: 0
every package was asked about and none is vulnerable, 1 some are, 2 not every package could be asked about.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.image.dockerfile import ROOT

FILES = ("requirements.lock", "requirements-build.lock")


@dataclass(frozen=True)
class Outcome:
    """What is to be said, and the exit code."""

    lines: tuple[str, ...]
    code: int


def judge(file: str, output: str, error: str) -> Outcome:
    """Make an outcome of what pip-audit printed for one lock file, as JSON and on its error stream."""
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, KeyError):
        last = next((line for line in reversed(error.splitlines()) if line.strip()), "it said nothing")
        reason = f"{file} was not audited: the vulnerability service could not be reached, or pip-audit failed: {last}"
        return Outcome((reason,), 2)
    vulnerable = [_sentence(one, found) for one in packages for found in one.get("vulns", ())]
    unasked = [one["name"] for one in packages if "skip_reason" in one]
    lines = [*vulnerable]
    if unasked:
        lines.append(
            f"{file}: {len(unasked)} of {len(packages)} packages were not audited, the vulnerability service gave no "
            f"answer about them: {', '.join(unasked)}"
        )
    if not lines:
        lines.append(f"{file}: none of {len(packages)} packages has a known vulnerability")
    return Outcome(tuple(lines), 1 if vulnerable else 2 if unasked else 0)


def _sentence(package: dict[str, Any], found: dict[str, Any]) -> str:
    fixed = ", ".join(found.get("fix_versions", ())) or "no version yet"
    return f"{package['name']} {package['version']} is vulnerable: {found['id']}, fixed in {fixed}"


def audit(file: str, options: Sequence[str] = ()) -> Outcome:
    """Ask about every package of one lock file, by name and version; nothing is installed or resolved."""
    command = [sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip", "--progress-spinner=off"]
    command += ["--format=json", f"--requirement={file}", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return judge(file, done.stdout, done.stderr)


def main() -> int:
    """Audit what ships and what builds it."""
    outcomes = [audit(file, sys.argv[1:]) for file in FILES]
    for outcome in outcomes:
        print("\n".join(outcome.lines))
    codes = {outcome.code for outcome in outcomes}
    return 1 if 1 in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
