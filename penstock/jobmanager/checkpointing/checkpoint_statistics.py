"""Statistics of the checkpoints of a job, as in Flink, for every subtask. Pure: callers pass the time."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.checkpoint.handles import StateHandle
from penstock.graph.task_id import TaskId
from penstock.runtime.network.messages import BarrierFigures, TaskAck

_SUMMED: Final = 1000  # percentiles are over this many checkpoints


class CheckpointStatus(enum.Enum):
    """The status of a checkpoint."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class SubtaskRecord:
    """The statistics of a checkpoint in one subtask. `size` is the state that it refers to, of which `written` bytes are new."""

    acknowledged_ms: int
    size: int
    written: int
    figures: BarrierFigures


@dataclass(frozen=True, slots=True)
class CheckpointTotals:
    """The statistics of a checkpoint over subtasks. Sizes are in bytes."""

    latest_ack_ms: int
    duration_ms: int
    size: int  # of all state that it refers to
    written: int  # new bytes
    processed_in_flight: int
    persisted_in_flight: int

    @classmethod
    def of(
        cls, triggered_ms: int, latest_ack_ms: int, subtasks: Iterable[SubtaskRecord]
    ) -> CheckpointTotals:
        """Add up the statistics of subtasks."""
        each = list(subtasks)
        return cls(
            latest_ack_ms=latest_ack_ms,
            duration_ms=max(latest_ack_ms - triggered_ms, 0),
            size=sum(one.size for one in each),
            written=sum(one.written for one in each),
            processed_in_flight=sum(one.figures.processed_in_flight for one in each),
            persisted_in_flight=sum(one.figures.persisted_in_flight for one in each),
        )


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """One checkpoint, in progress or ended."""

    number: int
    triggered_ms: int
    parallelism: Mapping[str, int]  # by vertex
    status: CheckpointStatus = CheckpointStatus.IN_PROGRESS
    subtasks: Mapping[TaskId, SubtaskRecord] = field(default_factory=dict)
    ended_ms: int | None = None
    path: str | None = None
    reason: str | None = None  # why it failed

    @property
    def latest_ack_ms(self) -> int:
        """When the last acknowledgement so far arrived; the trigger time if none did."""
        times = [each.acknowledged_ms for each in self.subtasks.values()]
        return max(times, default=self.triggered_ms)

    def of_vertex(self, vertex: str) -> dict[int, SubtaskRecord]:
        """Return the subtasks of a vertex that have acknowledged."""
        found = {
            task.subtask: each for task, each in self.subtasks.items() if task.vertex == vertex
        }
        return dict(sorted(found.items()))

    def totals(self) -> CheckpointTotals:
        """Return the statistics over all subtasks."""
        return CheckpointTotals.of(self.triggered_ms, self.latest_ack_ms, self.subtasks.values())

    @property
    def unaligned(self) -> bool:
        """Whether a subtask took it unaligned."""
        return any(each.figures.unaligned for each in self.subtasks.values())

    def vertex(self, vertex: str) -> VertexCheckpoint:
        """Return the part of one vertex."""
        return VertexCheckpoint(self, vertex)

    def vertices(self) -> list[VertexCheckpoint]:
        """Return the parts of all vertices."""
        return [self.vertex(vertex) for vertex in self.parallelism]


@dataclass(frozen=True, slots=True)
class VertexCheckpoint:
    """One checkpoint in one vertex."""

    checkpoint: CheckpointRecord
    vertex: str

    @property
    def parallelism(self) -> int:
        """The number of subtasks that acknowledge it."""
        return self.checkpoint.parallelism[self.vertex]

    @property
    def subtasks(self) -> dict[int, SubtaskRecord]:
        """The subtasks that have acknowledged, by their index."""
        return self.checkpoint.of_vertex(self.vertex)

    @property
    def status(self) -> CheckpointStatus:
        """Its status: completed when all subtasks of the vertex have acknowledged."""
        if len(self.subtasks) == self.parallelism:
            return CheckpointStatus.COMPLETED
        return self.checkpoint.status

    def totals(self) -> CheckpointTotals:
        """Return the statistics over the subtasks."""
        subtasks = self.subtasks.values()
        latest = max((each.acknowledged_ms for each in subtasks), default=-1)
        return CheckpointTotals.of(self.checkpoint.triggered_ms, latest, subtasks)


@dataclass(frozen=True, slots=True)
class RestoredCheckpoint:
    """The checkpoint that the job was last restored from."""

    number: int
    restored_ms: int
    path: str | None


@dataclass(frozen=True, slots=True)
class CheckpointSnapshot:
    """The statistics of a job's checkpoints at one moment."""

    #: Checkpoints in progress and the last ended ones, the newest first.
    history: tuple[CheckpointRecord, ...] = ()
    #: The last completed one; it may be older than the history.
    completed: CheckpointRecord | None = None
    #: The last failed one; it may be older than the history.
    failed: CheckpointRecord | None = None
    restored: RestoredCheckpoint | None = None
    #: How often the job was restored from a checkpoint, how many were completed, and how many failed.
    restored_count: int = 0
    completed_count: int = 0
    failed_count: int = 0
    in_progress_count: int = 0
    #: Of the last completed checkpoints, for their distribution.
    totals: tuple[CheckpointTotals, ...] = ()

    @property
    def count(self) -> int:
        """The number of all checkpoints."""
        return self.completed_count + self.failed_count + self.in_progress_count


