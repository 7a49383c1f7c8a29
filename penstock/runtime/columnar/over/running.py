"""Accumulators of calls over all rows up to the current one. They are lists of plain values: they go into the state as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from penstock.runtime.columnar.aggregates.rowwise import row_aggregate
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.over.calls import (
    SlidingAccumulator,
    constant,
    finished,
    operand,
    rows_of,
)
from penstock.runtime.columnar.store.groups import Numbers
from penstock.sql.expr.nodes import AggregateCall


class RunningCall:
    """A call: makes accumulators, adds rows to them, gives their values."""

    def __init__(self, call: AggregateCall) -> None:
        self.call = call
        self.dtype = dtype_of(call.type)

    def open(self, context: Any) -> None:
        """Open a user function."""

    def close(self) -> None:
        """Close a user function."""

    def create(self) -> list[Any]:
        """Return an empty accumulator."""
        raise NotImplementedError

    def add(self, accumulator: list[Any], row: Any, time: int) -> None:
        """Accumulate the next row."""
        raise NotImplementedError

    def value(self, accumulator: list[Any]) -> Any:
        """Return the value for the last row."""
        raise NotImplementedError

    def together(
        self, frame: pl.DataFrame, groups: Numbers, accumulators: list[list[Any]]
    ) -> pl.Series | None:
        """Return the values of rows, group (0, 1, ...) after group, and bring the accumulators of groups up to date; None: row by row only."""
        return None

    def rows(self, frame: pl.DataFrame) -> list[Any]:
        """Return what `add` gets of each row."""
        return rows_of(self.call, frame)

    def counts(self, frame: pl.DataFrame) -> pl.Series | None:
        """Return which rows the filter lets through; None: all."""
        if self.call.filter is None:
            return None
        return operand(frame, self.call.filter).fill_null(value=False)

    def column(self, name: str, values: list[Any]) -> pl.Series:
        """Return values as a column."""
        return pl.Series(name, values, dtype=self.dtype, strict=False)


class _Best(RunningCall):
    """MIN, MAX, FIRST_VALUE, LAST_VALUE: [whether there is a value, the value]."""

    def create(self) -> list[Any]:
        return [False, None]

    def rows(self, frame: pl.DataFrame) -> list[Any]:
        series = operand(frame, self.call.operands[0])
        return (series.to_physical() if series.dtype.is_temporal() else series).to_list()

    def column(self, name: str, values: list[Any]) -> pl.Series:
        if not self.dtype.is_temporal():
            return super().column(name, values)
        physical = pl.Series([], dtype=self.dtype).to_physical().dtype
        return pl.Series(name, values, dtype=physical).cast(self.dtype)

    def together(
        self, frame: pl.DataFrame, groups: Numbers, accumulators: list[list[Any]]
    ) -> pl.Series | None:
        series = operand(frame, self.call.operands[0])
        if not (series.dtype.is_integer() or series.dtype.is_temporal()):
            return None  # of floating point numbers, NaN would need a closer look
        plain = series.to_physical()
        given = pl.Series([each[1] for each in accumulators], dtype=plain.dtype)
        before = given.gather(pl.Series(groups, dtype=pl.UInt32))
        counts = self.counts(frame)
        whole = pl.DataFrame({"g": groups, "v": plain, "before": before})
        if counts is not None:
            whole = whole.with_columns(pl.when(counts).then(pl.col("v")).alias("v"))
        values = whole.select(self._steps().alias("v"))["v"]
        last = values.gather(pl.Series(_last_of_each(groups), dtype=pl.UInt32)).to_list()
        for accumulator, value in zip(accumulators, last, strict=True):
            accumulator[:] = [value is not None, value]
        return values.cast(self.dtype)

    def _steps(self) -> pl.Expr:
        """Return the value after each row, of the rows `v` of groups `g` and the value `before` them."""
        value, before = pl.col("v"), pl.col("before")
        function = self.call.function
        if function == "MIN":
            return pl.min_horizontal(value.cum_min().forward_fill().over("g"), before)
        if function == "MAX":
            return pl.max_horizontal(value.cum_max().forward_fill().over("g"), before)
        if function == "LAST_VALUE":
            return pl.coalesce(value.forward_fill().over("g"), before)
        first = pl.when(value.is_not_null().cum_sum() == 1).then(value)
        return pl.coalesce(before, first.forward_fill().over("g"))

    def add(self, accumulator: list[Any], row: Any, time: int) -> None:
        if row is None:
            return
        if not accumulator[0] or self._is_better(row, accumulator[1]):
            accumulator[:] = [True, row]

    def _is_better(self, row: Any, there: Any) -> bool:
        function = self.call.function
        if function == "MIN":
            return bool(row < there)
        return bool(row > there) if function == "MAX" else function == "LAST_VALUE"

    def value(self, accumulator: list[Any]) -> Any:
        return accumulator[1]


class _Lag(_Best):
    """LAG: the values of as many rows as it looks back, with the last one."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._distance = constant(call, 1, 1)

    def create(self) -> list[Any]:
        return []

    def together(
        self, frame: pl.DataFrame, groups: Numbers, accumulators: list[list[Any]]
    ) -> pl.Series | None:
        return None

    def rows(self, frame: pl.DataFrame) -> list[Any]:
        values = self._plain(operand(frame, self.call.operands[0]))
        if len(self.call.operands) < 3:
            return [(value, None) for value in values]
        return list(zip(values, self._plain(operand(frame, self.call.operands[2])), strict=True))

    def _plain(self, series: pl.Series) -> list[Any]:
        series = series.cast(self.dtype)
        return (series.to_physical() if self.dtype.is_temporal() else series).to_list()

    def add(self, accumulator: list[Any], row: Any, time: int) -> None:
        if len(accumulator) > self._distance:
            del accumulator[0]
        accumulator.append(row)

    def value(self, accumulator: list[Any]) -> Any:
        if len(accumulator) > self._distance:
            return accumulator[0][0]
        return accumulator[-1][1]


