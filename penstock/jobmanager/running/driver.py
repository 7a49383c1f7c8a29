"""The interface between a JobMaster and the driver of an execution mode.

A JobMaster decides what happens between checkpoints; a *driver* runs the job from one checkpoint to the next. In epoch mode each
checkpoint is a run of the whole pipe, which is deployed for it. In pipelined mode tasks are deployed once after `restore`, and
`advance` waits for the interval, triggers a checkpoint, and collects the acknowledgements. Both have the same interface.
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
from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointStatistics
from penstock.jobmanager.job import Job
from penstock.jobmanager.requests import SavepointRequest
from penstock.jobmanager.sources.source_coordinator import SourceCoordinator
from penstock.runtime.inspection.requests import InspectionRequest, SlotId, SlotInfo
from penstock.runtime.network.messages import TaskAck, TaskFailure
from penstock.runtime.task.pipelined.slot_messages import SlotReport


class ExecutionFailedError(PenstockError, RuntimeError):
    """The job failed between two checkpoints; `__cause__` is the cause if it is an exception.

    `tasks` are the failed ones if others keep running; None: all.
    """

    tasks: Collection[TaskId] | None = None


@dataclass(frozen=True, slots=True)
class CheckpointSpan:
    """The start and end of a checkpoint, in seconds of time.monotonic()."""

    started_s: float
    ended_s: float


class Listener(Protocol):
    """Listens to the events of the subtasks of a plan.

    Called by the thread that drives the job.
    """

    statistics: CheckpointStatistics  # receives the events of checkpoints

    def on_deploy(self, tasks: Collection[TaskId] | None = None) -> None:
        """Subtasks (default: all) are deployed. In epoch mode that happens for every checkpoint."""

    def on_running(self, tasks: Collection[TaskId], at_ms: int | None = None) -> None:
        """Subtasks are open and connected, or those of an epoch were started, at a time; None: now."""

    def on_restart(self, tasks: Collection[TaskId], failure: TaskFailure | None) -> None:
        """A part of the job is restarted, while the rest keeps running.

        `failure` is the failure of one of its subtasks, if one reported it.
        """

    def on_report(self, report: SlotReport) -> None:
        """The subtasks of a slot report their metrics."""

    def on_trigger(self, checkpoint_id: int) -> None:
        """A checkpoint was triggered."""

    def on_ack(self, checkpoint_id: int, ack: TaskAck) -> None:
        """A subtask has acknowledged a checkpoint."""

    def on_completed(self, span: CheckpointSpan) -> None:
        """A checkpoint was completed."""


class Interrupts(Protocol):
    """Interrupts a waiting driver: there is a request, or the job is cancelled."""

    cancelled: bool  # whether the job was cancelled

    def interrupted(self) -> bool:
        """Whether there is a pending request or cancellation."""

    def wait(self, seconds: float) -> None:
        """Wait, at most until a request arrives that `interrupted` has not seen."""

    def on_interrupt(self, wake: Callable[[], None]) -> None:
        """Call a function, from any thread, on every new request or cancellation."""


class Driver(Protocol):
    """Runs a job, by one plan at a time."""

    @property
    def coordinator(self) -> CheckpointCoordinator:
        """The coordinator of the plan's checkpoints."""

    @property
    def manifest(self) -> Manifest | None:
        """The last completed checkpoint, also during a switch to another plan."""

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
        """The regular time from one checkpoint to the next."""

    @property
    def tolerates_failures(self) -> bool:
        """Whether tasks continue after a failed checkpoint, and the driver counts failures: in pipelined mode."""

    def restore(self, manifest: Manifest | None, *, attempt: int, at_once: bool) -> None:
        """Restore a checkpoint (None: start without state); running tasks of the plan are cancelled.

        `attempt` counts the restarts of the job. With `at_once` the next checkpoint need not wait for its interval.
        """

    def advance(self, savepoint: SavepointRequest | None) -> bool:
        """Run to the next completed checkpoint; False if interrupted before.

        For a savepoint it is triggered at once. Raises ExecutionFailedError, after which `restore` must be called.
        """

    def settle(self) -> None:
        """Complete a checkpoint of all processed records, so that another plan repeats nothing; raises ExecutionFailedError."""

    def inspect(self, target: TaskId | SlotId, request: InspectionRequest) -> Future[Any]:
        """Send an inspection request to a running task or slot. Thread-safe."""

    def slots(self) -> list[SlotInfo]:
        """Return the running slots that can be inspected. Thread-safe."""

    def replan(self, job: Job) -> None:
        """Switch to another plan of the same program, which must be restored next."""

    def sweep(self) -> None:
        """Delete files of failed attempts; only between checkpoints."""

    def close(self) -> None:
        """Release the resources of the plan on the driver."""
