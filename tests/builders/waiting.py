"""Waiting for what another thread or process is about to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: When a test fails instead of hanging. What it waits for takes seconds at most, but the machine may be very busy.
TIMEOUT_S = 240.0


def wait_until(condition: Callable[[], T], what: str = "it", *, seconds: float = TIMEOUT_S) -> T:
    """Return what a condition returns as soon as that is true; fail if it never is."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.01)
    return found
