"""Aggregate functions that keep their values as Python objects, computed row by row, with retraction.

Accumulators are lists and dictionaries of values, so that they can be unpickled whatever becomes of this module. They are changed in place.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

from penstock.common.user_types import Accumulator
from penstock.errors import RecordError, UnsupportedOperationError
from penstock.errors.user_errors import FunctionFailedError, call_failed
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions.compiler import EXACT
from penstock.runtime.columnar.pandas_series import is_missing
from penstock.runtime.columnar.values import (
    column_of,
    decoder,
    encoder,
    wrong_result,
)
from penstock.sql import types as t
from penstock.sql.expr.nodes import AggregateCall, Literal, Symbol

Values = tuple[Any, ...]


class RowAggregate:
    """A call of an aggregate function: creates accumulators, accumulates and retracts rows, returns results."""

    in_order = True  # whether the order of rows matters, or each of them by itself

    def __init__(self, call: AggregateCall) -> None:
        self.call = call

    def open(self, context: Any) -> None:
        """Prepare a user function."""

    def close(self) -> None:
        """Release a user function."""

    def create(self) -> Accumulator:
        """Return an empty accumulator."""
        return []

    def add(self, accumulator: Accumulator, values: Values) -> None:
        """Take a row: the values of the operands."""
        raise NotImplementedError

    def retract(self, accumulator: object, values: Values) -> None:
        """Retract a row that was added."""
        raise NotImplementedError

    def result(self, accumulator: Accumulator) -> Any:
        """Return the result, as a column of its type has it."""
        raise NotImplementedError

    def update(
        self, accumulator: Accumulator, rows: Iterable[Values], signs: Iterable[int]
    ) -> None:
        """Accumulate and retract rows."""
        for values, sign in zip(rows, signs, strict=True):
            if sign > 0:
                self.add(accumulator, values)
            else:
                self.retract(accumulator, values)


def hashable(value: object) -> object:
    """Return a hashable stand-in for a value."""
    if isinstance(value, list):
        return tuple(map(hashable, value))
    if isinstance(value, dict):
        return tuple((name, hashable(each)) for name, each in value.items())
    return value


class _Bag(RowAggregate):
    """Base of functions that know how often each value is there: {what stands for it: [value, times]}; NULLs do not count."""

    in_order = False

    def create(self) -> Accumulator:
        return {}

    def update(
        self, accumulator: Accumulator, rows: Iterable[Values], signs: Iterable[int]
    ) -> None:
        """Add the change of count of each value."""
        for values, times in zip(rows, signs, strict=True):
            self.take(accumulator, values, times)

    def take(self, accumulator: Accumulator, values: Values, times: int) -> None:
        """Accumulate a row a number of times; a negative number retracts it."""
        self.change(accumulator, values[0], times)

    def add(self, accumulator: Accumulator, values: Values) -> None:
        self.change(accumulator, values[0], 1)

    def retract(self, accumulator: object, values: Values) -> None:
        self.change(accumulator, values[0], -1)

    def change(self, accumulator: Accumulator, value: Any, times: int) -> None:
        """Change the count of a value."""
        if value is None or not times:
            return
        key = hashable(value)
        entry = accumulator.get(key)
        if entry is None:
            accumulator[key] = [value, times]
            return
        entry[1] += times
        if not entry[1]:
            del accumulator[key]


class _Extreme(_Bag):
    """MIN and MAX with retraction. The best value is searched again only after it was retracted."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._choose: Callable[[Iterable[Any]], Any] = min if call.function == "MIN" else max

    def result(self, accumulator: Accumulator) -> Any:
        there = [entry[0] for entry in accumulator.values() if entry[1] > 0]
        return self._choose(there) if there else None


class _Collect(_Bag):
    """COLLECT: a multiset."""

    def result(self, accumulator: Accumulator) -> Any:
        return [
            {"key": value, "value": times} for value, times in accumulator.values() if times > 0
        ]


class _InOrder(RowAggregate):
    """Base of functions that keep values in the order of their arrival."""

    skips_nulls = True

    def add(self, accumulator: Accumulator, values: Values) -> None:
        if values[0] is not None or not self.skips_nulls:
            accumulator.append(self.kept(values))

    def retract(self, accumulator: Accumulator, values: Values) -> None:
        if values[0] is None and self.skips_nulls:
            return
        kept = self.kept(values)
        if kept in accumulator:
            accumulator.remove(kept)

    def kept(self, values: Values) -> Any:
        """Return the stored part of a row."""
        return values[0]


class _FirstOrLast(_InOrder):
    """FIRST_VALUE and LAST_VALUE with retraction."""

    def result(self, accumulator: Accumulator) -> Any:
        if not accumulator:
            return None
        return accumulator[0 if self.call.function == "FIRST_VALUE" else -1]


