"""What a subtask runs in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.graph.deployment import JobSettings
from penstock.graph.task_id import TaskId
from penstock.runtime.network.writers import WriterOf
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.task.snapshots import StateIO
from penstock.runtime.time.pace import Pace


class LiveEnvironment(Protocol):
    """What is there for a subtask where records flow between barriers: every edge is a channel, and nobody waits inside a call."""

    def wake(self, operator: StreamOperator) -> None:
        """Call `on_wakeup` of an operator soon. By any thread."""

    def watch(self, operator: StreamOperator, file: int | None) -> None:
        """Call `on_wakeup` of an operator whenever a file can be read; None: no more."""

    def tell(self, operator: str, data: bytes) -> None:
        """Send what a sink puts out on the driver."""


@dataclass(slots=True)
class TaskEnvironment:
    """What a subtask runs in: its job's settings, the attempt, and where records and state go."""

    settings: JobSettings
    epoch: int  # the checkpoint that ends it has this number
    attempt: str
    attempt_number: int
    staging: str
    state_io: StateIO
    writer_of: WriterOf
    pace_of: Callable[[TaskId], Pace] | None = None  # None: the wall clock
    live: LiveEnvironment | None = None  # None: the input is one epoch
    drains: bool = False  # if the input ends with this epoch, there may be more for a job that goes on from its savepoint
