"""Top-N of windows: rows wait for the end of their window, and the first ones of each key leave then."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.graph.operator_specs.columnar.ranks import WindowRankSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import schema_of
from penstock.runtime.columnar.late_rows import timely_rows, without_late
from penstock.runtime.columnar.operators.window_join import no_timer
from penstock.runtime.columnar.ordering import Ordering, fresh_groups, row_numbers
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.key_index import KeyIndex
from penstock.runtime.columnar.store.rows import only
from penstock.runtime.columnar.store.waiting_rows import WaitingRows
from penstock.runtime.columnar.windows import LocalTime
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.lateness import LateRecords
from penstock.runtime.records import MAX_WATERMARK

_ENOUGH: Final = (
    100_000  # with this many additional rows it pays to drop those that cannot enter the ranking
)


class WindowRankOperator(StreamOperator):
    """Keeps the rows that may be among the first of their window and key."""

    spec: WindowRankSpec

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        spec = self.spec
        self._schema = schema_of(spec.input_types)
        self._ordering = Ordering(spec.order)
        self._local = LocalTime(spec.zone)
        self._groups = (*spec.keys, *spec.window)
        self._waiting = WaitingRows(
            context.keyed_state.table("ranked", namespaced=True),
            self._schema,
            spec.keys,
            context.max_parallelism,
        )
        self._worth_it = _ENOUGH + len(self._waiting)
        self._late = LateRecords(context)

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Keep rows whose window has not ended, as far as others of the batch are not before them."""
        frame = only(batch.frame, self._schema)
        due = self._due(frame)
        watermark = self.context.timers.watermark
        frame, _ = without_late(frame, due, timely_rows(due, watermark), self._late, watermark)
        if not frame.height:
            return
        self._keep(frame)
        if len(self._waiting) > self._worth_it:
            self._keep(self._waiting.take(MAX_WATERMARK))
            self._worth_it = 2 * len(self._waiting) + _ENOUGH

    def _due(self, frame: pl.DataFrame) -> Numbers:
        return self._local.timers_of(frame[column(self.spec.window[1])])

    def _number(self, frame: pl.DataFrame) -> tuple[Numbers, Numbers]:
        """Return the positions of rows, window after window, each in order, and the numbers they have there."""
        groups = KeyIndex().of_rows(frame, self._groups)
        order = self._ordering.sorted(frame, groups)
        return order, row_numbers(fresh_groups(groups[order]))

    def _keep(self, frame: pl.DataFrame) -> None:
        order, numbers = self._number(frame)
        # in the order in which they came, which counts among equals
        kept = np.sort(order[numbers <= self.spec.end])
        if len(kept) < frame.height:
            frame = frame[pl.Series(kept, dtype=pl.UInt32)]
        self._waiting.add(frame, self._due(frame))

    def process_watermark(self, watermark: int) -> None:
        """Emit the first rows of the windows that have ended."""
        self.context.timers.advance_watermark(watermark, no_timer)
        first = self._waiting.first
        if first is not None and first <= watermark:
            self._emit(self._waiting.take(watermark))
        self.output.emit_watermark(watermark)

    def _emit(self, frame: pl.DataFrame) -> None:
        order, numbers = self._number(frame)
        wanted = (numbers >= self.spec.start) & (numbers <= self.spec.end)
        frame = frame[pl.Series(order[wanted], dtype=pl.UInt32)]
        if self.spec.with_rank:
            places = pl.Series(column(len(self._schema)), numbers[wanted], pl.Int64)
            frame = frame.with_columns(places)
        # Windows leave in the order in which they end.
        ended = np.argsort(self._due(frame), kind="stable")
        frame = frame[pl.Series(ended, dtype=pl.UInt32)]
        if frame.height:
            self.output.emit(ColumnBatch(frame))

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._waiting.save()
        return super().barrier()