class _SingleValue(_InOrder):
    """The value of a scalar subquery, which must not have more than one row."""

    skips_nulls = False

    def result(self, accumulator: Accumulator) -> Any:
        if len(accumulator) > 1:
            raise RecordError(
                "scalar subquery returned more than one row",
                detail=f"it returned {len(accumulator)} rows",
                hint="add LIMIT 1, or an aggregate such as MAX",
            )
        return accumulator[0] if accumulator else None


class _ListAgg(_InOrder):
    """LISTAGG: texts, one after another."""

    def kept(self, values: Values) -> Any:
        return (values[0], values[1] if len(values) > 1 else ",")

    def result(self, accumulator: Accumulator) -> Any:
        if not accumulator:
            return None
        text: str = accumulator[0][0]
        return text + "".join(f"{separator}{each}" for each, separator in accumulator[1:])


class _ArrayAgg(_InOrder):
    """ARRAY_AGG: a list; NULL if it would be empty."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.skips_nulls = call.ignore_nulls

    def result(self, accumulator: Accumulator) -> Any:
        return list(accumulator) if accumulator else None


class _Percentile(_Bag):
    """PERCENTILE: exact, between two values in proportion. Rows: value, percentages, and perhaps how often it counts."""

    def create(self) -> Accumulator:
        return {"percentages": None, "values": {}}

    def take(self, accumulator: Accumulator, values: Values, times: int) -> None:
        """Accumulate a row a number of times; a negative number retracts it."""
        accumulator["percentages"] = values[1]
        weight = int(values[2] or 0) if len(values) > 2 else 1
        self.change(accumulator["values"], values[0], times * weight)

    def add(self, accumulator: Accumulator, values: Values) -> None:
        self.take(accumulator, values, 1)

    def retract(self, accumulator: object, values: Values) -> None:
        self.take(accumulator, values, -1)

    def result(self, accumulator: Accumulator) -> Any:
        percentages = accumulator["percentages"]
        entries = sorted(
            (float(value), times) for value, times in accumulator["values"].values() if times > 0
        )
        if not entries or percentages is None:
            return None
        if isinstance(percentages, list):
            return [_percentile(entries, float(each)) for each in percentages]
        return _percentile(entries, float(percentages))


def _percentile(entries: Sequence[tuple[float, int]], percentage: float) -> float:
    total = sum(times for _, times in entries)
    position = percentage * (total - 1)
    low, high = math.floor(position), math.ceil(position)
    below, above = _at(entries, low), _at(entries, high)
    return below if low == high else (high - position) * below + (position - low) * above


def _at(entries: Sequence[tuple[float, int]], position: int) -> float:
    passed = 0
    for value, times in entries:
        passed += times
        if position < passed:
            return value
    return entries[-1][0]


_BITS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "BIT_AND": operator.and_,
    "BIT_OR": operator.or_,
    "BIT_XOR": operator.xor,
}


class _Bits(_Bag):
    """BIT_AND, BIT_OR, BIT_XOR."""

    def result(self, accumulator: Accumulator) -> Any:
        function = self.call.function
        values = [
            value
            for value, times in accumulator.values()
            if times > 0 and (function != "BIT_XOR" or times % 2)
        ]
        if not values:
            return 0 if accumulator else None
        return functools.reduce(_BITS[function], values)


class _JsonArray(_InOrder):
    """JSON_ARRAYAGG: the text of an array; NULLs are left out unless it says otherwise."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.skips_nulls = not _keeps_nulls(call, default=False)

    def result(self, accumulator: Accumulator) -> Any:
        return json_text(accumulator)


class _JsonObject(RowAggregate):
    """JSON_OBJECTAGG: the text of an object; NULLs are members unless it says otherwise."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._keeps_nulls = _keeps_nulls(call, default=True)

    def add(self, accumulator: Accumulator, values: Values) -> None:
        key, value = values[0], values[1]
        if key is None:
            raise RecordError(
                "JSON_OBJECTAGG got a NULL key",
                hint="exclude such rows with FILTER (WHERE key IS NOT NULL)",
            )
        if value is not None or self._keeps_nulls:
            accumulator.append((key, value))

    def retract(self, accumulator: Accumulator, values: Values) -> None:
        pair = (values[0], values[1])
        if pair in accumulator:
            accumulator.remove(pair)

    def result(self, accumulator: Accumulator) -> Any:
        # Flink's objects have their keys in the order of texts.
        return json_text(dict(sorted(accumulator, key=lambda pair: str(pair[0]))))


def _keeps_nulls(call: AggregateCall, *, default: bool) -> bool:
    """Whether a JSON aggregate says NULL ON NULL or ABSENT ON NULL, as a symbol among its operands or in its name."""
    words = [each.name.upper() for each in call.operands if isinstance(each, Symbol)]
    words += [
        each.value.upper()
        for each in call.operands[1:]
        if isinstance(each, Literal) and isinstance(each.value, str)
    ]
    said = " ".join(words).replace("_", " ")
    if "ABSENT" in said or call.function.endswith("ABSENT_ON_NULL"):
        return False
    if "NULL" in said or call.function.endswith("NULL_ON_NULL"):
        return True
    return default


def json_text(value: object) -> str:
    """Return a value as JSON, written as Flink does: without spaces, keys in their order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_json_value)


