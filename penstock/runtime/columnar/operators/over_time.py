"""OVER in the order of time: a row leaves once its time has come, with the values of the rows before it."""

from __future__ import annotations

import copy
from typing import Any, Final

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.aggregates import OverAggregateSpec
from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import schema_of
from penstock.runtime.columnar.joins.memory import JoinMemory
from penstock.runtime.columnar.joins.sides import JoinSide
from penstock.runtime.columnar.keys import keys_of
from penstock.runtime.columnar.late_rows import timely_rows, without_late
from penstock.runtime.columnar.operators.window_join import no_timer
from penstock.runtime.columnar.ordering import fresh_groups
from penstock.runtime.columnar.over.calls import OverCall, columns_of
from penstock.runtime.columnar.over.frames import frames_of
from penstock.runtime.columnar.over.running import RunningCall, running_call
from penstock.runtime.columnar.state import BOUND
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.key_index import KeyIndex
from penstock.runtime.columnar.store.rows import only
from penstock.runtime.columnar.store.waiting_rows import WaitingRows
from penstock.runtime.columnar.times import millis_array
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.lateness import LateRecords
from penstock.runtime.records import MIN_WATERMARK
from penstock.runtime.state.table import MISSING

_AT: Final = "$at"  # the time of a row
Flags = np.ndarray[Any, np.dtype[np.bool_]]


