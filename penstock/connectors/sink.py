"""What a sink implements, in Python.

A sink writes in tasks and commits on the driver: `SinkWriter.prepare_commit` hands over committables at the barrier, and
`Committer.commit` makes them visible after the checkpoint is durable.

A writer is opened once and writes many epochs, so it can keep a connection:

    create_writer, (begin, write..., prepare_commit, snapshot)..., close

After a checkpoint is committed the writer is told (`on_committed`), for it may hold what the committer has used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.common.not_implemented import not_implemented
from penstock.errors import RestoreRefusedError
from penstock.metrics.metricbase import MetricGroup

MIN_WATERMARK: Final = -(2**63)  # no time is known


@dataclass(frozen=True, slots=True)
class WriterContext:
    """Where a writer lives: what stays the same for as long as it is open.

    Other writers of the same subtask may be open in other processes, left from earlier epochs or from attempts that failed: what is
    to be unique is named by `EpochContext.attempt`. `staging` is a directory (URI or path) of the job's own on checkpoint
    storage, for output that waits for its commit.
    """

    job_id: str
    operator_id: str
    subtask: int
    parallelism: int
    staging: str
    metrics: MetricGroup | None = None  # the operator's; None outside of a job


@dataclass(frozen=True, slots=True)
class EpochContext:
    """The records between two checkpoints, as a writer gets them.

    `epoch` is the number of the checkpoint that ends it. `attempt` is unique to this attempt at this epoch: use it in
    names of files and transactions. An epoch that is tried again has its number again and another attempt. In a pipelined job the
    checkpoint may come to nothing, and a later one commits what was written for it.
    """

    epoch: int
    attempt: str


class SinkWriter(ABC):
    """Writes the records of one subtask, epoch by epoch. Lives in a task.

    It is opened (`Sink.create_writer`) with the first record that the subtask gets in this process, and stays open until the subtask
    leaves it. After an error in any method but `close` nothing else is called but `close`.
    """

    def begin(self, epoch: EpochContext) -> None:
        """Start an epoch, before its first record. An epoch without records is neither begun nor ended."""

    @abstractmethod
    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        """Take records, in order."""

    @abstractmethod
    def prepare_commit(self) -> list[Any]:
        """End the epoch: make everything written durable (not visible) and return the committables; they are pickled.

        What was returned belongs to the committer: neither a later epoch nor `close` may touch it.
        """

    def snapshot(self) -> Any:
        """Return what a writer that takes over must know; any value that pickles, or None for nothing.

        Called after each `prepare_commit`. Until the next epoch with records, the state waits in the checkpoints.
        """
        return None

    def next_wakeup(self) -> int | None:
        """Return when (epoch milliseconds) `wake_up` is to be called even if no record comes, or None.

        Asked in the middle of an epoch, after every call. Where records flow, the next barrier may be far away: a writer that collects
        records sends them when this says so. What runs as an epoch ends soon, and does not ask.
        """
        return None

    def wake_up(self) -> None:
        """Do what is due: the moment of `next_wakeup` has come."""

    def on_committed(self, epoch: int) -> None:
        """Take note that what was returned for this epoch and those before it is settled: the committer is done with it.

        It is committed, unless another attempt at the epoch is the one that counts: then it was given up. Called between two
        epochs or, where records flow, in the middle of one; of several epochs only the last may be told.
        """

    def close(self) -> None:
        """Release resources, once. In the middle of an epoch: the task failed, and what the epoch wrote is to be given up.

        A process that is killed closes nothing; nor does one that the subtask has left and that gets no task any more, until it ends.
        """


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """What one epoch hands to a committer: everything that its writers pre-committed.

    In a pipelined job that is also what they pre-committed for checkpoints before this one that came to nothing; it comes first.
    `final` says that no output may wait for a later epoch: the job ends, or a savepoint is taken. `ended` says that the writers have had all
    their input. `watermark` is the time that all of them had reached, if the sink asks for it (`Sink.commits_by_time`).
    """

    epoch: int
    committables: list[Any]
    final: bool = False
    now_ms: int = 0
    pending: Any = None  # what commit() of the epoch before returned
    watermark: int = MIN_WATERMARK
    ended: bool = False


@dataclass(frozen=True, slots=True)
class CommitterContext:
    """Where a committer lives. `checkpoint_interval_ms` is None if the job takes no checkpoints by time.

    `writers_rest` says that no writer is at work during a commit, as in a job that runs in epochs.
    """

    job_id: str
    operator_id: str
    checkpoint_interval_ms: int | None = None
    writers_rest: bool = False


class Committer(ABC):
    """Makes pre-committed output visible. Lives on the driver."""

    def open(self, context: CommitterContext) -> None:
        """Prepare; called once, before anything else."""

    @abstractmethod
    def commit(self, request: CommitRequest) -> Any:
        """Publish the epoch's committables. Must be idempotent: after a crash the same request comes again.

        Whatever must wait for a later epoch (a file that is not full yet) is returned; the return value goes into the
        next checkpoint, and into a savepoint, and comes back as `pending`. It must be a pure function of the request.
        """

    def next_wakeup(self, pending: Any) -> int | None:
        """Return when (epoch milliseconds) pending output should be committed even if no record comes, or None."""
        return None

    def clean_up(self, requests: Sequence[CommitRequest], job_id: str) -> None:
        """Delete what failed attempts of the job left behind; no writer is at work.

        `requests` are those of all checkpoints that may still be restored: what they name must stay.
        """

    def abandon(self, subtasks: Collection[int], job_id: str) -> None:
        """Give up what these subtasks left: they have failed and start again, while others go on.

        What completed checkpoints have of theirs is committed, and nothing else of it ever will be.
        """

    def close(self) -> None:
        """Release resources."""


class Sink(ABC):
    """A sink of records, in Python."""

    # Whether what is committed depends on event time: then `CommitRequest.watermark` tells it.
    commits_by_time: bool = False

    get_java_function = not_implemented("there is no JVM object behind a sink")

    @abstractmethod
    def create_writer(self, context: WriterContext, restored: Any = None) -> SinkWriter:
        """Open the writer of one subtask; it writes epoch after epoch.

        `restored` is what `SinkWriter.snapshot` of the last writer returned, as the last completed checkpoint has it. When
        the parallelism has changed, that is the state of some former subtask, of several (`merge_writer_states`), or None.
        """

    def merge_writer_states(self, states: Sequence[Any]) -> Any:
        """Combine what writers of several former subtasks left, for the one subtask that goes on from it.

        With fewer subtasks than before, some get the states of several. A sink whose writers keep no state
        (`SinkWriter.snapshot`) does not need this.
        """
        raise RestoreRefusedError(
            f"{type(self).__name__} cannot merge the states of its writers",
            detail=f"the states of {len(states)} former subtasks came together in one",
            hint="implement merge_writer_states in the sink, or keep the sink's parallelism",
        )

    def merges_writer_states(self) -> bool:
        """Whether the sink has a `merge_writer_states` of its own."""
        return type(self).merge_writer_states is not Sink.merge_writer_states

    def create_committer(self) -> Committer | None:
        """Create the committer, or None if writing is all there is to do."""
        return None

    def output_path(self) -> str | None:
        """The place this sink alone writes to, if there is one: two sinks with one path are refused."""
        return None
