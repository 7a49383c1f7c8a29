"""SESSION as a table function: rows wait for the end of their session, and leave with its bounds."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from penstock.common.user_types import Key
from penstock.graph.operator_specs.columnar.common import KIND, column
from penstock.graph.operator_specs.columnar.sessions import SessionTableFunctionSpec
from penstock.records.dropped_records import NULL_TIME
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import schema_of
from penstock.runtime.columnar.keys import keys_of
from penstock.runtime.columnar.late_sessions import Interval, late_rows
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.rows import RowStore
from penstock.runtime.columnar.window_columns import WindowColumnBuilder
from penstock.runtime.columnar.window_names import END, START, TIME
from penstock.runtime.columnar.windows import LocalTime
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.hooks import UsesProcessingTime
from penstock.runtime.operators.lateness import LateRecords

_SESSION: Final = "$session"
_PLACE: Final = "$place"


class SessionTableFunctionOperator(StreamOperator, UsesProcessingTime):
    """Keeps rows until nothing has come for the length of the gap, then gives them with their windows."""

    spec: SessionTableFunctionSpec

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        window = self.spec.window
        self._local = LocalTime(window.zone)
        self._columns = WindowColumnBuilder(window.zone, ("start", "end", "rowtime"))
        self._schema = {**schema_of(self.spec.input_types), KIND: pl.Int8()}
        self._store = RowStore(
            context.keyed_state.table("rows", namespaced=True),
            {**self._schema, TIME: pl.Int64()},
            window.partition,
            context.max_parallelism,
        )
        self._keys = [column(at) for at in window.partition]
        self._by_clock = window.time is None
        self._next: int | None = None  # when the first session may end, if rows are kept
        self._bind(context)
        self._note(self._store.gather(np.flatnonzero(self._store.alive))[TIME])

    def _bind(self, context: OperatorContext) -> None:
        group = context.runtime_context.get_metrics_group()
        self._late = LateRecords(context)
        self._without_time = group.counter(NULL_TIME)

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Keep rows; drop those whose session, with all that it touches, has ended."""
        if self._by_clock:
            self._fire(self.context.clock() - 1)
        frame = self._without_late(self._with_times(batch.frame))
        if not frame.height:
            return
        if KIND not in frame.columns:
            frame = frame.with_columns(pl.lit(0, pl.Int8).alias(KIND))
        self._store.append(frame)
        self._note(frame[TIME])

    def _with_times(self, frame: pl.DataFrame) -> pl.DataFrame:
        time = self.spec.window.time
        if time is None:
            now = self._local.of_epoch(self.context.clock())
            return frame.with_columns(pl.lit(now, pl.Int64).alias(TIME))
        missing = frame[column(time)].null_count()
        if missing:
            self._without_time.inc(missing)
            frame = frame.filter(pl.col(column(time)).is_not_null())
        return frame.with_columns(pl.Series(TIME, self._local.of_column(frame[column(time)])))

    def _without_late(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Drop late rows: their session, merged with those that it touches on arrival, has ended."""
        if self._by_clock or not frame.height:
            return frame
        watermark, gap = self.context.timers.watermark, self.spec.window.gap
        ends = (frame[TIME] + gap).unique().to_list()
        done = [end for end in ends if self._local.ended(range(end, end + 1), watermark)]
        if not done:
            return frame
        over = (frame[TIME] + gap).is_in(done).to_numpy()
        keys, times = keys_of(frame, self.spec.window.partition), frame[TIME].to_numpy()
        asked: dict[Any, list[Interval]] = {keys[at]: [] for at in np.flatnonzero(over).tolist()}
        sessions = self._sessions().unique(_SESSION, keep="first", maintain_order=True)
        theirs = keys_of(sessions, self.spec.window.partition)
        for key, start, end in zip(theirs, sessions[START], sessions[END], strict=True):
            if key in asked:
                asked[key].append((start, end))
        late = late_rows(keys, times, gap, asked, over)
        if not late:
            return frame
        self._late.drop(map(self._local.to_epoch, times[late].tolist()), watermark)
        return frame[pl.Series(np.delete(np.arange(frame.height), late), dtype=pl.UInt32)]

    def _sessions(self) -> pl.DataFrame:
        """Return all rows with the start and the end of their session, and their place."""
        rows: Numbers = np.flatnonzero(self._store.alive)
        frame = self._store.gather(rows).with_columns(pl.Series(_PLACE, rows))
        ordered = frame.sort([*self._keys, TIME], maintain_order=True)
        begins = pl.col(TIME).diff().fill_null(0) > self.spec.window.gap
        for key in self._keys:
            begins = begins | pl.col(key).ne_missing(pl.col(key).shift(1))
        numbered = ordered.with_columns(begins.cum_sum().alias(_SESSION))
        return numbered.with_columns(
            pl.col(TIME).min().over(_SESSION).alias(START),
            (pl.col(TIME).max().over(_SESSION) + self.spec.window.gap).alias(END),
        )

    def _note(self, times: pl.Series) -> None:
        """Record when the first session may end: not before the session of its first row alone."""
        if len(times):
            end = int(times.min()) + self.spec.window.gap  # type: ignore[arg-type]
            self._next = end if self._next is None else min(self._next, end)

    def _take(self, time: int) -> pl.DataFrame:
        """Take the rows of sessions that have ended."""
        if self._next is None or not self._local.ended(range(self._next, self._next + 1), time):
            return pl.DataFrame()
        sessions = self._sessions()
        ends = sorted(sessions[END].unique().to_list())
        done = [end for end in ends if self._local.ended(range(end, end + 1), time)]
        ended = sessions.filter(pl.col(END).is_in(done)).sort(END, START, maintain_order=True)
        self._store.remove(ended[_PLACE].to_numpy())
        self._store.compact()
        self._next = next((end for end in ends if end not in set(done)), None)
        return ended

    def _fire(self, time: int) -> None:
        ended = self._take(time)
        if not ended.height:
            return
        made = self._columns.make(
            ended[START].to_numpy(), ended[END].to_numpy(), len(self.spec.input_types)
        )
        frame = ended.select(list(self._schema)).with_columns(made)
        if not frame[KIND].max():
            frame = frame.drop(KIND)
        self.output.emit(ColumnBatch(frame))

    def process_watermark(self, watermark: int) -> None:
        """Give the rows of sessions that end, then send the watermark on."""
        if not self._by_clock:
            self._fire(watermark)
        self.context.timers.advance_watermark(watermark, _no_timer)
        self.output.emit_watermark(watermark)

    def next_wakeup(self) -> int | None:
        """Return when the next session may end by the clock."""
        if not self._by_clock or self._next is None:
            return None
        return self._local.timer(self._next - 1) + 1

    def advance_processing_time(self, now: int) -> None:
        """Give the rows of sessions that end by the clock."""
        if self._by_clock:
            self._fire(now - 1)

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._store.compact()
        self._store.save()
        return super().barrier()


def _no_timer(time: int, key: Key, window: object) -> None:
    """Ignore timers: these windows have none."""
