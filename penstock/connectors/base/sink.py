"""The sink API.

A sink writes in tasks and commits on the driver: `SinkWriter.prepare_commit` hands over committables at the barrier, and
`Committer.commit` makes them visible after the checkpoint is durable.

A writer is opened once and writes the records of many checkpoints, so it can keep a connection:

    create_writer, (begin, write..., prepare_commit, snapshot)..., close

After a checkpoint is committed the writer is notified (`on_committed`), because it may hold resources that the committer uses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.common.user_types import StateValue
from penstock.errors import RestoreRefusedError
from penstock.errors.not_implemented import not_implemented
from penstock.metrics.metricbase import MetricGroup

MIN_WATERMARK: Final = -(2**63)  # no watermark yet


@dataclass(frozen=True, slots=True)
class WriterContext:
    """The context of a writer, constant as long as it is open.

    Other writers of the same subtask may be open in other processes, left from earlier tasks or from failed attempts: use
    `CheckpointContext.attempt` for everything that must be unique. `staging` is a directory (URI or path) of the job on checkpoint
    storage, for output that waits for its commit.
    """

    job_id: str
    operator_id: str
    subtask: int
    parallelism: int
    staging: str
    metrics: MetricGroup | None = None  # the operator's; None outside of a job


@dataclass(frozen=True, slots=True)
class CheckpointContext:
    """The records between two checkpoints, from a writer's point of view.

    `checkpoint_id` is the id of the checkpoint that ends it. `attempt` is unique to this attempt at this checkpoint: use it in names of
    files and transactions. A retry has the same id and another attempt. In pipelined mode the checkpoint may be aborted, and a
    later one commits its records.
    """

    checkpoint_id: int
    attempt: str


class SinkWriter(ABC):
    """Writes the records of one subtask, checkpoint by checkpoint. Runs in a task.

    It is opened (`Sink.create_writer`) with the first record of the subtask in this process, and stays open until the subtask
    leaves the process. After an error in any other method only `close` is called.
    """

    def begin(self, checkpoint: CheckpointContext) -> None:
        """Start the records of the next checkpoint. Not called, and neither is `prepare_commit`, if there are none."""

    @abstractmethod
    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        """Write records, in order."""

    @abstractmethod
    def prepare_commit(self) -> list[Any]:
        """Make everything written since `begin` durable (not visible) and return the committables; they are pickled.

        Committables belong to the committer: neither later calls nor `close` may change what they refer to.
        """

    def snapshot(self) -> StateValue:
        """Return the writer's state for its successor; any picklable value, or None for none.

        Called after each `prepare_commit`. While there are no new records, checkpoints keep the last state.
        """
        return None

    def next_wakeup(self) -> int | None:
        """Return when (epoch milliseconds) to call `wake_up` even if no record arrives, or None.

        Called after every other call between `begin` and `prepare_commit`. In pipelined mode the next barrier may be far
        away: a writer that batches records uses this to flush them. In epoch mode an epoch ends soon, so it is not called.
        """
        return None

    def wake_up(self) -> None:
        """Do what is due at the time of `next_wakeup`."""

    def on_committed(self, checkpoint_id: int) -> None:
        """Handle that the committer is done with everything returned for this checkpoint and earlier ones.

        It is committed, unless another attempt at the checkpoint was committed instead: then it was discarded. Called between two
        checkpoints or, in pipelined mode, at any time; of several checkpoints only the last one may be reported.
        """

    def close(self) -> None:
        """Release resources, once. Between `begin` and `prepare_commit` the task has failed: discard the written records.

        It is not called if the process is killed, nor, until the process ends, after the subtask has moved to another process.
        """


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Everything that the writers pre-committed for a checkpoint.

    In pipelined mode this includes what they pre-committed for aborted checkpoints before this one, in order. `final` says that
    no output may stay pending for a later checkpoint: the job ends, or a savepoint is taken. `ended` says that the writers have
    received all their input. `watermark` is the minimum watermark of all writers, if the sink needs it (`Sink.commits_by_time`).
    """

    checkpoint_id: int
    committables: list[Any]
    final: bool = False
    now_ms: int = 0
    pending: Any = None  # the return value of the previous commit()
    watermark: int = MIN_WATERMARK
    ended: bool = False


@dataclass(frozen=True, slots=True)
class CommitterContext:
    """The context of a committer. `checkpoint_interval_ms` is None without periodic checkpoints.

    `writers_rest` says that no writer is active during a commit, as in epoch mode. `bounded` says that the job ends by itself.
    """

    job_id: str
    operator_id: str
    checkpoint_interval_ms: int | None = None
    writers_rest: bool = False
    bounded: bool = True


class Committer(ABC):
    """Makes pre-committed output visible. Runs on the driver."""

    def open(self, context: CommitterContext) -> None:
        """Prepare; called once, before anything else."""

    @abstractmethod
    def commit(self, request: CommitRequest) -> Any:
        """Commit the checkpoint's committables. Must be idempotent: after a crash the same request is repeated.

        Output that must wait for a later checkpoint (a file that is not full yet) is returned; the return value is stored in
        the next checkpoint, and in a savepoint, and passed back as `pending`. It must be a pure function of the request.
        """

    def next_wakeup(self, pending: Any) -> int | None:
        """Return when (epoch milliseconds) pending output should be committed even if no record arrives, or None."""
        return None

    def clean_up(self, requests: Sequence[CommitRequest], job_id: str) -> None:
        """Delete what failed attempts of the job left behind; no writer is active.

        `requests` are those of all checkpoints that may still be restored: keep everything that they refer to.
        """

    def abandon(self, subtasks: Collection[int], job_id: str) -> None:
        """Discard uncommitted output of these subtasks: they have failed and restart, while others continue.

        Their output in completed checkpoints is committed, and nothing else of it ever will be.
        """

    def close(self) -> None:
        """Release resources."""


class Sink(ABC):
    """A sink of records."""

    # Whether the commit depends on event time: then `CommitRequest.watermark` is set.
    commits_by_time: bool = False

    # Slots that stay free of the job's tasks in pipelined mode, for Spark jobs of the commit.
    reserved_slots: int = 0

    get_java_function = not_implemented("there is no JVM object behind a sink")

    @abstractmethod
    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Open the writer of one subtask, for many checkpoints.

        `restored` is the last result of `SinkWriter.snapshot` in the last completed checkpoint. After a change of the
        parallelism, it is the state of some former subtask, of several (`merge_writer_states`), or None.
        """

    def for_type(self, declared: object) -> Sink:
        """Return the sink of a stream; `declared` is the type of its records, None if it declares none."""
        return self

    def merge_writer_states(self, states: Sequence[Any]) -> StateValue:
        """Merge the states of several former subtasks' writers into the state of one.

        With a smaller parallelism than before, some subtasks get the states of several. A sink whose writers have no state
        (`SinkWriter.snapshot`) does not need this.
        """
        raise RestoreRefusedError(
            f"{type(self).__name__} cannot merge the states of its writers",
            detail=f"one subtask got the states of {len(states)} former subtasks",
            hint="implement merge_writer_states in the sink, or keep the sink's parallelism",
        )

    def merges_writer_states(self) -> bool:
        """Whether the sink overrides `merge_writer_states`."""
        return type(self).merge_writer_states is not Sink.merge_writer_states

    def create_committer(self) -> Committer | None:
        """Create the committer, or None if the writers need no commit."""
        return None

    def output_path(self) -> str | None:
        """The path that only this sink may write to, if there is one: two sinks with the same path are rejected."""
        return None
