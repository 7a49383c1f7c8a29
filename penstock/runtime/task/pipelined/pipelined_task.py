"""A pipelined subtask in the event loop of a slot: reads its channels or its source while its outputs have capacity."""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol

from penstock.connectors.base.source import SourceAssignment
from penstock.graph.deployment import SubtaskRestore
from penstock.graph.stage import StageDeployment
from penstock.runtime.network.channels import Inputs, Outputs
from penstock.runtime.network.writers import WriterOf
from penstock.runtime.task.pipelined.buffer_timeout import BufferTimeout
from penstock.runtime.task.pipelined.channel_reading import ChannelReading
from penstock.runtime.task.pipelined.gate_debloating import DownstreamWindow, GateDebloating
from penstock.runtime.task.pipelined.operator_wakeups import OperatorWakeups, WakeupServices
from penstock.runtime.task.pipelined.slot_messages import AssignSplits, TriggerBarrier
from penstock.runtime.task.pipelined.source_polling import SourcePolling
from penstock.runtime.task.pipelined.task_checkpoints import CheckpointServices, TaskCheckpoints
from penstock.runtime.task.pipelined.task_end import MetricServices, TaskEnd
from penstock.runtime.task.pipelined.task_state import TaskState
from penstock.runtime.task.shared.environment import TaskEnvironment
from penstock.runtime.task.shared.subtask import Subtask


class SlotServices(CheckpointServices, MetricServices, WakeupServices, Protocol):
    """Services of a slot for its subtasks."""


