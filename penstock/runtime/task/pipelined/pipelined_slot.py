"""The event loop of a slot: all its subtasks in one thread, for the life of an attempt.

An iteration receives data, handles the driver's commands, and lets each subtask work for a few milliseconds, downstream ones
first. It never blocks in a send: a subtask reads only while its outputs have capacity. When there is nothing to do, buffered
records are sent, and the loop waits exactly until the next deadline.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from penstock.errors import PenstockError
from penstock.graph.deployment import ResultEdge
from penstock.graph.stage import StageDeployment
from penstock.graph.task_id import TaskId
from penstock.logs.handler import OFF_TERMINAL
from penstock.logs.scope import working_for
from penstock.pickling import program_classes
from penstock.runtime.inspection.key_sample import KeySample
from penstock.runtime.inspection.requests import SplitTime, TaskDetail
from penstock.runtime.inspection.slot_inspector import SlotInspector
from penstock.runtime.network.channels import (
    ChannelId,
    InputChannel,
    Inputs,
    OutputChannel,
    Outputs,
)
from penstock.runtime.network.inspection import InspectionLine
from penstock.runtime.network.messages import LatencyMarker
from penstock.runtime.network.routing import connected_targets
from penstock.runtime.network.transport import Network
from penstock.runtime.network.writers import ChannelWriter
from penstock.runtime.task.pipelined.pipelined_mode import PipelinedMode
from penstock.runtime.task.pipelined.pipelined_task import PipelinedTask
from penstock.runtime.task.pipelined.recorded_subtask import RecordedSubtask, trace_of
from penstock.runtime.task.pipelined.slot_messages import (
    AlignmentReport,
    AlignmentUpdate,
    AssignSplits,
    CancelCheckpoint,
    Command,
    ConfirmCheckpoint,
    Connect,
    OutputTaken,
    Report,
    SlotFailed,
    SlotListening,
    SlotReport,
    SlotRunning,
    SlotTraced,
    StopSlot,
    TriggerBarrier,
)
from penstock.runtime.task.pipelined.slot_metrics import SlotMetrics
from penstock.runtime.task.pipelined.uploads import Upload, Uploads
from penstock.runtime.task.shared.failures import as_failure, describe, locate
from penstock.runtime.task.shared.garbage import GarbageControl
from penstock.runtime.task.shared.log_scopes import following
from penstock.runtime.task.shared.state_usage import usage_of
from penstock.runtime.task.shared.subtask import Subtask
from penstock.runtime.time.decisions import SlotTrace
from penstock.time.clock import now, now_ms

_log = logging.getLogger(__name__)

_REPORT_EVERY_S: Final = 1.0
_LONGEST_WAIT_S: Final = 1.0
# A slot that keeps up with its input may never be idle. It flushes its buffers this often, which takes 2 % of its time.
_SEND_EVERY_S: Final = 0.002


class SlotNetwork(Protocol):
    """The network of a slot, as used by its loop. Only `wait` blocks."""

    address: str

    def connect(self, addresses: Sequence[str]) -> None:
        """Connect to the other slots."""

    def connect_driver(self, address: str, identity: int) -> None:
        """Connect to the driver."""

    def open_output(self, channel: ChannelId, target_slot: int, outputs: Outputs) -> OutputChannel:
        """Return the sending end of a channel."""

    def open_input(self, channel: ChannelId, source_slot: int, inputs: Inputs) -> InputChannel:
        """Return the receiving end of a channel, and add it to the inputs of its subtask."""

    def pump(self) -> bool:
        """Receive everything that has arrived and send what is allowed."""

    def wait(self, seconds: float) -> None:
        """Wait until data arrives, `wake` is called, or the time is over."""

    def wake(self) -> None:
        """End a `wait`, or the next one. Thread-safe."""

    def watch(self, file: int, call: Callable[[], None] | None) -> None:
        """Call a function in a `pump` while a file is readable, which also ends a `wait`; None stops it."""

    def commands(self) -> list[Any]:
        """Return the commands of the driver."""

    def report(self, message: Any) -> None:
        """Send a report to the driver. Thread-safe."""

    def close(self) -> None:
        """Close all connections."""


class SlotError(PenstockError, RuntimeError):
    """A slot failed for a reason outside of the program."""


class StopSignal:
    """Stops slots of this process, from any thread: for slots that cannot be killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], None]] = []
        self.is_set = False

    def add(self, wake: Callable[[], None]) -> None:
        """Add a slot."""
        with self._lock:
            self._wakers.append(wake)

    def set(self) -> None:
        """Stop all slots."""
        self.is_set = True
        with self._lock:
            wakers = list(self._wakers)
        for wake in wakers:
            wake()


