"""A pipelined subtask in the event loop of a slot: reads its channels or its source while its outputs have capacity."""

from __future__ import annotations

import functools
import pickle
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from penstock.common.watermark_strategy import WatermarkAlignment
from penstock.connectors.base.source import SourceAssignment
from penstock.graph.deployment import SubtaskRestore
from penstock.graph.stage import StageDeployment
from penstock.runtime.inspection.key_sample import KeySample
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.channels import BufferOrEvent, InputChannel, Inputs, Outputs
from penstock.runtime.network.debloating import BUFFERS
from penstock.runtime.network.messages import (
    BARRIER,
    DATA,
    END,
    LATENCY,
    LatencyMarker,
)
from penstock.runtime.network.writers import WriterOf
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.operators.connectors.source import PollResult, SourceOperator
from penstock.runtime.operators.connectors.split_schedulers import BATCH_SIZE, LARGEST_BATCH_SIZE
from penstock.runtime.records import Batch
from penstock.runtime.task.pipelined.barrier_handlers import Channel
from penstock.runtime.task.pipelined.gate_debloating import DownstreamWindow, GateDebloating
from penstock.runtime.task.pipelined.portion_size import PortionSize
from penstock.runtime.task.pipelined.slot_messages import (
    AlignmentUpdate,
    AssignSplits,
    SinkOutput,
    SourceFinished,
    SplitsFinished,
    TriggerBarrier,
)
from penstock.runtime.task.pipelined.task_checkpoints import CheckpointServices, TaskCheckpoints
from penstock.runtime.task.pipelined.time_shares import (
    BACK_PRESSURED,
    BUSY,
    IDLE,
    TimeShares,
)
from penstock.runtime.task.shared.environment import TaskEnvironment
from penstock.runtime.task.shared.subtask import Subtask
from penstock.runtime.task.shared.task_metrics import LatencyHistogram
from penstock.time.clock import now, now_ms

# How much a subtask reads before the next one of the slot runs.
_BUFFERS_PER_TURN: Final = 16
_SECONDS_PER_TURN: Final = 0.005
# A source that returns fewer records than this, or than half of the requested number, has no backlog.
_FULL_BATCH: Final = 512
_SMALLEST_FULL_BATCH: Final = 32
_BATCH_GROWTH: Final = 4


class SlotServices(CheckpointServices, Protocol):
    """Services of a slot for its subtasks."""

    def wake(self) -> None:
        """Start another iteration of the loop. Thread-safe."""

    def watch(self, file: int, call: Callable[[], None] | None) -> None:
        """Call a function in the loop while a file is readable; None stops it."""

    def report_soon(self) -> None:
        """Send the metrics of the subtasks to the driver immediately."""


