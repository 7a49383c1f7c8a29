"""GROUP BY a window: one result per key and window, when the window has ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from penstock.common.user_types import Key
from penstock.graph.operator_specs.columnar.aggregates import WindowAggregateSpec
from penstock.graph.operator_specs.columnar.common import WindowDefinition, column
from penstock.records.dropped_records import NULL_TIME
from penstock.runtime.columnar.aggregates.plan import ROWS, AggregatePlan, counts_rows_of_windows
from penstock.runtime.columnar.aggregates.window_rows import key_names, row_sets, with_results
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.slice_store import SlicePart, SliceStore
from penstock.runtime.columnar.times import Millis, millis_array
from penstock.runtime.columnar.window_columns import WindowColumnBuilder
from penstock.runtime.columnar.window_names import END, SLICE, START
from penstock.runtime.columnar.windows import LocalTime, Slices
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.hooks import UsesProcessingTime
from penstock.runtime.operators.lateness import LateRecords
from penstock.windowing import TimeWindow


class WindowFunctions:
    """The calls of windows, compiled: folds rows to parts, makes one part of several, and results of it."""

    def __init__(
        self, spec: WindowAggregateSpec, context: OperatorContext, *, counts_rows: bool = False
    ) -> None:
        self.plan = AggregatePlan(
            spec.keys,
            spec.aggregates,
            retracts=spec.retracts,
            zone=spec.zone,
            counts_rows=counts_rows or counts_rows_of_windows(spec.aggregates, spec.retracts),
        )
        self.keys = key_names(len(spec.keys))
        self.key_types = [dtype_of(spec.input_types[index]) for index in spec.keys]
        self.sets = row_sets(self.plan)
        own = {
            name
            for each in self.plan.distinct
            for aggregate in each.columns
            for name in aggregate.accumulators
        }
        # What is folded of rows; accumulators of distinct values come into being at the end of the window.
        self.main = {
            name: dtype for name, (dtype, _) in self.plan.accumulators.items() if name not in own
        }
        self.merged = [step for each in self.plan.columns for step in each.merged]
        self._finish = [
            each.alias(column(len(spec.keys) + at)) for at, each in enumerate(self.plan.finishes)
        ]
        self._rename = {
            name: new for name, new in zip(self.plan.keys, self.keys, strict=True) if name != new
        }
        for call in self.plan.all_rows:
            call.function.open(context.runtime_context)

    def fold(
        self, frame: pl.DataFrame, extra: Sequence[str], more: Sequence[pl.Expr] = ()
    ) -> SlicePart:
        """Return the part that rows are; the columns `extra` are keys, too, and `more` is folded besides."""
        plan = self.plan
        frame = plan.signed(frame)
        main = plan.fold(frame, [*plan.keys, *extra], more)
        if self._rename:
            main = main.select(
                *(pl.col(name).alias(new) for name, new in zip(plan.keys, self.keys, strict=True)),
                *extra,
                *(each.meta.output_name() for each in more),
                *self.main,
            )
        return SlicePart(main, tuple(each.take(frame, extra) for each in self.sets))

    def take_merged(self, frame: pl.DataFrame) -> SlicePart:
        """Return the part that rows of accumulators are: keys, the slice, accumulators.

        A batch may be put together of several that were folded apart, so a key and slice may be there more than once.
        """
        names = [*self.keys, SLICE, *self.main]
        main = frame.select(pl.col(column(at)).alias(name) for at, name in enumerate(names))
        if main.height > 1:
            main = main.group_by([*self.keys, SLICE], maintain_order=True).agg(self.merged)
        return SlicePart(main)

    def merge(self, parts: Sequence[SlicePart]) -> SlicePart:
        """Return one part that says the same as several."""
        main = pl.concat([part.main for part in parts])
        main = main.group_by(self.keys).agg(self.merged) if self.keys else main.select(self.merged)
        rows = tuple(
            each.merge(pl.concat([part.rows[at] for part in parts]))
            for at, each in enumerate(self.sets)
        )
        return SlicePart(main, rows)

    def results(self, part: SlicePart) -> pl.DataFrame:
        """Return keys and results of a part that has each key once."""
        main = with_results(part.main, self.sets, part.rows, self.plan, self.keys)
        if self.plan.retracts:
            main = main.filter(pl.col(ROWS) > 0)
        if not main.height:
            return main
        named = main.get_columns()[: len(self.keys)]
        if not self._finish:
            return pl.DataFrame(named) if named else main
        return pl.DataFrame([*named, *main.select(self._finish).get_columns()])

    def results_of_sessions(
        self, sessions: pl.DataFrame, rows: Sequence[pl.DataFrame]
    ) -> pl.DataFrame:
        """Return keys, results, starts and ends of sessions, which are known by keys and starts."""
        keys = [*self.keys, START]
        main = with_results(sessions, self.sets, rows, self.plan, keys).filter(pl.col(ROWS) > 0)
        return main.select(*self.keys, *self._finish, START, END)

    def close(self) -> None:
        """Close the user functions."""
        for call in self.plan.all_rows:
            call.function.close()


class WindowAggregateOperator(StreamOperator, UsesProcessingTime):
    """TUMBLE, HOP, CUMULATE, and windows that rows have got before: rows are folded to slices, and a window that ends merges its slices.

    Rows whose windows have all ended are late: they are dropped, and counted.
    """

    def open(self, context: OperatorContext) -> None:
        """Compile the calls, find the slices that were restored."""
        super().open(context)
        spec = self.spec
        window: WindowDefinition | None = spec.window
        self._functions = WindowFunctions(spec, context)
        self._slices = None if window is None or spec.assigned is not None else Slices(window)
        zone = None if window is None else window.zone
        self._local = LocalTime(zone)
        self._by_clock = window is not None and window.time is None and spec.assigned is None
        self._columns = WindowColumnBuilder(zone, spec.properties)
        self._first = len(spec.keys) + len(spec.aggregates)
        self._store = SliceStore(
            context.keyed_state.table("panes/windows", namespaced=True),
            self._functions.merge,
            self._functions.key_types,
            self._functions.main,
            [each.schema for each in self._functions.sets],
            in_memory=context.keyed_state.in_memory,
        )
        # CUMULATE: what the windows from a start have in common, by that start: the end of the last one, and its part.
        self._cumulated: dict[int, tuple[int, SlicePart]] = {}
        self._next: int | None = None  # the next end of a window, as far as it is known
        self._find_next()
        self._bind(context)

    def _bind(self, context: OperatorContext) -> None:
        group = context.runtime_context.get_metrics_group()
        self._late = LateRecords(context)
        self._without_time = group.counter(NULL_TIME)

    @property
    def _time(self) -> int:
        """The current watermark or processing time: windows that end by then have been emitted."""
        if self._by_clock:
            return self.context.clock() - 1
        watermark: int = self.context.timers.watermark
        return watermark

    # Rows

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Fold rows to their slices."""
        frame = batch.frame
        if not frame.height:
            return
        if self._by_clock:
            self._fire(self._time)
        if self.spec.merges:
            self._add(self._functions.take_merged(self._without_late(frame, len(self.spec.keys))))
            return
        if self.spec.assigned is not None:
            self._process_assigned(frame)
            return
        frame = self._with_slices(frame)
        if frame.height:
            self._add(self._functions.fold(frame, [SLICE]))

    def _with_slices(self, frame: pl.DataFrame) -> pl.DataFrame:
        assert self._slices is not None
        time = self.spec.window.time
        if time is None:
            now = np.array([self._local.of_epoch(self.context.clock())])
            return frame.with_columns(pl.lit(int(self._slices.ends_at(now)[0])).alias(SLICE))
        frame = self._with_time(frame, column(time))
        ends = self._slices.ends_of(frame)
        return self._drop_late(frame.with_columns(pl.Series(SLICE, ends)), ends)

    def _with_time(self, frame: pl.DataFrame, name: str) -> pl.DataFrame:
        missing = frame[name].null_count()
        if not missing:
            return frame
        self._without_time.inc(missing)
        return frame.filter(pl.col(name).is_not_null())

    def _without_late(self, frame: pl.DataFrame, place: int) -> pl.DataFrame:
        """Return rows of accumulators whose slices, which are columns, are not late."""
        return self._drop_late(frame, frame[column(place)].to_numpy())

    def _drop_late(self, frame: pl.DataFrame, ends: Millis) -> pl.DataFrame:
        assert self._slices is not None
        if self._by_clock or not len(ends):
            return frame
        time, slices = self._time, self._slices
        # Most batches have nothing that could be late.
        if self._local.ended(slices.windows_of(int(ends.min()))[-1:], time) == 0:
            return frame
        late = []
        for end in np.unique(ends).tolist():
            windows = slices.windows_of(end)
            if self._local.ended(windows, time) == len(windows):
                late.append(end)
        if not late:
            return frame
        mask = np.isin(ends, late)
        self._drop(ends[mask], time)
        return frame.filter(pl.Series(~mask))

    def _drop(self, ends: Millis, watermark: int) -> None:
        """Count rows as late by the last moments of their slices."""
        last = {end: self._local.timer(end - 1) for end in np.unique(ends).tolist()}
        self._late.drop(map(last.__getitem__, ends.tolist()), watermark)

    def _add(self, part: SlicePart) -> None:
        assert self._slices is not None
        length = self._slices.length
        for (end,), each in _by(part, [SLICE]):
            self._store.add(TimeWindow(end - length, end), each)
            self._see(self._slices.windows_of(end))
            if self._cumulated:
                start = self._slices.start_of(end)
                if self._cumulated.get(start, (end - 1,))[0] >= end:
                    del self._cumulated[start]
        self._store.trim_cache()

    def _process_assigned(self, frame: pl.DataFrame) -> None:
        """Process rows that already have windows."""
        starts, ends = (column(index) for index in self.spec.assigned)
        frame = self._with_time(frame, ends)
        frame = frame.with_columns(
            pl.Series(START, millis_array(frame[starts])),
            pl.Series(SLICE, millis_array(frame[ends])),
        )
        time = self._time
        found = frame[SLICE].unique().to_list()
        late = [end for end in found if self._local.ended(range(end, end + 1), time)]
        if late:
            kept = frame.filter(~pl.col(SLICE).is_in(late))
            self._drop(frame.filter(pl.col(SLICE).is_in(late))[SLICE].to_numpy(), time)
            frame = kept
        if not frame.height:
            return
        for (start, end), part in _by(self._functions.fold(frame, [START, SLICE]), [START, SLICE]):
            self._store.add(TimeWindow(start, end), part)
            self._see(range(end, end + 1))
        self._store.trim_cache()

    # Time

    def _see(self, windows: range) -> None:
        """Register the windows of a slice that have not ended."""
        done = self._local.ended(windows, self._time)
        if done < len(windows) and (self._next is None or windows[done] < self._next):
            self._next = windows[done]

    def _find_next(self) -> None:
        self._next = None
        for window in self._store.windows():
            self._see(self._windows_of(window))

    def _windows_of(self, window: TimeWindow) -> range:
        if self._slices is None:
            return range(window.end, window.end + 1)
        return self._slices.windows_of(window.end)

    def process_watermark(self, watermark: int) -> None:
        """Emit the windows that end, then send the watermark on."""
        if not self._by_clock:
            self._fire(watermark)
        self.context.timers.advance_watermark(watermark, _no_timer)
        if not self._by_clock:
            self._find_next()
        self.output.emit_watermark(watermark)

    def next_wakeup(self) -> int | None:
        """Return when the next window ends by the clock."""
        if not self._by_clock or self._next is None:
            return None
        return self._local.timer(self._next - 1) + 1

    def advance_processing_time(self, now: int) -> None:
        """Emit the windows that end by the clock."""
        if self._by_clock:
            self._fire(now - 1)

    def _fire(self, time: int) -> None:
        """Emit all windows that end by a time, in the order of their ends, and forget what no window needs any more."""
        following = self._next
        if following is None or not self._local.ended(range(following, following + 1), time):
            return
        if self._slices is None:
            ended = [
                window
                for window in self._store.windows()
                if self._local.ended(range(window.end, window.end + 1), time)
            ]
            for window in sorted(ended, key=lambda each: (each.end, each.start)):
                self._emit(window.start, window.end, self._store.read(window))
                self._store.drop(window)
        else:
            self._fire_slices(self._slices, time)
        if self._by_clock:
            self._find_next_after(time)

    def _find_next_after(self, time: int) -> None:
        self._next = None
        for window in self._store.windows():
            windows = self._windows_of(window)
            at = self._local.ended(windows, time)
            if at < len(windows) and (self._next is None or windows[at] < self._next):
                self._next = windows[at]

    def _fire_slices(self, slices: Slices, time: int) -> None:
        assert self._next is not None
        due: set[int] = set()
        done: list[TimeWindow] = []
        for window in self._store.windows():
            windows = slices.windows_of(window.end)
            reached = self._local.ended(windows, time)
            due.update(end for end in windows[:reached] if end >= self._next)
            if reached == len(windows):
                done.append(window)
        for end in sorted(due):
            self._emit(slices.start_of(end), end, self._parts_of(slices, end))
        for window in done:
            self._store.drop(window)
        for start in [
            start for start in self._cumulated if start + slices.size <= max(due, default=start)
        ]:
            del self._cumulated[start]

    def _parts_of(self, slices: Slices, end: int) -> list[SlicePart]:
        start, length = slices.start_of(end), slices.length
        known = self._cumulated.get(start)
        parts: list[SlicePart] = [] if known is None else [known[1]]
        for each in slices.slices_of(end):
            if known is None or each > known[0]:
                parts += self._store.read(TimeWindow(each - length, each))
        if slices.definition.kind == "CUMULATE" and parts:
            parts = [self._functions.merge(parts) if len(parts) > 1 else parts[0]]
            self._cumulated[start] = (end, parts[0])
        return parts

    # Results

    def _emit(self, start: int, end: int, parts: list[SlicePart]) -> None:
        if not parts:
            return
        part = parts[0] if len(parts) == 1 else self._functions.merge(parts)
        results = self._functions.results(part)
        count = results.height
        if not count:
            return
        made = self._columns.make(
            np.full(count, start, np.int64),
            np.full(count, end, np.int64),
            self._first,
            self.context.clock(),
        )
        columns = results.get_columns() if self._first else []
        self.output.emit(ColumnBatch(pl.DataFrame([*columns, *made])))

    def barrier(self) -> list[Any]:
        """Write the changed entries to the state table."""
        self._store.flush()
        return []

    def close(self) -> None:
        """Close the user functions."""
        self._functions.close()


def _by(part: SlicePart, names: list[str]) -> Iterable[tuple[tuple[Any, ...], SlicePart]]:
    """Partition a part by some columns, which are removed."""
    main = part.main
    first = main.select(names)
    if main.height == 1 or all(first[name].n_unique() == 1 for name in names):
        yield (
            tuple(first.row(0)),
            SlicePart(main.drop(names), tuple(each.drop(names) for each in part.rows)),
        )
        return
    mains = main.partition_by(names, as_dict=True, include_key=False)
    rows = [each.partition_by(names, as_dict=True, include_key=False) for each in part.rows]
    for values, found in mains.items():
        yield (
            values,
            SlicePart(
                found,
                tuple(
                    each.get(values, original.drop(names).clear())
                    for each, original in zip(rows, part.rows, strict=True)
                ),
            ),
        )


def _no_timer(time: int, key: Key, window: object) -> None:
    """Ignore timers: these windows have none."""
