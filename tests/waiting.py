"""Waiting for what a controller does in its own time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], *, timeout: float = 30, every: float = 0.05) -> T:
    """Return the first true answer of `look`, asked every `every` seconds; fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        answer = look()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {timeout} s: {look}"
        time.sleep(every)
