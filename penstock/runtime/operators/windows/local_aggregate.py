"""Two-phase aggregation: locally per sender before the exchange, globally per key after it.

The local stage folds the records of one sender per key and window and sends accumulators, `(key, window start, accumulator)`,
instead of records. It has no state across barriers, and sends its accumulators before every watermark, status and barrier: an
accumulator has the same position between the watermarks of its channel as its records. So the global stage finds a window late
exactly when it would have found each of the records late, and an accumulator of a late window is dropped, never folded into a
new window.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from penstock.errors import InvalidProgramError
from penstock.graph.keys import as_keys
from penstock.graph.operator_specs import GlobalAggregateSpec, LocalAggregateSpec
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.operators.hooks import HoldsRecordsBack
from penstock.runtime.operators.missing_timestamps import lowest_timestamp
from penstock.runtime.operators.windows.time_window import Pane, TimeWindowOperator
from penstock.runtime.operators.windows.window_base import WindowOperatorBase
from penstock.runtime.records import RowBatch
from penstock.runtime.state.table import MISSING
from penstock.runtime.user_code import (
    RecordFailedError,
    call_each,
    close_functions,
    method_of,
    open_function,
)
from penstock.windowing import TimeWindow

MAX_PARTIALS = 16_384  # accumulators are sent when there are this many
_EMIT_AT = 4096
_HASHABLE = frozenset({int, str, bytes, bool, float, type(None)})


class LocalAggregateOperator(TimeWindowOperator, HoldsRecordsBack):
    """The local stage. It shares the folding of the time window operator, but not its state, timers and late data."""

    def __init__(self, spec: LocalAggregateSpec) -> None:
        super().__init__(dataclasses.replace(spec.window, window_function=None))
        self._selector = spec.key_selector
        self._key_of = method_of(spec.key_selector, "get_key")

    def open(self, context: OperatorContext) -> None:
        """Open the user's functions."""
        WindowOperatorBase.open(self, context)
        open_function(self._selector, context.runtime_context)

    def _bind(self, context: OperatorContext) -> None:
        self._panes.clear()

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Fold records into accumulators."""
        values = batch.values
        if not values:
            return
        timestamps: list[int] = batch.timestamps  # type: ignore[assignment]
        first = lowest_timestamp(batch, self.context)
        try:
            keys = call_each(self._key_of, values)
        except RecordFailedError as failed:
            raise self.guard(failed.cause, failed.record, known=True) from failed.cause
        if type(keys[0]) not in _HASHABLE or type(keys[-1]) not in _HASHABLE:
            keys = as_keys(keys)
        if self.slide == self.size:
            self._fold(values, timestamps, keys, self.offset, self.slide, self._panes)
        else:
            self._process_sliding(values, timestamps, keys, first)
        if sum(len(pane[1]) for pane in self._panes.values()) >= MAX_PARTIALS:
            self._send()

    def _live(self, timestamp: int) -> list[int]:
        """Return the starts of all windows of a timestamp: the global stage knows which are late."""
        last = timestamp - (timestamp - self.offset) % self.slide
        return list(range(last, timestamp - self.size, -self.slide))

    def _create_pane(self, start: int) -> Pane:
        return (TimeWindow.from_start(start, self.size).end, {}, None)

    def _take_dead(
        self, values: list[Any], timestamps: list[int], dead: list[tuple[int, int]]
    ) -> None:
        """Drop records without a window."""

    def _send(self) -> None:
        partials: list[Any] = []
        times: list[int | None] = []
        for start, (end, accumulators, _) in self._panes.items():
            partials += [(key, start, content) for key, content in accumulators.items()]
            times += [TimeWindow(start, end).max_timestamp()] * len(accumulators)
        self._panes.clear()
        for at in range(0, len(partials), _EMIT_AT):
            self.output.emit(RowBatch(partials[at : at + _EMIT_AT], times[at : at + _EMIT_AT]))

    def process_watermark(self, watermark: int) -> None:
        """Send the accumulators, then the watermark."""
        self._send()
        self.output.emit_watermark(watermark)

    def process_status(self, idle: bool) -> None:
        """Send the accumulators, then the status."""
        self._send()
        self.output.emit_status(idle)

    def on_quiet(self) -> None:
        """Send the accumulators while there is no input, which leaves less work for the watermark."""
        self._send()

    def barrier(self) -> list[Any]:
        """Send the accumulators: no state is kept across a barrier."""
        self._send()
        return []

    def close(self) -> None:
        """Close the user's functions."""
        close_functions([*self._functions(), self._selector])


class GlobalAggregateOperator(TimeWindowOperator):
    """The global stage: merges accumulators, and evaluates windows like the time window operator.

    `numLateRecordsDropped` counts accumulators here, not the records in them.
    """

    def __init__(self, spec: GlobalAggregateSpec) -> None:
        super().__init__(spec.window)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Merge accumulators into their windows."""
        merge, panes, size = self.contents.merge, self._panes, self.size
        watermark = self.timers.watermark
        for (_, start, partial), key in zip(batch.values, batch.keys or (), strict=True):
            if start + size - 1 <= watermark:
                self.take_late(partial, start + size - 1)
                continue
            _, touched, base = panes[start]
            present = touched.get(key, MISSING)
            if present is MISSING and base is not None:
                present = base.get(key, MISSING)
            if present is MISSING:
                touched[key] = partial
                continue
            try:
                merged = merge(present, partial)
            except Exception as error:
                raise self.guard(error, (present, partial), known=True) from error
            if merged is None and present is not None:
                raise InvalidProgramError(
                    "merge() returned None instead of an accumulator",
                    detail=f"in operator '{self.context.operator_name}', key {key!r}",
                    hint="return the merged accumulator from merge(), or disable local_global",
                )
            touched[key] = merged
        self.collector.flush()