class _TimedOver(StreamOperator):
    """Base: rows wait for the watermark where they are ordered by event time; else they are taken as they come."""

    spec: OverAggregateSpec

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        self._schema = schema_of(self.spec.input_types)
        self._waiting: WaitingRows | None = None
        if self.spec.rowtime:
            self._waiting = WaitingRows(
                context.keyed_state.table("waiting", namespaced=True),
                self._schema,
                self.spec.keys,
                context.max_parallelism,
            )
        self._late = LateRecords(context)
        self._marked = False  # whether a watermark has come since the start
        self._waited = 0 if self._waiting is None else len(self._waiting)  # rows at that moment

    def _times(self, frame: pl.DataFrame) -> Numbers:
        return millis_array(frame[column(self.spec.order[0].index)])

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Let rows wait, or compute their values."""
        frame = only(batch.frame, self._schema)
        if self._waiting is None:
            if frame.height:
                self._fire(frame, np.full(frame.height, self.context.clock(), np.int64))
            return
        times = self._times(frame)
        timely, watermark = self._judge(frame, times), self.context.timers.watermark
        frame, times = without_late(frame, times, timely, self._late, watermark)
        self._waiting.add(frame, times)

    def _judge(self, frame: pl.DataFrame, times: Numbers) -> Flags:
        """Return which rows are not late. Frames that begin with the first row go by the watermark, as in Flink."""
        return timely_rows(times, self.context.timers.watermark)

    def process_watermark(self, watermark: int) -> None:
        """Compute the values of rows whose time has come."""
        self.context.timers.advance_watermark(watermark, no_timer)
        self._marked = True
        if self._waiting is not None:
            ready = self._waiting.take(watermark)
            if ready.height:
                times = self._times(ready)
                order = np.argsort(times, kind="stable")
                self._fire(ready[pl.Series(order, dtype=pl.UInt32)], times[order])
            self._waited = len(self._waiting)
        self.output.emit_watermark(watermark)

    def _fire(self, frame: pl.DataFrame, times: Numbers) -> None:
        """Emit rows, whose times ascend, with their values."""
        raise NotImplementedError

    def _emit(self, frame: pl.DataFrame, values: list[pl.Series]) -> None:
        start = len(self._schema)
        named = [each.alias(column(start + at)) for at, each in enumerate(values)]
        self.output.emit(ColumnBatch(frame.hstack(named)))

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        if self._waiting is not None:
            self._waiting.save()
        return super().barrier()


class RunningOverOperator(_TimedOver):
    """Frames that begin with the first row: one accumulator per key and call."""

    def open(self, context: OperatorContext) -> None:
        """Find the accumulators that were restored."""
        super().open(context)
        self._calls = [running_call(call) for call in self.spec.aggregates]
        for call in self._calls:
            call.open(context.runtime_context)
        # The order of processing time is the order of arrival: no rows are equal in it.
        self._ranges = self.spec.rowtime and not self.spec.rows
        self._table = context.keyed_state.table("over")
        self._live: dict[Any, list[Any]] = {}  # [when it was written, accumulators]
        self._dirty: dict[Any, None] = {}

    def _fire(self, frame: pl.DataFrame, times: Numbers) -> None:
        keys = keys_of(frame, self.spec.keys)
        groups = KeyIndex().of(keys)
        # Rows whose values are known once all of their time have come are taken together.
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        begins = fresh_groups(ordered) | np.concatenate(([True], np.diff(times[order]) != 0))
        ends = [*np.flatnonzero(begins)[1:].tolist(), len(order)] if self._ranges else None
        now = self.context.clock()
        entries = [self._entry(keys[at], now) for at in order[fresh_groups(ordered)].tolist()]
        found = [
            self._values(at, frame, order, ordered, times, entries, ends)
            for at in range(len(self._calls))
        ]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        self._emit(frame, [each.gather(pl.Series(back, dtype=pl.UInt32)) for each in found])
        self._trim_cache()

    def _entry(self, key: object, now: int) -> list[Any]:
        """Return the accumulators of a key, to be changed."""
        entry = self._live.get(key)
        if entry is None:
            there = self._table.get(key, MISSING)
            entry = None if there is MISSING else copy.deepcopy(there)
        ttl = self.spec.ttl_ms
        if entry is None or (ttl and entry[0] <= now - ttl):
            entry = [now, [call.create() for call in self._calls]]
        entry[0] = now
        self._live[key] = entry
        self._dirty[key] = None
        return entry

    def _values(
        self,
        index: int,
        frame: pl.DataFrame,
        order: Numbers,
        groups: Numbers,
        times: Numbers,
        entries: list[list[Any]],
        ends: list[int] | None,
    ) -> pl.Series:
        """Return the values of one call, for the rows in the order of keys."""
        call = self._calls[index]
        frame = frame[pl.Series(order, dtype=pl.UInt32)]
        numbers = np.cumsum(fresh_groups(groups)) - 1
        accumulators = [entry[1][index] for entry in entries]
        together = ends if call.call.function not in {"LAG", "ROW_NUMBER"} else None
        found = call.together(frame, numbers, accumulators)
        if found is None:
            moments = times[order].tolist()
            values = _row_by_row(call, frame, numbers.tolist(), moments, accumulators, together)
            return call.column("value", values)
        if together is not None:
            last = np.array(together) - 1
            sizes = np.diff(np.append([-1], last))
            found = found.gather(pl.Series(np.repeat(last, sizes), dtype=pl.UInt32))
        return found

    def _trim_cache(self) -> None:
        if len(self._live) > BOUND:
            self._flush()
            keep = len(self._live) // 2
            self._live = dict(list(self._live.items())[-keep:])

    def _flush(self) -> None:
        # Accumulators are changed in place, while a snapshot may still be written: the table has a copy.
        for key in self._dirty:
            self._table.put(key, copy.deepcopy(self._live[key]))
        self._dirty = {}

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._flush()
        return super().barrier()

    def close(self) -> None:
        """Close the user functions."""
        for call in self._calls:
            call.close()


def _row_by_row(
    call: RunningCall,
    frame: pl.DataFrame,
    groups: list[int],
    times: list[int],
    accumulators: list[list[Any]],
    ends: list[int] | None,
) -> list[Any]:
    """Return the value of each row; with `ends`, rows up to the next one of them are taken together."""
    rows = call.rows(frame)
    allowed = call.counts(frame)
    counts = None if allowed is None else allowed.to_list()
    values: list[Any] = []
    add, value = call.add, call.value
    start = 0
    for end in range(1, len(rows) + 1) if ends is None else ends:
        accumulator = accumulators[groups[start]]
        for at in range(start, end):
            if counts is None or counts[at]:
                add(accumulator, rows[at], times[at])
        values += [value(accumulator)] * (end - start)
        start = end
    return values


class BoundedOverOperator(_TimedOver):
    """Frames bounded by rows or time: only rows that later frames can contain are kept.

    In event time a row is late if it is not newer than the last one of its key that was emitted, which is among the rows that are kept. As in Flink, a key
    whose last row is one and a half times the range behind the watermark is forgotten, and so is that nothing older was expected.
    """

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        spec = self.spec
        self._calls = [OverCall(call) for call in spec.aggregates]
        for call in self._calls:
            call.open(context.runtime_context)
        assert spec.preceding is not None
        self._preceding = spec.preceding
        self._remembered = spec.preceding * 3 // 2 + 1  # how long after its last row
        keys = [column(index) for index in spec.keys]
        self._names = list(dict.fromkeys([*keys, *columns_of(spec.aggregates)]))
        schema = {name: self._schema[name] for name in self._names}
        self._slots = KeyIndex()
        self._rows = JoinSide(
            "over",
            context.keyed_state,
            self._slots,
            {**schema, _AT: pl.Int64()},
            spec.keys,
            None,
            ttl_ms=spec.ttl_ms,
            counts=False,
            max_parallelism=context.max_parallelism,
        )
        self._room = JoinMemory(context.keyed_state, self._slots, (self._rows,))
        self._swept: int | None = None

    def _judge(self, frame: pl.DataFrame, times: Numbers) -> Flags:
        watermark = self.context.timers.watermark
        # Rows after the watermark are newer than all emitted rows; before the first watermark after a restart this is unknown.
        timely = times > watermark if self._marked else np.zeros(len(times), np.bool_)
        behind = np.flatnonzero(~timely)
        if not len(behind):
            return timely
        slots, affected, at, rows = self._find(frame[pl.Series(behind, dtype=pl.UInt32)])
        last = np.full(len(affected), MIN_WATERMARK, np.int64)
        if len(rows):
            np.maximum.at(last, at, self._rows.store.gather(rows)[_AT].to_numpy())
            forgotten = self._forgotten(affected, last, self._waited)
            self._rows.remove(rows[forgotten[at]])
            last[forgotten] = MIN_WATERMARK
        timely[behind] = times[behind] > last[np.searchsorted(affected, slots)]
        return timely

    def _forgotten(self, slots: Numbers, last: Numbers, waited: int) -> Flags:
        """Return which of these keys, whose last rows have these times, the watermark has passed by; not those for which one of the first waiting rows waits."""
        assert self._waiting is not None
        over = last <= int(self.context.timers.watermark) - self._remembered
        if self.spec.rows or not over.any():
            return np.zeros(len(slots), np.bool_)
        waiting = self._waiting.rows().head(waited)
        if waiting.height:
            over &= ~np.isin(slots, self._slots.known_rows(waiting, self.spec.keys))
        return over

    def _find(self, frame: pl.DataFrame) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Return the slots of rows, these slots once each, and pairs of a position among the latter and a row that is kept."""
        side, now = self._rows, self.context.clock()
        slots = self._slots.of_rows(frame, self.spec.keys)
        self._room.touch(slots)
        absent = side.absent(slots)
        if len(absent):
            side.load(absent, now, take=True)
        affected = np.unique(slots)
        return slots, affected, *side.find(affected, now)

    def _fire(self, frame: pl.DataFrame, times: Numbers) -> None:
        side, now = self._rows, self.context.clock()
        slots, affected, at, rows = self._find(frame)
        groups = np.concatenate((at, np.searchsorted(affected, slots)))
        # COUNT(*) without PARTITION BY reads no columns: the times give the number of rows.
        seen = pl.DataFrame([*map(frame.get_column, self._names), pl.Series(_AT, times, pl.Int64)])
        if len(rows):
            seen = pl.concat([only(side.store.gather(rows), side.schema), seen])
        moments = seen[_AT].to_numpy()
        order = np.lexsort((moments, groups))
        ordered = seen[pl.Series(order, dtype=pl.UInt32)]
        moments = moments[order]
        fresh = fresh_groups(groups[order])
        begins = fresh | fresh_groups(moments)
        frames = frames_of(
            fresh,
            begins,
            rows=self.spec.rows,
            preceding=self._preceding,
            following=0,
            times=moments,
        )
        is_new = order >= len(rows)
        wanted = np.flatnonzero(is_new)
        back = np.empty(len(wanted), np.int64)
        back[order[wanted] - len(rows)] = np.arange(len(wanted))
        places = pl.Series(back, dtype=pl.UInt32)
        self._emit(frame, [call.over(ordered, frames, wanted)[places] for call in self._calls])
        if self.spec.rows:
            # The last row always stays: late rows are detected by it.
            kept = np.arange(len(order)) >= frames.ends - max(self._preceding, 1)
        elif self.spec.rowtime:
            kept = moments >= moments[frames.ends - 1] - self._preceding
        else:
            kept = moments >= now - self._preceding
        side.remove(rows[order[~kept & ~is_new]])
        new = np.flatnonzero(kept & is_new)
        if len(new):
            side.add(
                ordered[pl.Series(new, dtype=pl.UInt32)],
                affected[groups[order[new]]],
                now,
            )
        self._sweep()
        self._room.look()

    def _sweep(self) -> None:
        """Drop rows outside of all future frames, of keys that get no more rows."""
        if self.spec.rows:
            return
        by_event_time = self.spec.rowtime
        now = int(self.context.timers.watermark) if by_event_time else self.context.clock()
        if self._swept is not None and now - self._swept < self._preceding:
            return
        self._swept = now
        store = self._rows.store
        if not len(store):
            return
        there = np.flatnonzero(store.alive)
        times = store.frame[_AT].to_numpy()[there]
        if by_event_time:
            slots = self._rows.slot_of.values[there]
            last = np.full(len(self._slots), MIN_WATERMARK, np.int64)
            np.maximum.at(last, slots, times)
            assert self._waiting is not None
            known = np.arange(len(last))
            old = self._forgotten(known, last, len(self._waiting))[slots]
        else:
            old = times < now - self._preceding
        self._rows.remove(there[old])

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._rows.expire(self.context.clock())
        self._rows.compact()
        self._rows.store.save()
        return super().barrier()

    def close(self) -> None:
        """Close the user functions."""
        for call in self._calls:
            call.close()
