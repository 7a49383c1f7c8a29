"""Measures how long each subtask of a slot has worked in an epoch."""

from __future__ import annotations

from time import perf_counter

from penstock.runtime.task.shared.subtask import Subtask


class SubtaskStopwatch:
    """Attributes the time between two switches to the active subtask. While it calls a neighbour, the neighbour is active."""

    __slots__ = ("_current", "_since")

    def __init__(self) -> None:
        self._current: Subtask | None = None
        self._since = 0.0

    def switch(self, subtask: Subtask | None) -> Subtask | None:
        """Switch to a subtask, or None; return the previously active one."""
        moment, before = perf_counter(), self._current
        if before is not None:
            before.metrics.busy_s += moment - self._since
        self._since, self._current = moment, subtask
        return before

    def begin(self, subtask: Subtask) -> None:
        """Start a subtask that was not called by another one."""
        self.switch(subtask)
        subtask.metrics.times.begin()

    def end(self) -> None:
        """Stop: it waits for input, or is done."""
        before = self.switch(None)
        if before is not None:
            before.metrics.times.end()


class Neighbour:
    """A subtask that is called by another one of the same slot."""

    __slots__ = ("_clock", "_subtask")

    def __init__(self, subtask: Subtask, clock: SubtaskStopwatch) -> None:
        self._subtask = subtask
        self._clock = clock

    def receive(self, gate: int, channel: int, kind: int, content: object) -> None:
        """Pass an item on."""
        times = self._subtask.metrics.times
        before = self._clock.switch(self._subtask)
        times.begin()
        try:
            self._subtask.receive(gate, channel, kind, content)
        finally:
            times.end()
            self._clock.switch(before)
            if before is not None and before.metrics.times.running:
                before.metrics.times.skip()
