"""OVER in any order, of rows that may change: partitions are recomputed when they change, or computed once when the input has ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.aggregates import OverAggregateSpec
from penstock.graph.operator_specs.columnar.common import (
    DELETE,
    INSERT,
    KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    column,
)
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import schema_of
from penstock.runtime.columnar.joins.memory import JoinMemory
from penstock.runtime.columnar.joins.pairs import JoinChanges, kinds_of
from penstock.runtime.columnar.joins.sides import JoinSide
from penstock.runtime.columnar.keys import physical
from penstock.runtime.columnar.operators.join import net_by_key, net_by_row
from penstock.runtime.columnar.operators.sort import rows_left
from penstock.runtime.columnar.ordering import Ordering, fresh_groups
from penstock.runtime.columnar.over.calls import OverCall
from penstock.runtime.columnar.over.frames import frames_of
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.key_index import KeyIndex
from penstock.runtime.columnar.store.rows import only
from penstock.runtime.columnar.store.waiting_rows import WaitingRows
from penstock.runtime.columnar.times import millis
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.records import MAX_WATERMARK


class _AnyOver(StreamOperator):
    """Base: computes whole partitions."""

    spec: OverAggregateSpec

    def open(self, context: OperatorContext) -> None:
        """Prepare the calls."""
        super().open(context)
        self._schema = schema_of(self.spec.input_types)
        self._ordering = Ordering(self.spec.order)
        self._calls = [OverCall(call) for call in self.spec.aggregates]
        for call in self._calls:
            call.open(context.runtime_context)
        self._distances = not self.spec.rows and any(
            bound not in (None, 0) for bound in (self.spec.preceding, self.spec.following)
        )

    def _with_values(self, frame: pl.DataFrame, groups: Numbers) -> pl.DataFrame:
        """Return the rows of partitions, as they are ordered here, with the values of the calls."""
        order = self._ordering.sorted(frame, groups)
        ordered = frame[pl.Series(order, dtype=pl.UInt32)]
        fresh = fresh_groups(groups[order])
        frames = frames_of(
            fresh,
            self._ordering.begins(frame, order, fresh) if self.spec.order else fresh,
            rows=self.spec.rows,
            preceding=self.spec.preceding,
            following=self.spec.following,
            times=self._times(ordered) if self._distances else None,
        )
        everything = np.arange(len(order))
        back = np.empty(len(order), np.int64)
        back[order] = everything
        places, start = pl.Series(back, dtype=pl.UInt32), len(self._schema)
        return frame.hstack(
            [
                call.over(ordered, frames, everything)[places].alias(column(start + at))
                for at, call in enumerate(self._calls)
            ]
        )

    def _times(self, ordered: pl.DataFrame) -> Numbers:
        """Return the column that RANGE counts from, as ascending numbers. NULL is near NULL only."""
        key = self.spec.order[0]
        series = ordered[column(key.index)]
        if series.dtype == pl.Date:
            series = series.cast(pl.Datetime("ms"))  # bounds are milliseconds
        numbers = millis(series) if isinstance(series.dtype, pl.Datetime) else physical(series)
        lowest = key.nulls_first == key.ascending
        values = numbers.cast(pl.Int64)
        if values.has_nulls():
            beyond = 1 + max(abs(each or 0) for each in (self.spec.preceding, self.spec.following))
            end = values.min() if lowest else values.max()
            nearest = end if isinstance(end, int) else 0
            values = values.fill_null(nearest - beyond if lowest else nearest + beyond)
        found = values.to_numpy()
        return found if key.ascending else -found

    def close(self) -> None:
        """Close the user functions."""
        for call in self._calls:
            call.close()


class BufferedOverOperator(_AnyOver):
    """Keeps all rows until the input has ended."""

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        self._waiting = WaitingRows(
            context.keyed_state.table("waiting", namespaced=True),
            {**self._schema, KIND: pl.Int8()},
            self.spec.keys,
            context.max_parallelism,
        )

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Keep rows."""
        kinds = pl.Series(KIND, kinds_of(batch.frame), pl.Int8)
        rows = only(batch.frame, self._schema).with_columns(kinds)
        self._waiting.add(rows, np.full(rows.height, MAX_WATERMARK, np.int64))

    def finish(self, *, ends_for_good: bool) -> None:
        """Emit all rows with their values."""
        rows = self._waiting.take(MAX_WATERMARK)
        if not rows.height:
            return
        frame = rows[pl.Series(rows_left(rows), dtype=pl.UInt32)].drop(KIND)
        groups = KeyIndex().of_rows(frame, self.spec.keys)
        if frame.height:
            self.output.emit(ColumnBatch(self._with_values(frame, groups)))

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._waiting.save()
        return super().barrier()


