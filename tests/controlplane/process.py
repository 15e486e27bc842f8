"""A child process that never outlives its parent, with its output in a log file."""

import ctypes
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def free_port() -> int:
    """Return a loopback port that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _die_with_parent() -> None:
    # The kernel sends it when the thread that forked ends: even SIGKILL of pytest leaves nothing behind.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """One program of the control plane, or of the product under test."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start `command`, its output appended to `log`."""
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [str(word) for word in command],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=dict(environment) if environment is not None else None,
                preexec_fn=_die_with_parent,
                start_new_session=True,  # so that its own children can be ended with it
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal, such as SIGSTOP."""
        self._popen.send_signal(number)

    def stop(self, grace: float = 5) -> int:
        """End it: SIGTERM, after `grace` seconds SIGKILL. Returns the exit code."""
        if self.running:
            self._popen.terminate()
            try:
                return self._popen.wait(grace)
            except subprocess.TimeoutExpired:
                self._popen.kill()
        return self._popen.wait()

    def kill(self) -> int:
        """End it and its children at once. Returns the exit code."""
        if self.running:
            os.killpg(self._popen.pid, signal.SIGKILL)
        return self._popen.wait()

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