def _json_value(value: object) -> object:
    if isinstance(value, Decimal):
        return (
            int(value)
            if value == value.to_integral_value() and not value.as_tuple().exponent
            else float(value)
        )
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat(sep=" ") if isinstance(value, dt.datetime) else value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


class _Counted(RowAggregate):
    """COUNT, SUM and AVG row by row, for callers that need a result after each row (OVER): [sum, count]."""

    def create(self) -> Accumulator:
        return [0, 0]

    def add(self, accumulator: Accumulator, values: Values) -> None:
        self._take(accumulator, values, 1)

    def retract(self, accumulator: object, values: Values) -> None:
        self._take(accumulator, values, -1)

    def _take(self, accumulator: Accumulator, values: Values, sign: int) -> None:
        if any(value is None for value in values):
            return
        accumulator[1] += sign
        if self.call.function == "COUNT":
            return
        value = values[0]
        if isinstance(value, Decimal):  # which `+` would round to 28 digits
            add = EXACT.add if sign > 0 else EXACT.subtract
            accumulator[0] = add(accumulator[0], value)
        else:
            accumulator[0] += sign * value

    def result(self, accumulator: Accumulator) -> Any:
        total, count = accumulator
        function, data_type = self.call.function, self.call.type
        if function == "COUNT":
            return count
        if count <= 0:
            return None if function in {"SUM", "AVG"} else 0
        if function != "AVG":
            return wrapped(total, data_type)
        if isinstance(data_type, t.IntegralType):
            return wrapped(abs(total) // count * (1 if total >= 0 else -1), data_type)
        if isinstance(data_type, t.DecimalType):
            unit = Decimal(1).scaleb(-data_type.scale)
            return EXACT.divide(total, count).quantize(unit, context=EXACT)
        return float(total) / count


_BITS_OF: Final[dict[type[t.DataType], int]] = {
    t.TinyIntType: 8,
    t.SmallIntType: 16,
    t.IntType: 32,
    t.BigIntType: 64,
}


def wrapped(number: Any, data_type: t.DataType) -> object:
    """Return a whole number as its type has it: it wraps around, as in Java.

    >>> wrapped(2**31, t.IntType())
    -2147483648
    """
    bits = _BITS_OF.get(type(data_type))
    if bits is None:
        return number
    half = 1 << (bits - 1)
    return (int(number) + half) % (1 << bits) - half


class _Spread(RowAggregate):
    """VAR_POP and the like, row by row: [count, sum, sum of squares]. Of whole numbers they are computed in whole numbers, as Flink does for OVER."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._whole = isinstance(call.type, t.IntegralType)

    def create(self) -> Accumulator:
        return [0, 0, 0] if self._whole else [0, 0.0, 0.0]

    def add(self, accumulator: Accumulator, values: Values) -> None:
        self._take(accumulator, values[0], 1)

    def retract(self, accumulator: object, values: Values) -> None:
        self._take(accumulator, values[0], -1)

    def _take(self, accumulator: Accumulator, value: Any, sign: int) -> None:
        if value is not None:
            number = value if self._whole else float(value)
            accumulator[0] += sign
            accumulator[1] += sign * number
            accumulator[2] += sign * number * number

    def result(self, accumulator: Accumulator) -> Any:
        count, total, squares = accumulator
        function = self.call.function
        least = 1 if function in {"VAR_SAMP", "STDDEV_SAMP", "VARIANCE", "STDDEV"} else 0
        if count <= least:
            return None
        if self._whole:
            variance = (squares - total * total // count) // (count - least)
            return int(math.sqrt(variance)) if function.startswith("STDDEV") else variance
        variance = max(squares - total * total / count, 0.0) / (count - least)
        return math.sqrt(variance) if function.startswith("STDDEV") else variance


def plain_check(data_type: t.DataType) -> Callable[[Any], bool]:
    """Return a quick check that is True for values which a column of the type holds unchanged, else False.

    >>> is_plain = plain_check(t.IntType())
    >>> is_plain(7), is_plain(2**31), is_plain("7")
    (True, False, False)
    """
    bits = _BITS_OF.get(type(data_type))
    if bits is not None:
        low, high = -(1 << (bits - 1)), 1 << (bits - 1)
        return lambda value: type(value) is int and low <= value < high
    plain: type | None = None
    if isinstance(data_type, t.DoubleType):
        plain = float
    elif isinstance(data_type, t.VarCharType):
        plain = str
    return lambda value: type(value) is plain


class UserAggregate(RowAggregate):
    """A user-defined aggregate function: create_accumulator, accumulate, retract, get_value."""

    def open(self, context: Any) -> None:
        """Open the function; its operands and results are values of rows."""
        self._encode = encoder(self.call.type)
        self._is_plain = plain_check(self.call.type)
        decoders = [decoder(each.type) for each in self.call.operands]
        self._decoders = decoders if any(decoders) else None
        opened = getattr(self.call.user, "open", None)
        if opened is not None:
            try:
                opened(context)
            except Exception as error:
                raise self._failed("open", error) from error

    def close(self) -> None:
        """Close the function."""
        closed = getattr(self.call.user, "close", None)
        if closed is not None:
            closed()

    def create(self) -> Accumulator:
        """Call the user function."""
        try:
            return self.call.user.create_accumulator()
        except Exception as error:
            raise self._failed("create_accumulator", error) from error

    def add(self, accumulator: Accumulator, values: Values) -> None:
        """Call the user function."""
        given = self._decoded(values)
        try:
            self.call.user.accumulate(accumulator, *given)
        except Exception as error:
            raise self._failed("accumulate", error, given) from error

    def retract(self, accumulator: object, values: Values) -> None:
        """Call the user function."""
        given = self._decoded(values)
        try:
            self.call.user.retract(accumulator, *given)
        except Exception as error:
            raise self._failed("retract", error, given) from error

    def result(self, accumulator: Accumulator) -> Any:
        """Call the user function."""
        try:
            found = self.call.user.get_value(accumulator)
        except Exception as error:
            raise self._failed("get_value", error) from error
        if found is None or self._is_plain(found):
            return found
        try:
            made = found if self._encode is None else self._encode(found)
            fits = column_of("", [made], dtype_of(self.call.type)).null_count() == 0
        except Exception as error:
            raise wrong_result(self.call.function, self.call.type, found) from error
        if not fits and not is_missing(found):
            raise wrong_result(self.call.function, self.call.type, found)
        return made

    def _failed(
        self, method: str, error: Exception, operands: Sequence[Any] | None = None
    ) -> FunctionFailedError:
        return call_failed(self.call.function, error, operands, method=method)

    def _decoded(self, values: Values) -> Sequence[Any]:
        if self._decoders is None:
            return values
        return [
            value if decode is None else decode(value)
            for value, decode in zip(values, self._decoders, strict=True)
        ]


_FUNCTIONS: Final[dict[str, type[RowAggregate]]] = {
    "COUNT": _Counted,
    "SUM": _Counted,
    "SUM0": _Counted,
    "$SUM0": _Counted,
    "AVG": _Counted,
    "MIN": _Extreme,
    "MAX": _Extreme,
    "STDDEV_POP": _Spread,
    "STDDEV_SAMP": _Spread,
    "STDDEV": _Spread,
    "VAR_POP": _Spread,
    "VAR_SAMP": _Spread,
    "VARIANCE": _Spread,
    "FIRST_VALUE": _FirstOrLast,
    "LAST_VALUE": _FirstOrLast,
    "SINGLE_VALUE": _SingleValue,
    "LISTAGG": _ListAgg,
    "COLLECT": _Collect,
    "ARRAY_AGG": _ArrayAgg,
    "PERCENTILE": _Percentile,
    "JSON_ARRAYAGG": _JsonArray,
    "JSON_OBJECTAGG": _JsonObject,
    "BIT_AND": _Bits,
    "BIT_OR": _Bits,
    "BIT_XOR": _Bits,
}


def row_aggregate(call: AggregateCall) -> RowAggregate:
    """Return a call as it is computed row by row, DISTINCT and FILTER left to the caller."""
    if call.user is not None:
        return UserAggregate(call)
    function = call.function
    if function.startswith("BITMAP_"):
        from penstock.runtime.columnar.aggregates.bitmaps import BitmapAggregate

        return BitmapAggregate(call)
    for suffix in ("_NULL_ON_NULL", "_ABSENT_ON_NULL"):
        function = function.removesuffix(suffix)
    known = _FUNCTIONS.get(function)
    if known is None:
        raise UnsupportedOperationError(
            f"unknown aggregate function {call.function}",
            hint="docs/reference/sql-coverage.md lists the supported ones",
        )
    return known(call)
