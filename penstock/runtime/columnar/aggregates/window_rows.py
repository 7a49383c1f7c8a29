"""Values that windows keep until they end, for functions that cannot do with sums: DISTINCT, and those that are computed row by row."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.aggregates.columns import SIGN
from penstock.runtime.columnar.aggregates.plan import AggregatePlan, DistinctValues, RowCall
from penstock.runtime.columnar.aggregates.row_state import rows_of
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.keys import keys_of
from penstock.runtime.columnar.values import column_of, listed
from penstock.sql.expr.nodes import Symbol


def key_names(count: int) -> list[str]:
    """Return the names of the key columns of windows."""
    return [column(at) for at in range(count)]


class RowSet:
    """Stored rows of one function, or of several that share values: keys and `schema`."""

    schema: dict[str, pl.DataType]

    def __init__(self, plan: AggregatePlan) -> None:
        self.plan = plan
        self.keys = key_names(len(plan.keys))
        self._named = [
            pl.col(name).alias(new) for name, new in zip(plan.keys, self.keys, strict=True)
        ]

    def take(self, frame: pl.DataFrame, extra: Sequence[str]) -> pl.DataFrame:
        """Return the stored part of (signed) rows: keys, the columns `extra`, values."""
        raise NotImplementedError

    def merge(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Compact the stored rows, if possible."""
        return frame

    def results(self, frame: pl.DataFrame, keys: Sequence[str]) -> list[pl.DataFrame]:
        """Return keys and accumulators, or results, one row per key, for all stored rows; `keys` also identify the windows."""
        raise NotImplementedError


class CallRows(RowSet):
    """The rows of one call that is computed row by row."""

    def __init__(self, plan: AggregatePlan, call: RowCall) -> None:
        super().__init__(plan)
        self._call = call
        types = [
            each.type for each in plan.calls[call.index].operands if not isinstance(each, Symbol)
        ]
        self._values = [f"v{at}" for at in range(len(types))]
        self.schema = {name: dtype_of(each) for name, each in zip(self._values, types, strict=True)}
        self.schema[SIGN] = pl.Int64()

    def take(self, frame: pl.DataFrame, extra: Sequence[str]) -> pl.DataFrame:
        """Return the operands of the rows that the filter lets through."""
        if self._call.filter is not None:
            frame = frame.filter(self._call.filter)
        sign = pl.col(SIGN) if self.plan.retracts else pl.lit(1, pl.Int64).alias(SIGN)
        values = [
            each.cast(self.schema[name]).alias(name)
            for each, name in zip(self._call.operands, self._values, strict=True)
        ]
        return frame.select(*self._named, *extra, *values, sign)

    def results(self, frame: pl.DataFrame, keys: Sequence[str]) -> list[pl.DataFrame]:
        """Compute the function for each key."""
        call = RowCall(
            self._call.index, self._call.function, [pl.col(name) for name in self._values], None
        )
        return [row_results(call, frame, keys)]


