"""Interval joins: rows of two append-only inputs whose times are near each other."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from penstock.common.user_types import Key
from penstock.graph.operator_specs.columnar.common import column
from penstock.graph.operator_specs.columnar.joins import ColumnarIntervalJoinSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.joins.bulk import comparable
from penstock.runtime.columnar.joins.pairs import JoinPairs, gather_from
from penstock.runtime.columnar.joins.timed import TimedSide, forget_slots
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.key_index import KeyIndex
from penstock.runtime.columnar.store.rows import only
from penstock.runtime.columnar.times import millis
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.hooks import UsesProcessingTime
from penstock.runtime.operators.lateness import LateRecords
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK

_LEAST: Final = 64  # rows of inner joins are removed in bulk: once this many milliseconds, or an eighth of the interval, have expired


class ColumnarIntervalJoinOperator(StreamOperator, UsesProcessingTime):
    """Joins rows as they come. A row without partners is emitted, where its side is preserved, when none can come any more.

    A row that comes late finds the partners that are still there; one that finds none, and is too late to wait for others, counts as dropped. Watermarks are held back by as much as joined rows can be older than they are.
    """

    spec: ColumnarIntervalJoinSpec

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        spec = self.spec
        kind = spec.kind
        self._pairing = JoinPairs(
            spec.left_types, spec.right_types, spec.condition, spec.zone, context.runtime_context
        )
        self._slots = KeyIndex()
        self._left_only = kind in {"SEMI", "ANTI"}
        # For each side, whether a row is emitted by itself when it has had no partner.
        self._preserved = (kind in {"LEFT", "FULL", "ANTI"}, kind in {"RIGHT", "FULL"})
        backend, groups = context.keyed_state, context.max_parallelism
        # A left row can have partners up to its time - lower, a right one up to its time + upper.
        left = TimedSide(
            "left", backend, self._slots, self._pairing.left, spec.left_keys, -spec.lower, groups
        )
        right = TimedSide(
            "right", backend, self._slots, self._pairing.right, spec.right_keys, spec.upper, groups
        )
        self._sides = (left, right)
        self._reach = ((-spec.upper, -spec.lower), (spec.lower, spec.upper))
        self._by_row_time = spec.left_time is not None
        self._times = (spec.left_time, spec.right_time)
        self._null_safe = spec.null_safe or (False,) * len(spec.left_keys)
        self._late = LateRecords(context)
        self._delay = max(-spec.lower, spec.upper, 0) if self._by_row_time else 0
        self._slack = 0 if any(self._preserved) else max(_LEAST, (spec.upper - spec.lower) // 8)

    def _past(self) -> int:
        """The last moment that is over: rows of the clock's present millisecond may still come."""
        return self.context.timers.watermark if self._by_row_time else self.context.clock() - 1

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Join rows with the stored ones, and store those that may find more partners."""
        own, other = self._sides[input_index], self._sides[1 - input_index]
        frame = only(batch.frame, own.schema)
        if not frame.height:
            return
        now = self._past()
        times = self._times_of(frame, input_index)
        met = np.zeros(frame.height, np.bool_)
        known = comparable(frame, own.keys, self._null_safe)
        known &= times != MIN_WATERMARK
        rows = np.flatnonzero(known)
        slots = self._slots.of_rows(gather_from(frame)(rows), own.keys)
        portions = other.portions(slots)
        if portions > 1:  # not all pairs of the batch fit into memory at once
            for part in frame.iter_slices(-(-frame.height // portions)):
                self.process(ColumnBatch(part), input_index)
            return
        at, partners = other.find(slots)
        distance = other.times.values[partners] - times[rows[at]]
        least, most = self._reach[input_index]
        near = (distance >= least) & (distance <= most)
        near &= other.times.values[partners] > other.limit(now)
        self._join(frame, rows[at[near]], partners[near], met, input_index)
        # Rows that cannot find a partner any more are not stored.
        live = times > own.limit(now)
        if self._left_only and input_index == 0:
            live &= ~met  # one partner is enough
        alone = ~met & ~(live & known)
        if self._preserved[input_index] and alone.any():
            self._emit_alone(frame.filter(pl.Series(alone)), input_index)
        elif self._by_row_time:
            late = alone & ~live & known
            if late.any():
                self._late.drop(times[late].tolist(), now)
        kept = np.flatnonzero(live[rows])
        chosen = rows[kept]
        own.add(gather_from(frame)(chosen), slots[kept], times[chosen], met[chosen])

    def _times_of(self, frame: pl.DataFrame, input_index: int) -> Numbers:
        time = self._times[input_index]
        if time is None:
            return np.full(frame.height, self.context.clock(), np.int64)
        return millis(frame[column(time)]).fill_null(MIN_WATERMARK).to_numpy()

    def _join(
        self, frame: pl.DataFrame, rows: Numbers, partners: Numbers, met: Numbers, input_index: int
    ) -> None:
        other = self._sides[1 - input_index]
        joined = self._pairing.joined(
            gather_from(frame), other.gather, rows, partners, own_is_left=input_index == 0
        )
        found = []
        for pairs, chosen, part in joined:
            here = slice(None) if chosen is None else chosen
            met[rows[part][here]] = True
            found.append(partners[part][here])
            if pairs.height and not self._left_only:
                self.output.emit(ColumnBatch(pairs))
        if not found:
            return
        touched = np.unique(np.concatenate(found))
        semi = self.spec.kind == "SEMI"
        if self._left_only:
            if input_index == 0:
                if semi and met.any():
                    self.output.emit(ColumnBatch(frame.filter(pl.Series(met))))
            elif len(touched):
                if semi:
                    self.output.emit(ColumnBatch(other.gather(touched)))
                other.remove(touched)
        elif self._preserved[1 - input_index]:
            other.note_met(touched)

    def _emit_alone(self, frame: pl.DataFrame, input_index: int) -> None:
        if not self._left_only:
            frame = self._pairing.padded(frame, is_left=input_index == 0)
        self.output.emit(ColumnBatch(frame))

    def _expire(self, now: int) -> None:
        for index, side in enumerate(self._sides):
            first = side.first
            if first is None or first + side.keep + self._slack > now:
                continue
            over = side.over(now)
            if self._preserved[index]:
                alone = over[~side.met.values[over]]
                if len(alone):
                    self._emit_alone(side.gather(alone), index)
            side.forget_over(over)
        forget_slots(self._slots, self._sides)

    def process_watermark(self, watermark: int) -> None:
        """Drop expired rows, then forward the watermark, held back behind all rows that may still be emitted."""
        timers = self.context.timers
        timers.advance_watermark(watermark, _no_timer)
        if self._by_row_time:
            self._expire(timers.watermark)
        if watermark not in (MIN_WATERMARK, MAX_WATERMARK):
            watermark -= self._delay
        self.output.emit_watermark(watermark)

    def advance_processing_time(self, now: int) -> None:
        """Drop expired rows."""
        if not self._by_row_time:
            self._expire(now - 1)

    def next_wakeup(self) -> int | None:
        """When the time of the first row is over."""
        if self._by_row_time:
            return None
        ends = [
            side.first + side.keep + self._slack + 1
            for side in self._sides
            if side.first is not None
        ]
        return min(ends, default=None)

    def finish(self, *, ends_for_good: bool) -> None:
        """Emit the remaining rows without partners at the end of input."""
        if not self._by_row_time:
            self._expire(MAX_WATERMARK)

    def close(self) -> None:
        """Close the user functions that the condition calls."""
        self._pairing.close()

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        for side in self._sides:
            side.store.save()
        return super().barrier()


def _no_timer(time: int, key: Key, namespace: object) -> None:
    """Ignore timers: this operator has none."""