class PipelinedTask:
    """Runs one subtask in pipelined mode, for the life of an attempt. Nothing in here blocks.

    `work` is called in every iteration of the slot's loop. The parts do what it decides: `source` or `reading` takes input,
    `wakeups` calls operators that work without input, `end` finishes, `buffers` sends what has waited for long enough.
    """

    def __init__(self, subtask: Subtask, stage: StageDeployment, slot: SlotServices) -> None:
        self.subtask = subtask
        self.id = subtask.id
        self.inputs = Inputs()
        self.outputs = Outputs()
        self.state = TaskState(subtask.chain.times, self.outputs)
        self.wakeups = OperatorWakeups(subtask, slot)
        self.end = TaskEnd(subtask, self.wakeups, self.state, slot)
        self.buffers = BufferTimeout(subtask, stage, self.state)
        self._stage = stage
        self.checkpoints = TaskCheckpoints(subtask, self.inputs, stage, slot)
        #: The ratio of input to output records; of no edges until it is opened.
        self._downstream = DownstreamWindow(())
        self._debloating = GateDebloating(
            stage.network.debloat, self.inputs, self._downstream_window, time.monotonic
        )
        self.reading = ChannelReading(
            subtask,
            self.inputs,
            self.outputs,
            self.checkpoints,
            self._debloating,
            self.state,
            self.end,
        )
        #: A subtask has a source or input channels, never both.
        self.source: SourcePolling | None = None
        if subtask.source is not None:
            self.source = SourcePolling(
                subtask, subtask.source, self.outputs, self.state, self.end, slot
            )
        self._take_input = self.reading.read if self.source is None else self.source.poll
        #: Checkpoints that its source has to begin. They wait while it finishes because one of them drains the job.
        self._triggers: deque[TriggerBarrier] = deque()
        #: Whether it has worked since the slot was last idle: then operators may hold records back.
        self._active_since_quiet = False

    def _downstream_window(self) -> float:
        return self._downstream.measure(self.subtask.metrics.records_in)

    # Opening.

    def fit_inputs(self) -> None:
        """Limit the in-flight data of its inputs, until its speed is known."""
        self._debloating.open()

    def open(self, attempt: str, writer_of: WriterOf) -> None:
        """Restore the state, open the functions, connect the edges."""
        stage = self._stage
        self._environment = TaskEnvironment(
            settings=stage.settings,
            checkpoint_id=stage.next_checkpoint,
            attempt=attempt,
            attempt_number=stage.attempt_number,
            staging=stage.staging,
            state_io=stage.state_io,
            writer_of=writer_of,
            pipelined=self.wakeups,
        )
        self.subtask.open(self._environment, stage.restore.get(self.id, SubtaskRestore()))
        self._downstream = DownstreamWindow(self.subtask.edges.buffered)
        if self.source is not None:
            self.source.downstream = self._downstream
        self.subtask.connect(self._environment, {})

    def resume(self) -> None:
        """After a restore, send and process the in-flight records of the checkpoint first."""
        restored = self.subtask.restored
        self.subtask.edges.resend(restored)
        for name, payloads in restored.inputs():
            channel = self.inputs.channels[name]
            moved = restored.has_changed(name[0])
            (channel.restore_moved if moved else channel.restore)(payloads)
        restored.release()

    def start(self) -> None:
        """Repeat watermarks and statuses after a restart; then give a source its first splits, which may change its status."""
        self.subtask.chain.announce_time()
        if self.subtask.source is not None:
            self.subtask.source.add_splits(self._stage.assignments.get(self.id, SourceAssignment()))
        # Clock readings up to here belong to the opening, as in a replay, which opens a subtask at any checkpoint.
        self.checkpoints.begin_interval(self._environment)
        self.wakeups.plan()

    # Working.

    def work(self) -> bool:
        """Do a slice of work; return whether there was any."""
        worked = False
        if self.wakeups.are_due():
            self._wake_operators()
            worked = True
        if self.end.finishing:
            return self._continue_finishing() or worked
        worked = self.pass_barriers() or worked
        if self.end.ended:
            return self.reading.read() or worked  # barriers
        if not self.outputs.has_room:
            self._debloating.block()
            self.state.enter_back_pressured()
            return worked
        if self.wakeups.timer_is_due():
            worked = self._advance_time() or worked
        if self.subtask.chain.has_room and self._take_input():
            worked = True
        if worked:
            self._active_since_quiet = True
            self.wakeups.plan(ended=self.end.ended)
        return worked

    def _wake_operators(self) -> None:
        self.state.enter_busy()
        self.wakeups.wake_operators()
        self.state.leave_busy()
        if self.source is not None:
            self.source.poll_soon()

    def _advance_time(self) -> bool:
        self.state.enter_busy()
        advanced = self.wakeups.advance_time()
        self.state.leave_busy()
        return advanced

    def _continue_finishing(self) -> bool:
        """Let operators with outstanding results work, and finish when they are done."""
        advanced = self.wakeups.timer_is_due() and self._advance_time()
        return self.end.proceed() or advanced

    @property
    def caught_up(self) -> bool:
        """Whether all available input has been read."""
        return not (self.inputs.line or (self.source is not None and self.source.backlog))

    def assign(self, command: AssignSplits) -> None:
        """Add splits to the source; a checkpoint that was triggered before does not contain them."""
        assert self.source is not None
        if self._triggers:
            self._begin_triggered()
        self.subtask.add_splits(command)
        self.source.poll_soon()

    def on_quiet(self) -> None:
        """Emit records that are held back: the whole slot is idle."""
        if self._active_since_quiet:
            self._active_since_quiet = False
            self.subtask.on_quiet()

    # Checkpoints.

    def trigger(self, command: TriggerBarrier) -> None:
        """Start a checkpoint, if it is a source."""
        if self.source is not None:
            self._triggers.append(command)

    def pass_barriers(self) -> bool:
        """Start checkpoints that do not wait for records: triggered and overtaking ones; return whether there were any."""
        if self.end.finishing:
            return False
        worked = self.checkpoints.expedite(self.reading.take)
        if self._triggers:
            self._begin_triggered()
            worked = True
        return worked

    def _begin_triggered(self) -> None:
        source = self.source
        assert source is not None
        while self._triggers:
            trigger = self._triggers[0]
            if trigger.drain and not self.end.ended:
                # The savepoint of a drained job contains the end of its output, so its barrier has to wait for that.
                self.subtask.drain()
                if not self.end.begin():
                    return
            self._triggers.popleft()
            self.checkpoints.begin_triggered(trigger)
            if trigger.stop:
                source.stop()

    def completed(self, checkpoint: int) -> None:
        """Release what was kept for a checkpoint; commands before it are handled first."""
        if self._triggers:
            self._begin_triggered()
        self.checkpoints.completed(checkpoint)
        self.subtask.on_completed(checkpoint)

    def aborted(self, checkpoint: int) -> None:
        """Drop an aborted checkpoint."""
        self._triggers = deque(each for each in self._triggers if each.checkpoint != checkpoint)
        self.checkpoints.aborted(checkpoint)
