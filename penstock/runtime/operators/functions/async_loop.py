"""An asyncio event loop that is run in steps by an outer loop.

A step runs everything that can run now and returns where the loop would start to wait. The next step is due when a timer is
due, or when the loop's file is readable, which happens as soon as one of its connections has data.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any, Final

# A busy loop is interrupted after this many seconds, so that other subtasks of the slot can run.
LONGEST_STEP_S: Final = 0.005


class StepLoop(asyncio.SelectorEventLoop):
    """An event loop that can be run in steps, or as usual."""

    def __init__(self) -> None:
        self._files = _StepSelector(self)
        self.due: float | None = None  # when a timer is due, by the loop's own clock
        super().__init__(self._files)

    def step(self) -> None:
        """Run until the loop would wait."""
        self._files.step_end = self.time() + LONGEST_STEP_S
        try:
            self.run_forever()
        finally:
            self._files.step_end = None

    def fileno(self) -> int | None:
        """Return the file that is readable when there is something to do; None if the platform has none."""
        return self._files.fileno()


class _StepSelector(selectors.BaseSelector):
    """Knows how long a loop would wait, and lets it return instead during a step."""

    def __init__(self, loop: StepLoop) -> None:
        self._loop = loop
        self._inner = selectors.DefaultSelector()
        self.step_end: float | None = None  # None: the loop may wait

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the ready files."""
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
        """Stop watching a file."""
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: object = None) -> selectors.SelectorKey:
        """Change the watched events of a file."""
        return self._inner.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return the watched files."""
        return self._inner.get_map()

    def close(self) -> None:
        """Release all resources."""
        self._inner.close()
