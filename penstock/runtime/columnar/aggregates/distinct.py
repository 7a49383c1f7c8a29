"""DISTINCT: which values of a key have been seen, so that each counts once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, repeat
from typing import Any, Final

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.aggregates.columns import SIGN
from penstock.runtime.columnar.aggregates.marked import MarkedValues
from penstock.runtime.columnar.aggregates.plan import AggregatePlan, DistinctValues
from penstock.runtime.columnar.keys import keys_of, values_of
from penstock.runtime.columnar.state import is_empty, read_many
from penstock.runtime.state.table import StateTable

_BITS: Final = "$bits"
BOUND: Final = 2_000_000


class DistinctState:
    """The values of one set of operands, by key: entries ((key), (set, values)) of a state table.

    While rows only come, an entry is a number whose bits say which calls have got the value; else it is how often each call has it. The calls
    that share the operands share the entry. `fresh` is what the last batch brought: values that are new (or gone) for at least one call.
    """

    def __init__(
        self, plan: AggregatePlan, group: DistinctValues, table: StateTable, ttl_ms: int = 0
    ) -> None:
        self._plan = plan
        self._group = group
        # Values that are never retracted and never expire are bits in arrays; all others are objects.
        self._cache: SeenValues | MarkedValues = (
            MarkedValues(table, group.number, len(group.values))
            if not plan.retracts and not ttl_ms
            else SeenValues(table, group.number)
        )
        self._ttl = ttl_ms
        self.number = group.number
        self.fresh: pl.DataFrame | None = None
        self._values = [column(at) for at in range(len(group.values))]
        self._masks = [column(len(group.values) + at) for at in range(len(group.filters))]
        self._keys = [f"k{at}" for at in range(len(plan.keys))]
        self._in_order = bool(group.rows)  # whether it matters which value came first

    def add(self, frame: pl.DataFrame, partial: pl.DataFrame, now: int) -> pl.DataFrame:
        """Return the folded batch with the accumulators of the calls that want distinct values."""
        fresh = self._counted(frame, now) if self._plan.retracts else self._marked(frame, now)
        self.fresh = fresh
        plan, group, keys = self._plan, self._group, self._keys
        if not group.columns:
            return partial
        folded = plan.fold_distinct(group, fresh, keys)
        if not keys:
            if not folded.height:
                folded = pl.DataFrame(
                    {
                        name: pl.Series([neutral], dtype=dtype)
                        for each in group.columns
                        for (name, dtype), neutral in zip(
                            each.accumulators.items(), each.neutral, strict=True
                        )
                    }
                )
            return pl.concat([partial, folded], how="horizontal")
        joined = partial.join(
            folded,
            left_on=plan.keys,
            right_on=keys,
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        return plan.with_neutral(joined, group)

    def _selected(self, frame: pl.DataFrame, extra: Sequence[pl.Expr]) -> pl.DataFrame:
        """Return keys and values of the rows that at least one call needs; rows without a value are skipped."""
        group, plan = self._group, self._plan
        keys = [pl.col(name).alias(new) for name, new in zip(plan.keys, self._keys, strict=True)]
        values = [each.alias(name) for each, name in zip(group.values, self._values, strict=True)]
        there = pl.all_horizontal([pl.col(name).is_not_null() for name in self._values])
        return frame.select(*keys, *values, *extra).filter(there)

    def _grouped(self, rows: pl.DataFrame) -> Any:
        return rows.group_by(*self._keys, *self._values, maintain_order=self._in_order)

    def _marked(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """Return values that are new to a call."""
        filters = self._group.filters
        if all(each is None for each in filters):
            every = (1 << len(filters)) - 1
            rows = self._selected(frame, []).unique(maintain_order=self._in_order)
            rows = rows.with_columns(pl.lit(every).alias(_BITS))
        else:
            bits = [
                pl.lit(1 << at)
                if each is None
                else pl.when(each).then(pl.lit(1 << at)).otherwise(0)
                for at, each in enumerate(filters)
            ]
            marked = pl.sum_horizontal(bits).cast(pl.Int64).alias(_BITS)
            rows = self._selected(frame, [marked]).filter(pl.col(_BITS) != 0)
            rows = self._grouped(rows).agg(pl.col(_BITS).bitwise_or())
        new = self._newly_marked(rows, now)
        changed = np.flatnonzero(new)
        fresh = rows if len(changed) == rows.height else rows[changed]
        bits_of = new[changed]
        return fresh.with_columns(
            pl.Series(name, (bits_of >> at) & 1).cast(pl.Boolean)
            for at, name in enumerate(self._masks)
        )

    def _newly_marked(self, rows: pl.DataFrame, now: int) -> np.ndarray[Any, Any]:
        """Remember the bits of values; return those that are new."""
        bits = rows[_BITS].to_numpy()
        if isinstance(self._cache, MarkedValues):
            return self._cache.mark(rows, self._keys, self._values, bits)
        entries = self._entries(rows)
        before = np.fromiter(self._seen(entries, now), dtype=np.int64, count=len(entries))
        after = before | bits
        new: np.ndarray[Any, Any] = after & ~before
        changed = np.flatnonzero(new)
        self._write([entries[at] for at in changed.tolist()], after[changed].tolist(), now)
        return new

    def _counted(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """Return values that a call has for the first time, or no longer; a value is one row per sign."""
        counts = [
            (pl.col(SIGN) if each is None else pl.when(each).then(pl.col(SIGN)).otherwise(0)).alias(
                name
            )
            for each, name in zip(self._group.filters, self._masks, strict=True)
        ]
        rows = self._grouped(self._selected(frame, counts)).agg(
            pl.col(name).sum() for name in self._masks
        )
        entries = self._entries(rows)
        size = len(self._masks)
        before = np.array(
            [seen or (0,) * size for seen in self._seen(entries, now)], dtype=np.int64
        ).reshape(len(entries), size)
        change = np.stack([rows[name].to_numpy() for name in self._masks], axis=1)
        after = before + change
        touched = np.flatnonzero(change.any(axis=1))
        self._write(
            [entries[at] for at in touched.tolist()],
            [tuple(each) if any(each) else 0 for each in after[touched].tolist()],
            now,
        )
        came, went = (before <= 0) & (after > 0), (before > 0) & (after <= 0)
        return pl.concat([self._turned(rows, came, 1), self._turned(rows, went, -1)])

    def _turned(self, rows: pl.DataFrame, turned: np.ndarray[Any, Any], sign: int) -> pl.DataFrame:
        chosen = np.flatnonzero(turned.any(axis=1))
        picked = rows.select(*self._keys, *self._values)[chosen]
        return picked.with_columns(
            *(pl.Series(name, turned[chosen, at]) for at, name in enumerate(self._masks)),
            pl.lit(sign, pl.Int64).alias(SIGN),
        )

    def _entries(self, rows: pl.DataFrame) -> list[Any]:
        """Return the entries of values: the key, then the values."""
        keyed = rows.select(pl.col(name).alias(column(at)) for at, name in enumerate(self._keys))
        keys = keys_of(keyed, range(len(self._keys))) if self._keys else [()] * rows.height
        return list(zip(keys, *(values_of(rows[name]) for name in self._values), strict=True))

    def _seen(self, entries: list[Any], now: int) -> list[Any]:
        assert isinstance(self._cache, SeenValues)
        found = self._cache.get_many(entries)
        if not self._ttl:
            return found
        return [each[0] if each and each[1] + self._ttl > now else 0 for each in found]

    def _write(self, entries: list[Any], values: list[Any], now: int) -> None:
        if self._ttl:
            values = [(value, now) if value else 0 for value in values]
        assert isinstance(self._cache, SeenValues)
        self._cache.put_many(entries, values)

    def trim_cache(self) -> None:
        """Evict entries that were not used lately if there are too many."""
        self._cache.trim_cache()

    def flush(self) -> None:
        """Write the changed entries to the state table."""
        self._cache.flush()

    def forget(self) -> None:
        """Discard changes that have not been written to the table."""
        self._cache.forget()


class SeenValues:
    """Entries of a state table, kept as objects under (key, value, ...): 0 is none. The table has them under (key, (set, value, ...))."""

    def __init__(self, table: StateTable, number: int, bound: int = BOUND) -> None:
        self._table = table
        self._number = number
        self._bound = bound
        self._live: dict[Any, Any] = {}
        self._dirty: set[Any] = set()
        self._complete = is_empty(table)  # whether all entries of the table are in memory

    def _stored(self, entry: Any) -> object:
        return entry[0], (self._number, *entry[1:])

    def get_many(self, entries: list[Any]) -> list[Any]:
        """Return the entries of values; 0 for values that have not been seen."""
        live = self._live
        found = list(map(live.get, entries, repeat(0)))
        if self._complete or all(found):
            return found
        missing = [at for at, value in enumerate(found) if not value and entries[at] not in live]
        stored = read_many(self._table, [self._stored(entries[at]) for at in missing], 0)
        for at, value in zip(missing, stored, strict=True):
            found[at] = value
            if value:
                live[entries[at]] = value
        return found

    def put_many(self, entries: list[Any], values: list[Any]) -> None:
        """Set the entries of values."""
        self._live.update(zip(entries, values, strict=True))
        self._dirty.update(entries)

    def flush(self) -> None:
        """Write the changed entries to the state table."""
        live, stored = self._live, self._stored
        kept = [entry for entry in self._dirty if live[entry]]
        # Entries of a key share it: a snapshot has it once, which takes half of the time to write.
        shared: dict[Any, Any] = {}
        number, share = self._number, shared.setdefault
        names = [(share(entry[0], entry[0]), (number, *entry[1:])) for entry in kept]
        self._table.put_many(names, map(live.__getitem__, kept))
        if len(kept) < len(self._dirty):
            for entry in [entry for entry in self._dirty if not live[entry]]:
                self._table.remove(stored(entry))
                del live[entry]
        self._dirty = set()

    def forget(self) -> None:
        """Discard changes that have not been written to the table."""
        self._dirty = set()

    def trim_cache(self) -> None:
        """Evict the older half if there are too many entries."""
        if len(self._live) > self._bound:
            self.flush()
            self._complete = False
            self._live = dict(islice(self._live.items(), len(self._live) // 2, None))
