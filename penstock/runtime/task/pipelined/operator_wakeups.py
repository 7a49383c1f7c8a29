"""When the operators of a pipelined subtask work without input: by the clock, after a wake-up, when a file is readable."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Protocol

from penstock.runtime.operators.hooks import HandlesWakeups
from penstock.runtime.task.pipelined.slot_messages import SinkOutput
from penstock.runtime.task.shared.subtask import Subtask
from penstock.time.clock import now_ms


class WakeupServices(Protocol):
    """Services of a slot for the operators of its subtasks."""

    def wake(self) -> None:
        """Start another iteration of the loop. Thread-safe."""

    def watch(self, file: int, call: Callable[[], None] | None) -> None:
        """Call a function in the loop while a file is readable; None stops it."""

    def report(self, message: SinkOutput) -> None:
        """Send a report to the driver."""


class OperatorWakeups:
    """The services that operators of one subtask get, and when they are due."""

    def __init__(self, subtask: Subtask, slot: WakeupServices) -> None:
        #: When the next processing-time timer is due, by the wall clock; None: there is none, or the subtask has ended.
        self.timer_ms: int | None = None
        #: When an operator must be woken, by the monotonic clock.
        self.step_at: float | None = None
        self._subtask = subtask
        self._slot = slot
        #: Operators to wake in the next iteration. Other threads add to it.
        self._woken: set[HandlesWakeups] = set()
        self._watched: dict[HandlesWakeups, int] = {}

    # For operators.

    def wake(self, operator: HandlesWakeups) -> None:
        """Call `on_wakeup` of an operator in the next iteration. Thread-safe."""
        if operator not in self._woken:
            self._woken.add(operator)
            self._slot.wake()

    def watch(self, operator: HandlesWakeups, file: int | None) -> None:
        """Call `on_wakeup` of an operator whenever a file is readable."""
        before = self._watched.pop(operator, None)
        if before is not None:
            self._slot.watch(before, None)
        if file is not None:
            self._watched[operator] = file
            self._slot.watch(file, functools.partial(self._woken.add, operator))

    def tell(self, operator: str, data: bytes) -> None:
        """Send the output of a sink to the driver."""
        self._slot.report(SinkOutput(self._subtask.id, operator, data))

    # For the task.

    def plan(self, *, ended: bool = False) -> None:
        """Ask the operators when they are due next; timers of a subtask that has ended fire no more."""
        self.timer_ms = None if ended else self._subtask.next_wakeup()
        self.step_at = self._subtask.chain.next_step()

    def are_due(self) -> bool:
        """Whether operators must be woken now."""
        if self.step_at is not None and (moment := time.monotonic()) >= self.step_at:
            self._woken.update(self._subtask.chain.due_to_step(moment))
        return bool(self._woken)

    def wake_operators(self) -> None:
        """Wake the operators that are due."""
        while self._woken:
            self._subtask.on_wakeup(self._woken.pop())
        self.step_at = self._subtask.chain.next_step()

    def timer_is_due(self) -> bool:
        """Whether processing time must be advanced."""
        return self.timer_ms is not None and now_ms() >= self.timer_ms

    def advance_time(self) -> bool:
        """Fire the timers that are due; return whether any of them is no longer due."""
        before = self.timer_ms
        self._subtask.advance_processing_time()
        self.timer_ms = self._subtask.next_wakeup()
        # Timers that stay due (another clock) must not keep the loop busy.
        return self.timer_ms != before
