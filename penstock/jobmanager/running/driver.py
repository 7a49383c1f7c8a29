"""The seam between a job and a way of running it.

A JobMaster decides what happens between checkpoints; a *driver* takes it from one checkpoint to the next.
Epochs are one way: each checkpoint is a run of the whole pipe, which is deployed for it. A pipe that stays, to which
checkpoints are triggered, is another: it deploys once after `restore`, and `advance` waits for the interval, triggers, and
takes the ACKs as they come in. To whoever uses a driver both look the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.manifest import Manifest
from penstock.errors import PenstockError
from penstock.graph.task_id import TaskId
from penstock.jobmanager.checkpoint_statistics import CheckpointStatistics
from penstock.jobmanager.job import Job
from penstock.jobmanager.requests import SavepointRequest
from penstock.jobmanager.sources import SourceCoordinator
from penstock.runtime.inspection.requests import InspectionRequest, SlotId, SlotInfo
from penstock.runtime.network.messages import TaskAck, TaskFailure
from penstock.runtime.task.stage_messages import SlotReport


class EpochFailedError(PenstockError, RuntimeError):
    """What lies between two checkpoints was given up; `__cause__` is what went wrong where that is an exception.

    `tasks` are those that were given up, if others go on; None: all.
    """

    tasks: Collection[TaskId] | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when a checkpoint was worked on, in seconds of time.monotonic()."""

    started_s: float
    ended_s: float


class Listener(Protocol):
    """Who is told what happens to the subtasks of a plan, at the moment when that becomes known.

    Called by the thread that drives the job.
    """

    statistics: CheckpointStatistics  # where what happens to checkpoints is told

    def on_deploy(self, tasks: Collection[TaskId] | None = None) -> None:
        """Subtasks, all if none are named, are handed to the processes that run them. Epochs do that for every checkpoint."""

    def on_running(self, tasks: Collection[TaskId], at_ms: int | None = None) -> None:
        """Subtasks that stay are open and connected, or those of an epoch were started, at a time; None: now."""

    def on_restart(self, tasks: Collection[TaskId], failure: TaskFailure | None) -> None:
        """Subtasks of a part of the job were given up, and that part is started again, while the rest goes on.

        `failure` is what one of them told, if one did.
        """

    def on_report(self, report: SlotReport) -> None:
        """The subtasks of a slot tell how they are doing."""

    def on_trigger(self, epoch: int) -> None:
        """A checkpoint is begun."""

    def on_ack(self, epoch: int, ack: TaskAck) -> None:
        """A subtask has reached the barrier of a checkpoint and told its state."""

    def on_completed(self, span: Span) -> None:
        """A checkpoint is complete."""


class Interrupts(Protocol):
    """What lets a driver stop waiting: somebody wants something of the job."""

    cancelled: bool  # whether what somebody wants is the job's end

    def interrupted(self) -> bool:
        """Whether somebody wants something."""

    def wait(self, seconds: float) -> None:
        """Wait, at most until somebody wants something that `interrupted` has not been asked about since."""

    def on_interrupt(self, wake: Callable[[], None]) -> None:
        """Let a function be called, by any thread, whenever somebody wants something."""


class Driver(Protocol):
    """Runs a job, by one plan at a time."""

    @property
    def coordinator(self) -> CheckpointCoordinator:
        """What decides about the plan's checkpoints."""

    @property
    def manifest(self) -> Manifest | None:
        """The last completed checkpoint, also while another plan is taken up."""

    @property
    def sources(self) -> Sequence[SourceCoordinator]:
        """The sources of the plan."""

    @property
    def acks(self) -> Sequence[TaskAck]:
        """The ACKs of the last completed checkpoint."""

    @property
    def finished(self) -> bool:
        """Whether the last completed checkpoint is the last of the job."""

    @property
    def interval_s(self) -> float:
        """The time from one checkpoint to the next, if there is no hurry."""

    @property
    def tolerates_failures(self) -> bool:
        """Whether the job goes on in spite of a failed checkpoint, and the driver counts them: its tasks stay."""

    def restore(self, manifest: Manifest | None, *, attempt: int, at_once: bool) -> None:
        """Go back to a checkpoint, None is the beginning; what ran of the plan before is given up.

        `attempt` counts the restarts of the job. With `at_once` the next checkpoint need not wait for its interval.
        """

    def advance(self, savepoint: SavepointRequest | None) -> bool:
        """Run on to the next completed checkpoint; False if somebody wanted something before.

        For a savepoint it is begun at once. Raises EpochFailedError; the way on is `restore` then.
        """

    def settle(self) -> None:
        """Bring the last checkpoint up to date, so that another plan repeats nothing; raises EpochFailedError."""

    def inspect(self, target: TaskId | SlotId, request: InspectionRequest) -> Future[Any]:
        """Ask something about a task or a slot that runs. By any thread."""

    def slots(self) -> list[SlotInfo]:
        """Return the slots that run and can be asked. By any thread."""

    def replan(self, job: Job) -> None:
        """Give up the plan and take up another one of the same program, which is to be restored next."""

    def sweep(self) -> None:
        """Delete what failed attempts left; only between checkpoints."""

    def close(self) -> None:
        """Let go of all that the plan holds on the driver."""
