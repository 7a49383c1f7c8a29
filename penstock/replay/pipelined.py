"""Replays an interval between two checkpoints of a job in pipelined mode: subtask after subtask, each by its recorded calls.

A subtask runs after all subtasks upstream of it: their output waits in feeds. Its trace says in which portions it took its
input and what happened in between. A subtask without a trace takes everything, channel after channel.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.connectors.base.source import SourceAssignment
from penstock.graph.deployment import ResultEdge, SubtaskRestore, VertexDeployment
from penstock.graph.task_id import TaskId
from penstock.pickling import program_classes
from penstock.replay.decisions import ReplayedIntervalDecisions
from penstock.replay.errors import ReplayError
from penstock.replay.feeds import ChannelFeed
from penstock.replay.running import Replay, ReplayedFailure, ReplayTarget, ReplayWatcher, quiet
from penstock.runtime.network.debloating import UNLIMITED
from penstock.runtime.network.messages import (
    BARRIER,
    DATA,
    END,
    LATENCY,
    STATUS,
    WATERMARK,
    BarrierMessage,
)
from penstock.runtime.operators.connectors.source_modes import PollResult
from penstock.runtime.operators.hooks import HandlesWakeups
from penstock.runtime.task.pipelined.pipelined_mode import PipelinedMode
from penstock.runtime.task.shared.environment import TaskEnvironment
from penstock.runtime.task.shared.subtask import Subtask
from penstock.runtime.time.call_log import CallKind, RecordedCall, joined
from penstock.runtime.time.decisions import SubtaskTrace

_ChannelId = tuple[int, int, int, int]  # receiving vertex and subtask, gate, sending subtask


class _FeedWriter:
    """Writes to the feeds of an edge."""

    def __init__(
        self, feeds: dict[_ChannelId, ChannelFeed], edge: ResultEdge, subtask: int
    ) -> None:
        self._feeds = feeds
        self._edge = edge
        self._subtask = subtask

    def send(self, target: int, kind: int, content: Any) -> int:
        """Append to the feed."""
        edge = self._edge
        place = (edge.target_vertex, target, edge.target_gate, self._subtask)
        self._feeds.setdefault(place, ChannelFeed()).put(kind, content)
        return 0

    def most_records(self, target: int) -> int:
        """There is no limit: a replay has no buffers in flight."""
        return UNLIMITED

    def shares(self, target: int) -> bool:
        """Records in a feed are not shared with the sender."""
        return False


class _NoWakeups:
    """Ignores wake-ups: in a replay only the trace drives a subtask."""

    def wake(self, operator: HandlesWakeups) -> None:
        """Ignore: wake-ups are in the trace."""

    def watch(self, operator: HandlesWakeups, file: int | None) -> None:
        """Ignore: wake-ups are in the trace."""

    def tell(self, operator: str, data: bytes) -> None:
        """Ignore: sinks are switched off."""


class IntervalReplay(Replay):
    """Runs subtasks one after another. Their output is kept, so that one of them can be run again."""

    def _prepare(self) -> None:
        super()._prepare()
        self._assignments = self.recording.load_assignments()
        self._parts: dict[TaskId, list[SubtaskTrace]] = {}
        for slot in self.recording.record.traces:
            for part in slot.subtasks:
                self._parts.setdefault(part.task, []).append(part)
        self._feeds: dict[_ChannelId, ChannelFeed] = {}
        self._missing = 0
        self._counted: dict[TaskId, dict[str, dict[str, Any]]] = {}

    # Running

    def run(self, target: ReplayTarget | None = None, watcher: ReplayWatcher | None = None) -> None:
        """Run the interval, or as much of it as the target needs; subtasks before the target print nothing."""
        watcher = watcher or ReplayWatcher()
        self.failed = None
        self._acks = []
        self._feeds = {}
        self._missing = 0
        self._counted = {}
        self._collection.clear()
        for vertex, subtask in self._places(target):
            is_last = target is not None and (vertex.vertex, subtask) == (
                target.vertex,
                target.subtask,
            )
            with quiet() if target is not None and not is_last else contextlib.nullcontext():
                self._run_subtask(vertex, subtask, watcher)
            if self._has_failed():
                break

    def run_slot_again(self, level: int, slot: int, watcher: ReplayWatcher) -> None:
        """Run one subtask again: `level` is the vertex, `slot` the subtask index."""
        self.failed = None
        vertex = self.vertices[level]
        self._forget_results({vertex.task(slot): vertex})
        self._run_subtask(vertex, slot, watcher)

    def _places(self, target: ReplayTarget | None) -> Iterator[tuple[VertexDeployment, int]]:
        """Return the subtasks to run in topological order."""
        needed = None if target is None else self._before(target.vertex)
        for vertex in sorted(self.vertices, key=lambda each: (each.level, each.vertex)):
            if needed is None or vertex.vertex in needed:
                yield from ((vertex, subtask) for subtask in range(vertex.parallelism))
        if target is not None:
            yield self.vertices[target.vertex], target.subtask

    def _before(self, vertex: int) -> set[int]:
        """Return the vertices upstream of a vertex, direct or indirect."""
        found: set[int] = set()
        waiting = [vertex]
        while waiting:
            target = waiting.pop()
            for each in self.vertices:
                sends = any(edge.target_vertex == target for edge in each.edges)
                if sends and each.vertex not in found:
                    found.add(each.vertex)
                    waiting.append(each.vertex)
        return found

    def _run_subtask(self, vertex: VertexDeployment, index: int, watcher: ReplayWatcher) -> None:
        watcher.before_slot(vertex.vertex, index)
        subtask = Subtask(vertex, index, PipelinedMode())
        try:
            with program_classes.using(self._settings.classes):
                self._call(subtask, watcher)
        except ReplayError:
            raise
        except Exception as error:  # noqa: BLE001 - a failure of the slot is a result, too
            self.failed = ReplayedFailure(error, vertex.vertex, index, subtask)
        finally:
            watcher.after_slot(vertex.vertex, index)
            with contextlib.suppress(Exception):  # its outcome is known
                subtask.close()

    def _call(self, subtask: Subtask, watcher: ReplayWatcher) -> None:
        task = subtask.id
        parts = self._parts.get(task, [])
        record = self.recording.record
        environment = TaskEnvironment(
            settings=self._settings,
            checkpoint_id=record.before + 1,
            attempt=f"{self._job_id}-{subtask.index}",
            attempt_number=record.attempt,
            staging=self._local,
            state_io=self._state_io,
            writer_of=functools.partial(_FeedWriter, self._feeds),
            decisions_of=lambda _: ReplayedIntervalDecisions(parts, record.started_ms),
            pipelined=_NoWakeups(),
        )
        subtask.open(environment, self._restore.get(task, SubtaskRestore()))
        watcher.opened(subtask)
        subtask.connect(environment, {})
        subtask.edges.resend(subtask.restored)
        subtask.chain.announce_time()
        if subtask.source is not None:
            # Recorded splits follow those that were restored.
            subtask.source.add_splits(self._assignments.get(task, SourceAssignment()))
        subtask.begin_interval(environment)
        feeds = self._feeds_of(subtask)
        restored: dict[tuple[int, int], list[bytes]] = {}
        for (
            channel,
            payloads,
        ) in subtask.restored.inputs():  # several former channels may map to one
            restored.setdefault(channel, []).extend(payloads)
        subtask.restored.release()
        for channel, payloads in restored.items():
            feeds[channel].restore(payloads)
        caller = _Caller(subtask, feeds, environment)
        if parts:
            for noted, value in joined([part.calls for part in parts if part.calls is not None]):
                caller.make(noted, value)
        else:
            caller.make_up()
        self._missing += caller.missing
        self._acks += caller.acks[-1:]
        self._counted[task] = subtask.metrics.totals()
        subtask.edges.flush()

    def _feeds_of(self, subtask: Subtask) -> dict[tuple[int, int], ChannelFeed]:
        """Return copies of the feeds of a subtask by channel, so that it can run again."""
        vertex = subtask.deployment.vertex
        return {
            (gate, sender): self._feeds.get(
                (vertex, subtask.index, gate, sender), ChannelFeed()
            ).copy()
            for gate, sender in subtask.gates.channels
        }

    # Results

    def _reports(self) -> Iterable[dict[str, dict[str, Any]]]:
        return self._counted.values()

    def _count_silent(self) -> int:
        return sum(
            vertex.task(subtask) not in self._parts
            for vertex in self.vertices
            for subtask in range(vertex.parallelism)
        )

    def _more_approximations(self) -> Iterator[str]:
        if self._missing:
            yield (
                f"{self._missing} records that a subtask received in the original run were not produced again: the subtasks "
                "upstream left no trace, or depend on external systems"
            )


class _Caller:
    """Repeats the recorded calls of one subtask."""

    def __init__(
        self,
        subtask: Subtask,
        feeds: Mapping[tuple[int, int], ChannelFeed],
        environment: TaskEnvironment,
    ) -> None:
        self._subtask = subtask
        self._feeds = feeds
        self._channels = list(subtask.gates.channels)
        self._environment = environment
        self.acks: list[Any] = []

    @property
    def missing(self) -> int:
        """Number of records that were not produced again."""
        return sum(feed.missing for feed in self._feeds.values())

    def make(self, noted: RecordedCall, value: Any) -> None:
        """Repeat one recorded call."""
        subtask, number = self._subtask, noted.value
        match noted.call:
            case CallKind.RECORDS:
                self._take_records(noted.channel, number)
            case CallKind.WATERMARK:
                subtask.receive(*self._channels[noted.channel], WATERMARK, number)
            case CallKind.STATUS:
                subtask.receive(*self._channels[noted.channel], STATUS, bool(number))
            case CallKind.TIME:
                for _ in range(number):
                    subtask.advance_processing_time()
            case CallKind.POLL:
                for _ in range(number):
                    subtask.poll()
            case CallKind.WAKEUP:
                operator = subtask.chain.operators[number]
                assert isinstance(operator, HandlesWakeups)
                subtask.on_wakeup(operator)
            case CallKind.QUIET:
                for _ in range(number):
                    subtask.on_quiet()
            case CallKind.SPLITS:
                subtask.add_splits(value)
            case CallKind.DRAIN:
                subtask.drain()
            case CallKind.FINISH:
                if subtask.finish():
                    subtask.edges.send_end()
            case CallKind.BARRIER:
                self._pass_barrier(number)
            case CallKind.COMPLETED:
                subtask.on_completed(number)

    def _take_records(self, channel: int, count: int) -> None:
        place = self._channels[channel]
        batch = self._feeds[place].take(count)
        if batch is not None:
            self._subtask.receive(*place, DATA, batch)

    def _pass_barrier(self, number: int) -> None:
        subtask = self._subtask
        for channel in self._channels:
            message = BarrierMessage(number, self._environment.attempt, finished=False)
            subtask.gates.barrier_alignment.on_barrier(channel, message)
        self.acks.append(subtask.begin_checkpoint(number).finish())
        self._environment.checkpoint_id = number + 1
        subtask.begin_interval(self._environment)

    def make_up(self) -> None:
        """Let a subtask without a trace take all its input; a source reads what it finds."""
        subtask = self._subtask
        if subtask.source is not None:
            while subtask.poll() is PollResult.MORE:
                pass
            subtask.advance_processing_time()
            return
        waiting = dict(self._feeds)
        while waiting:
            for place in list(waiting):
                found = waiting[place].next()
                if found is None:
                    del waiting[place]
                elif found[0] not in {BARRIER, LATENCY, END}:
                    subtask.receive(*place, *found)
        subtask.advance_processing_time()
