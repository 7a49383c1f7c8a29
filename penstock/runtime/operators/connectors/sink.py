"""The sink operator: passes records to a SinkWriter and pre-commits at the barrier."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final, Protocol

from penstock.connectors.base.sink import CheckpointContext, SinkWriter, WriterContext
from penstock.errors import PenstockError
from penstock.runtime.operators.base import CheckpointInterval, OperatorContext, StreamOperator
from penstock.runtime.operators.hooks import (
    CheckpointListener,
    CommitsByTime,
    FollowsCheckpoints,
    LimitsInput,
    Reusable,
    SendsToDriver,
    UsesProcessingTime,
)
from penstock.runtime.records import MIN_WATERMARK, RowBatch
from penstock.runtime.state.operator_state import EMITTED, IDLE, WRITERS

# Maximum number of bytes in flight to the driver, for a sink that outputs there.
MOST_UNTAKEN: Final = 1 << 20


class _WriterMode(Protocol):
    """What an execution mode does with an open writer."""

    def begin(self, writer: SinkWriter, checkpoint_id: int) -> None:
        """The interval that ends with this checkpoint has its first record."""

    def next_wakeup(self, writer: SinkWriter) -> int | None:
        """Return when the writer has something to do."""


class _EpochWriter:
    """Epoch mode: the barrier is near, so the writer works with records and at the barrier only."""

    def begin(self, writer: SinkWriter, checkpoint_id: int) -> None:
        """Notify the writer: an interval begins when the one before it is committed."""
        writer.on_committed(checkpoint_id - 1)

    def next_wakeup(self, writer: SinkWriter) -> int | None:
        """Return None."""
        return None


class _PipelinedWriter:
    """Pipelined mode: intervals overlap with commits, which `on_completed` reports."""

    def begin(self, writer: SinkWriter, checkpoint_id: int) -> None:
        """Do nothing: the checkpoint before may not be complete."""

    def next_wakeup(self, writer: SinkWriter) -> int | None:
        """Return when the writer has something to do."""
        return writer.next_wakeup()


class SinkOperator(
    StreamOperator,
    UsesProcessingTime,
    LimitsInput,
    FollowsCheckpoints,
    CheckpointListener,
    CommitsByTime,
    SendsToDriver,
    Reusable,
):
    """Opens a writer with the first record; each checkpoint interval begins with its first record.

    The writer stays open across checkpoints. Its state stays in the operator's state until the next barrier with records
    before it, or until a writer elsewhere restores it. A subtask that is restored from several former ones merges their writer
    states at once: then it has one state, or none.

    In pipelined mode, a writer whose output goes to the driver (`stream_to_driver`) does not have to keep it until the barrier.
    """

    def open(self, context: OperatorContext) -> None:
        """Merge the states of former writers."""
        self._writer: SinkWriter | None = None
        self._active_writer: SinkWriter | None = (
            None  # the writer, once the interval has had a record
        )
        self._in_flight_bytes = 0  # bytes in flight to the driver
        super().open(context)
        self._mode: _WriterMode = _PipelinedWriter() if context.pipelined else _EpochWriter()
        self._interval = context.interval
        self._by_time = getattr(self.spec.sink, "commits_by_time", False)
        self._watermark: int = context.operator_state.get(EMITTED, MIN_WATERMARK)
        self._idle: bool = context.operator_state.get(IDLE, False)
        self._sent = context.runtime_context.get_metrics_group().counter("numRecordsSend")
        states = context.operator_state.get(WRITERS, [])
        if len(states) > 1:
            with self._users_errors():
                self._keep(self.spec.sink.merge_writer_states(list(states)))

    def take_over(self, kept: SinkWriter | None) -> None:
        """Reuse a writer that an earlier operator in this place opened, unless there is state that it does not have."""
        if kept is not None and self.context.operator_state.get(WRITERS):
            kept.close()
            return
        self._writer = kept

    def begin_interval(self, interval: CheckpointInterval) -> None:
        """Name the output of the next records by this interval."""
        self._interval = interval

    def _keep(self, state: object) -> None:
        self.context.operator_state.put(WRITERS, [] if state is None else [state])

    def _begin(self) -> SinkWriter:
        """Begin the interval, and open the writer if this is the first one."""
        writer = self._writer
        if writer is None:
            writer = self._writer = self._create_writer()
        else:
            self._mode.begin(writer, self._interval.checkpoint_id)
        # An attempt may span many checkpoints.
        interval = self._interval
        attempt = f"{interval.attempt}-{interval.checkpoint_id}"
        writer.begin(CheckpointContext(interval.checkpoint_id, attempt))
        self._active_writer = writer
        return writer

    def _create_writer(self) -> SinkWriter:
        context = self.context
        states = context.operator_state.get(WRITERS)
        writer: SinkWriter = self.spec.sink.create_writer(
            WriterContext(
                job_id=context.job_id,
                operator_id=context.operator_id,
                subtask=context.subtask,
                parallelism=context.parallelism,
                staging=self._interval.staging,
                metrics=context.runtime_context.get_metrics_group(),
            ),
            states[0] if states else None,
        )
        stream_to_driver = getattr(writer, "stream_to_driver", None)
        if stream_to_driver is not None and context.slot is not None:
            self._tell = context.slot.tell
            stream_to_driver(self._send_to_driver, checkpointed=context.checkpointed)
        return writer

    def _send_to_driver(self, data: bytes) -> None:
        self._in_flight_bytes += len(data)
        self._tell(data)

    def on_taken(self, size: int) -> None:
        """Record that the driver has output this many bytes."""
        self._in_flight_bytes -= size

    @property
    def has_room(self) -> bool:
        """Whether the driver keeps up."""
        return self._in_flight_bytes < MOST_UNTAKEN

    def process(self, batch: Any, input_index: int = 0) -> None:
        """Write the records: as a list of objects, or as a table of columns."""
        records = batch.values if type(batch) is RowBatch else batch.frame
        try:
            writer = self._begin() if self._active_writer is None else self._active_writer
            writer.write(records, batch.timestamps, self._watermark)
        except PenstockError:
            raise
        except Exception as error:
            raise self.guard(error) from error
        self._sent.inc(len(batch))

    def next_wakeup(self) -> int | None:
        """Return when the writer has something to do, in pipelined mode."""
        if self._active_writer is None:
            return None
        with self._users_errors():
            return self._mode.next_wakeup(self._active_writer)

    def advance_processing_time(self, now: int) -> None:
        """Wake the writer when it is due."""
        due = self.next_wakeup()
        if due is not None and due <= now and self._active_writer is not None:
            with self._users_errors():
                self._active_writer.wake_up()

    def on_completed(self, checkpoint: int) -> None:
        """Notify the writer of the committed checkpoint."""
        if self._writer is not None:
            with self._users_errors():
                self._writer.on_committed(checkpoint)

    def process_watermark(self, watermark: int) -> None:
        """Store the watermark for the writer."""
        self._watermark = watermark

    def process_status(self, idle: bool) -> None:
        """Store the status: nothing follows a sink."""
        self._idle = idle

    def time_of_commit(self) -> tuple[int, bool] | None:
        """Return the watermark if the sink commits by it."""
        return (self._watermark, self._idle) if self._by_time else None

    def barrier(self) -> list[Any]:
        """Pre-commit."""
        if self._by_time:
            self.context.operator_state.put(EMITTED, self._watermark)
            self.context.operator_state.put(IDLE, self._idle)
        writer = self._active_writer
        if writer is None:
            return []
        with self._users_errors():
            committables = writer.prepare_commit()
            self._keep(writer.snapshot())
        self._active_writer = None
        return committables

    def close(self) -> None:
        """Close the writer; output that was not pre-committed is discarded."""
        writer, self._writer, self._active_writer = self._writer, None, None
        if writer is not None:
            writer.close()

    def retire(self) -> SinkWriter | None:
        """Keep the writer open if nothing is uncommitted and it has no state: the next operator can reuse it."""
        if self._active_writer is not None or self.context.operator_state.get(WRITERS):
            self.close()
        writer, self._writer = self._writer, None
        return writer

    @contextlib.contextmanager
    def _users_errors(self) -> Iterator[None]:
        """Report exceptions of the sink under this operator."""
        try:
            yield
        except PenstockError:
            raise
        except Exception as error:
            raise self.guard(error) from error
