"""The end of a pipelined task."""

from __future__ import annotations

from typing import Protocol

from penstock.runtime.task.pipelined.operator_wakeups import OperatorWakeups
from penstock.runtime.task.pipelined.task_state import TaskState
from penstock.runtime.task.shared.subtask import Subtask


class MetricServices(Protocol):
    """Services of a slot for the metrics of its subtasks."""

    def report_soon(self) -> None:
        """Send the metrics of the subtasks to the driver immediately."""


class TaskEnd:
    """Finishes a subtask after its input: at once, or as soon as its operators have no results outstanding."""

    __slots__ = ("_slot", "_state", "_subtask", "_wakeups", "ended", "finishing")

    def __init__(
        self, subtask: Subtask, wakeups: OperatorWakeups, state: TaskState, slot: MetricServices
    ) -> None:
        #: Whether all input has ended, but operators wait for results. Then nothing is read, and no barrier passes.
        self.finishing = False
        #: Whether only barriers follow.
        self.ended = False
        self._subtask = subtask
        self._wakeups = wakeups
        self._state = state
        self._slot = slot

    def begin(self) -> bool:
        """Finish, because all input has ended; return whether it has finished."""
        self.finishing = True
        return self.proceed()

    def proceed(self) -> bool:
        """Finish, once no results are outstanding; return whether it has finished."""
        if not self._subtask.finish():
            self._wakeups.plan()
            return False
        self.finishing = False
        self.ended = True
        self._wakeups.timer_ms = None
        self._subtask.edges.send_end()
        self._state.enter_idle()
        self._slot.report_soon()  # its last metrics
        return True
