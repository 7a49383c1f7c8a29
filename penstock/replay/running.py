"""Runs an epoch again: level after level, slot after slot, in this process."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import pickle
import sys
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from penstock.common import clock, temporary
from penstock.errors import PenstockError
from penstock.graph.deployment import LevelDeployment, VertexDeployment
from penstock.graph.levels import deploy_levels
from penstock.graph.task_id import TaskId
from penstock.replay.errors import ReplayError
from penstock.replay.pace import ReplayedPace
from penstock.replay.recording import Recording
from penstock.replay.result import OperatorCounts, ReplayFailure, ReplayResult, SinkRecord
from penstock.replay.sinks import Collection, switch_off_sinks
from penstock.replay.state_check import ReplayStateIO, StateComparison, compare, wrote_full
from penstock.runtime.network.buffers import Row
from penstock.runtime.network.messages import ACK, FAILURE, TaskAck
from penstock.runtime.task import subtask_cache
from penstock.runtime.task.slot_task import run_slot
from penstock.runtime.task.subtask import Subtask
from penstock.runtime.time.pace import SlotTrace, SubtaskTrace
from penstock.runtime.user_code import UserCodeError, user_traceback

_UNTRACED_FACTOR = 10
UNTRACED_S = 5.0


@dataclass(frozen=True, slots=True)
class Target:
    """The subtask that one wants to see: nothing after it is run."""

    level: int
    slot: int
    vertex: int
    subtask: int


@dataclass(slots=True)
class Failed:
    """A failure as it came up, with its traceback and the slot that it came up in."""

    error: BaseException
    level: int
    slot: int
    subtask: Subtask | None


class Watcher:
    """Watches the slots of a replay; the debugger's does more."""

    def before_slot(self, level: int, slot: int) -> None:
        """Take note that a slot begins."""

    def after_slot(self, level: int, slot: int) -> None:
        """Take note that a slot has ended, whether it failed or not."""

    def opened(self, subtask: Subtask) -> None:
        """Take note of a subtask before its first record."""


class _Observer:
    def __init__(self, replay: EpochReplay, level: int, slot: int, watcher: Watcher) -> None:
        self._replay = replay
        self._level = level
        self._slot = slot
        self._watcher = watcher

    def pace_of(self, task: TaskId) -> ReplayedPace:
        return self._replay.pace_of(task)

    def opened(self, subtask: Subtask) -> None:
        self._watcher.opened(subtask)

    def failed(self, error: PenstockError, subtask: Subtask | None) -> None:
        self._replay.failed = Failed(error, self._level, self._slot, subtask)


@dataclass(slots=True)
class _Traces:
    slots: dict[tuple[int, int], SlotTrace] = field(default_factory=dict)
    subtasks: dict[TaskId, SubtaskTrace] = field(default_factory=dict)

    @classmethod
    def of(cls, traces: Sequence[SlotTrace]) -> _Traces:
        found = cls()
        for trace in traces:
            found.slots[trace.level, trace.slot] = trace
            for each in trace.subtasks:
                found.subtasks[each.task] = each
        return found


