"""TUMBLE, HOP and CUMULATE as table functions: rows get the windows that they are in."""

from __future__ import annotations

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.records.dropped_records import NULL_TIME
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.window_columns import WindowColumnBuilder
from penstock.runtime.columnar.windows import slices_of
from penstock.runtime.operators.base import OperatorContext, StreamOperator


class WindowTableFunctionOperator(StreamOperator):
    """Appends window_start, window_end and window_time; a row in several windows is there several times.

    Rows without a time are in no window: they are left out, and counted.
    """

    def open(self, context: OperatorContext) -> None:
        """Prepare the windows."""
        super().open(context)
        window = self.spec.window
        self._slices = slices_of(window)
        self._columns = WindowColumnBuilder(window.zone, ("start", "end", "rowtime"))
        self._first = len(self.spec.input_types)
        group = context.runtime_context.get_metrics_group()
        self._without_time = group.counter(NULL_TIME)

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Assign windows."""
        frame = batch.frame
        time = self.spec.window.time
        if time is None:
            now = self._slices.local.of_epoch(self.context.clock())
            times = np.full(frame.height, now, np.int64)
        else:
            name = column(time)
            missing = frame[name].null_count()
            if missing:
                self._without_time.inc(missing)
                frame = frame.filter(pl.col(name).is_not_null())
            times = self._slices.local.of_column(frame[name])
        if not frame.height:
            return
        parts = list(self._slices.windows_at(times))
        rows = np.concatenate([part[0] for part in parts])
        order = np.argsort(rows, kind="stable") if len(parts) > 1 else None
        starts = np.concatenate([part[1] for part in parts])
        ends = np.concatenate([part[2] for part in parts])
        if order is not None:
            frame = frame[rows[order]]
            starts, ends = starts[order], ends[order]
        made = self._columns.make(starts, ends, self._first)
        self.output.emit(ColumnBatch(frame.with_columns(made)))
