"""A condition on a clock of its own, for code that waits with a limit in seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable


class ManualCondition(threading.Condition):
    """A wait lets its time pass at once, and what a test has planned for it happens meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.waits = 0
        self.during_a_wait: Callable[[], object] = lambda: None

    def clock(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None, "this wait would have no end"
        self.waits += 1
        self.now += timeout
        self.release()
        try:
            self.during_a_wait()
        finally:
            self.acquire()
        return True
