"""Runs an epoch again in this process: level after level, slot after slot."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from penstock.errors import PenstockError
from penstock.graph.deployment import LevelDeployment
from penstock.graph.levels import deploy_levels
from penstock.graph.task_id import TaskId
from penstock.replay.decisions import ReplayedDecisions
from penstock.replay.errors import ReplayError
from penstock.replay.running import Replay, ReplayedFailure, ReplayTarget, ReplayWatcher, quiet
from penstock.runtime.network.buffers import BufferedRow
from penstock.runtime.network.messages import ACK, FAILURE
from penstock.runtime.task.epochs import subtask_cache
from penstock.runtime.task.epochs.epoch_slot import run_slot
from penstock.runtime.task.shared.subtask import Subtask
from penstock.runtime.time.decisions import SlotTrace, SubtaskTrace
from penstock.time import clock

_UNTRACED_FACTOR = 10
UNTRACED_S = 5.0


class _Observer:
    def __init__(self, replay: EpochReplay, level: int, slot: int, watcher: ReplayWatcher) -> None:
        self._replay = replay
        self._level = level
        self._slot = slot
        self._watcher = watcher

    def decisions_of(self, task: TaskId) -> ReplayedDecisions:
        return self._replay.decisions_of(task)

    def opened(self, subtask: Subtask) -> None:
        self._watcher.opened(subtask)

    def failed(self, error: PenstockError, subtask: Subtask | None) -> None:
        self._replay.failed = ReplayedFailure(error, self._level, self._slot, subtask)


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


class EpochReplay(Replay):
    """Keeps the input of each slot, so that a slot can be run again without those before it."""

    def _prepare(self) -> None:
        super()._prepare()
        record = self.recording.record
        self._traces = _Traces.of(record.traces)
        self._arrived: dict[tuple[int, int], list[BufferedRow]] = {}
        self.levels = deploy_levels(
            self.vertices,
            self._settings,
            checkpoint_id=record.checkpoint_id,
            attempt_number=record.attempt,
            restore=self._restore,
            assignments=self.recording.load_assignments(),
            state_io=self._state_io,
            staging=self._local,
        )

    def __exit__(self, *_: object) -> None:
        self._forget_subtasks()
        super().__exit__(*_)

    def _forget_subtasks(self) -> None:
        subtask_cache.forget_older(self._job_id, self.recording.record.checkpoint_id + 2)

    # Running

    def run(self, target: ReplayTarget | None = None, watcher: ReplayWatcher | None = None) -> None:
        """Run the epoch, or as much of it as the target needs; slots before the target print nothing."""
        watcher = watcher or ReplayWatcher()
        self.failed = None
        self._acks = []
        self._collection.clear()
        arriving: list[list[BufferedRow]] = [[] for _ in range(self.levels[0].slots)]
        for level in self.levels:
            chosen: Sequence[int] = range(level.slots)
            is_last = target is not None and target.level == level.level
            if target is not None and is_last:
                chosen = [target.slot]
            leaving: list[list[BufferedRow]] = [[] for _ in range(max(level.next_slots, 1))]
            for slot in chosen:
                self._arrived[level.level, slot] = arriving[slot]
                with quiet() if target is not None and not is_last else contextlib.nullcontext():
                    for row in self._run_slot(level, slot, watcher):
                        leaving[row.target % len(leaving)].append(row)
                if self._has_failed():
                    break
            arriving = leaving
            if is_last or self._has_failed():
                break
        self._forget_subtasks()

    def run_slot_again(self, level: int, slot: int, watcher: ReplayWatcher) -> None:
        """Run one slot again over its recorded input; its result replaces the earlier one."""
        self.failed = None
        hosted = {
            vertex.task(slot - vertex.slot_offset): vertex for vertex in self.levels[level].vertices
        }
        self._forget_results(hosted)
        for _ in self._run_slot(self.levels[level], slot, watcher):
            pass
        self._forget_subtasks()

    def _run_slot(
        self, level: LevelDeployment, slot: int, watcher: ReplayWatcher
    ) -> Iterator[BufferedRow]:
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
        except Exception as error:  # noqa: BLE001 - a failure that Spark would retry is a result, too
            self.failed = ReplayedFailure(error, level.level, slot, None)
        finally:
            watcher.after_slot(level.level, slot)
        if self.failed is not None and isinstance(self.failed.error, ReplayError):
            raise self.failed.error

    def _seconds_for(self, level: int, slot: int) -> float | None:
        """Return how long sources may read. The trace says how far they got; without one, the limit is generous."""
        seconds = self.recording.record.seconds
        if seconds is None or (level, slot) in self._traces.slots:
            return seconds
        return max(_UNTRACED_FACTOR * seconds, UNTRACED_S)

    def decisions_of(self, task: TaskId) -> ReplayedDecisions:
        """Return the recorded decisions that replace the wall clock."""
        record = self.recording.record
        end = None if record.deadline is None else int(record.deadline * 1000)
        return ReplayedDecisions(
            self._traces.subtasks.get(task), record.started_ms, end, record.seconds
        )

    def _in_order(
        self, level: LevelDeployment, slot: int, rows: list[BufferedRow]
    ) -> list[BufferedRow]:
        """Return the rows in the order in which they arrived in the original run."""
        trace = self._traces.slots.get((level.level, slot))
        if trace is None:
            return rows
        channels: dict[tuple[int, int, int], deque[BufferedRow]] = {}
        for row in rows:
            channels.setdefault((row.vertex, row.gate, row.channel), deque()).append(row)
        ordered = []
        for channel, count in trace.arrivals.runs():
            waiting = channels.get(channel, deque())
            ordered += [waiting.popleft() for _ in range(min(count, len(waiting)))]
        return ordered + [row for waiting in channels.values() for row in waiting]

    def _count_silent(self) -> int:
        return sum(place not in self._traces.slots for place in self._expected_traces())

    def _expected_traces(self) -> list[tuple[int, int]]:
        """Return the slots that must have recorded their decisions: all, or those up to the failure."""
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