class CheckpointStatistics:
    """Tracks the checkpoints of a job across restarts and rescalings. Any thread may read it."""

    def __init__(self, history: int = 10) -> None:
        # Values that other threads read are replaced, never mutated.
        self._in_progress: dict[int, CheckpointRecord] = {}
        self._history: tuple[CheckpointRecord, ...] = ()  # ended checkpoints, oldest first
        self._history_size = history
        self._latest: dict[CheckpointStatus, CheckpointRecord] = {}
        self._restored: RestoredCheckpoint | None = None
        self._counts = {"restored": 0, "completed": 0, "failed": 0}
        self._totals: tuple[CheckpointTotals, ...] = ()  # of completed checkpoints
        # The parts on storage of each subtask's last acknowledgement: other parts of the next one are new.
        self._known: dict[TaskId, frozenset[object]] = {}

    def on_trigger(self, number: int, parallelism: Mapping[str, int], now_ms: int) -> None:
        """Record that a checkpoint was triggered."""
        record = CheckpointRecord(number, now_ms, dict(parallelism))
        self._in_progress = {**self._in_progress, number: record}

    def on_ack(self, number: int, ack: TaskAck, now_ms: int) -> None:
        """Record the acknowledgement of a subtask; ignored if the checkpoint has ended."""
        parts = dict(_parts(ack))
        known = self._known.get(ack.task, frozenset())
        self._known[ack.task] = frozenset(parts)
        record = self._in_progress.get(number)
        if record is None or ack.task in record.subtasks:
            return
        other = len(ack.local or b"")
        subtask = SubtaskRecord(
            acknowledged_ms=now_ms,
            size=other + sum(parts.values()),
            written=other + sum(size for part, size in parts.items() if part not in known),
            figures=ack.figures,
        )
        changed = replace(record, subtasks={**record.subtasks, ack.task: subtask})
        self._in_progress = {**self._in_progress, number: changed}

    def on_complete(self, number: int, path: str | None, now_ms: int) -> None:
        """Record that a checkpoint was completed."""
        record = self._end(number, CheckpointStatus.COMPLETED, now_ms, path=path)
        if record is not None:
            self._counts["completed"] += 1
            self._totals = (*self._totals, record.totals())[-_SUMMED:]

    def on_fail(self, number: int, reason: str, now_ms: int) -> None:
        """Record that a checkpoint failed."""
        if self._end(number, CheckpointStatus.FAILED, now_ms, reason=reason) is not None:
            self._counts["failed"] += 1

    def on_restore(self, number: int | None, path: str | None, now_ms: int) -> None:
        """Record a restore from a checkpoint (None: without state); pending checkpoints have failed."""
        for under_way in list(self._in_progress):
            self.on_fail(under_way, "the job was restarted", now_ms)
        self._known = {}
        if number is not None:
            self._counts["restored"] += 1
            self._restored = RestoredCheckpoint(number, now_ms, path)

    def _end(
        self, number: int, status: CheckpointStatus, now_ms: int, **changes: Any
    ) -> CheckpointRecord | None:
        record = self._in_progress.get(number)
        if record is None:
            return None
        record = replace(record, status=status, ended_ms=now_ms, **changes)
        self._in_progress = {n: each for n, each in self._in_progress.items() if n != number}
        self._history = (*self._history, record)[-self._history_size :]
        self._latest[status] = record
        return record

    def snapshot(self) -> CheckpointSnapshot:
        """Return the statistics at this moment."""
        in_progress, counts = list(self._in_progress.values()), dict(self._counts)
        history = sorted([*in_progress, *self._history], key=lambda each: -each.triggered_ms)
        return CheckpointSnapshot(
            history=tuple(history),
            completed=self._latest.get(CheckpointStatus.COMPLETED),
            failed=self._latest.get(CheckpointStatus.FAILED),
            restored=self._restored,
            restored_count=counts["restored"],
            completed_count=counts["completed"],
            failed_count=counts["failed"],
            in_progress_count=len(in_progress),
            totals=self._totals,
        )


def _parts(ack: TaskAck) -> Iterator[tuple[object, int]]:
    """Return the parts of state that an acknowledgement refers to or contains: the identity and size of each."""
    for operator, chain in ack.keyed.items():
        for handle in chain or ():
            yield from _handle_parts(operator, handle)
    if ack.in_flight is not None:
        yield from _handle_parts("in flight", ack.in_flight)


def _handle_parts(owner: str, handle: StateHandle) -> Iterator[tuple[object, int]]:
    yield handle.name or (owner, handle.kind, handle.size, handle.crc32), handle.size
    for file in handle.files:
        yield file.name, file.size
