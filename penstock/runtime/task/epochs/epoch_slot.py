"""The body of a Spark task in epoch mode: one slot of one level, as a generator over rows of the pipe."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from penstock.connectors.base.source import SourceAssignment
from penstock.errors import PenstockError
from penstock.graph.deployment import LevelDeployment, SubtaskRestore, VertexDeployment
from penstock.graph.task_id import TaskId
from penstock.logs.handler import OFF_TERMINAL
from penstock.logs.scope import working_for
from penstock.pickling import program_classes
from penstock.pickling.portable_pickles import dumps
from penstock.processes.process_metrics import ProcessFigures
from penstock.runtime.inspection.process_facts import process_facts
from penstock.runtime.network.buffers import BufferedRow, decode
from penstock.runtime.network.messages import ACK, DATA, FAILURE
from penstock.runtime.network.writers import RowWriter
from penstock.runtime.task.epochs import subtask_cache
from penstock.runtime.task.epochs.epoch_mode import EpochMode
from penstock.runtime.task.epochs.subtask_stopwatch import Neighbour, SubtaskStopwatch
from penstock.runtime.task.shared.environment import TaskEnvironment
from penstock.runtime.task.shared.failures import as_failure, describe, locate
from penstock.runtime.task.shared.garbage import GarbageControl
from penstock.runtime.task.shared.gates import ChannelError
from penstock.runtime.task.shared.log_scopes import following
from penstock.runtime.task.shared.state_usage import usage_of
from penstock.runtime.task.shared.subtask import Subtask
from penstock.runtime.task.shared.task_metrics import (
    PROCESS,
    PROCESS_FACTS,
    STATES,
    TOTAL_BUSY,
)
from penstock.runtime.time.decisions import RunLog, RuntimeDecisions, SlotTrace
from penstock.time import clock

_log = logging.getLogger(__name__)
_MODE = EpochMode()


class _UpstreamFailedError(Exception):
    """An upstream task failed, so the results of this task are void; carries its failure."""

    def __init__(self, payload: bytes) -> None:
        super().__init__("a task of an earlier level failed")
        self.payload = payload


class SlotObserver(Protocol):
    """Observes a slot in a replay."""

    def decisions_of(self, task: TaskId) -> RuntimeDecisions:
        """Return the recorded decisions that replace the wall clock."""

    def opened(self, subtask: Subtask) -> None:
        """Called for a subtask before its first record."""

    def failed(self, error: PenstockError, subtask: Subtask | None) -> None:
        """Called on a failure, before anything is closed."""


def run_slot(
    level: LevelDeployment,
    slot: int,
    attempt: str,
    rows: Iterable[BufferedRow],
    observer: SlotObserver | None = None,
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[BufferedRow]:
    """Run the subtasks of one slot over its rows; yield the rows for the next level.

    A failure in user code, or on a bad record, would occur again: it becomes a FAILURE row that replaces all ACKs. Any
    other exception is raised, so that Spark retries the task. A job with a journal sends its ACKs nevertheless: they are
    needed to replay the failure. The subtasks stop in the middle of the epoch when `cancelled` returns True.
    """
    rows = iter(rows)
    sent: list[BufferedRow] = []
    task = TaskEnvironment(
        settings=level.settings,
        checkpoint_id=level.checkpoint_id,
        attempt=attempt,
        attempt_number=level.attempt_number,
        staging=level.staging,
        state_io=level.state_io,
        drains=level.drains,
        writer_of=functools.partial(RowWriter, sent),
        decisions_of=None if observer is None else observer.decisions_of,
    )
    slot_task = _SlotTask(level, slot, task, sent, observer)
    collector = GarbageControl()
    scope = following(level.settings, level.attempt_number, lambda: slot_task.current)
    scopes = contextlib.ExitStack()
    scopes.enter_context(working_for(scope))
    scopes.enter_context(program_classes.using(level.settings.classes))
    try:
        for _ in slot_task.run(rows):
            yield from sent
            sent.clear()
            collector.check()
            if cancelled():
                return
    except _UpstreamFailedError as failed:
        yield from _failure_rows(level, slot, failed.payload)
        if level.settings.journal:
            yield from _acks(sent, rows)
    except ChannelError:
        raise
    except BaseException as raised:
        error = as_failure(raised)
        if error is None:
            raise
        locate(error)
        if observer is not None:
            observer.failed(error, slot_task.current)
        failure = describe(error, slot_task.current, slot_task.trace())
        _log.error("%s", failure.traceback.rstrip() or failure.message, extra=OFF_TERMINAL)
        payload = dumps(failure)
        yield from _failure_rows(level, slot, payload)
        if level.settings.journal:
            yield from _acks(sent, rows)
    finally:
        slot_task.abandon()
        collector.close()
        scopes.close()
        sys.stdout.flush()
        sys.stderr.flush()


def _failure_rows(level: LevelDeployment, slot: int, payload: bytes) -> Iterator[BufferedRow]:
    """Notify every slot of the next level, so that none of them does useless work."""
    for target in range(max(level.next_slots, 1)):
        yield BufferedRow(target, -1, -1, slot, 0, FAILURE, payload)


def _acks(*sources: Iterable[BufferedRow]) -> Iterator[BufferedRow]:
    return (row for rows in sources for row in rows if row[5] == ACK)


class _SlotTask:
    def __init__(
        self,
        level: LevelDeployment,
        slot: int,
        task: TaskEnvironment,
        sent: list[BufferedRow],
        observer: SlotObserver | None,
    ) -> None:
        self._level = level
        self._slot = slot
        self._task = task
        self._sent = sent
        self._observer = observer
        self._arrivals = RunLog()
        self._clock = SubtaskStopwatch()
        self._subtasks: dict[int, Subtask] = {}
        self.current: Subtask | None = None

    def run(self, rows: Iterable[BufferedRow]) -> Iterator[None]:
        """Process everything; yields whenever rows may be ready."""
        job_id = self._level.settings.job_id
        subtask_cache.forget_older(job_id, self._level.checkpoint_id)
        for vertex in self._level.vertices:
            index = self._slot - vertex.slot_offset
            if 0 <= index < vertex.parallelism:
                self._obtain(vertex, index)
        if self._observer is not None:
            for subtask in self._subtasks.values():
                self._observer.opened(subtask)
        neighbours = {
            number: Neighbour(subtask, self._clock) for number, subtask in self._subtasks.items()
        }
        for subtask in self._subtasks.values():
            subtask.connect(self._task, neighbours)
            subtask.begin_interval(self._task)
        # Downstream first: the content of a channel comes before new records.
        for subtask in reversed(self._subtasks.values()):
            self.current = subtask
            _take_restored(subtask)
        for subtask in self._subtasks.values():
            self.current = subtask
            subtask.chain.announce_time()
        if self._level.level == 0:
            yield from self._read_sources()
        else:
            yield from self._receive(rows)
        last = next(reversed(self._subtasks.values()), None)
        for subtask in self._subtasks.values():
            self.current = subtask
            self._clock.begin(subtask)
            ack = subtask.begin_checkpoint(self._level.checkpoint_id).finish()
            self._clock.end()
            ack = dataclasses.replace(
                ack,
                report=_report(subtask),
                trace=self.trace() if subtask is last else None,
            )
            self._sent.append(BufferedRow(self._slot, -1, -1, self._slot, 0, ACK, dumps(ack)))
            yield
        for number in list(self._subtasks):
            self.current = subtask = self._subtasks.pop(number)
            subtask_cache.put(
                job_id,
                subtask,
                self._level.checkpoint_id,
                self._task.attempt,
                self._level.attempt_number,
            )

    def trace(self) -> SlotTrace | None:
        """Return the decisions of the wall clock and of chance, if the job keeps a journal."""
        if not self._level.settings.journal:
            return None
        return SlotTrace(
            self._level.level,
            self._slot,
            self._arrivals.pack(),
            tuple(
                trace
                for subtask in self._subtasks.values()
                if (trace := subtask.decisions.trace(subtask.id)) is not None
            ),
        )

    def abandon(self) -> None:
        """Close everything after a failure, so that functions and sinks release their resources."""
        for subtask in self._subtasks.values():
            with contextlib.suppress(Exception):  # the original failure matters
                subtask.close()

    def _obtain(self, vertex: VertexDeployment, index: int) -> None:
        restore = self._level.restore.get(vertex.task(index), SubtaskRestore())
        cached = subtask_cache.take(
            self._level.settings.job_id, vertex.vertex, index, restore.snapshot
        )
        if cached is not None:
            self._subtasks[vertex.vertex] = cached
            return
        kept = subtask_cache.take_parts(
            self._level.settings.job_id, vertex, index, self._level.attempt_number
        )
        self.current = self._subtasks[vertex.vertex] = Subtask(vertex, index, _MODE)
        self.current.open(self._task, restore, kept)

    def _read_sources(self) -> Iterator[None]:
        for subtask in self._subtasks.values():
            self.current = subtask
            task = subtask.id
            assignment = self._level.assignments.get(task, SourceAssignment())
            steps = read_source(subtask, assignment, self._seconds_left())
            self._clock.begin(subtask)
            for _ in steps:
                self._clock.end()
                yield
                self._clock.begin(subtask)
            self._clock.end()

    def _seconds_left(self) -> float | None:
        """Return how long sources may read. The clock is read once: it may be set between two readings."""
        deadline, longest = self._level.deadline, self._level.longest_read_s
        if deadline is None:
            return None
        left = deadline - clock.now()
        return left if longest is None else min(left, longest)

    def _receive(self, rows: Iterable[BufferedRow]) -> Iterator[None]:
        subtasks = self._subtasks
        begin, end = self._clock.begin, self._clock.end
        check_order = self._level.settings.check_order
        arrived = self._arrivals.add if self._level.settings.journal else None
        for subtask in subtasks.values():
            self.current = subtask
            if not subtask.finished:
                subtask.advance_processing_time()
        for row in rows:
            receiver = subtasks.get(row[1])
            if receiver is not None:
                self.current = receiver
                if arrived is not None:
                    arrived(row[1:4])
                begin(receiver)
                receive_row(receiver, row, check_order=check_order)
                end()
            elif row[5] == FAILURE:
                raise _UpstreamFailedError(row[6])
            else:
                self._sent.append(row)
            yield


def _take_restored(subtask: Subtask) -> None:
    """After a restore, send and process the in-flight records of the checkpoint."""
    restored = subtask.restored
    subtask.edges.resend(restored)
    for channel, payloads in restored.inputs():
        for payload in payloads:
            subtask.receive(*channel, DATA, decode(payload))
    restored.release()


def receive_row(subtask: Subtask, row: BufferedRow, *, check_order: bool) -> None:
    """Process a row of the pipe; with `check_order`, only if none of its channel is missing before it."""
    _, _, gate, channel, sequence, kind, payload = row
    if check_order:
        subtask.gates.check_sequence(gate, channel, sequence)
    subtask.metrics.bytes_in += len(payload)
    subtask.receive(gate, channel, kind, decode(payload) if kind == DATA else pickle.loads(payload))


def read_source(
    subtask: Subtask, assignment: SourceAssignment, seconds: float | None
) -> Iterator[None]:
    """Let the source at the head of the chain read its splits, for a limited time."""
    source, times = subtask.source, subtask.chain.times
    assert source is not None
    steps = source.run(assignment, seconds)
    while True:
        if times.running:
            times.enter(0)
        if next(steps, subtask) is subtask:
            return
        yield


def _report(subtask: Subtask) -> dict[str, Any]:
    """Return the metrics of a subtask in the epoch."""
    busy_ms = round(subtask.metrics.busy_s * 1000, 3)
    return {
        **subtask.metrics.measure(subtask.watermark, clock.now_ms()),
        TOTAL_BUSY: busy_ms,
        PROCESS: _process_figures().take(),
        PROCESS_FACTS: process_facts(),
        STATES: usage_of(subtask.keyed.schemas()),
    }


@functools.cache
def _process_figures() -> ProcessFigures:
    """Return the instance of this process, which runs many epochs."""
    return ProcessFigures()