class _Place(RunningCall):
    """ROW_NUMBER, RANK, DENSE_RANK: [rows, time of the last, rank, different times]."""

    def create(self) -> list[Any]:
        return [0, None, 0, 0]

    def add(self, accumulator: list[Any], row: Any, time: int) -> None:
        accumulator[0] += 1
        if time != accumulator[1]:
            accumulator[1] = time
            accumulator[2] = accumulator[0]
            accumulator[3] += 1

    def value(self, accumulator: list[Any]) -> Any:
        function = self.call.function
        return accumulator[0 if function == "ROW_NUMBER" else 2 if function == "RANK" else 3]


class _Sum(RunningCall):
    """COUNT, SUM and AVG of whole and floating point numbers: [sum, count]."""

    def create(self) -> list[Any]:
        return [0, 0]

    def together(
        self, frame: pl.DataFrame, groups: Numbers, accumulators: list[list[Any]]
    ) -> pl.Series | None:
        counts = np.ones(frame.height, np.bool_)
        allowed = self.counts(frame)
        if allowed is not None:
            counts &= allowed.to_numpy()
        series = operand(frame, self.call.operands[0]) if self.call.operands else None
        if series is not None:
            counts &= series.is_not_null().to_numpy()
        last = _last_of_each(groups)
        carried = np.array([each[1] for each in accumulators], np.int64)
        sizes = _summed(counts.astype(np.int64), groups, last) + carried[groups]
        if series is None or self.call.function == "COUNT":
            sums, values = sizes, pl.Series(sizes)
        else:
            sums = self._sums(series, counts, groups, last, accumulators)
            values = finished(self.call.function, sums, sizes, self.dtype)
        for accumulator, total, size in zip(
            accumulators, sums[last].tolist(), sizes[last].tolist(), strict=True
        ):
            accumulator[:] = [total, size]
        return values if values.dtype == self.dtype else values.cast(self.dtype)

    def _sums(
        self,
        series: pl.Series,
        counts: Numbers,
        groups: Numbers,
        last: Numbers,
        accumulators: list[list[Any]],
    ) -> Numbers:
        dtype = np.int64 if self.dtype.is_integer() else np.float64
        numbers = np.where(counts, series.fill_null(0).to_numpy(), 0).astype(dtype)
        carried = np.array([each[0] for each in accumulators], dtype)
        if dtype is np.int64:
            return _summed(numbers, groups, last) + carried[groups]
        # One after another, as if there were no batches.
        first = np.concatenate(([0], last[:-1] + 1))
        numbers[first] = carried + numbers[first]
        whole = pl.DataFrame({"g": groups, "v": numbers})
        return whole.select(pl.col("v").cum_sum().over("g"))["v"].to_numpy()


def _last_of_each(groups: Numbers) -> Numbers:
    """Return the places of the last rows of groups that follow each other."""
    return np.flatnonzero(np.append(groups[1:] != groups[:-1], True))


def _summed(values: Numbers, groups: Numbers, last: Numbers) -> Numbers:
    """Return the sums of the values of each group up to each row."""
    sums = np.cumsum(values)
    before = np.concatenate(([0], sums[last[:-1]]))
    summed: Numbers = sums - before[groups]
    return summed


class _Any(RunningCall):
    """Any other function."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._function = row_aggregate(call)

    def open(self, context: Any) -> None:
        self._function.open(context)

    def close(self) -> None:
        self._function.close()

    def create(self) -> list[Any]:
        content: list[Any] = SlidingAccumulator(self._function, self.call.distinct).content
        return content

    def add(self, accumulator: list[Any], row: Any, time: int) -> None:
        SlidingAccumulator(self._function, self.call.distinct, accumulator).add(row)

    def value(self, accumulator: list[Any]) -> Any:
        return self._function.result(accumulator[0])


def running_call(call: AggregateCall) -> RunningCall:
    """Return a call as it is computed from row to row."""
    if call.user is None:
        if call.function in {"ROW_NUMBER", "RANK", "DENSE_RANK"}:
            return _Place(call)
        if call.function == "LAG":
            return _Lag(call)
        if call.function in {"MIN", "MAX"} or (
            call.function in {"FIRST_VALUE", "LAST_VALUE"} and len(call.operands) == 1
        ):
            return _Best(call)
        if (
            call.function in {"COUNT", "SUM", "$SUM0", "AVG"}
            and not call.distinct
            and len(call.operands) < 2
        ):
            made = _Sum(call)
            if made.dtype.is_integer() or made.dtype.is_float():
                return made
    return _Any(call)
