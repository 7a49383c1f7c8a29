"""The values of calls over frames, of all rows at once: by prefix sums, range minima and positions, else row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.aggregates.rowwise import RowAggregate, hashable, row_aggregate
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.ordering import dense_ranks, ranks, row_numbers
from penstock.runtime.columnar.over.frames import OrderedFrames, window_minima
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.values import column_of, listed, series_of
from penstock.sql.expr.nodes import (
    AggregateCall,
    InputRef,
    Literal,
    Rex,
    Symbol,
)

_AT_ONCE: Final = 64  # frames that are not larger, on average, are added up one by one
_BYTES: Final = {"Int8": 1, "Int16": 2, "Int32": 4, "Int64": 8}
PLACES: Final = frozenset(
    {"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE"}
)


def columns_of(calls: Sequence[AggregateCall]) -> list[str]:
    """Return the columns that calls read."""
    read: dict[str, None] = {}
    for call in calls:
        for rex in (*call.operands, *(() if call.filter is None else (call.filter,))):
            if isinstance(rex, InputRef):
                read[column(rex.index)] = None
    return list(read)


def operand(frame: pl.DataFrame, rex: Rex) -> pl.Series:
    """Return an operand as a column."""
    if isinstance(rex, Literal):
        return series_of("", [rex.value], rex.type, "a constant").new_from_index(0, frame.height)
    assert isinstance(rex, InputRef), rex
    return frame[column(rex.index)]


def constant(call: AggregateCall, index: int, default: int) -> int:
    """Return an operand that is a constant number."""
    if len(call.operands) <= index:
        return default
    rex = call.operands[index]
    return int(rex.value) if isinstance(rex, Literal) and rex.value is not None else default


class OverCall:
    """A call with its algorithm over frames."""

    def __init__(self, call: AggregateCall) -> None:
        self.call = call
        self.dtype = dtype_of(call.type)
        self._slow: RowAggregate | None = None
        self._compute = self._choose()

    def _choose(self) -> Any:
        call = self.call
        if call.user is None and call.function in PLACES:
            return self._place
        if call.user is None and call.function in {"LAG", "LEAD"}:
            return self._shifted
        if call.user is None and not call.distinct and len(call.operands) < 2:
            if call.function == "COUNT":
                return self._count
            if call.function in {"SUM", "$SUM0", "AVG"} and (
                self.dtype.is_integer() or self.dtype.is_float()
            ):
                return self._sum
            if call.function in {"MIN", "MAX"}:
                return self._extreme
            if call.function in {"FIRST_VALUE", "LAST_VALUE"}:
                return self._end
        self._slow = row_aggregate(call)
        return self._row_by_row

    def open(self, context: Any) -> None:
        """Open a user function."""
        if self._slow is not None:
            self._slow.open(context)

    def close(self) -> None:
        """Close a user function."""
        if self._slow is not None:
            self._slow.close()

    def over(self, frame: pl.DataFrame, frames: OrderedFrames, wanted: Numbers) -> pl.Series:
        """Return the values of the wanted rows (positions, ascending)."""
        if not len(wanted):
            return pl.Series([], dtype=self.dtype)
        found: pl.Series = self._compute(frame, frames, wanted)
        return found if found.dtype == self.dtype else found.cast(self.dtype)

    def _counts(self, frame: pl.DataFrame, null: pl.Series | None = None) -> Numbers:
        """Return for each row whether it counts: the filter lets it through, and the operand is not NULL."""
        counts = np.ones(frame.height, np.bool_)
        if self.call.filter is not None:
            counts &= operand(frame, self.call.filter).fill_null(value=False).to_numpy()
        if null is not None and null.has_nulls():
            counts &= null.is_not_null().to_numpy()
        return counts

    # Algorithms

    def _count(self, frame: pl.DataFrame, frames: OrderedFrames, wanted: Numbers) -> pl.Series:
        values = operand(frame, self.call.operands[0]) if self.call.operands else None
        before = _prefix(self._counts(frame, values).astype(np.int64))
        return pl.Series(before[frames.high[wanted]] - before[frames.low[wanted]])

    def _sum(self, frame: pl.DataFrame, frames: OrderedFrames, wanted: Numbers) -> pl.Series:
        series = operand(frame, self.call.operands[0])
        counts = self._counts(frame, series)
        dtype = np.int64 if self.dtype.is_integer() else np.float64
        values = np.where(counts, series.fill_null(0).to_numpy(), 0).astype(dtype)
        low, high = frames.low[wanted], frames.high[wanted]
        if dtype is np.int64:
            before = _prefix(values)
            sums = before[high] - before[low]
        else:
            sums = _float_sums(values, frames, low, high)
        known = _prefix(counts.astype(np.int64))
        sizes = known[high] - known[low]
        return finished(self.call.function, sums, sizes, self.dtype)

    def _extreme(self, frame: pl.DataFrame, frames: OrderedFrames, wanted: Numbers) -> pl.Series:
        series = operand(frame, self.call.operands[0])
        counts = self._counts(frame, series)
        codes = series.rank("dense").fill_null(0).to_numpy().astype(np.int64)
        # Less is better; rows that do not count are worse than all.
        worst = frame.height + 2
        codes = np.where(counts, codes if self.call.function == "MIN" else worst - codes, worst + 1)
        best = window_minima(codes, frames.low[wanted], frames.high[wanted])
        best[(best > worst) | (frames.high[wanted] <= frames.low[wanted])] = worst + 1
        # A row that has the value, for each code.
        row_of = np.full(worst + 2, -1, np.int64)
        row_of[codes] = np.arange(frame.height)
        row_of[worst + 1] = -1
        return _gathered(series, row_of[best])

    def _end(self, frame: pl.DataFrame, frames: OrderedFrames, wanted: Numbers) -> pl.Series:
        series = operand(frame, self.call.operands[0])
        counts = self._counts(frame, series)
        size = frame.height
        low, high = frames.low[wanted], frames.high[wanted]
        if self.call.function == "FIRST_VALUE":
            later = np.where(counts, np.arange(size), size)
            following = np.append(np.minimum.accumulate(later[::-1])[::-1], size)
            found = following[low]
            return _gathered(series, np.where(found < high, found, -1))
        earlier = np.where(counts, np.arange(size), -1)
        found = np.append(np.maximum.accumulate(earlier), -1)[high - 1]
        return _gathered(series, np.where((found >= low) & (high > low), found, -1))

    def _shifted(self, frame: pl.DataFrame, frames: OrderedFrames, wanted: Numbers) -> pl.Series:
        distance = constant(self.call, 1, 1)
        if self.call.function == "LAG":
            distance = -distance
        places = wanted + distance
        inside = (places >= frames.starts[wanted]) & (places < frames.ends[wanted])
        series = operand(frame, self.call.operands[0]).cast(self.dtype)
        found = _gathered(series, np.where(inside, places, -1))
        if len(self.call.operands) < 3 or inside.all():
            return found
        default = operand(frame, self.call.operands[2]).cast(self.dtype)
        return found.zip_with(pl.Series(inside), default[pl.Series(wanted, dtype=pl.UInt32)])

    def _place(self, frame: pl.DataFrame, frames: OrderedFrames, wanted: Numbers) -> pl.Series:
        function = self.call.function
        sizes = (frames.ends - frames.starts)[wanted]
        if function == "CUME_DIST":
            return pl.Series((frames.peers - frames.starts)[wanted] / sizes)
        if function == "DENSE_RANK":
            return pl.Series(dense_ranks(frames.fresh, frames.begins)[wanted])
        if function in {"RANK", "PERCENT_RANK"}:
            found = ranks(frames.fresh, frames.begins)[wanted]
            if function == "RANK":
                return pl.Series(found)
            return pl.Series((found - 1) / np.maximum(sizes - 1, 1))
        numbers = row_numbers(frames.fresh)[wanted]
        if function == "ROW_NUMBER":
            return pl.Series(numbers)
        # The first buckets have one row more if rows cannot be shared equally.
        buckets = constant(self.call, 0, 1)
        small, larger = sizes // buckets, sizes % buckets
        in_larger = larger * (small + 1)
        return pl.Series(
            np.where(
                numbers <= in_larger,
                (numbers - 1) // (small + 1) + 1,
                larger + (numbers - 1 - in_larger) // np.maximum(small, 1) + 1,
            )
        )

    def _row_by_row(self, frame: pl.DataFrame, frames: OrderedFrames, wanted: Numbers) -> pl.Series:
        function = self._slow
        assert function is not None
        rows = rows_of(self.call, frame)
        counts = self._counts(frame).tolist()
        window = SlidingAccumulator(function, self.call.distinct)
        results: list[Any] = []
        first = last = 0
        for low, high in zip(
            frames.low[wanted].tolist(), frames.high[wanted].tolist(), strict=True
        ):
            if low >= last:
                window.clear()
                first = last = low
            while first < low:
                if counts[first]:
                    window.remove(rows[first])
                first += 1
            while last < high:
                if counts[last]:
                    window.add(rows[last])
                last += 1
            results.append(window.result())
        return column_of("", results, self.dtype)


class SlidingAccumulator:
    """An accumulator with rows that come and go; of equal ones, one counts if it is DISTINCT."""

    def __init__(self, function: RowAggregate, distinct: bool, content: Any = None) -> None:
        self._function = function
        self._distinct = distinct
        self.content: Any = content
        if content is None:
            self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self.content = [self._function.create(), {}]

    def add(self, row: tuple[Any, ...]) -> None:
        """Let a row come."""
        if self._distinct:
            times = self.content[1]
            name = hashable(list(row))
            times[name] = times.get(name, 0) + 1
            if times[name] > 1:
                return
        self._function.add(self.content[0], row)

    def remove(self, row: tuple[Any, ...]) -> None:
        """Let a row go."""
        if self._distinct:
            times = self.content[1]
            name = hashable(list(row))
            times[name] -= 1
            if times[name]:
                return
            del times[name]
        self._function.retract(self.content[0], row)

    def result(self) -> Any:
        """Return the value."""
        return self._function.result(self.content[0])


def rows_of(call: AggregateCall, frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Return the operands of a call for each row."""
    values = [
        listed(operand(frame, each)) for each in call.operands if not isinstance(each, Symbol)
    ]
    return list(zip(*values, strict=True)) if values else [()] * frame.height


