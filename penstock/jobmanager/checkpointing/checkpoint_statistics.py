"""Statistics of the checkpoints of a job, as in Flink, for every subtask. Pure: callers pass the time."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.checkpoint.handles import StateHandle
from penstock.graph.task_id import TaskId
from penstock.runtime.network.messages import BarrierFigures, TaskAck

_SUMMED: Final = 1000  # percentiles are over this many checkpoints
_PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}

Json = dict[str, Any]


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

    def totals(self) -> dict[str, int]:
        """Return the statistics over all subtasks."""
        return _totals(self.triggered_ms, self.latest_ack_ms, self.subtasks.values())

    def to_json(self) -> Json:
        """Return the checkpoint as Flink's REST API shows it, with all subtasks of all vertices."""
        failed = self.status is CheckpointStatus.FAILED
        unaligned = any(each.figures.unaligned for each in self.subtasks.values())
        return {
            "className": self.status.value.lower(),
            "id": self.number,
            "status": self.status.value,
            "is_savepoint": False,
            "savepointFormat": None,
            "checkpoint_type": "UNALIGNED_CHECKPOINT" if unaligned else "CHECKPOINT",
            "trigger_timestamp": self.triggered_ms,
            **self.totals(),
            "num_subtasks": sum(self.parallelism.values()),
            "num_acknowledged_subtasks": len(self.subtasks),
            "tasks": {vertex: self._vertex_to_json(vertex) for vertex in self.parallelism},
            **({} if self.path is None else {"external_path": self.path, "discarded": False}),
            **({"failure_timestamp": self.ended_ms, "failure_message": self.reason} if failed else {}),
        }  # fmt: skip

    def _vertex_to_json(self, vertex: str) -> Json:
        subtasks, count = self.of_vertex(vertex), self.parallelism[vertex]
        done = len(subtasks) == count
        times = [each.acknowledged_ms for each in subtasks.values()]
        return {
            "id": self.number,
            "status": (CheckpointStatus.COMPLETED if done else self.status).value,
            **_totals(self.triggered_ms, max(times, default=-1), subtasks.values()),
            "num_subtasks": count,
            "num_acknowledged_subtasks": len(subtasks),
            "summary": _summary(self.triggered_ms, list(subtasks.values())),
            "subtasks": [
                _subtask_to_json(self.triggered_ms, index, subtasks.get(index))
                for index in range(count)
            ],
        }


class CheckpointStatistics:
    """Tracks the checkpoints of a job across restarts and rescalings. Any thread may read it."""

    def __init__(self, history: int = 10) -> None:
        # Values that other threads read are replaced, never mutated.
        self._in_progress: dict[int, CheckpointRecord] = {}
        self._history: tuple[CheckpointRecord, ...] = ()  # ended checkpoints, oldest first
        self._history_size = history
        self._latest: dict[CheckpointStatus, CheckpointRecord] = {}
        self._restored: Json | None = None
        self._counts = {"restored": 0, "completed": 0, "failed": 0}
        self._totals: tuple[dict[str, int], ...] = ()  # of completed checkpoints
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
            self._restored = {
                "id": number,
                "restore_timestamp": now_ms,
                "is_savepoint": False,
                "external_path": path,
            }

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

    def to_json(self) -> Json:
        """Return the statistics as Flink's `/jobs/<id>/checkpoints` shows them, with all subtasks of all vertices."""
        in_progress = list(self._in_progress.values())
        counts = dict(self._counts)
        over = counts["completed"] + counts["failed"]
        latest = {
            name: None if (record := self._latest.get(status)) is None else record.to_json()
            for name, status in _LATEST.items()
        }
        history = sorted([*in_progress, *self._history], key=lambda each: -each.triggered_ms)
        return {
            "counts": {
                **counts,
                "total": over + len(in_progress),
                "in_progress": len(in_progress),
            },
            "summary": self._summary(),
            "latest": {**latest, "restored": self._restored},
            "history": [record.to_json() for record in history],
        }

    def _summary(self) -> Json:
        totals = self._totals
        return {name: _distribution([each[name] for each in totals]) for name in _SUMMED_UP}


_LATEST: Final = {"completed": CheckpointStatus.COMPLETED, "failed": CheckpointStatus.FAILED}
_SUMMED_UP: Final = (
    "checkpointed_size", "state_size", "end_to_end_duration", "alignment_buffered", "processed_data",
    "persisted_data",
)  # fmt: skip


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


def _totals(
    triggered_ms: int, latest_ack_ms: int, subtasks: Iterable[SubtaskRecord]
) -> dict[str, int]:
    each = list(subtasks)
    return {
        "latest_ack_timestamp": latest_ack_ms,
        "end_to_end_duration": max(latest_ack_ms - triggered_ms, 0),
        "state_size": sum(one.size for one in each),
        "checkpointed_size": sum(one.written for one in each),
        "alignment_buffered": 0,  # Flink still has the field; nothing is buffered for barrier alignment
        "processed_data": sum(one.figures.processed_in_flight for one in each),
        "persisted_data": sum(one.figures.persisted_in_flight for one in each),
    }


def _summary(triggered_ms: int, subtasks: Sequence[SubtaskRecord]) -> Json:
    """Return the distribution of the statistics of a vertex over its subtasks."""
    figures = [each.figures for each in subtasks]
    return {
        "checkpointed_size": _distribution([each.written for each in subtasks]),
        "state_size": _distribution([each.size for each in subtasks]),
        "end_to_end_duration": _distribution(
            [each.acknowledged_ms - triggered_ms for each in subtasks]
        ),
        "checkpoint_duration": {
            "sync": _distribution([each.sync_ms for each in figures]),
            "async": _distribution([each.async_ms for each in figures]),
        },
        "alignment": {
            "buffered": _distribution([0 for _ in figures]),
            "processed": _distribution([each.processed_in_flight for each in figures]),
            "persisted": _distribution([each.persisted_in_flight for each in figures]),
            "duration": _distribution([each.alignment_ms for each in figures]),
        },
        "start_delay": _distribution([each.start_delay_ms for each in figures]),
    }


def _subtask_to_json(triggered_ms: int, index: int, subtask: SubtaskRecord | None) -> Json:
    if subtask is None:
        return {
            "className": "pending",
            "index": index,
            "status": "pending_or_failed",
        }
    figures = subtask.figures
    return {
        "className": "completed",
        "index": index,
        "status": "completed",
        "ack_timestamp": subtask.acknowledged_ms,
        "end_to_end_duration": subtask.acknowledged_ms - triggered_ms,
        "checkpointed_size": subtask.written,
        "state_size": subtask.size,
        "checkpoint": {"sync": round(figures.sync_ms), "async": round(figures.async_ms)},
        "alignment": {
            "buffered": 0,
            "processed": figures.processed_in_flight,
            "persisted": figures.persisted_in_flight,
            "duration": round(figures.alignment_ms),
        },
        "start_delay": round(figures.start_delay_ms),
        "unaligned_checkpoint": figures.unaligned,
        "aborted": False,
    }


def _distribution(values: Sequence[float]) -> dict[str, int]:
    """Return the smallest, largest and average value, and percentiles; zeros if there is none."""
    if not values:
        return dict.fromkeys(("min", "max", "avg", *_PERCENTILES), 0)
    ordered = sorted(values)
    last = len(ordered) - 1
    spread = {name: ordered[round(share * last)] for name, share in _PERCENTILES.items()}
    average = sum(ordered) / len(ordered)
    shown = {"min": ordered[0], "max": ordered[-1], "avg": average, **spread}
    return {name: round(value) for name, value in shown.items()}
