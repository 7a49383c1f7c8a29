"""How a pipelined task reads its source."""

from __future__ import annotations

import time
from typing import Final, Protocol

from penstock.common.watermark_strategy import WatermarkAlignment
from penstock.runtime.network.channels import Outputs
from penstock.runtime.network.debloating import BUFFERS
from penstock.runtime.operators.connectors.source import SourceOperator
from penstock.runtime.operators.connectors.source_modes import PollResult
from penstock.runtime.operators.connectors.split_schedulers import BATCH_SIZE, LARGEST_BATCH_SIZE
from penstock.runtime.task.pipelined.gate_debloating import DownstreamWindow
from penstock.runtime.task.pipelined.portion_size import PortionSize
from penstock.runtime.task.pipelined.slot_messages import (
    AlignmentUpdate,
    SourceFinished,
    SplitsFinished,
)
from penstock.runtime.task.pipelined.task_end import TaskEnd
from penstock.runtime.task.pipelined.task_state import TaskState
from penstock.runtime.task.shared.subtask import Subtask

# A source that returns fewer records than this, or than half of the requested number, has no backlog.
_FULL_BATCH: Final = 512
_SMALLEST_FULL_BATCH: Final = 32
_BATCH_GROWTH: Final = 4


class SourceServices(Protocol):
    """Services of a slot for its sources."""

    def report(self, message: SplitsFinished | SourceFinished) -> None:
        """Send a report to the driver."""


class SourcePolling:
    """Polls the source of a subtask, in batches that its chain processes in some milliseconds."""

    def __init__(
        self,
        subtask: Subtask,
        source: SourceOperator,
        outputs: Outputs,
        state: TaskState,
        end: TaskEnd,
        slot: SourceServices,
    ) -> None:
        #: When to poll again, by the monotonic clock; None: after a wake-up or an assignment, or never.
        self.poll_at: float | None = 0.0
        #: Whether the last poll returned a full batch: then there is more, and the slot has no time to send small buffers.
        self.backlog = False
        #: The ratio of input to output records; set once the edges exist.
        self.downstream = DownstreamWindow(())
        self._subtask = subtask
        self._source = source
        self._outputs = outputs
        self._state = state
        self._end = end
        self._slot = slot
        self._portion = PortionSize()
        self._batch = BATCH_SIZE
        self._largest_batch = LARGEST_BATCH_SIZE
        #: Whether it reads no more, without finishing: a savepoint has stopped the job.
        self._stopped = False

    def poll_soon(self) -> None:
        """Poll at once, unless it has been stopped."""
        if not self._stopped:
            self.poll_at = 0.0

    def stop(self) -> None:
        """Poll no more."""
        self._stopped = True
        self.poll_at = None

    def poll(self) -> bool:
        """Let the source read one batch, if it is due; return whether there may be more at once."""
        moment, source = time.monotonic(), self._source
        if self.poll_at is None or moment < self.poll_at:
            return False
        self._state.enter_busy(moment)
        reader = source.reader
        self._limit_batch()
        before, chain_s = reader.records, reader.chain_s
        polled = self._subtask.poll()
        read = reader.records - before
        full = min(_FULL_BATCH, max(self._batch // 2, _SMALLEST_FULL_BATCH))
        self.backlog = read >= full
        if read:
            self._portion.took(read, reader.chain_s - chain_s)
            # Records that wait for capacity delay barriers: a batch is large only if there is capacity for it.
            self._largest_batch = LARGEST_BATCH_SIZE if self._outputs.has_room else BATCH_SIZE
        self._state.leave_busy()
        task = self._subtask.id
        if source.splits.has_newly_finished:
            self._slot.report(SplitsFinished(task, tuple(source.splits.take_newly_finished())))
        if polled is PollResult.MORE:
            self.poll_at = 0.0
            return True
        if polled is PollResult.FINISHED:
            self._slot.report(SourceFinished(task))
            self._end.begin()
            return True
        self.poll_at = source.pipelined.next_poll()
        return False

    def _limit_batch(self) -> None:
        """Limit batches to one buffer per channel, and to what the chain processes in some milliseconds.

        The size is a power of two and grows in large steps, so that it rarely changes, because readers restart then.
        """
        buffers = self.downstream.measure(self._source.reader.records) / BUFFERS
        wanted = int(max(1, min(self._portion.size, self._largest_batch, buffers)))
        wanted = 1 << (wanted.bit_length() - 1)
        if wanted < self._batch or wanted >= min(_BATCH_GROWTH * self._batch, LARGEST_BATCH_SIZE):
            self._batch = wanted
            self._source.pipelined.limit_batches(wanted)

    # Watermark alignment.

    @property
    def watermark_alignment(self) -> WatermarkAlignment | None:
        """The watermark alignment group of the source."""
        alignment: WatermarkAlignment | None = (
            self._source.spec.watermark_strategy.watermark_alignment
        )
        return alignment

    def alignment_watermark(self) -> int | None:
        """Return the watermark that counts for the group; None if none does."""
        return self._source.time.alignment_watermark()

    def update_watermark_alignment(self, command: AlignmentUpdate) -> None:
        """Apply watermark alignment, if it is for the group of this source."""
        alignment = self.watermark_alignment
        if alignment is not None and alignment.group == command.group:
            self._source.pipelined.update_watermark_alignment(command.watermark)
            self.poll_soon()