class DistinctRows(RowSet):
    """Values with how often each call has them."""

    def __init__(self, plan: AggregatePlan, group: DistinctValues) -> None:
        super().__init__(plan)
        self._group = group
        self._values = [f"v{at}" for at in range(len(group.values))]
        self._masks = [f"m{at}" for at in range(len(group.filters))]
        self.schema = {
            name: dtype_of(each.type)
            for name, each in zip(self._values, group.operands, strict=True)
        }
        self.schema |= dict.fromkeys(self._masks, pl.Int64())

    def take(self, frame: pl.DataFrame, extra: Sequence[str]) -> pl.DataFrame:
        """Return each value once, with its counts."""
        sign = pl.col(SIGN) if self.plan.retracts else pl.lit(1, pl.Int64)
        masks = [
            (sign if each is None else pl.when(each).then(sign).otherwise(0)).alias(name)
            for each, name in zip(self._group.filters, self._masks, strict=True)
        ]
        values = [
            each.alias(name) for each, name in zip(self._group.values, self._values, strict=True)
        ]
        there = pl.all_horizontal([pl.col(name).is_not_null() for name in self._values])
        rows = frame.select(*self._named, *extra, *values, *masks).filter(there)
        return self._summed(rows, [*self.keys, *extra])

    def _summed(self, rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
        # Functions that are computed row by row may ask which value came first.
        grouped = rows.group_by(*keys, *self._values, maintain_order=bool(self._group.rows))
        return grouped.agg(pl.col(name).sum() for name in self._masks)

    def merge(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add counts up."""
        return self._summed(frame, self.keys)

    def results(self, frame: pl.DataFrame, keys: Sequence[str]) -> list[pl.DataFrame]:
        """Fold the values that are there, each once for each call."""
        names = [f"k{at}" for at in range(len(keys))]
        size = len(self._values)
        fresh = self._summed(frame, keys).select(
            *(pl.col(key).alias(name) for key, name in zip(keys, names, strict=True)),
            *(pl.col(name).alias(column(at)) for at, name in enumerate(self._values)),
            *((pl.col(name) > 0).alias(column(size + at)) for at, name in enumerate(self._masks)),
            pl.lit(1, pl.Int64).alias(SIGN),
        )
        found = [row_results(call, fresh, names) for call in self._group.rows]
        if self._group.columns:
            found.append(self.plan.fold_distinct(self._group, fresh, names))
        back = dict(zip(names, keys, strict=True))
        return [each.rename({k: v for k, v in back.items() if k in each.columns}) for each in found]


def row_results(call: RowCall, frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the result of a call that is computed row by row, for each key that has rows."""
    lists = rows_of(call, frame, keys)
    named = frame.select(keys).unique(maintain_order=True) if keys else pl.DataFrame()
    places = dict(zip(keys, key_names(len(keys)), strict=True))
    known = keys_of(named.rename(places), range(len(keys))) if keys else list(lists)
    values = []
    for key in known:
        accumulator = call.function.create()
        call.function.update(accumulator, *lists.get(key, ((), ())))
        values.append(call.function.result(accumulator))
    made = column_of(call.name, values, dtype_of(call.function.call.type))
    return pl.DataFrame([*named.get_columns(), made])


def row_sets(plan: AggregatePlan) -> list[RowSet]:
    """Return the row sets that windows store in addition to accumulators."""
    sets: list[RowSet] = [CallRows(plan, call) for call in plan.rows]
    sets += [DistinctRows(plan, group) for group in plan.distinct]
    return sets


def with_results(
    main: pl.DataFrame,
    sets: Sequence[RowSet],
    rows: Sequence[pl.DataFrame],
    plan: AggregatePlan,
    keys: Sequence[str],
) -> pl.DataFrame:
    """Return the accumulators of a window with the results of stored values."""
    for each, frame in zip(sets, rows, strict=True):
        for found in each.results(frame, keys):
            if keys:
                main = main.join(
                    found, on=list(keys), how="left", nulls_equal=True, maintain_order="left"
                )
            elif found.height:
                main = pl.concat([main, found], how="horizontal")
            else:
                main = main.with_columns(
                    pl.lit(None, dtype).alias(name) for name, dtype in found.schema.items()
                )
    for call in plan.all_rows:
        main = _without_rows(main, call)
    for group in plan.distinct:
        main = plan.with_neutral(main, group)
    return main


def _without_rows(main: pl.DataFrame, call: RowCall) -> pl.DataFrame:
    """Fill in the function's result for no rows where a key has none."""
    if not main[call.name].null_count():
        return main
    nothing = call.function.result(call.function.create())
    if nothing is None:
        return main
    values = main[call.name]
    filled = [nothing if each is None else each for each in listed(values)]
    return main.with_columns(column_of(call.name, filled, values.dtype))