class ChangingOverOperator(_AnyOver):
    """Keeps all rows. A batch changes partitions once: added and removed rows are emitted, and those whose values have changed."""

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        self._slots = KeyIndex()
        self._rows = JoinSide(
            "over",
            context.keyed_state,
            self._slots,
            self._schema,
            self.spec.keys,
            self.spec.unique,
            ttl_ms=self.spec.ttl_ms,
            counts=False,
            max_parallelism=context.max_parallelism,
        )
        self._rows.track()
        self._room = JoinMemory(context.keyed_state, self._slots, (self._rows,))

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Compute the partitions that have changed, as they were and as they are."""
        frame = batch.frame
        if not frame.height:
            return
        side, now = self._rows, self.context.clock()
        slots = self._slots.of_rows(frame, self.spec.keys)
        self._room.touch(slots)
        absent = side.absent(slots)
        if len(absent):
            side.load(absent, now, take=True)
        assert side.identities is not None
        find = net_by_row if self.spec.unique is None else net_by_key
        net = find(frame, side.identities_of(frame, slots), side.identities)
        come = only(frame, self._schema)[pl.Series(net.come, dtype=pl.UInt32)]
        come_slots = slots[net.come]
        affected = np.unique(np.concatenate((come_slots, side.slot_of.values[net.go])))
        groups, rows = side.find(affected, now)
        stored = only(side.store.gather(rows), self._schema)
        before = self._with_values(stored, groups)
        stays = np.flatnonzero(~np.isin(rows, net.go))
        after = self._with_values(
            pl.concat([stored[pl.Series(stays, dtype=pl.UInt32)], come]),
            np.concatenate((groups[stays], np.searchsorted(affected, come_slots))),
        )
        replaced = net.replaced >= 0
        # Of each row that goes, the position among those that were.
        place_of = dict(zip(rows.tolist(), range(len(rows)), strict=True))
        known = np.array([row in place_of for row in net.go.tolist()], np.bool_)
        gone = np.array([place_of[row] for row in net.go[known].tolist()], np.int64)
        updates = np.zeros(len(come_slots), np.bool_)
        updates[net.replaced[known & replaced]] = True
        self._emit(before, after, stays, gone, replaced[known], updates)
        side.remove(net.go)
        side.add(come, come_slots, now)
        self._room.look()

    def _emit(
        self,
        before: pl.DataFrame,
        after: pl.DataFrame,
        stays: Numbers,
        gone: Numbers,
        replaced: Numbers,
        updates: Numbers,
    ) -> None:
        old = before[pl.Series(stays, dtype=pl.UInt32)]
        new = after.head(len(stays))
        differs = pl.Series(np.zeros(len(stays), np.bool_))
        for name in before.columns[len(self._schema) :]:
            differs |= old[name].ne_missing(new[name])
        changes = JoinChanges()
        go_kinds = np.where(replaced, UPDATE_BEFORE, DELETE).astype(np.int8)
        if not self.spec.update_before:
            gone, go_kinds = gone[~replaced], go_kinds[~replaced]
        else:
            changes.add(old.filter(differs), UPDATE_BEFORE)
        changes.add(before[pl.Series(gone, dtype=pl.UInt32)], go_kinds)
        changes.add(new.filter(differs), UPDATE_AFTER)
        come_kinds = np.where(updates, UPDATE_AFTER, INSERT).astype(np.int8)
        changes.add(after.tail(len(updates)) if len(updates) else after.clear(), come_kinds)
        emitted = changes.batch()
        if emitted is not None:
            self.output.emit(emitted)

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._rows.expire(self.context.clock())
        self._rows.compact()
        self._rows.store.save()
        return super().barrier()
