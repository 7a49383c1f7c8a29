"""The first phase of an aggregation: each batch is folded before it is sent, one row per key."""

from __future__ import annotations

import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.records.dropped_records import NULL_TIME
from penstock.runtime.columnar.aggregates.plan import AggregatePlan, counts_rows_of_windows
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.window_names import SLICE
from penstock.runtime.columnar.windows import slices_of
from penstock.runtime.operators.base import OperatorContext, StreamOperator


class ColumnarLocalAggregateOperator(StreamOperator):
    """Emits the keys, then the end of the slice (Int64, epoch milliseconds in local time) if there are windows, then the accumulators."""

    def open(self, context: OperatorContext) -> None:
        """Compile the calls."""
        super().open(context)
        spec = self.spec
        self._plan = AggregatePlan(
            spec.keys,
            spec.aggregates,
            retracts=spec.retracts,
            zone=spec.zone,
            counts_rows=spec.retracts
            if spec.window is None
            else counts_rows_of_windows(spec.aggregates, spec.retracts),
        )
        self._slices = None if spec.window is None else slices_of(spec.window)
        self._keys = list(self._plan.keys)
        if self._slices is not None:
            self._keys.append(SLICE)
        self._without_time = context.runtime_context.get_metrics_group().counter(NULL_TIME)

    def _with_time(self, frame: pl.DataFrame, name: str) -> pl.DataFrame:
        """Leave out rows that are in no window."""
        missing = frame[name].null_count()
        if not missing:
            return frame
        self._without_time.inc(missing)
        return frame.filter(pl.col(name).is_not_null())

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Fold the rows."""
        frame, plan = batch.frame, self._plan
        if not frame.height:
            return
        if self._slices is not None:
            frame = self._with_time(frame, column(self.spec.window.time))
            if not frame.height:
                return
            frame = frame.with_columns(pl.Series(SLICE, self._slices.ends_of(frame)))
        folded = plan.fold(plan.signed(frame), self._keys)
        names = [*self._keys, *plan.accumulators]
        self.output.emit(
            ColumnBatch(
                folded.select(pl.col(name).alias(column(at)) for at, name in enumerate(names))
            )
        )
