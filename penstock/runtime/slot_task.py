"""The body of a Spark task: one slot of one level, as a generator over Arrow batches."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.common.connector import SourceAssignment
from penstock.errors import PenstockError
from penstock.runtime import subtask_cache
from penstock.runtime.buffers import RowWriter, rows_of
from penstock.runtime.deployment import LevelDeployment, SubtaskRestore, VertexDeployment
from penstock.runtime.messages import ACK, FAILURE, TaskAck, TaskFailure
from penstock.runtime.operators.base import user_traceback
from penstock.runtime.subtask import ChannelError, Subtask, TaskEnvironment

_NOT_RETRIED = PenstockError  # user code and bad records fail again; anything else is for Spark to retry


class _UpstreamFailed(Exception):
    """A task before this one failed: nothing here counts."""


def run_slot(
    level: LevelDeployment, slot: int, attempt: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run the subtasks of one slot over the rows that reach it; yield the rows for the next level."""
    writer = RowWriter()
    task = TaskEnvironment(
        settings=level.settings,
        epoch=level.epoch,
        attempt=attempt,
        attempt_number=level.attempt_number,
        staging=level.staging,
        state_io=level.state_io,
        writer=writer,
    )
    slot_task = _SlotTask(level, slot, task)
    failure: TaskFailure | None = None
    try:
        for _ in slot_task.run(batches):
            yield from writer.drain()
    except _UpstreamFailed:
        writer = slot_task.failure_rows
    except ChannelError:
        raise
    except _NOT_RETRIED as error:
        failure = _describe(error, slot_task)
        writer = RowWriter()
        for target in range(max(level.next_slots, 1)):
            writer.append(target, -1, -1, slot, 0, FAILURE, pickle.dumps(failure, 5))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    yield from writer.finish()


class _SlotTask:
    def __init__(self, level: LevelDeployment, slot: int, task: TaskEnvironment) -> None:
        self._level = level
        self._slot = slot
        self._task = task
        self._subtasks: dict[int, Subtask] = {}
        self.failure_rows = RowWriter()
        self.current: Subtask | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[None]:
        """Process everything; yields whenever rows may be ready."""
        hosted = [
            (vertex, index)
            for vertex in self._level.vertices
            if 0 <= (index := self._slot - vertex.slot_offset) < vertex.parallelism
        ]
        subtask_cache.forget_older(self._level.settings.job_id, self._level.epoch)
        for vertex, index in hosted:
            self._subtasks[vertex.vertex] = self._obtain(vertex, index)
        for subtask in self._subtasks.values():
            subtask.begin_epoch(self._task, self._subtasks)
        if self._level.level == 0:
            yield from self._read_sources(batches)
        else:
            yield from self._receive(batches)
        for subtask in self._subtasks.values():
            self.current = subtask
            self._acknowledge(subtask.end_epoch())
            yield
        for subtask in self._subtasks.values():
            subtask_cache.put(self._level.settings.job_id, subtask, self._level.epoch, self._task.attempt)

    def _obtain(self, vertex: VertexDeployment, index: int) -> Subtask:
        restore = self._level.restore.get((vertex.vertex, index), SubtaskRestore())
        cached = subtask_cache.take(
            self._level.settings.job_id, vertex.vertex, index, restore.snapshot
        )
        if cached is not None:
            return cached
        subtask = Subtask(vertex, index)
        self.current = subtask
        subtask.open(self._task, restore)
        return subtask

    def _read_sources(self, batches: Iterator[pa.RecordBatch]) -> Iterator[None]:
        for _ in batches:
            """The driver's rows only say that the slot exists."""
        for vertex, subtask in self._subtasks.items():
            self.current = subtask
            assignment = self._level.assignments.get((vertex, subtask.index), SourceAssignment())
            yield from subtask.read_source(assignment, self._level.deadline)

    def _receive(self, batches: Iterator[pa.RecordBatch]) -> Iterator[None]:
        subtasks = self._subtasks
        for subtask in subtasks.values():
            self.current = subtask
            if not subtask.finished:
                subtask.advance_processing_time()
        for batch in batches:
            for target, vertex, gate, channel, sequence, kind, payload in rows_of(batch):
                subtask = subtasks.get(vertex)
                if subtask is not None:
                    self.current = subtask
                    subtask.receive_row(gate, channel, sequence, kind, payload)
                elif kind == FAILURE:
                    self._pass_failure(payload)
                else:
                    self._task.writer.append(
                        target, vertex, gate, channel, sequence, kind, payload.to_pybytes()
                    )
            yield

    def _pass_failure(self, payload: Any) -> None:
        for target in range(max(self._level.next_slots, 1)):
            self.failure_rows.append(target, -1, -1, self._slot, 0, FAILURE, payload.to_pybytes())
        raise _UpstreamFailed

    def _acknowledge(self, ack: TaskAck) -> None:
        slots = max(self._level.next_slots, 1)
        self._task.writer.append(
            self._slot % slots, -1, -1, self._slot, 0, ACK, pickle.dumps(ack, 5)
        )


def _describe(error: PenstockError, slot_task: _SlotTask) -> TaskFailure:
    cause = error.__cause__ if error.__cause__ is not None else error
    try:
        pickled = pickle.dumps(cause, 5)
        pickle.loads(pickled)
    except Exception:  # noqa: BLE001 - exceptions of users may refuse to pickle in any way
        pickled = None
    subtask = slot_task.current
    return TaskFailure(
        vertex=subtask.deployment.vertex if subtask is not None else -1,
        subtask=subtask.index if subtask is not None else -1,
        message=error.message,
        detail=error.detail,
        traceback=user_traceback(cause),
        error=pickled,
    )
