"""GROUP BY a session window: one result per key and session, when nothing has come for the length of the gap."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from penstock.common.user_types import Key
from penstock.graph.operator_specs.columnar.common import column
from penstock.records.dropped_records import NULL_TIME
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.keys import keys_of
from penstock.runtime.columnar.late_sessions import late_rows
from penstock.runtime.columnar.operators.window_aggregate import WindowFunctions
from penstock.runtime.columnar.session_store import Mask, SessionStore
from penstock.runtime.columnar.window_columns import WindowColumnBuilder
from penstock.runtime.columnar.window_names import END, START, TIME
from penstock.runtime.columnar.windows import LocalTime
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.hooks import UsesProcessingTime
from penstock.runtime.operators.lateness import LateRecords
from penstock.runtime.records import MAX_WATERMARK


class SessionAggregateOperator(StreamOperator, UsesProcessingTime):
    """Sessions per key. A row whose session, with all that it touches, has ended is late: it is dropped, and counted."""

    def open(self, context: OperatorContext) -> None:
        """Compile the calls, read the sessions that were restored."""
        super().open(context)
        spec = self.spec
        self._functions = functions = WindowFunctions(spec, context, counts_rows=True)
        self._local = LocalTime(spec.window.zone)
        self._columns = WindowColumnBuilder(spec.window.zone, spec.properties)
        self._first = len(spec.keys) + len(spec.aggregates)
        self._store = SessionStore(
            context.keyed_state.table("sessions"),
            functions.key_types,
            functions.main,
            functions.merged,
            [each.schema for each in functions.sets],
        )
        self._by_clock = spec.window.time is None
        self._bind(context)

    def _bind(self, context: OperatorContext) -> None:
        group = context.runtime_context.get_metrics_group()
        self._late = LateRecords(context)
        self._without_time = group.counter(NULL_TIME)

    # Rows

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Fold rows to fragments of sessions."""
        if self._by_clock:
            self._fire(self.context.clock() - 1)
        frame = self._without_late(self._with_times(batch.frame))
        if not frame.height:
            return
        gap, keys = self.spec.window.gap, self._functions.plan.keys
        ordered = frame.sort([*keys, TIME], maintain_order=True)
        before = pl.col(TIME).shift(1)
        begins = before.is_null() | (pl.col(TIME) - before > gap)
        for key in keys:
            begins = begins | pl.col(key).ne_missing(pl.col(key).shift(1))
        starts = pl.when(begins).then(pl.col(TIME)).forward_fill().alias(START)
        ordered = ordered.with_columns(starts)
        end = (pl.col(TIME).max() + gap).alias(END)
        part = self._functions.fold(ordered, [START], [end])
        sets = self._functions.sets
        rows = [each.take(self._functions.plan.signed(ordered), [TIME]) for each in sets]
        self._store.add(part.main, rows)

    def _with_times(self, frame: pl.DataFrame) -> pl.DataFrame:
        time = self.spec.window.time
        if time is None:
            now = self._local.of_epoch(self.context.clock())
            return frame.with_columns(pl.lit(now, pl.Int64).alias(TIME))
        name = column(time)
        missing = frame[name].null_count()
        if missing:
            self._without_time.inc(missing)
            frame = frame.filter(pl.col(name).is_not_null())
        return frame.with_columns(pl.Series(TIME, self._local.of_column(frame[name])))

    def _without_late(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Drop late rows: their session, merged with those that it touches on arrival, has ended."""
        if self._by_clock or not frame.height:
            return frame
        watermark, gap = self.context.timers.watermark, self.spec.window.gap
        over = self._ended(frame[TIME] + gap, watermark)
        if not over.any():
            return frame
        keys, times = keys_of(frame, self.spec.keys), frame[TIME].to_numpy()
        asked = {keys[at] for at in np.flatnonzero(over).tolist()}
        late = late_rows(keys, times, gap, self._store.sessions_of_keys(asked), over)
        if not late:
            return frame
        self._late.drop(map(self._local.to_epoch, times[late].tolist()), watermark)
        return frame[pl.Series(np.delete(np.arange(frame.height), late), dtype=pl.UInt32)]

    def _ended(self, ends: pl.Series, time: int) -> Mask:
        if time == MAX_WATERMARK:
            return np.ones(len(ends), np.bool_)
        if self._local.is_epoch:
            return (ends <= time + 1).to_numpy()
        distinct = ends.unique().to_list()
        done = [end for end in distinct if self._local.ended(range(end, end + 1), time)]
        return ends.is_in(done).to_numpy()

    # Time

    def process_watermark(self, watermark: int) -> None:
        """Emit the sessions that end, then send the watermark on."""
        if not self._by_clock:
            self._fire(watermark)
        self.context.timers.advance_watermark(watermark, _no_timer)
        self.output.emit_watermark(watermark)

    def next_wakeup(self) -> int | None:
        """Return when the next session may end by the clock."""
        end = self._store.first_end() if self._by_clock else None
        return None if end is None else self._local.timer(end - 1) + 1

    def advance_processing_time(self, now: int) -> None:
        """Emit the sessions that end by the clock."""
        if self._by_clock:
            self._fire(now - 1)

    def _fire(self, time: int) -> None:
        first = self._store.first_end()
        if first is None or not self._local.ended(range(first, first + 1), time):
            return
        ended, rows = self._store.take(lambda ends: self._ended(ends, time))
        if ended.height:
            self._emit(ended, rows)

    def _emit(self, sessions: pl.DataFrame, rows: list[pl.DataFrame]) -> None:
        """Compute the results: a session is known by its keys and its start."""
        functions = self._functions
        sessions = sessions.sort(END)
        results = functions.results_of_sessions(sessions, rows)
        if not results.height:
            return
        made = self._columns.make(
            results[START].to_numpy(), results[END].to_numpy(), self._first, self.context.clock()
        )
        self.output.emit(ColumnBatch(pl.DataFrame([*results.drop(START, END), *made])))

    def barrier(self) -> list[Any]:
        """Write the changed entries to the state table."""
        self._store.flush()
        return []

    def close(self) -> None:
        """Close the user functions."""
        self._functions.close()


def _no_timer(time: int, key: Key, window: object) -> None:
    """Ignore timers: these windows have none."""
