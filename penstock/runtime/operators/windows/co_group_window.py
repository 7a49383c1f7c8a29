"""Windows over two inputs: joins and coGroups."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from penstock.errors import MissingTimestampError
from penstock.graph.operator_specs import CoGroupWindowSpec
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.hooks import UsesProcessingTime
from penstock.runtime.operators.missing_timestamps import first_untimed, missing_timestamp
from penstock.runtime.operators.windows.window import create_window_operator
from penstock.runtime.records import RowBatch
from penstock.windowing import EventTimeTrigger, ProcessingTimeTrigger
from penstock.windowing.tagged_union import TaggedUnion


class CoGroupWindowOperator(StreamOperator, UsesProcessingTime):
    """A window operator whose elements are pairs of input index and value.

    The pairs are plain tuples (30 ns) unless a trigger or an evictor may look at them (TaggedUnion, 250 ns).
    """

    def __init__(self, spec: CoGroupWindowSpec) -> None:
        super().__init__(spec)
        window = spec.window
        self.inner = create_window_operator(window)
        blind = type(window.trigger) in {EventTimeTrigger, ProcessingTimeTrigger, type(None)}
        self._shown = not blind or window.evictor is not None

    def open(self, context: OperatorContext) -> None:
        """Open the window."""
        super().open(context)
        self.inner.open(context)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Add the records of one input to their windows."""
        values: list[Any]
        if self._shown:
            values = [TaggedUnion(input_index, value) for value in batch.values]
        else:
            values = list(zip(repeat(input_index), batch.values, strict=False))
        try:
            self.inner.process(RowBatch(values, batch.timestamps, batch.keys))
        except MissingTimestampError:  # raised for a pair: show the user's value instead
            raise missing_timestamp(self.context, first_untimed(batch)) from None

    def process_watermark(self, watermark: int) -> None:
        """Fire windows that are due, then forward the watermark."""
        self.inner.process_watermark(watermark)

    def process_status(self, idle: bool) -> None:
        """Forward the status."""
        self.inner.process_status(idle)

    def advance_processing_time(self, now: int) -> None:
        """Fire processing-time timers that are due."""
        if isinstance(self.inner, UsesProcessingTime):
            self.inner.advance_processing_time(now)

    def next_wakeup(self) -> int | None:
        """Return the time of the next processing-time timer."""
        return self.inner.next_wakeup() if isinstance(self.inner, UsesProcessingTime) else None

    def finish(self, *, ends_for_good: bool) -> None:
        """Handle the end of both inputs."""
        self.inner.finish(ends_for_good=ends_for_good)

    def barrier(self) -> list[Any]:
        """Flush."""
        return self.inner.barrier()

    def close(self) -> None:
        """Close the user's function."""
        self.inner.close()
