"""Reads batches of splits with a user's SourceReader, and passes their records to the chain."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from penstock.connectors.base.source import SourceReader, SplitProgress
from penstock.errors import InvalidProgramError, PenstockError
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.operators.connectors.malformed import route_malformed
from penstock.runtime.operators.connectors.redelivery import REDELIVERED, DeduplicatingReader
from penstock.runtime.operators.connectors.source_time import SourceTime
from penstock.runtime.operators.connectors.split_schedulers import SplitReading, SplitScheduler
from penstock.runtime.records import batch_of
from penstock.runtime.user_code import RecordFailedError


class SplitReader:
    """The SourceReader of a subtask. Its exceptions are reported under the operator, and redelivered records dropped."""

    def __init__(self, operator: StreamOperator, reader: SourceReader, time: SourceTime) -> None:
        #: Records that were read since the operator was opened; in epoch mode, in this epoch.
        self.records = 0
        #: Seconds that downstream operators of the chain spent on these records.
        self.chain_s = 0.0
        self._operator = operator
        self._context = operator.context
        self._reader = reader
        self._time = time
        self._once = DeduplicatingReader(reader, self._on_redelivered)
        kind = type(reader)
        self._confirms = kind.on_checkpoint is not SourceReader.on_checkpoint
        #: The seconds until a split may have data; None if the reader does not know it.
        self.next_ready: Callable[[SplitReading], float | None] | None = None
        if kind.next_ready is not SourceReader.next_ready:
            self.next_ready = self._next_ready

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()

    # Reading.

    def read(self, split: SplitReading, scheduler: SplitScheduler) -> int | None:
        """Read a batch, process it in the chain and return its size; None if the split has nothing more."""
        if split.batches is None:
            # Recorded and replayed batches do not contain redelivered records.
            split.batches = self._context.decisions.batches(
                self._reader_of(split), split.progress.split, split.position, scheduler.limits()
            )
        try:
            found = next(split.batches, None)
        except PenstockError:
            raise
        except Exception as error:
            raise self._failed(split, error) from error
        if found is None:
            return None
        if found.positions is not None or found.start is not None:
            raise self._not_ordered()
        if len(found.records):
            self._process(split, found.records, found.timestamps)
        if found.malformed:
            split.active_ms = self._context.clock()
            route_malformed(self._operator, found.malformed)
        split.position = found.position
        return len(found.records) + len(found.malformed)

    def _process(
        self, split: SplitReading, records: list[Any], timestamps: list[Any] | None
    ) -> None:
        self.records += len(records)
        split.active_ms = self._context.clock()
        split.idle = False
        self._time.set_idle(idle=False)
        begun = time.monotonic()
        try:
            split.assignment.on_batch(
                batch_of(records, timestamps),
                self._operator.output.emit,
                self._time.on_event_watermark,
            )
        except RecordFailedError as failed:
            raise self._operator.guard(failed.cause, failed.record, known=True) from failed.cause
        self.chain_s += time.monotonic() - begun

    def _reader_of(self, split: SplitReading) -> SourceReader:
        """Return the reader, or one that drops redelivered records."""
        try:
            return self._once if self._reader.ordered(split.progress.split) else self._reader
        except PenstockError:
            raise
        except Exception as error:
            raise self._failed(split, error) from error

    def _on_redelivered(self, records: int) -> None:
        self._context.runtime_context.get_metrics_group().counter(REDELIVERED).inc(records)

    def _next_ready(self, split: SplitReading) -> float | None:
        try:
            return self._reader.next_ready(split.progress.split, split.position)
        except Exception as error:
            raise self._failed(split, error) from error

    # Checkpoints.

    @property
    def confirms(self) -> bool:
        """Whether the reader is notified of durable positions."""
        return self._confirms

    def confirm(self, durable: Sequence[SplitProgress]) -> None:
        """Notify the reader of the positions of a durable checkpoint."""
        if not self._confirms:
            return
        for progress in durable:
            try:
                self._reader.on_checkpoint(progress.split, progress.position)
            except PenstockError:
                raise
            except Exception as error:
                raise self._operator.guard(error) from error

    # Errors.

    def _failed(self, split: SplitReading, error: Exception) -> PenstockError:
        wrapped = self._operator.guard(error)
        wrapped.detail = f"{wrapped.detail}, split {split.progress.split.split_id}"
        return wrapped

    def _not_ordered(self) -> PenstockError:
        return InvalidProgramError(
            f"{type(self._reader).__name__} sets positions of records but does not declare them as ordered",
            detail=f"in operator '{self._context.operator_name}', a SourceBatch has positions or a start",
            hint="return True from SourceReader.ordered, so that redelivered records are dropped",
        )
