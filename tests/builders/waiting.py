"""Waiting for what another thread or process is about to do."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], *, seconds: float = 60) -> None:
    """Return when the condition holds; fail if it does not come to that."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {condition}"
        time.sleep(0.02)
