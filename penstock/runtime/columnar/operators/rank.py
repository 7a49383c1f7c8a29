"""Top-N: the first rows of each key in some order, as a changelog.

A batch is taken as a whole: the rows of all keys that it changes are put in order once, and what has another place than before is emitted. Where rows
only come, a row that is worse than the last of a full key is dropped before anything else is done with it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    column,
)
from penstock.graph.operator_specs.columnar.ranks import RankSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import schema_of
from penstock.runtime.columnar.joins.memory import JoinMemory
from penstock.runtime.columnar.joins.pairs import JoinChanges
from penstock.runtime.columnar.joins.sides import JoinSide
from penstock.runtime.columnar.operators.join import net_by_key, net_by_row
from penstock.runtime.columnar.ordering import (
    Ordering,
    dense_ranks,
    fresh_groups,
    ranks,
    row_numbers,
)
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.growing_array import GrowingArray
from penstock.runtime.columnar.store.key_index import KeyIndex
from penstock.runtime.columnar.store.rows import only
from penstock.runtime.operators.base import OperatorContext, StreamOperator

_NOTHING: Final[Numbers] = np.empty(0, np.int64)
_NO_LIMIT: Final = np.iinfo(np.int64).max
_MANY: Final = 2000  # rows of a key: it is worth it to look for those that can be among the first


class RankOperator(StreamOperator):
    """Keeps the rows that have, or may get, one of the requested ranks."""

    spec: RankSpec

    def open(self, context: OperatorContext) -> None:
        """Find the rows that were restored, and their places."""
        super().open(context)
        spec = self.spec
        self._ordering = Ordering(spec.order)
        self._appends = spec.strategy == "APPEND"
        # Places as part of what is emitted: a row that takes another's place is its update.
        self._paired = spec.function == "ROW_NUMBER" and (spec.with_rank or spec.start == spec.end)
        self._needed = list(self._ordering.columns) or [column(0)]
        if spec.end_column is not None and column(spec.end_column) not in self._needed:
            self._needed.append(column(spec.end_column))
        self._slots = KeyIndex()
        self._rows = JoinSide(
            "ranked",
            context.keyed_state,
            self._slots,
            schema_of(spec.input_types),
            spec.keys,
            spec.unique,
            ttl_ms=spec.ttl_ms,
            counts=True,  # `partners` has the place that a row was emitted with; 0: none
            max_parallelism=context.max_parallelism,
        )
        if not self._appends:
            self._rows.track()
        self._room = JoinMemory(context.keyed_state, self._slots, (self._rows,))
        self._limits = GrowingArray(np.int64, _NO_LIMIT)  # of each slot
        self._is_numbered = self._can_be_numbered()
        self._has_limits = self._appends and self._is_numbered and not spec.ttl_ms
        self._place_again(np.arange(len(self._slots)))

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Put the rows of the keys that have changed in order."""
        frame = batch.frame
        slots = self._slots.of_rows(frame, self.spec.keys)
        if self._has_limits and frame.height:
            hopeful = self._hopeful(frame, slots)
            if not hopeful.all():
                frame, slots = frame.filter(pl.Series(hopeful)), slots[hopeful]
        if not frame.height:
            return
        now = self.context.clock()
        self._room.touch(slots)
        absent = self._rows.absent(slots)
        if len(absent):
            self._rows.load(absent, now, take=True)
            self._place_again(absent)
        self._change(frame, slots, now)
        if self._room.look():
            self._limits = GrowingArray(np.int64, _NO_LIMIT)

    # Rows that cannot enter the ranking

    def _can_be_numbered(self) -> bool:
        """Whether a number says that a row is behind another, and places behind a number are of no interest."""
        spec = self.spec
        if not spec.order or spec.end is None or spec.end_column is not None:
            return False
        dtype = self._rows.schema[column(spec.order[0].index)]
        return spec.function != "DENSE_RANK" and (dtype.is_integer() or dtype.is_temporal())

    def _first_key(self, frame: pl.DataFrame) -> tuple[Numbers, Numbers | None]:
        """Return the first column to order by as numbers, of which less is better, and which rows have NULL there."""
        key = self.spec.order[0]
        series = frame[column(key.index)].to_physical()
        null = series.is_null().to_numpy() if series.has_nulls() else None
        values = series.cast(pl.Int64).fill_null(0).to_numpy()
        return (values if key.ascending else ~values), null

    def _hopeful(self, frame: pl.DataFrame, slots: Numbers) -> Numbers:
        """Return which rows are not worse than all stored rows of their key."""
        self._limits.reach(len(self._slots))
        limits = self._limits.values[slots]
        values, null = self._first_key(frame)
        if len(self.spec.order) == 1 and self.spec.function == "ROW_NUMBER":
            hopeful: Numbers = (values < limits) | (limits == _NO_LIMIT)
        else:
            hopeful = values <= limits
        return hopeful if null is None else hopeful | null

    def _note_limits(
        self, ordered: pl.DataFrame, groups: Numbers, numbers: Numbers, affected: Numbers
    ) -> None:
        """Remember the last row of each key that is full."""
        last = np.flatnonzero(numbers == self.spec.end)
        if not len(last):
            return
        values, null = self._first_key(ordered[pl.Series(last, dtype=pl.UInt32)])
        if null is not None:
            values = np.where(null, _NO_LIMIT, values)
        self._limits.reach(len(self._slots))
        self._limits.values[affected[groups[last]]] = values

    # Places

    def _place_again(self, slots: Numbers) -> None:
        """Find the places of rows that have come back from the state."""
        if not len(slots):
            return
        groups, rows = self._rows.find(slots, self.context.clock())
        values = self._values(rows)
        places = np.zeros(len(rows), np.int64)
        order, numbers = self._number(values, groups)
        places[order] = numbers
        self._rows.partners.values[rows] = self._shown(places, self._ends(values, groups))

    def _values(self, rows: Numbers) -> pl.DataFrame:
        """Return the columns that determine the order of rows."""
        return self._rows.store.frame.select(self._needed)[pl.Series(rows, dtype=pl.UInt32)]

    def _contenders(self, values: pl.DataFrame, groups: Numbers, rows: Numbers) -> Numbers:
        """Return the rows that can be among the first: of a key with many rows, those that are not behind the last one by its first column."""
        end = self.spec.end
        if end is None or not self._is_numbered or len(rows) < _MANY:
            return rows
        keys, null = self._first_key(values)
        if null is not None:
            return rows
        counts = np.bincount(groups[rows])
        chosen = np.ones(len(rows), np.bool_)
        for group in np.flatnonzero(counts > max(_MANY, 4 * end)).tolist():
            mine = np.flatnonzero(groups[rows] == group)
            found = keys[rows[mine]]
            chosen[mine] = found <= np.partition(found, end - 1)[end - 1]
        return rows[chosen]

    def _number(self, values: pl.DataFrame, groups: Numbers) -> tuple[Numbers, Numbers]:
        """Return the positions of rows in order, and the numbers they have there."""
        order = self._ordering.sorted(values, groups)
        fresh = fresh_groups(groups[order])
        if self.spec.function == "ROW_NUMBER":
            return order, row_numbers(fresh)
        begins = self._ordering.begins(values, order, fresh)
        number = ranks if self.spec.function == "RANK" else dense_ranks
        return order, number(fresh, begins)

    def _ends(self, values: pl.DataFrame, groups: Numbers) -> Numbers | int | None:
        """Return the last place that is wanted: of each row, of all, or None if there is none."""
        index, end = self.spec.end_column, self.spec.end
        if index is None:
            return end
        # The key's first row says it for all.
        distinct, first = np.unique(groups, return_index=True)
        said = values[column(index)].cast(pl.Int64).fill_null(0).to_numpy()
        ends: Numbers = said[first][np.searchsorted(distinct, groups)]
        return ends if end is None else np.minimum(ends, end)

    def _shown(self, places: Numbers, ends: Numbers | int | None) -> Numbers:
        wanted = places >= self.spec.start
        if ends is not None:
            wanted &= places <= ends
        return np.where(wanted, places, 0)

    def _kept(self, places: Numbers, ends: Numbers | int | None) -> Numbers:
        """Return which rows may have a wanted place some day."""
        kept = places > 0
        if self.spec.strategy == "RETRACT":
            return kept
        if ends is None and not self.spec.order and not self.spec.with_rank:
            ends = self.spec.start - 1  # the number of skipped rows is enough
        return kept if ends is None else kept & (places <= ends)

    # Changes

    def _net(self, frame: pl.DataFrame, slots: Numbers) -> tuple[Numbers, Numbers]:
        """Return the rows of a batch that come, and the stored rows that go."""
        known = self._rows.identities
        if known is None:
            return np.arange(frame.height), _NOTHING
        names = self._rows.identities_of(frame, slots)
        find = net_by_row if self.spec.unique is None else net_by_key
        net = find(frame, names, known)
        return net.come, net.go

    def _change(self, frame: pl.DataFrame, slots: Numbers, now: int) -> None:
        side = self._rows
        come, go = self._net(frame, slots)
        frame = only(frame, side.schema)
        if len(come) < frame.height:
            frame, slots = frame[pl.Series(come, dtype=pl.UInt32)], slots[come]
        affected = np.unique(np.concatenate((slots, side.slot_of.values[go])))
        at, rows = side.find(affected, now)
        groups = np.concatenate((at, np.searchsorted(affected, slots)))
        values = self._values(rows)
        if frame.height:
            values = pl.concat([values, frame.select(self._needed)])
        # Removed rows have no place; rows that were not compared are behind all others.
        places = np.full(len(groups), _NO_LIMIT)
        if len(go):
            places[: len(rows)][np.isin(rows, go)] = 0
        left = self._contenders(values, groups, np.flatnonzero(places))
        if len(left) == len(groups):
            order, numbers = self._number(values, groups)
        else:
            chosen = values[pl.Series(left, dtype=pl.UInt32)]
            order, numbers = self._number(chosen, groups[left])
            order = left[order]
        places[order] = numbers
        ends = self._ends(values, groups)
        shown = self._shown(places, ends)
        self._emit(frame, rows, groups, shown)
        kept = self._kept(places, ends)
        stored = kept[: len(rows)]
        side.partners.values[rows] = shown[: len(rows)]
        side.remove(rows[~stored])
        new = np.flatnonzero(kept[len(rows) :])
        if len(new):
            added = side.add(frame[pl.Series(new, dtype=pl.UInt32)], slots[new], now)
            side.partners.values[added] = shown[len(rows) :][new]
        if self._has_limits:
            ordered = values[pl.Series(order, dtype=pl.UInt32)]
            self._note_limits(ordered, groups[order], numbers, affected)

    def _emit(self, frame: pl.DataFrame, rows: Numbers, groups: Numbers, shown: Numbers) -> None:
        before = np.zeros(len(groups), np.int64)
        before[: len(rows)] = self._rows.partners.values[rows]
        changed = before != shown if self.spec.with_rank else (before > 0) != (shown > 0)
        goes = np.flatnonzero(changed & (before > 0))
        comes = np.flatnonzero(changed & (shown > 0))
        go_kinds = np.full(len(goes), DELETE, np.int8)
        come_kinds = np.full(len(comes), INSERT, np.int8)
        if self._paired and len(goes):
            most = int(max(before.max(), shown.max())) + 1
            left, taken = groups * most + before, groups * most + shown
            go_kinds[np.isin(left[goes], taken[comes])] = UPDATE_BEFORE
            come_kinds[np.isin(taken[comes], left[goes])] = UPDATE_AFTER
            if not self.spec.update_before:
                kept = go_kinds != UPDATE_BEFORE
                goes, go_kinds = goes[kept], go_kinds[kept]
        changes = JoinChanges()
        changes.add(self._result(frame, rows, goes, before), go_kinds)
        in_order = np.lexsort((shown[comes], groups[comes]))
        comes, come_kinds = comes[in_order], come_kinds[in_order]
        changes.add(self._result(frame, rows, comes, shown), come_kinds)
        emitted = changes.batch()
        if emitted is not None:
            self.output.emit(emitted)

    def _result(
        self, frame: pl.DataFrame, rows: Numbers, chosen: Numbers, places: Numbers
    ) -> pl.DataFrame:
        """Return some stored and new rows, with their ranks."""
        schema = self._rows.schema
        is_stored = chosen < len(rows)
        stored = only(self._rows.store.gather(rows[chosen[is_stored]]), schema)
        if is_stored.all():
            result = stored
        else:
            new = frame[pl.Series(chosen[~is_stored] - len(rows), dtype=pl.UInt32)]
            result = new
            if stored.height:
                # Each row at its place among the others.
                back = np.empty(len(chosen), np.int64)
                back[np.concatenate((np.flatnonzero(is_stored), np.flatnonzero(~is_stored)))] = (
                    np.arange(len(chosen))
                )
                result = pl.concat([stored, new])[pl.Series(back, dtype=pl.UInt32)]
        if not self.spec.with_rank:
            return result
        return result.with_columns(pl.Series(column(len(schema)), places[chosen], pl.Int64))

    def finish(self, *, ends_for_good: bool) -> None:
        """Drop all rows if no later row can change the output, so that the last checkpoint does not write them."""
        if ends_for_good:
            self._rows.clear()

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._rows.expire(self.context.clock())
        self._rows.compact()
        self._rows.store.save()
        return super().barrier()
