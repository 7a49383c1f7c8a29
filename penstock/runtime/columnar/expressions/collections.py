"""Arrays, maps and rows: making them, their parts, functions of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from penstock.errors import RecordError
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions.compiler import ExpressionCompiler, compiles, rowwise
from penstock.runtime.columnar.expressions.texts import each_row
from penstock.sql import types as t
from penstock.sql.expr.nodes import Call, Literal

_Array = list[Any]
_Entries = list[dict[str, Any]]

# --- constructors and access -------------------------------------------------------------------------


@compiles("ARRAY")
def _array(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    dtype = dtype_of(call.type)
    assert isinstance(dtype, pl.List)
    if dtype.inner.is_nested():  # Polars joins lists instead of making lists of them
        return rowwise(lambda *parts: list(parts), compiler.operands(call), call.type, nulls=True)
    return pl.concat_list([each.cast(dtype.inner) for each in compiler.operands(call)])


@compiles("MAP")
def _map(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    def entries(*parts: Any) -> _Entries:
        found = {
            _hashable(key): (key, value) for key, value in zip(parts[::2], parts[1::2], strict=True)
        }
        return [{"key": key, "value": value} for key, value in found.values()]

    return rowwise(entries, compiler.operands(call), call.type, nulls=True)


@compiles("ROW")
def _row(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    assert isinstance(call.type, t.RowType)
    fields = zip(call.type, compiler.operands(call), strict=True)
    return pl.struct([each.alias(field.name) for field, each in fields])


@compiles("FIELD")
def _field(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    row, place = call.operands
    assert isinstance(row.type, t.RowType)
    assert isinstance(place, Literal)
    return compiler.compile(row).struct.field(row.type.names[place.value])


@compiles("ITEM")
def _item(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    whole, place = call.operands
    value, index = compiler.operands(call)
    if isinstance(whole.type, t.MapType):
        if isinstance(place, Literal) and place.value is not None:
            entry = pl.element().struct
            found = entry.field("value").filter(entry.field("key") == index)
            return value.list.eval(found).list.first()
        return rowwise(_lookup, [value, index], call.type)
    if isinstance(place, Literal):
        if place.value is None:
            return pl.lit(None, dtype=dtype_of(call.type))
        return value.list.get(place.value - 1, null_on_oob=True)
    return rowwise(_at, [value, index], call.type)


def _lookup(entries: _Entries, key: object) -> Any:
    for each in entries:
        if each["key"] == key:
            return each["value"]
    return None


def _at(values: _Array, index: int) -> Any:
    return values[index - 1] if 1 <= index <= len(values) else None


# --- arrays ------------------------------------------------------------------------------------------


def _hashable(value: object) -> object:
    """Return something that can be looked up, for values that may be arrays, maps or rows."""
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple((key, _hashable(each)) for key, each in value.items())
    return value


def _first(values: _Array) -> _Array:
    """Return each value once, where it came first."""
    seen: dict[Any, Any] = {}
    for each in values:
        seen.setdefault(_hashable(each), each)
    return list(seen.values())


@compiles("CARDINALITY")
def _cardinality(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    return compiler.operands(call)[0].list.len().cast(pl.Int32())


def _element(values: _Array) -> object:
    if len(values) > 1:
        raise RecordError(f"ELEMENT needs an array with exactly one element, got {len(values)}")
    return values[0] if values else None


def _extreme(choose: Callable[[_Array], Any]) -> Callable[[_Array], Any]:
    def run(values: _Array) -> Any:
        known = [each for each in values if each is not None]
        return choose(known) if known else None

    return run


def _sorted(values: _Array, ascending: bool = True, nulls_first: bool | None = None) -> _Array:
    first = ascending if nulls_first is None else nulls_first
    known = sorted((each for each in values if each is not None), reverse=not ascending)
    missing: _Array = [None] * (len(values) - len(known))
    return missing + known if first else known + missing


def _slice(values: _Array, start: int, end: int | None = None) -> _Array:
    length = len(values)
    if not length:
        return values
    first = length + start + 1 if start < 0 else start or 1
    last = length if end is None else length + end + 1 if end < 0 else end or 1
    if first > last or first > length or (end is not None and last < 1):
        return []
    return values[max(first, 1) - 1 : last]


def _joined(values: _Array, by: str, missing: str | None = None) -> str:
    shown = [missing if each is None else each for each in values]
    return by.join(each for each in shown if each is not None)


each_row("ELEMENT", _element)
each_row("ARRAY_DISTINCT", _first)
each_row("ARRAY_REVERSE", lambda values: values[::-1])
each_row("ARRAY_MAX", _extreme(max))
each_row("ARRAY_MIN", _extreme(min))
each_row("ARRAY_SORT", _sorted)
each_row("ARRAY_SLICE", _slice)
each_row("ARRAY_JOIN", _joined)


def _contains(values: _Array | None, value: object) -> bool | None:
    return None if values is None else value in values


def _position(values: _Array, value: object) -> int:
    return values.index(value) + 1 if value in values else 0


def _append(values: _Array | None, value: object) -> _Array | None:
    return None if values is None else [*values, value]


def _prepend(values: _Array | None, value: object) -> _Array | None:
    return None if values is None else [value, *values]


def _remove(values: _Array | None, value: object) -> _Array | None:
    return None if values is None else [each for each in values if each != value]


each_row("ARRAY_CONTAINS", _contains, nulls=True)
each_row("ARRAY_POSITION", _position)
each_row("ARRAY_APPEND", _append, nulls=True)
each_row("ARRAY_PREPEND", _prepend, nulls=True)
each_row("ARRAY_REMOVE", _remove, nulls=True)


def _except(left: _Array, right: _Array) -> _Array:
    without = {_hashable(each) for each in right}
    return [each for each in _first(left) if _hashable(each) not in without]


def _intersect(left: _Array, right: _Array) -> _Array:
    both = {_hashable(each) for each in right}
    return [each for each in _first(left) if _hashable(each) in both]


each_row("ARRAY_CONCAT", lambda *arrays: [each for array in arrays for each in array])
each_row("ARRAY_UNION", lambda left, right: _first([*left, *right]))
each_row("ARRAY_EXCEPT", _except)
each_row("ARRAY_INTERSECT", _intersect)

# --- maps --------------------------------------------------------------------------------------------


def _union(*maps: _Entries) -> _Entries:
    found = {_hashable(each["key"]): each for entries in maps for each in entries}
    return list(found.values())


def _from_arrays(keys: _Array, values: _Array) -> _Entries:
    if len(keys) != len(values):
        raise RecordError(
            "MAP_FROM_ARRAYS needs arrays of equal length",
            detail=f"got {len(keys)} keys and {len(values)} values",
        )
    pairs = zip(keys, values, strict=True)
    return list({_hashable(k): {"key": k, "value": v} for k, v in pairs}.values())


each_row("MAP_KEYS", lambda entries: [each["key"] for each in entries])
each_row("MAP_VALUES", lambda entries: [each["value"] for each in entries])
each_row("MAP_ENTRIES", list)
each_row("MAP_UNION", _union)
each_row("MAP_FROM_ARRAYS", _from_arrays)
