"""ORDER BY: rows wait for their time, or for the end of the input, and leave in order."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import (
    DELETE,
    KIND,
    UPDATE_BEFORE,
    column,
)
from penstock.graph.operator_specs.columnar.ranks import SortSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import schema_of
from penstock.runtime.columnar.joins.pairs import kinds_of
from penstock.runtime.columnar.keys import keys_of
from penstock.runtime.columnar.late_rows import timely_rows, without_late
from penstock.runtime.columnar.operators.window_join import no_timer
from penstock.runtime.columnar.ordering import Ordering
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.rows import only
from penstock.runtime.columnar.store.waiting_rows import WaitingRows
from penstock.runtime.columnar.times import millis_array
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.lateness import LateRecords
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK

_ALL: Final = ()  # the key of the table `emitted`: there is one order for all rows


class SortOperator(StreamOperator):
    """Keeps rows until the watermark has come to their time; without a time, until the input has ended.

    A row is late if it is not newer than the last one that was emitted. One that is only behind the watermark still has its place in the order: it
    leaves with the next watermark.
    """

    spec: SortSpec

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        self._schema = schema_of(self.spec.input_types)
        self._ordering = Ordering(self.spec.order)
        stored = dict(self._schema)
        if self.spec.rowtime is None:
            stored[KIND] = pl.Int8()
        self._waiting = WaitingRows(
            context.keyed_state.table("waiting", namespaced=True),
            stored,
            (),
            context.max_parallelism,
        )
        self._emitted = context.keyed_state.table("emitted")
        self._last: int = self._emitted.get(_ALL, MIN_WATERMARK)
        self._late = LateRecords(context)

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Let rows wait; those that should have left before the last one are late."""
        frame = batch.frame
        if self.spec.rowtime is None:
            kinds = pl.Series(KIND, kinds_of(frame), pl.Int8)
            due = np.full(frame.height, MAX_WATERMARK, np.int64)
            self._waiting.add(only(frame, self._schema).with_columns(kinds), due)
            return
        frame = only(frame, self._schema)
        due = millis_array(frame[column(self.spec.rowtime)])
        # A row that is only behind the watermark still has its place in the order.
        timely, watermark = timely_rows(due, self._last), self.context.timers.watermark
        frame, due = without_late(frame, due, timely, self._late, watermark)
        self._waiting.add(frame, due)

    def process_watermark(self, watermark: int) -> None:
        """Emit the rows whose time has come."""
        self.context.timers.advance_watermark(watermark, no_timer)
        if self.spec.rowtime is not None:
            ready = self._waiting.take(watermark)
            if ready.height:
                self._last = int(millis_array(ready[column(self.spec.rowtime)]).max())
                self._emit(ready)
        self.output.emit_watermark(watermark)

    def finish(self, *, ends_for_good: bool) -> None:
        """Emit all rows that are left of the whole input."""
        if self.spec.rowtime is None:
            rows = self._waiting.take(MAX_WATERMARK)
            self._emit(rows[pl.Series(rows_left(rows), dtype=pl.UInt32)].drop(KIND))

    def _emit(self, frame: pl.DataFrame) -> None:
        if frame.height:
            order = self._ordering.sorted(frame, np.zeros(frame.height, np.int64))
            self.output.emit(ColumnBatch(frame[pl.Series(order, dtype=pl.UInt32)]))

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._waiting.save()
        if self._last != MIN_WATERMARK:
            self._emitted.put(_ALL, self._last)
        return super().barrier()


def rows_left(frame: pl.DataFrame) -> Numbers:
    """Return the positions of rows that were not taken back."""
    goes = np.isin(frame[KIND].to_numpy(), (UPDATE_BEFORE, DELETE))
    if not goes.any():
        return np.arange(frame.height)
    there: dict[Any, list[int]] = {}
    names = keys_of(frame.drop(KIND), range(frame.width - 1))
    for at, (name, gone) in enumerate(zip(names, goes.tolist(), strict=True)):
        if gone:
            there[name].pop()
        else:
            there.setdefault(name, []).append(at)
    return np.sort(np.array([at for each in there.values() for at in each], np.int64))