class EpochReplay:
    """An epoch that can be run again, as often as one likes; use it as a context manager.

    What reached each slot is kept, so that a slot can be run once more without those before it.
    """

    def __init__(self, recording: Recording, *, verify: bool = False) -> None:
        self.recording = recording
        self.failed: Failed | None = None
        self._verify = verify and recording.after is not None
        self._traces = _Traces.of(recording.record.traces)
        self._collection = Collection()
        self._stack = contextlib.ExitStack()
        self._stack.callback(self._collection.close)
        self._job_id = f"replay-{uuid.uuid4().hex}"
        self._arrived: dict[tuple[int, int], list[Row]] = {}
        self._acks: list[TaskAck] = []
        try:
            self._prepare()
        except BaseException:
            self._stack.close()
            raise

    def _prepare(self) -> None:
        recording, record, plan = self.recording, self.recording.record, self.recording.plan
        local = self._stack.enter_context(temporary.directory("replay"))
        self._code = recording.load_code()
        self.vertices: tuple[VertexDeployment, ...] = tuple(
            switch_off_sinks(vertex, code, self._collection)
            for vertex, code in zip(plan.vertices, self._code, strict=True)
        )
        settings = dataclasses.replace(
            plan.settings,
            job_id=self._job_id,
            journal=False,
            state_backend=plan.settings.state_backend.in_directory(local),
        )
        self._restore = recording.load_restore()
        full = None
        if self._verify and recording.after is not None:
            full = wrote_full(self.vertices, recording.base, recording.after)
        self._state_io = ReplayStateIO(recording.state_io, self.vertices, full)
        self.levels = deploy_levels(
            self.vertices,
            settings,
            epoch=record.epoch,
            attempt_number=record.attempt,
            restore=self._restore,
            assignments=recording.load_assignments(),
            state_io=self._state_io,
            staging=local,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget_subtasks()
        self._stack.close()

    def _forget_subtasks(self) -> None:
        subtask_cache.forget_older(self._job_id, self.recording.record.epoch + 2)

    # Running

    def run(self, target: Target | None = None, watcher: Watcher | None = None) -> None:
        """Run the epoch, or as much of it as the target needs; what comes before the target prints nothing."""
        watcher = watcher or Watcher()
        self.failed = None
        self._acks = []
        self._collection.clear()
        arriving: list[list[Row]] = [[] for _ in range(self.levels[0].slots)]
        for level in self.levels:
            chosen: Sequence[int] = range(level.slots)
            is_last = target is not None and target.level == level.level
            if target is not None and is_last:
                chosen = [target.slot]
            leaving: list[list[Row]] = [[] for _ in range(max(level.next_slots, 1))]
            for slot in chosen:
                self._arrived[level.level, slot] = arriving[slot]
                with _quiet() if target is not None and not is_last else contextlib.nullcontext():
                    for row in self._run_slot(level, slot, watcher):
                        leaving[row.target % len(leaving)].append(row)
                if self._has_failed():
                    break
            arriving = leaving
            if is_last or self._has_failed():
                break
        self._forget_subtasks()

    def _has_failed(self) -> bool:
        return self.failed is not None

    def run_slot_again(self, level: int, slot: int, watcher: Watcher) -> None:
        """Run one slot once more, over what reached it before; its result takes the place of the earlier one."""
        self.failed = None
        hosted = {
            vertex.task(slot - vertex.slot_offset): vertex for vertex in self.levels[level].vertices
        }
        self._acks = [ack for ack in self._acks if ack.task not in hosted]
        for (_, subtask), vertex in hosted.items():
            for operator in vertex.operators:
                self._collection.records().pop((operator.operator_id, subtask), None)
        for _ in self._run_slot(self.levels[level], slot, watcher):
            pass
        self._forget_subtasks()

    def _run_slot(self, level: LevelDeployment, slot: int, watcher: Watcher) -> Iterator[Row]:
        seconds = self._seconds_for(level.level, slot)
        if seconds is not None:
            level = dataclasses.replace(level, deadline=clock.now() + seconds)
        rows = self._in_order(level, slot, self._arrived[level.level, slot])
        observer = _Observer(self, level.level, slot, watcher)
        watcher.before_slot(level.level, slot)
        try:
            for row in run_slot(level, slot, f"{self._job_id}-{slot}", rows, observer):
                if row.kind == ACK:
                    self._acks.append(pickle.loads(row.payload))
                elif row.kind != FAILURE:
                    yield row
        except ReplayError:
            raise
        except Exception as error:  # noqa: BLE001 - what Spark would have repeated is a result too
            self.failed = Failed(error, level.level, slot, None)
        finally:
            watcher.after_slot(level.level, slot)
        if self.failed is not None and isinstance(self.failed.error, ReplayError):
            raise self.failed.error

    def _seconds_for(self, level: int, slot: int) -> float | None:
        """Return for how long sources may read. How far they got is in the trace; without one, much time is given."""
        seconds = self.recording.record.seconds
        if seconds is None or (level, slot) in self._traces.slots:
            return seconds
        return max(_UNTRACED_FACTOR * seconds, UNTRACED_S)

    def pace_of(self, task: TaskId) -> ReplayedPace:
        """Return what decides in the place of the wall clock."""
        record = self.recording.record
        end = None if record.deadline is None else int(record.deadline * 1000)
        return ReplayedPace(self._traces.subtasks.get(task), record.started_ms, end, record.seconds)

    def _in_order(self, level: LevelDeployment, slot: int, rows: list[Row]) -> list[Row]:
        """Return the rows in the order in which they arrived when the epoch ran."""
        trace = self._traces.slots.get((level.level, slot))
        if trace is None:
            return rows
        channels: dict[tuple[int, int, int], deque[Row]] = {}
        for row in rows:
            channels.setdefault((row.vertex, row.gate, row.channel), deque()).append(row)
        ordered = []
        for channel, count in trace.arrivals.runs():
            waiting = channels.get(channel, deque())
            ordered += [waiting.popleft() for _ in range(min(count, len(waiting)))]
        return ordered + [row for waiting in channels.values() for row in waiting]

    # Results

    def result(self) -> ReplayResult:
        """Return what the last run has found."""
        record, plan = self.recording.record, self.recording.plan
        failure = self.describe_failure()
        return ReplayResult(
            job_id=record.job_id,
            job_name=plan.job_name,
            epoch=record.epoch,
            attempt=record.attempt,
            sinks=self._sink_records(),
            counts=self._counts(),
            failure=failure,
            recorded_failure=_recorded_failure(record.failure),
            state=self._compare() if failure is None else None,
            approximations=tuple(self._approximations()),
        )

    def _compare(self) -> StateComparison | None:
        after, plan = self.recording.after, self.recording.plan
        if not self._verify or after is None:
            return None
        return compare(
            self._state_io,
            self.vertices,
            self._restore,
            self._acks,
            plan.sinks,
            after,
        )

    def _sink_records(self) -> dict[str, dict[int, tuple[SinkRecord, ...]]]:
        plan, collected = self.recording.plan, self._collection.records()
        found: dict[str, dict[int, tuple[SinkRecord, ...]]] = {}
        for vertex in self.vertices:
            for info in vertex.operators:
                if info.operator_id not in plan.sinks:
                    continue
                name = info.name.removeprefix("Sink: ")
                if name in found:
                    name = f"{name} ({info.operator_id[:8]})"
                found[name] = {
                    subtask: tuple(records)
                    for (operator, subtask), records in sorted(
                        collected.items(), key=lambda each: each[0]
                    )
                    if operator == info.operator_id
                }
        return found

    def _counts(self) -> dict[str, OperatorCounts]:
        taken: dict[str, int] = {}
        sent: dict[str, int] = {}
        for ack in self._acks:
            for operator, metrics in ack.metrics.items():
                sent[operator] = sent.get(operator, 0) + metrics["numRecordsOut"][1]
                if "numRecordsIn" in metrics:
                    taken[operator] = taken.get(operator, 0) + metrics["numRecordsIn"][1]
        counts: dict[str, OperatorCounts] = {}
        for vertex in self.vertices:
            for info in vertex.operators:
                if info.operator_id in sent:
                    name = (
                        info.name if info.name not in counts else f"{info.name} ({vertex.vertex})"
                    )
                    counts[name] = OperatorCounts(
                        taken.get(info.operator_id), sent[info.operator_id]
                    )
        return counts

    def describe_failure(self) -> ReplayFailure | None:
        """Return the failure of the last run."""
        failed = self.failed
        if failed is None:
            return None
        error = failed.error
        cause = error.__cause__ if isinstance(error, UserCodeError) and error.__cause__ else error
        operator = getattr(error, "operator_id", None)
        names = {
            info.operator_id: info.name for vertex in self.vertices for info in vertex.operators
        }
        message = error.detail if isinstance(error, PenstockError) else None
        return ReplayFailure(
            error=cause,
            message=message or "",
            traceback=user_traceback(cause),
            vertex=failed.subtask.deployment.name if failed.subtask is not None else None,
            operator=names.get(operator) if operator is not None else None,
            subtask=failed.subtask.index if failed.subtask is not None else None,
            record_known=isinstance(error, UserCodeError) and error.record_known,
            record=getattr(error, "record", None),
        )

    def _approximations(self) -> Iterator[str]:
        record = self.recording.record
        silent = sum(place not in self._traces.slots for place in self._expected_traces())
        if silent:
            yield (
                f"{silent} task{'s' if silent > 1 else ''} ended without telling when watermarks were due, what the "
                "clock showed and how far sources had read: a process was killed, the epoch failed outside of the "
                "program, or it is still under way"
            )
        cut = any(_is_cut(trace) for trace in record.traces)
        if cut:
            yield "the clock, or an order, was not recorded to the end of the epoch"
        waiting = [
            info.name
            for vertex, code in zip(self.vertices, self._code, strict=True)
            for info, spec in zip(vertex.operators, code.specs, strict=True)
            if spec.waits_for_others
        ]
        if waiting and (silent or cut):
            yield f"calls of {_quoted(waiting)} may be answered in another order, or another epoch"
        failure = record.failure
        if not isinstance(failure, str) and failure is not None:
            names = {i.operator_id: i.name for vertex in self.vertices for i in vertex.operators}
            if failure.operator in self.recording.plan.sinks:
                sink = names[failure.operator or ""]
                yield f"the epoch failed in '{sink}', and sinks are switched off in a replay"

    def _expected_traces(self) -> list[tuple[int, int]]:
        """Return the slots that must have told their decisions: all, or those up to the failure."""
        record = self.recording.record
        places = [(each.level, slot) for each in self.levels for slot in range(each.slots)]
        failure = record.failure
        if record.outcome != "failed" or failure is None or isinstance(failure, str):
            return places
        if failure.task is None:
            return [place for place in places if place[0] == 0]
        (failed,) = (vertex for vertex in self.vertices if vertex.id == failure.task.vertex)
        own = (failed.level, failed.slot_offset + failure.task.subtask)
        return [place for place in places if place[0] < failed.level or place == own]


def _is_cut(trace: SlotTrace) -> bool:
    return trace.arrivals.cut or any(
        each.clock.steps.cut
        or each.opening.steps.cut
        or each.batches.cut
        or any(log.cut for log in each.decisions.values())
        for each in trace.subtasks
    )


def _recorded_failure(failure: Any) -> str | None:
    if failure is None or isinstance(failure, str):
        return failure
    return "\n".join(filter(None, [failure.traceback.rstrip(), failure.detail]))


def _quoted(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), breakpoints(pass_over):
        yield


def pass_over(*_: Any, **__: Any) -> None:
    """Do nothing at a `breakpoint()`."""


@contextlib.contextmanager
def breakpoints(hook: Callable[..., Any]) -> Iterator[None]:
    """Let `breakpoint()` call a function meanwhile."""
    before, sys.breakpointhook = sys.breakpointhook, hook
    try:
        yield
    finally:
        sys.breakpointhook = before
