"""The environment of a subtask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.graph.deployment import JobSettings
from penstock.graph.task_id import TaskId
from penstock.runtime.network.writers import WriterOf
from penstock.runtime.operators.hooks import HandlesWakeups
from penstock.runtime.task.shared.snapshots import StateIO
from penstock.runtime.time.decisions import RuntimeDecisions


class PipelinedEnvironment(Protocol):
    """Services for a subtask in pipelined mode: every edge is a channel, and no call blocks."""

    def wake(self, operator: HandlesWakeups) -> None:
        """Call `on_wakeup` of an operator soon. Thread-safe."""

    def watch(self, operator: HandlesWakeups, file: int | None) -> None:
        """Call `on_wakeup` of an operator whenever a file is readable; None stops it."""

    def tell(self, operator: str, data: bytes) -> None:
        """Send the output of a sink to the driver."""


@dataclass(slots=True)
class TaskEnvironment:
    """The environment of a subtask: its job's settings, the attempt, and the writers for records and state."""

    settings: JobSettings
    checkpoint_id: int  # id of the checkpoint that ends it
    attempt: str
    attempt_number: int
    staging: str
    state_io: StateIO
    writer_of: WriterOf
    decisions_of: Callable[[TaskId], RuntimeDecisions] | None = None  # None: the wall clock
    pipelined: PipelinedEnvironment | None = None  # None: the input is one epoch
    drains: bool = (
        False  # if the input ends with this epoch, a job restored from its savepoint may have more
    )
