"""Aggregate functions, ranking functions, LAG and LEAD: parameters and result types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.errors import ArgumentError
from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.functions.definitions import MessageWording, wrong_count
from penstock.sql.expr.nodes import AggregateCall, Literal, Rex


@dataclass(frozen=True, slots=True)
class AggregateDefinition:
    """An aggregate function: how many operands it takes, and the type of its result (None: it does not take these)."""

    name: str
    usage: str
    least: int
    most: int
    returns: Callable[[Sequence[Rex]], t.DataType | None]
    only_over: bool = False


AGGREGATES: dict[str, AggregateDefinition] = {}
AGGREGATE_ALIASES: dict[str, str] = {
    "STDDEV": "STDDEV_SAMP",
    "VARIANCE": "VAR_SAMP",
    "SUM0": "$SUM0",
    "GROUPING_ID": "GROUPING",
}


def _define(
    name: str,
    usage: str,
    least: int,
    most: int,
    returns: Callable[[Sequence[Rex]], t.DataType | None],
    *,
    only_over: bool = False,
) -> None:
    AGGREGATES[name] = AggregateDefinition(
        name, f"{name}({usage})", least, most, returns, only_over
    )


def _count(_: Sequence[Rex]) -> t.DataType:
    return ty.BIGINT.not_null()


def _sum(operands: Sequence[Rex]) -> t.DataType | None:
    given = operands[0].type
    if isinstance(given, t.DecimalType):
        return t.DecimalType(ty.MOST_DIGITS, given.scale)
    return given.nullable() if ty.is_number(given) else None


def _average(operands: Sequence[Rex]) -> t.DataType | None:
    given = operands[0].type
    if isinstance(given, t.DecimalType):
        return t.DecimalType(ty.MOST_DIGITS, max(6, given.scale))
    return given.nullable() if ty.is_number(given) else None


def _deviation(operands: Sequence[Rex]) -> t.DataType | None:
    given = operands[0].type
    if isinstance(given, t.DecimalType):
        return t.DecimalType(ty.MOST_DIGITS, max(6, given.scale))
    return given.nullable() if ty.is_number(given) else None


def _ordered(operands: Sequence[Rex]) -> t.DataType | None:
    given = operands[0].type
    if isinstance(given, t.MapType | t.MultisetType | t.RowType | t.ArrayType):
        return None
    if not ty.is_ordered(given):
        return None
    return given.nullable()


def _same(operands: Sequence[Rex]) -> t.DataType:
    return operands[0].type.nullable()


def _text(operands: Sequence[Rex]) -> t.DataType | None:
    return (
        ty.STRING if all(ty.is_text(each.type) or ty.is_null(each) for each in operands) else None
    )


def _json(operands: Sequence[Rex]) -> t.DataType | None:
    unknown = any(ty.holds(each.type, t.BitmapType) for each in operands)
    return None if unknown else ty.STRING.not_null()


def _percentile(operands: Sequence[Rex]) -> t.DataType | None:
    if not ty.is_number(operands[0].type):
        return None
    wanted = operands[1].type
    if isinstance(wanted, t.ArrayType):
        return t.ArrayType(ty.DOUBLE)
    return ty.DOUBLE if ty.is_number(wanted) else None


def _bitmaps(
    kind: str, result: t.DataType
) -> tuple[str, int, int, Callable[[Sequence[Rex]], t.DataType | None]]:
    """Return what an aggregate of bitmaps takes, BITMAP_BUILD_AGG one of integers, and what it gives."""
    taken = (t.TinyIntType, t.SmallIntType, t.IntType) if kind == "BUILD" else (t.BitmapType,)

    def returns(operands: Sequence[Rex]) -> t.DataType | None:
        return result if isinstance(operands[0].type, taken) else None

    return "integer" if kind == "BUILD" else "bitmap", 1, 1, returns


def _lag(operands: Sequence[Rex]) -> t.DataType | None:
    if len(operands) > 1 and not ty.is_integer(operands[1].type):
        return None
    if len(operands) > 2:
        return ty.common_type([operands[0].type.nullable(), operands[2].type])
    return operands[0].type.nullable()


_define("COUNT", "value, ...", 0, 100, _count)
_define("APPROX_COUNT_DISTINCT", "value", 1, 1, _count)
_define("SUM", "number", 1, 1, _sum)
_define("$SUM0", "number", 1, 1, lambda o: None if _sum(o) is None else _sum(o).not_null())  # type: ignore[union-attr]
_define("AVG", "number", 1, 1, _average)
_define("MIN", "value", 1, 1, _ordered)
_define("MAX", "value", 1, 1, _ordered)
for _name in ("STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP"):
    _define(_name, "number", 1, 1, _deviation)
_define("FIRST_VALUE", "value", 1, 2, _same)
_define("LAST_VALUE", "value", 1, 2, _same)
_define("LISTAGG", "text [, separator]", 1, 2, _text)
_define("COLLECT", "value", 1, 1, lambda o: t.MultisetType(o[0].type, False))
_define("ARRAY_AGG", "value", 1, 1, lambda o: t.ArrayType(o[0].type))
_define("PERCENTILE", "number, percentage [, frequency]", 2, 3, _percentile)
_define("JSON_OBJECTAGG", "KEY key VALUE value", 2, 3, _json)
_define("JSON_ARRAYAGG", "value", 1, 2, _json)
for _kind in ("BUILD", "AND", "OR", "XOR"):
    _define(f"BITMAP_{_kind}_AGG", *_bitmaps(_kind, t.BitmapType()))
    _define(f"BITMAP_{_kind}_CARDINALITY_AGG", *_bitmaps(_kind, ty.BIGINT))
_define("SINGLE_VALUE", "value", 1, 1, _same)
_define("GROUPING", "column, ...", 1, 63, _count)
for _name in ("ROW_NUMBER", "RANK", "DENSE_RANK"):
    _define(_name, "", 0, 0, _count, only_over=True)
_define("NTILE", "buckets", 1, 1, lambda _: ty.BIGINT.not_null(), only_over=True)
for _name in ("PERCENT_RANK", "CUME_DIST"):
    _define(_name, "", 0, 0, lambda _: ty.DOUBLE.not_null(), only_over=True)
for _name in ("LAG", "LEAD"):
    _define(_name, "value [, offset [, default]]", 1, 3, _lag, only_over=True)


def resolve_aggregate(
    name: str,
    operands: Sequence[Rex],
    distinct: bool = False,
    *,
    filter: Rex | None = None,
    order: tuple[tuple[Rex, bool], ...] = (),
    ignore_nulls: bool = False,
    over: bool = False,
    words: MessageWording | None = None,
) -> AggregateCall:
    """Type a call of an aggregate function. `over`: it stands before OVER.

    `words`: `on_null` (NULL or ABSENT) of JSON_OBJECTAGG and JSON_ARRAYAGG; the typed call has it as its last operand.
    """
    canonical = AGGREGATE_ALIASES.get(name.upper(), name.upper())
    known = AGGREGATES.get(canonical)
    if known is None:
        raise ArgumentError(f"unknown aggregate function {name}")
    if known.only_over and not over:
        raise ArgumentError(
            f"{canonical} needs an OVER window", hint=f"use {known.usage} OVER (... ORDER BY ...)"
        )
    given = tuple(operands)
    if not known.least <= len(given) <= known.most:
        raise wrong_count(canonical, given, known.usage)
    given = tuple(ty.cast_to(each, ty.INT) if ty.is_null(each) else each for each in given)
    result = known.returns(given)
    if result is None:
        shown = ", ".join(str(each.type) for each in given)
        raise ArgumentError(f"{canonical} does not accept {shown}", hint=f"use it as {known.usage}")
    if canonical.startswith("JSON_"):
        default = "NULL" if canonical == "JSON_OBJECTAGG" else "ABSENT"
        behaviour = str((words or {}).get("on_null", default)).upper()
        given = (*given, Literal(ty.STRING.not_null(), behaviour))
    if canonical in {"LAG", "LEAD"} and len(given) == 3:
        given = (given[0], given[1], ty.cast_to(given[2], result))
    return AggregateCall(canonical, given, result, distinct, filter, order, ignore_nulls)