def run_stage_slot(
    stage: StageDeployment, slot: int, host: str, stop: StopSignal | None = None
) -> None:
    """Run one slot of a stage on this machine, which others reach by the name or address `host`."""
    network = Network(slot, stage.slots, stage.keys, stage.network, host)
    run_slot_with(network, stage, slot, host, stop or StopSignal())


def run_slot_with(
    network: SlotNetwork, stage: StageDeployment, slot: int, host: str, stop: StopSignal
) -> None:
    """Run the subtasks of one slot until the driver ends it, or one of them fails: then the failure is reported."""
    loop: SlotLoop | None = None
    inspector: SlotInspector | None = None
    line: InspectionLine | None = None
    stop.add(network.wake)
    scopes = contextlib.ExitStack()
    scopes.enter_context(program_classes.using(stage.settings.classes))
    try:
        network.connect_driver(stage.driver, slot)
        loop = SlotLoop(stage, slot, network, stop)
        scopes.enter_context(loop.logging())
        inspector = SlotInspector(loop, {run_slot_with.__code__, SlotLoop.run.__code__})
        line = InspectionLine(
            stage.driver, slot, stage.keys, stage.network.heartbeat, inspector.answer
        )
        network.report(SlotListening(slot, network.address, os.getpid()))
        if not loop.connect():
            return
        loop.open()
        loop.log_slot_event("runs")
        network.report(SlotRunning(slot, os.getpid(), host))
        loop.run()
        loop.close()
    except BaseException as raised:
        error = _as_error(raised)
        if error is None:
            raise
        current = None if loop is None else loop.current
        trace = None if loop is None else loop.trace()
        locate(error)
        failure = describe(error, current, trace)
        _log.error("%s", failure.traceback.rstrip() or failure.message, extra=OFF_TERMINAL)
        network.report(SlotFailed(slot, failure))
    finally:
        if loop is not None:
            loop.abandon()
        if inspector is not None:
            inspector.close()
        if line is not None:
            line.close()
        network.close()
        scopes.close()
        sys.stdout.flush()
        sys.stderr.flush()


def _as_error(raised: BaseException) -> PenstockError | None:
    """Return the error to report: for everything except interrupts."""
    failure = as_failure(raised)
    if failure is not None or not isinstance(raised, Exception):
        return failure
    error = SlotError(f"a slot failed: {type(raised).__name__}: {raised}")
    error.__cause__ = raised
    return error


