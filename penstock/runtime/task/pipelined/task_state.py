"""Whether a pipelined task is busy, back-pressured or idle."""

from __future__ import annotations

import time

from penstock.runtime.network.channels import Outputs
from penstock.runtime.task.pipelined.time_shares import BACK_PRESSURED, BUSY, IDLE, TimeShares
from penstock.runtime.task.shared.chain_times import ChainTimes


class TaskState:
    """The state of a task, with the time that it spends in each. What it does while busy is a span of its chain's times."""

    __slots__ = ("_outputs", "_times", "shares")

    def __init__(self, times: ChainTimes, outputs: Outputs) -> None:
        self.shares = TimeShares(time.monotonic())
        self._times = times
        self._outputs = outputs

    def enter_busy(self, moment: float | None = None) -> None:
        """Mark it as busy, at this moment of the monotonic clock if the caller has read it."""
        if self.shares.state != BUSY:
            self.shares.enter(BUSY, time.monotonic() if moment is None else moment)
            self._times.begin()

    def leave_busy(self) -> None:
        """Mark it as not busy. The time of other subtasks in the slot does not count: in a busy slot, shares add up."""
        self._leave(IDLE if self._outputs.has_room else BACK_PRESSURED)

    def enter_back_pressured(self) -> None:
        """Mark it as back-pressured."""
        self._leave(BACK_PRESSURED)

    def enter_idle(self) -> None:
        """Mark it as idle: it has ended."""
        self._leave(IDLE)

    def _leave(self, state: int) -> None:
        if self.shares.state != state:
            self.shares.enter(state, time.monotonic())
            self._times.end()
