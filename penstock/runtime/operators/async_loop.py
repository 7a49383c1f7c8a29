"""An event loop of asyncio that is run in steps, by a loop that has other things to do as well.

A step runs all that can run now and returns where the loop would begin to wait. When to take the next step is known then: when a timer is due, or
when the loop's file can be read, which is the case as soon as one of its connections has something.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any, Final

# A loop that never comes to rest is interrupted after so many seconds: others in the slot want to go on, too.
LONGEST_STEP_S: Final = 0.005


class StepLoop(asyncio.SelectorEventLoop):
    """An event loop that can be run in steps, besides being run as ever."""

    def __init__(self) -> None:
        self._files = _StepSelector(self)
        self.due: float | None = None  # when a timer is due, on the loop's own clock
        super().__init__(self._files)

    def step(self) -> None:
        """Run until the loop would wait."""
        self._files.step_end = self.time() + LONGEST_STEP_S
        try:
            self.run_forever()
        finally:
            self._files.step_end = None

    def fileno(self) -> int | None:
        """Return the file that can be read when there is something to do; None if the platform has none."""
        return self._files.fileno()


class _StepSelector(selectors.BaseSelector):
    """Knows how long a loop would wait, and lets it return instead while it takes a step."""

    def __init__(self, loop: StepLoop) -> None:
        self._loop = loop
        self._inner = selectors.DefaultSelector()
        self.step_end: float | None = None  # None: the loop may wait

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready."""
        if self.step_end is None:
            return self._inner.select(timeout)
        found = self._inner.select(0)
        now = self._loop.time()
        if timeout == 0 or found:
            if now >= self.step_end:
                self._loop.due = now
                self._loop.stop()
        else:
            self._loop.due = None if timeout is None else now + timeout
            self._loop.stop()
        return found

    def fileno(self) -> int | None:
        """Return the selector's own file."""
        get = getattr(self._inner, "fileno", None)
        return None if get is None else int(get())

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch a file."""
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Watch a file no more."""
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch a file for something else."""
        return self._inner.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return what is watched."""
        return self._inner.get_map()

    def close(self) -> None:
        """Let go of everything."""
        self._inner.close()