class PipelinedTask:
    """Runs one subtask in pipelined mode, for the life of an attempt. Nothing in here blocks."""

    def __init__(self, subtask: Subtask, stage: StageDeployment, slot: SlotServices) -> None:
        self.subtask = subtask
        self.id = subtask.id
        self.inputs = Inputs()
        self.outputs = Outputs()
        self.latencies: dict[str, LatencyHistogram] = {}  # since the last report, by source
        self.shares = TimeShares(time.monotonic())
        self._times = subtask.metrics.times
        self.wakeup: int | None = None  # when the next processing-time timer is due
        self.step_at: float | None = None  # when an operator must be woken, by the monotonic clock
        self.poll_at: float | None = 0.0  # when to poll the source again; None: when woken
        self._slot = slot
        self._stage = stage
        self._checkpoints = TaskCheckpoints(subtask, self.inputs, stage, slot)
        self._unended: set[Channel] = set(subtask.gates.channels)
        self._finishing = False
        self.ended = False  # only barriers follow
        self._triggers: deque[TriggerBarrier] = deque()
        self._woken: set[StreamOperator] = set()
        self._watched: dict[StreamOperator, int] = {}
        self._portion = PortionSize()
        self._downstream = DownstreamWindow(())  # until it is opened
        self._debloating = GateDebloating(
            stage.network.debloat, self.inputs, self._downstream_window, time.monotonic
        )
        self._batch = BATCH_SIZE  # batch size for the source
        self._largest_batch = LARGEST_BATCH_SIZE
        self._stopped = False  # it stops reading, without finishing
        self._backlog = False  # whether the last poll of the source returned a full batch
        self._active_since_quiet = False  # whether it has worked since it was last quiet
        timeout = subtask.deployment.buffer_timeout_ms
        if timeout is None:
            timeout = stage.network.buffer_timeout_ms
        self.flush_after_s = None if timeout is None else timeout / 1000  # None: full buffers only
        self._flush_at: float | None = None
        self.key_sample: KeySample | None = None  # while frequent keys are being sampled

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
            pipelined=self,
        )
        self.subtask.open(self._environment, stage.restore.get(self.id, SubtaskRestore()))
        self._downstream = DownstreamWindow(self.subtask.exchanges)
        self.subtask.connect(self._environment, {})

    def resume(self) -> None:
        """After a restore, send and process the in-flight records of the checkpoint first."""
        self.subtask.resend()
        for name, payloads, moved in self.subtask.restored_inputs():
            channel = self.inputs.channels[name]
            (channel.restore_moved if moved else channel.restore)(payloads)

    def start(self) -> None:
        """Repeat watermarks and statuses after a restart; then give a source its first splits, which may change its status."""
        self.subtask.announce_time()
        source = self.subtask.source
        if source is not None:
            source.add_splits(self._stage.assignments.get(self.id, SourceAssignment()))
        # Clock readings up to here belong to the opening, as in a replay, which opens a subtask at any checkpoint.
        self._checkpoints.begin_interval(self._environment)
        self.wakeup = self.subtask.next_wakeup()
        self.step_at = self.subtask.next_step()

    def wake(self, operator: StreamOperator) -> None:
        """Call `on_wakeup` of an operator in the next iteration. Thread-safe."""
        if operator not in self._woken:
            self._woken.add(operator)
            self._slot.wake()

    def watch(self, operator: StreamOperator, file: int | None) -> None:
        """Call `on_wakeup` of an operator whenever a file is readable."""
        before = self._watched.pop(operator, None)
        if before is not None:
            self._slot.watch(before, None)
        if file is not None:
            self._watched[operator] = file
            self._slot.watch(file, functools.partial(self._woken.add, operator))

    # Working.

    def work(self) -> bool:
        """Do a slice of work; return whether there was any."""
        worked = False
        if self.step_at is not None and (moment := time.monotonic()) >= self.step_at:
            self._woken.update(self.subtask.due_to_step(moment))
        if self._woken:
            worked = self._answer_wakeups()
        if self._finishing:
            return self._continue_finishing() or worked
        worked = self.pass_barriers() or worked
        if self.ended:
            return self._read() or worked  # barriers
        if not self.outputs.has_room:
            self._debloating.block()
            self._enter(BACK_PRESSURED)
            return worked
        if self.wakeup is not None and now_ms() >= self.wakeup:
            worked = self._advance_time() or worked
        if self.subtask.has_room and (self._read() if self.inputs.channels else self._poll()):
            worked = True
        if worked:
            self._active_since_quiet = True
            self.wakeup = None if self.ended else self.subtask.next_wakeup()
            self.step_at = self.subtask.next_step()
        return worked

    def pass_barriers(self) -> bool:
        """Start checkpoints that do not wait for records: triggered and overtaking ones; return whether there were any."""
        if self._finishing:
            return False
        worked = self._expedite_barriers()
        if self._triggers:
            self._begin_triggered()
            worked = True
        return worked

    @property
    def caught_up(self) -> bool:
        """Whether all available input has been read."""
        return not (self.inputs.line or self._backlog)

    def _enter(self, state: int) -> None:
        if self.shares.state != state:
            self.shares.enter(state, time.monotonic())
            (self._times.begin if state == BUSY else self._times.end)()

    def _leave_busy(self) -> None:
        """Mark it as not busy. The time of other subtasks in the slot does not count: in a busy slot, shares add up."""
        self._enter(IDLE if self.outputs.has_room else BACK_PRESSURED)

    def _answer_wakeups(self) -> bool:
        self._enter(BUSY)
        while self._woken:
            self.subtask.on_wakeup(self._woken.pop())
        self.step_at = self.subtask.next_step()
        self._leave_busy()
        self._ask_source()
        return True

    def _ask_source(self) -> None:
        """Poll the source at once, unless it has been stopped."""
        if not self._stopped:
            self.poll_at = 0.0

    def assign(self, command: AssignSplits) -> None:
        """Add splits to the source; a checkpoint that was triggered before does not contain them."""
        source = self.subtask.source
        assert source is not None
        if self._triggers:
            self._begin_triggered()
        self.subtask.add_splits(command)
        self._ask_source()

    def tell(self, operator: str, data: bytes) -> None:
        """Send the output of a sink to the driver."""
        self._slot.report(SinkOutput(self.id, operator, data))

    def update_watermark_alignment(self, command: AlignmentUpdate) -> None:
        """Apply watermark alignment to the source, if it has a group."""
        source = self.subtask.source
        if (
            source is not None
            and self.watermark_alignment is not None
            and self.watermark_alignment.group == command.group
        ):
            source.update_watermark_alignment(command.watermark)
            self._ask_source()

    @property
    def watermark_alignment(self) -> WatermarkAlignment | None:
        """The watermark alignment group of the source."""
        source = self.subtask.source
        return None if source is None else source.spec.watermark_strategy.watermark_alignment

    def _advance_time(self) -> bool:
        before = self.wakeup
        self._enter(BUSY)
        self.subtask.advance_processing_time()
        self.wakeup = self.subtask.next_wakeup()
        self._leave_busy()
        # Timers that stay due (another clock) must not keep the loop busy.
        return self.wakeup != before

    def _read(self) -> bool:
        """Take items from the channels, one channel after another."""
        channel = self.inputs.next()
        if channel is None:
            self._debloating.starve()
            return False
        self._debloating.feed()
        self._enter(BUSY)
        outputs, inputs, subtask = self.outputs, self.inputs, self.subtask
        end = time.monotonic() + _SECONDS_PER_TURN
        left = _BUFFERS_PER_TURN
        while channel is not None:
            self._take(channel)
            channel.offer()
            left -= 1
            if self._finishing or not (left and outputs.has_room and subtask.has_room):
                break
            # A channel that is taken out of the queue is read.
            channel = inputs.next() if time.monotonic() < end else None
        self._debloating.adapt()
        self._leave_busy()
        return True

    def _take(self, channel: InputChannel) -> None:
        overtakes = channel.is_urgent
        item = channel.take()
        kind, content, size, _ = item
        name = channel.id[2:]
        if type(content) is bytes:
            content = decode(content) if kind == DATA else pickle.loads(content)
        self.inputs.bytes_in += max(size, 0)
        if kind == DATA:
            self._take_records(channel, item, content)
            return
        if kind == BARRIER:
            self._checkpoints.on_barrier(channel, content, overtakes)
        elif kind == END:
            self._end_of(name)
        elif kind == LATENCY:
            self._on_marker(content)
        else:
            self.subtask.receive(*name, kind, content)

    def _take_records(self, channel: InputChannel, item: BufferOrEvent, records: Batch) -> None:
        """Take as many records as can be processed in some milliseconds; the rest stays queued."""
        name, size = channel.id[2:], max(self._portion.size, records.LEAST_PORTION)
        kept = item
        if len(records) > size:
            channel.put_back(records.slice(size), item)
            records = records.slice(0, size)
            kept = BufferOrEvent(DATA, records, 0)
        if name in self._checkpoints.in_flight:
            self._checkpoints.keep(name, kept)
        if (sample := self.key_sample) is not None:
            sample.add(records)
        begun = time.monotonic()
        self.subtask.receive(*name, DATA, records)
        self._portion.took(len(records), time.monotonic() - begun)
        self._debloating.took(name, len(records))
        channel.processed(item, len(records))

    def _on_marker(self, marker: LatencyMarker) -> None:
        histogram = self.latencies.setdefault(marker.source.vertex, LatencyHistogram())
        histogram.add(now() * 1000 - marker.emitted_ms)
        self.subtask.send_latency(marker)

    def _poll(self) -> bool:
        """Let the source read one batch."""
        source = self.subtask.source
        moment = time.monotonic()
        if source is None or self.poll_at is None or moment < self.poll_at:
            return False
        if self.shares.state != BUSY:
            self.shares.enter(BUSY, moment)
            self._times.begin()
        self._limit_batch(source)
        before, chain_s = source.records, source.chain_s
        polled = self.subtask.poll()
        read = source.records - before
        full = min(_FULL_BATCH, max(self._batch // 2, _SMALLEST_FULL_BATCH))
        self._backlog = read >= full
        if read:
            self._portion.took(read, source.chain_s - chain_s)
            # Records that wait for capacity delay barriers: a batch is large only if there is capacity for it.
            self._largest_batch = LARGEST_BATCH_SIZE if self.outputs.has_room else BATCH_SIZE
        self._leave_busy()
        if source.has_finished_splits:
            self._slot.report(SplitsFinished(self.id, tuple(source.take_finished())))
        if polled is PollResult.MORE:
            self.poll_at = 0.0
            return True
        if polled is PollResult.FINISHED:
            self._slot.report(SourceFinished(self.id))
            self._finishing = True
            self._finish()
            return True
        self.poll_at = source.next_poll()
        return False

    def _limit_batch(self, source: SourceOperator) -> None:
        """Limit batches to one buffer per channel, and to what the chain processes in some milliseconds.

        The size is a power of two and grows in large steps, so that it rarely changes, because readers restart then.
        """
        buffers = self._downstream.measure(source.records) / BUFFERS
        wanted = int(max(1, min(self._portion.size, self._largest_batch, buffers)))
        wanted = 1 << (wanted.bit_length() - 1)
        if wanted < self._batch or wanted >= min(_BATCH_GROWTH * self._batch, LARGEST_BATCH_SIZE):
            self._batch = wanted
            source.limit_batches(wanted)

    def _downstream_window(self) -> float:
        return self._downstream.measure(self.subtask.metrics.records_in)

    # Finishing.

    def _end_of(self, channel: Channel) -> None:
        self._unended.discard(channel)
        if not self._unended:
            self._finishing = True
            self._finish()

    def _continue_finishing(self) -> bool:
        """Let operators with outstanding results work, and finish when they are done."""
        advanced = self.wakeup is not None and now_ms() >= self.wakeup and self._advance_time()
        return self._finish() or advanced

    def _finish(self) -> bool:
        """Finish, once no results are outstanding; return whether it has finished."""
        if not self.subtask.finish():
            self.wakeup = self.subtask.next_wakeup()
            self.step_at = self.subtask.next_step()
            return False
        self._finishing = False
        self.ended = True
        self.wakeup = None
        self.subtask.send_end()
        self._enter(IDLE)
        self._slot.report_soon()  # its last metrics
        return True

    # Checkpoints.

    def trigger(self, command: TriggerBarrier) -> None:
        """Start a checkpoint, if it is a source."""
        if self.subtask.source is not None:
            self._triggers.append(command)

    def _begin_triggered(self) -> None:
        source = self.subtask.source
        assert source is not None
        while self._triggers:
            trigger = self._triggers[0]
            if trigger.drain and not self.ended:
                self.subtask.drain()
                self._finishing = True
                if not self._finish():
                    return
            self._triggers.popleft()
            self._checkpoints.begin_triggered(trigger)
            if trigger.stop:
                self._stopped = True
                self.poll_at = None

    def _expedite_barriers(self) -> bool:
        """Let barriers overtake if their timeout is over, and take those that have; return whether there were any.

        None overtakes records that a rescale has moved.
        """
        if self.inputs.moved or not self._checkpoints.may_expedite:
            return False
        worked = self._checkpoints.expedite()
        for channel in self.inputs.urgent():
            self._take(channel)
            channel.offer()
            worked = True
        return self._checkpoints.check_held() or worked

    @property
    def barrier_due(self) -> float | None:
        """When a barrier times out, by the wall clock in milliseconds."""
        return None if self.inputs.moved else self._checkpoints.due_ms

    def completed(self, checkpoint: int) -> None:
        """Release what was kept for a checkpoint; commands before it are handled first."""
        if self._triggers:
            self._begin_triggered()
        self._checkpoints.completed(checkpoint)
        self.subtask.on_completed(checkpoint)

    def aborted(self, checkpoint: int) -> None:
        """Drop an aborted checkpoint."""
        self._triggers = deque(each for each in self._triggers if each.checkpoint != checkpoint)
        self._checkpoints.aborted(checkpoint)

    # Sending.

    def flush_due(self, moment: float) -> None:
        """Send buffers whose timeout has expired."""
        timeout_s = self.flush_after_s
        if timeout_s is None:
            return
        if self._flush_at is None:
            if self.subtask.waiting:
                self._flush_at = moment + timeout_s
            if timeout_s:
                return
        if self._flush_at is not None and moment >= self._flush_at:
            self.flush()

    def flush(self) -> bool:
        """Send buffered records; return whether there were any."""
        self._flush_at = None
        if not self.subtask.waiting:
            return False
        self._enter(BUSY)
        self.subtask.flush()
        self._leave_busy()
        return True

    def on_quiet(self) -> None:
        """Emit records that are held back: the whole slot is idle."""
        if self._active_since_quiet:
            self._active_since_quiet = False
            self.subtask.on_quiet()

    def mark(self) -> None:
        """Send a latency marker, if it is a source."""
        if self.subtask.source is not None and not self.ended:
            self.subtask.send_latency(LatencyMarker(self.id, now() * 1000))
