"""When the buffered records of a pipelined task are sent, full or not."""

from __future__ import annotations

from penstock.graph.stage import StageDeployment
from penstock.runtime.task.pipelined.task_state import TaskState
from penstock.runtime.task.shared.subtask import Subtask


class BufferTimeout:
    """Sends buffers when their oldest record has waited for the timeout, or when the slot has nothing else to do."""

    __slots__ = ("_due_at", "_state", "_subtask", "_timeout_s")

    def __init__(self, subtask: Subtask, stage: StageDeployment, state: TaskState) -> None:
        timeout = subtask.deployment.buffer_timeout_ms
        if timeout is None:
            timeout = stage.network.buffer_timeout_ms
        #: None: only full buffers are sent, and those before barriers.
        self._timeout_s = None if timeout is None else timeout / 1000
        #: When the buffers must be sent, by the monotonic clock; None: none of them has records, as far as is known.
        self._due_at: float | None = None
        self._subtask = subtask
        self._state = state

    def flush_due(self, moment: float) -> None:
        """Send buffers whose timeout has expired."""
        timeout_s = self._timeout_s
        if timeout_s is None:
            return
        if self._due_at is None:
            if self._subtask.edges.waiting:
                self._due_at = moment + timeout_s
            if timeout_s:
                return
        if self._due_at is not None and moment >= self._due_at:
            self.flush()

    def flush(self) -> bool:
        """Send buffered records, unless only full buffers are to be sent; return whether there were any."""
        if self._timeout_s is None:
            return False
        self._due_at = None
        if not self._subtask.edges.waiting:
            return False
        self._state.enter_busy()
        self._subtask.edges.flush()
        self._state.leave_busy()
        return True
