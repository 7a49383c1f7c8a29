"""Plan of an aggregation: a batch is folded by key into one row of accumulators per key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import polars as pl

from penstock.graph.operator_specs.columnar.common import KIND, column
from penstock.runtime.columnar.aggregates.columns import (
    SIGN,
    ColumnAggregate,
    column_aggregate,
    is_in_columns,
    older,
)
from penstock.runtime.columnar.aggregates.rowwise import RowAggregate, row_aggregate
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions import compile_expression
from penstock.sql import types as t
from penstock.sql.expr.nodes import (
    AggregateCall,
    InputRef,
    Rex,
    Symbol,
)

ROWS: Final = "$n"  # the accumulator that counts rows, if the input retracts


@dataclass(slots=True)
class DistinctValues:
    """Values that several calls want once each; the calls may have filters of their own."""

    number: int
    operands: tuple[Rex, ...]
    values: list[pl.Expr]  # c0, c1, ...
    filters: list[pl.Expr | None] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)  # by the place of their filter
    columns: list[ColumnAggregate] = field(default_factory=list)
    rows: list[RowCall] = field(default_factory=list)


@dataclass(slots=True)
class RowCall:
    """A call that is computed row by row."""

    index: int
    function: RowAggregate
    operands: list[pl.Expr]
    filter: pl.Expr | None
    distinct: int | None = None  # the set of values that it gets its rows from

    @property
    def name(self) -> str:
        """The name of the column that holds its result."""
        return f"r{self.index}"


class AggregatePlan:
    """All calls of an aggregation, compiled."""

    def __init__(
        self,
        keys: Sequence[int],
        calls: Sequence[AggregateCall],
        *,
        retracts: bool,
        zone: str,
        counts_rows: bool = False,
    ) -> None:
        self.keys = [column(index) for index in keys]
        self.calls = tuple(calls)
        self.retracts = retracts
        self.zone = zone
        self.columns: list[ColumnAggregate] = []
        self.rows: list[RowCall] = []
        self.distinct: list[DistinctValues] = []
        self.finishes: list[pl.Expr] = []
        if counts_rows:
            self.columns.append(_row_counter(retracts))
        for index, call in enumerate(self.calls):
            self.finishes.append(self._add(index, call).alias(f"f{index}"))
        everything = [*self.columns, *(each for group in self.distinct for each in group.columns)]
        self.accumulators: dict[str, tuple[pl.DataType, Any]] = {
            name: (dtype, neutral)
            for each in everything
            for (name, dtype), neutral in zip(each.accumulators.items(), each.neutral, strict=True)
        }
        self.merged = [step for each in everything for step in each.merged]
        self.aligned = [step for each in everything for step in each.aligned]
        self._prepared = _named(self.columns)
        self._partial = [step for each in self.columns for step in each.partial]

    def _add(self, index: int, call: AggregateCall) -> pl.Expr:
        if call.function == "APPROX_COUNT_DISTINCT":
            call = replace(call, function="COUNT", distinct=True)
        if call.distinct and call.function in {"MIN", "MAX"} and not self.retracts:
            call = replace(call, distinct=False)
        if call.distinct:
            return self._add_distinct(index, call)
        if is_in_columns(call, self.retracts):
            made = column_aggregate(call, index, signed=self.retracts, zone=self.zone)
            self.columns.append(made)
            return made.finish
        row = self._row_call(index, call)
        self.rows.append(row)
        return pl.col(row.name).cast(dtype_of(call.type))

    def _row_call(self, index: int, call: AggregateCall) -> RowCall:
        return RowCall(
            index,
            row_aggregate(call),
            [
                compile_expression(each, self.zone)
                for each in call.operands
                if not isinstance(each, Symbol)
            ],
            None if call.filter is None else compile_expression(call.filter, self.zone),
        )

    def _add_distinct(self, index: int, call: AggregateCall) -> pl.Expr:
        group = next((each for each in self.distinct if each.operands == call.operands), None)
        if group is None:
            values = [compile_expression(each, self.zone) for each in call.operands]
            group = DistinctValues(len(self.distinct), call.operands, values)
            self.distinct.append(group)
        place = len(group.filters)
        group.filters.append(
            None if call.filter is None else compile_expression(call.filter, self.zone)
        )
        group.calls.append(index)
        # The call sees the values as columns, and whether they are new for it as one more.
        mask = InputRef(t.BooleanType(), len(call.operands) + place)
        inner = replace(
            call,
            distinct=False,
            operands=tuple(InputRef(each.type, at) for at, each in enumerate(call.operands)),
            filter=mask,
        )
        if is_in_columns(inner, self.retracts):
            made = column_aggregate(inner, index, signed=self.retracts, zone=self.zone)
            group.columns.append(made)
            return made.finish
        row = replace(self._row_call(index, inner), distinct=group.number)
        group.rows.append(row)
        return pl.col(row.name).cast(dtype_of(call.type))

    @property
    def all_rows(self) -> list[RowCall]:
        """All calls that are computed row by row."""
        return [*self.rows, *(each for group in self.distinct for each in group.rows)]

    def signed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return rows with their signs if the input retracts."""
        if not self.retracts:
            return frame
        if KIND not in frame.columns:
            return frame.with_columns(pl.lit(1, pl.Int64).alias(SIGN))
        goes = pl.col(KIND).is_in([1, 3])
        return frame.with_columns(pl.when(goes).then(-1).otherwise(1).cast(pl.Int64).alias(SIGN))

    def fold(
        self, frame: pl.DataFrame, keys: Sequence[str], more: Sequence[pl.Expr] = ()
    ) -> pl.DataFrame:
        """Return one row per key: the keys, the extra columns, then the accumulators that need no stored values. Rows are signed."""
        if self._prepared:
            frame = frame.with_columns(self._prepared)
        return grouped(frame, keys, [*more, *self._partial])

    def merge(self, frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
        """Return one row per key of rows of accumulators."""
        return grouped(frame, keys, self.merged)

    def fold_distinct(
        self, group: DistinctValues, fresh: pl.DataFrame, keys: Sequence[str]
    ) -> pl.DataFrame:
        """Return one row per key for values that are new (or gone): c0, c1, ..., then a truth value per call."""
        prepared = _named(group.columns)
        if prepared:
            fresh = fresh.with_columns(prepared)
        return grouped(fresh, keys, [step for each in group.columns for step in each.partial])

    def with_neutral(self, frame: pl.DataFrame, group: DistinctValues) -> pl.DataFrame:
        """Return accumulators with zeros where a key has no new values."""
        fills = [
            pl.col(name).fill_null(pl.lit(neutral, dtype))
            for each in group.columns
            for (name, dtype), neutral in zip(each.accumulators.items(), each.neutral, strict=True)
            if neutral is not None
        ]
        return frame.with_columns(fills) if fills else frame


def counts_rows_of_windows(calls: Sequence[AggregateCall], retracts: bool) -> bool:
    """Whether windows count their rows: if the input retracts, or if no other accumulator exists."""
    return retracts or not any(
        is_in_columns(call, retracts) and not call.distinct for call in calls
    )


def grouped(frame: pl.DataFrame, keys: Sequence[str], steps: Sequence[pl.Expr]) -> pl.DataFrame:
    """Group rows; without keys there is one group, if there are any rows."""
    if keys:
        return frame.group_by(list(keys)).agg(list(steps))
    if not steps or not frame.height:
        return (
            pl.DataFrame({"$none": [None] * min(frame.height, 1)})
            if not steps
            else (frame.clear().select(list(steps)).clear())
        )
    return frame.select(list(steps))


def _named(aggregates: Sequence[ColumnAggregate]) -> list[pl.Expr]:
    return [value.alias(name) for each in aggregates for name, value in each.prepared.items()]


def _row_counter(retracts: bool) -> ColumnAggregate:
    counter = ColumnAggregate()
    partial = pl.col(SIGN).sum() if retracts else pl.len()
    counter.add_sum(ROWS, pl.Int64(), partial)
    return counter


__all__ = ["ROWS", "AggregatePlan", "DistinctValues", "RowCall", "grouped", "older"]