class SlotLoop:
    """The subtasks of one slot and their scheduling."""

    def __init__(
        self, stage: StageDeployment, slot: int, network: SlotNetwork, stop: StopSignal
    ) -> None:
        self._stage = stage
        self._slot = slot
        self._network = network
        self._vertices = {vertex.vertex: vertex for vertex in stage.vertices}
        #: The subtask that the thread works for, or worked for last: a failure is its failure, a log line its line.
        self.current: Subtask | None = None
        #: Downstream first, so that a subtask has room before those that feed it work.
        self.tasks: list[PipelinedTask] = []
        #: Whether the driver has ended the slot; nothing may happen after that.
        self._left = False
        #: Whether the thread waits for data. Read by inspections, from other threads.
        self._waits = False
        #: Ends slots of this process that the driver cannot reach any more.
        self._stop = stop
        #: Writes snapshots in a thread of its own, in the order in which they were taken.
        self._uploads = Uploads(network.report, network.wake)
        self._garbage = GarbageControl()
        #: The interval of latency markers; 0: none.
        self._marker_s = stage.network.latency_interval_ms / 1000
        begun = time.monotonic()
        self._metrics = SlotMetrics(begun)
        #: The times below are by the monotonic clock. When metrics are due; 0.0: at the end of this iteration.
        self._report_at = begun + _REPORT_EVERY_S
        self._mark_at = begun + self._marker_s
        #: The shortest interval of the sources' alignment groups; None: no source has one, and nothing is reported.
        self._alignment_interval_s: float | None = None
        self._next_alignment_report = begun
        #: When buffers are sent although there is work: a slot that keeps up with its input may never be idle.
        self._send_at = begun
        create, mode = RecordedSubtask if stage.settings.journal else Subtask, PipelinedMode()
        for vertex in sorted(stage.vertices, key=lambda each: each.level, reverse=True):
            for index in range(vertex.parallelism):
                if stage.placement[vertex.task(index)] == slot:
                    self.tasks.append(PipelinedTask(create(vertex, index, mode), stage, self))
        self._by_id = {task.id: task for task in self.tasks}
        self._sources = [task.source for task in self.tasks if task.source is not None]
        intervals = [
            source.watermark_alignment.update_interval_ms
            for source in self._sources
            if source.watermark_alignment
        ]
        if intervals:
            self._alignment_interval_s = min(intervals) / 1000
        for task in self.tasks:
            self._open_inputs(task)

    # Opening.

    def _open_inputs(self, task: PipelinedTask) -> None:
        subtask = task.subtask
        for (gate, source), sender in subtask.gates.channels.items():
            channel = ChannelId(subtask.deployment.vertex, subtask.index, gate, source)
            self._network.open_input(channel, self._stage.placement[sender], task.inputs)
        task.fit_inputs()

    def connect(self) -> bool:
        """Wait for the addresses of the other slots, and connect to them; return False if the driver cancels the stage."""
        network = self._network
        while not (self._left or self._stop.is_set):
            network.pump()
            for command in network.commands():
                if isinstance(command, Connect):
                    network.connect(command.addresses)
                    return True
                if isinstance(command, StopSlot):
                    self._handle(command)
            network.wait(_LONGEST_WAIT_S)
        return False

    def open(self) -> None:
        """Open all subtasks; they send in-flight records of the checkpoint, then watermarks, then start reading."""
        for task in self.tasks:
            self.current = task.subtask
            task.open(
                f"{self._stage.attempt}-{self._slot}", functools.partial(self._writer_of, task)
            )
        for (
            task
        ) in self.tasks:  # downstream first: the content of a channel comes before new records
            self.current = task.subtask
            task.resume()
        for task in self.tasks:
            self.current = task.subtask
            task.start()

    def _writer_of(self, task: PipelinedTask, edge: ResultEdge, subtask: int) -> ChannelWriter:
        target = self._vertices[edge.target_vertex]
        parallelism = task.subtask.deployment.parallelism
        channels: dict[int, OutputChannel] = {}
        neighbours = set()
        for index in connected_targets(edge.partitioning, subtask, parallelism, target.parallelism):
            channel = ChannelId(target.vertex, index, edge.target_gate, subtask)
            slot = self._stage.placement[target.task(index)]
            channels[index] = self._network.open_output(channel, slot, task.outputs)
            if slot == self._slot:
                neighbours.add(index)
        return ChannelWriter(channels, frozenset(neighbours))

    # Inspection, from any thread.

    @property
    def working_for(self) -> TaskId | None:
        """The task that is being processed, None while the slot waits."""
        current = self.current
        return None if self._waits or current is None else current.id

    @property
    def task_ids(self) -> list[TaskId]:
        """The tasks of the slot."""
        return list(self._by_id)

    def watch_keys(self, task: TaskId, sample: KeySample | None) -> None:
        """Start counting the keys that a task receives; None stops it."""
        self._by_id[task].reading.key_sample = sample

    def details(self, task: TaskId) -> TaskDetail:
        """Return the details of a task."""
        subtask = self._by_id[task].subtask
        source = subtask.source
        splits = () if source is None else source.time.split_times()
        return TaskDetail(
            tuple(SplitTime(*each) for each in splits),
            usage_of(subtask.keyed.schemas()),
        )

    def logging(self) -> contextlib.AbstractContextManager[None]:
        """Attribute log lines of this thread to the active subtask."""
        stage = self._stage
        return working_for(following(stage.settings, stage.attempt_number, lambda: self.current))

    def log_slot_event(self, what: str) -> None:
        """Log a line for every subtask."""
        for task in self.tasks:
            self.current = task.subtask
            _log.info("%s %s in slot %d, process %d", task.id, what, self._slot, os.getpid())

    # Services for subtasks.

    def report(self, message: Report) -> None:
        """Send a report to the driver."""
        self._network.report(message)

    def report_soon(self) -> None:
        """Send the metrics of the subtasks to the driver at the end of this iteration."""
        self._report_at = 0.0

    def upload(self, upload: Upload) -> None:
        """Write a snapshot in the background."""
        self._uploads.submit(upload)

    def wake(self) -> None:
        """Start another iteration of the loop. Thread-safe."""
        self._network.wake()

    def watch(self, file: int, call: Callable[[], None] | None) -> None:
        """Call a function in the loop while a file is readable; None stops it."""
        self._network.watch(file, call)

    # Iterations.

    def run(self) -> None:
        """Run until the driver ends the slot."""
        while not (self._left or self._stop.is_set):
            seconds = self.turn()
            if seconds > 0:
                self._waits = True
                self._network.wait(seconds)
                self._waits = False

    def turn(self) -> float:
        """Run one iteration; return the seconds until there is something else to do."""
        network = self._network
        network.pump()
        for command in network.commands():
            self._handle(command)
        if self._left:  # nothing may happen that its final trace does not contain
            return 0.0
        worked = self._stage.barriers.unaligned and self._pass_barriers()
        for task in self.tasks:
            self.current = task.subtask
            if task.work():
                worked = True
        if self._uploads.failed is not None:
            self.current, error = self._uploads.failed
            raise error
        moment = time.monotonic()
        for task in self.tasks:
            self.current = task.subtask
            task.buffers.flush_due(moment)
        self._do_periodic(moment)
        if worked:
            if moment >= self._send_at and all(task.caught_up for task in self.tasks):
                self._send_rest(moment)
            return 0.0
        if self._send_rest(moment) or self._left:
            return 0.0
        return self._idle_seconds(moment)

    def _pass_barriers(self) -> bool:
        """Let barriers overtake, upstream first: through the whole slot and out of it before any record is processed."""
        passed = False
        for task in reversed(self.tasks):
            self.current = task.subtask
            passed = task.pass_barriers() or passed
        if passed:
            self._network.pump()
        return passed

    def _send_rest(self, moment: float) -> bool:
        """Send buffered records, since the slot is idle; return whether there were any."""
        self._send_at = moment + _SEND_EVERY_S
        sent = False
        for task in self.tasks:
            if task.outputs.has_room:
                self.current = task.subtask
                task.on_quiet()
                sent = task.buffers.flush() or sent
        return sent

    def _idle_seconds(self, moment: float) -> float:
        """Return the time until the next deadline."""
        due = min(moment + _LONGEST_WAIT_S, self._report_at)
        if self._marker_s:
            due = min(due, self._mark_at)
        if self._alignment_interval_s is not None:
            due = min(due, self._next_alignment_report)
        clock = now_ms()
        for task in self.tasks:
            if (barrier_ms := task.checkpoints.due_ms) is not None:
                due = min(due, moment + max(barrier_ms - clock, 1) / 1000)
            wakeups, source = task.wakeups, task.source
            if wakeups.step_at is not None:
                due = min(due, wakeups.step_at)
            if task.end.ended or not task.outputs.has_room:
                continue
            if wakeups.timer_ms is not None:
                due = min(due, moment + max(wakeups.timer_ms - clock, 1) / 1000)
            if source is not None and source.poll_at is not None and task.subtask.chain.has_room:
                due = min(due, source.poll_at)
        return due - moment

    def _do_periodic(self, moment: float) -> None:
        if self._marker_s and moment >= self._mark_at:
            self._mark_at = moment + self._marker_s
            for task in self.tasks:
                if task.source is not None and not task.end.ended:
                    self.current = task.subtask
                    task.subtask.edges.send_latency(LatencyMarker(task.id, now() * 1000))
        if moment >= self._report_at:
            self._report_at = moment + _REPORT_EVERY_S
            self._garbage.check()
            self.report(SlotReport(self._slot, self._metrics.take(self.tasks, moment)))
        if self._alignment_interval_s is not None and moment >= self._next_alignment_report:
            self._next_alignment_report = moment + self._alignment_interval_s
            self.report(AlignmentReport(self._slot, self._alignment_watermarks()))

    def _alignment_watermarks(self) -> dict[str, int]:
        """Return the lowest source watermark of each watermark alignment group."""
        reached: dict[str, int] = {}
        for source in self._sources:
            alignment = source.watermark_alignment
            moment = None if alignment is None else source.alignment_watermark()
            if alignment is not None and moment is not None:
                reached[alignment.group] = min(reached.get(alignment.group, moment), moment)
        return reached

    # Commands.

    def _handle(self, command: Command) -> None:
        if isinstance(command, StopSlot):
            self._left = True
            self._report_trace(command)
        elif isinstance(command, Connect):
            raise SlotError("received a Connect command twice")
        elif isinstance(command, AssignSplits):
            task = self._by_id[command.task]
            self.current = task.subtask
            task.assign(command)
        elif isinstance(command, OutputTaken):
            self._by_id[command.task].subtask.chain.on_taken(command.operator, command.size)
        else:
            for task in self.tasks:
                self.current = task.subtask
                self._dispatch(task, command)

    def _dispatch(
        self,
        task: PipelinedTask,
        command: TriggerBarrier | ConfirmCheckpoint | CancelCheckpoint | AlignmentUpdate,
    ) -> None:
        if isinstance(command, TriggerBarrier):
            task.trigger(command)
        elif isinstance(command, ConfirmCheckpoint):
            task.completed(command.checkpoint)
        elif isinstance(command, CancelCheckpoint):
            task.aborted(command.checkpoint)
        elif task.source is not None:
            task.source.update_watermark_alignment(command)

    # Ending.

    def trace(self) -> SlotTrace | None:
        """Return the trace of its subtasks up to now, if the job keeps a journal."""
        try:
            return trace_of([task.subtask for task in self.tasks])
        except Exception as error:  # noqa: BLE001 - it is not essential
            _log.warning("slot %d has no trace for `penstock replay`: %s", self._slot, error)
            return None

    def _report_trace(self, command: StopSlot) -> None:
        if command.failed and (trace := self.trace()) is not None:
            self.report(SlotTraced(self._slot, trace))

    def close(self) -> None:
        """Close all subtasks; the first error is raised after all were closed."""
        self._uploads.close()
        errors: list[PenstockError] = []
        while self.tasks:
            self.current = self.tasks.pop().subtask
            try:
                self.current.close()
            except PenstockError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def abandon(self) -> None:
        """Close everything after a failure, so that functions and sinks release their resources."""
        self._uploads.close()
        for task in self.tasks:
            with contextlib.suppress(Exception):  # the original failure matters
                task.subtask.close()
        self._garbage.close()