def _prefix(values: Numbers) -> Numbers:
    """Return the sums of all values before each place, and of all."""
    result = np.zeros(len(values) + 1, values.dtype)
    np.cumsum(values, out=result[1:])
    return result


def _float_sums(values: Numbers, frames: OrderedFrames, low: Numbers, high: Numbers) -> Numbers:
    """Add up what frames have: from the start of each if they are small, so that removed values leave no rounding error."""
    if int((high - low).sum()) <= _AT_ONCE * max(len(low), 1):
        bounds = np.stack((low, high), axis=1).ravel()
        sums: Numbers = np.add.reduceat(np.append(values, 0.0), bounds)[::2]
        return np.where(high > low, sums, 0.0)
    # Prefix sums per partition, so that rounding errors do not carry over.
    whole = pl.DataFrame({"v": values, "g": np.cumsum(frames.fresh)})
    summed = whole.select(pl.col("v").cum_sum().over("g"))["v"].to_numpy()
    started = frames.starts[np.minimum(low, len(values) - 1)]
    before = np.where(low > started, summed[low - 1], 0.0)
    return np.where(high > low, summed[high - 1] - before, 0.0)


def finished(function: str, sums: Numbers, sizes: Numbers, dtype: pl.DataType) -> pl.Series:
    """Return SUM, $SUM0 or AVG from sums and counts."""
    if function == "AVG":
        divisor = np.maximum(sizes, 1)
        # Whole numbers towards zero, as Java divides.
        whole = np.abs(sums) // divisor * np.sign(sums)
        sums = whole if dtype.is_integer() else sums / divisor
    result = _wrapped(sums, dtype)
    if function == "$SUM0" or not (sizes == 0).any():
        return result
    return result.to_frame().select(pl.when(pl.Series(sizes > 0)).then(pl.first()).alias("value"))[
        "value"
    ]


def _wrapped(values: Numbers, dtype: pl.DataType) -> pl.Series:
    """Return numbers in a type; whole ones wrap around, as in Java."""
    if dtype.is_integer():
        return pl.Series(values.astype(f"i{_BYTES[str(dtype)]}"))
    return pl.Series(values).cast(dtype)


def _gathered(series: pl.Series, places: Numbers) -> pl.Series:
    """Return values at places; NULL at -1."""
    wanted = pl.Series(places)
    if (places < 0).any():
        wanted = wanted.to_frame("at").select(
            pl.when(pl.col("at") >= 0).then(pl.col("at")).alias("at")
        )["at"]
    return series.gather(wanted.cast(pl.UInt32))
