"""Constructors of arrays, maps and rows, access to their parts, and functions of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.errors import ArgumentError
from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.functions.definitions import (
    ARRAY,
    BOOLEAN,
    INTEGER,
    MAP,
    TEXT,
    MessageWording,
    common_operands,
    define,
    kinds,
    register,
    wrong_count,
    wrong_operand,
)
from penstock.sql.expr.nodes import Call, Literal, Rex

# --- constructors ------------------------------------------------------------------------------------


def _array(operands: Sequence[Rex], _: MessageWording) -> Rex:
    if not operands:
        raise ArgumentError(
            "the type of an empty array is unknown", hint="use CAST(NULL AS ARRAY<type>)"
        )
    elements = common_operands("ARRAY", operands)
    inner = ty.with_nullable(elements[0].type, ty.any_nullable(elements))
    return Call(t.ArrayType(inner, False), "ARRAY", tuple(elements))


def _map(operands: Sequence[Rex], _: MessageWording) -> Rex:
    if not operands or len(operands) % 2:
        raise wrong_count("MAP", operands, "MAP[key, value, ...]")
    keys = common_operands("MAP", operands[::2])
    values = common_operands("MAP", operands[1::2])
    result = t.MapType(
        ty.with_nullable(keys[0].type, ty.any_nullable(keys)),
        ty.with_nullable(values[0].type, ty.any_nullable(values)),
        False,
    )
    pairs = zip(keys, values, strict=True)
    return Call(result, "MAP", tuple(part for pair in pairs for part in pair))


def _row(operands: Sequence[Rex], words: MessageWording) -> Rex:
    names = words.get("names") or [f"EXPR${at}" for at in range(len(operands))]
    fields = [t.RowField(name, operand.type) for name, operand in zip(names, operands, strict=True)]
    return Call(t.RowType(fields, False), "ROW", tuple(operands))


register("ARRAY", "ARRAY[value, ...]", _array)
register("MAP", "MAP[key, value, ...]", _map)
register("ROW", "ROW(value, ...)", _row)

# --- access ------------------------------------------------------------------------------------------


def _item(operands: Sequence[Rex], _: MessageWording) -> Rex:
    usage = "array[index] or map[key]"
    if len(operands) != 2:
        raise wrong_count("ITEM", operands, usage)
    whole, place = operands
    if isinstance(whole.type, t.ArrayType):
        index = INTEGER.convert(place)
        if index is None:
            raise wrong_operand("ITEM", 1, operands, usage)
        if isinstance(index, Literal) and index.value is not None and index.value < 1:
            raise ArgumentError(f"array indexes start at 1, got {index.value}")
        return Call(whole.type.element_type.nullable(), "ITEM", (whole, index))
    if isinstance(whole.type, t.MapType):
        if not ty.can_widen(place.type, whole.type.key_type):
            raise wrong_operand("ITEM", 1, operands, usage)
        key = ty.cast_to(place, whole.type.key_type)
        return Call(whole.type.value_type.nullable(), "ITEM", (whole, key))
    if isinstance(whole.type, t.RowType) and isinstance(place, Literal):
        return _field(operands, {})
    raise wrong_operand("ITEM", 0, operands, usage)


def _field(operands: Sequence[Rex], _: MessageWording) -> Rex:
    """Type access to a field; the second operand is its position, or its name."""
    usage = "row.field"
    if len(operands) != 2 or not isinstance(operands[1], Literal):
        raise wrong_count("FIELD", operands, usage)
    row, place = operands[0], operands[1].value
    if not isinstance(row.type, t.RowType):
        raise wrong_operand("FIELD", 0, operands, usage)
    names = row.type.names
    if isinstance(place, str):
        if place not in names:
            raise ArgumentError(
                f"the row has no field '{place}'", hint=f"the fields are {', '.join(names)}"
            )
        place = names.index(place)
    found = row.type.fields[place].data_type
    result = ty.with_nullable(found, found.is_nullable or row.type.is_nullable)
    return Call(result, "FIELD", (row, Literal(ty.INT.not_null(), place)))


register("ITEM", "array[index] or map[key]", _item)
register("FIELD", "row.field", _field)

# --- functions ---------------------------------------------------------------------------------------


def element_of(rex: Rex) -> t.DataType:
    """Return the type of an array's elements."""
    return rex.type.element_type if isinstance(rex.type, t.ArrayType) else t.NullType()


_COUNTED = kinds(
    "array or map", lambda given: isinstance(given, t.ArrayType | t.MapType | t.MultisetType)
)
define("CARDINALITY", _COUNTED, returns=ty.INT)
define("ELEMENT", ARRAY, returns=lambda o: element_of(o[0]).nullable(), nullable=True)
define("ARRAY_DISTINCT", ARRAY, returns=lambda o: o[0].type)
define("ARRAY_REVERSE", ARRAY, returns=lambda o: o[0].type)
define("ARRAY_MAX", ARRAY, returns=lambda o: element_of(o[0]), nullable=True)
define("ARRAY_MIN", ARRAY, returns=lambda o: element_of(o[0]), nullable=True)
define("ARRAY_SORT", ARRAY, BOOLEAN, BOOLEAN, optional=2, returns=lambda o: o[0].type)
define("ARRAY_SLICE", ARRAY, INTEGER, INTEGER, optional=1, returns=lambda o: o[0].type)
define("MAP_KEYS", MAP, returns=lambda o: t.ArrayType(o[0].type.key_type))  # type: ignore[attr-defined]
define("MAP_VALUES", MAP, returns=lambda o: t.ArrayType(o[0].type.value_type))  # type: ignore[attr-defined]


def _entry(operands: Sequence[Rex]) -> t.DataType:
    given = operands[0].type
    assert isinstance(given, t.MapType)
    entry = t.RowType([t.RowField("key", given.key_type), t.RowField("value", given.value_type)])
    return t.ArrayType(entry)


define("MAP_ENTRIES", MAP, returns=_entry)
define(
    "MAP_FROM_ARRAYS",
    ARRAY,
    ARRAY,
    returns=lambda o: t.MapType(element_of(o[0]), element_of(o[1])),
)
define("ARRAY_JOIN", ARRAY, TEXT, TEXT, optional=1, returns=ty.STRING)


def _with_element(name: str, build: Callable[[Rex, Rex], Rex]) -> None:
    """Add a function of an array and a value that could be one of its elements."""
    usage = f"{name}(array, element)"

    def resolver(operands: Sequence[Rex], _: MessageWording) -> Rex:
        if len(operands) != 2:
            raise wrong_count(name, operands, usage)
        array = ARRAY.convert(operands[0])
        if array is None or ty.is_null(array):
            raise wrong_operand(name, 0, operands, usage)
        value = operands[1]
        common = ty.common_type([element_of(array), value.type])
        if common is None:
            raise wrong_operand(name, 1, operands, usage)
        inner = ty.with_nullable(common, element_of(array).is_nullable)
        array = ty.cast_to(array, t.ArrayType(inner))
        return build(array, ty.cast_to(value, common))

    register(name, usage, resolver)


def _searching(name: str, result: t.DataType) -> Callable[[Rex, Rex], Rex]:
    return lambda array, value: Call(
        ty.with_nullable(
            result,
            ty.any_nullable((array, value)) if name == "ARRAY_POSITION" else array.type.is_nullable,
        ),
        name,
        (array, value),
    )


def _changing(name: str, grows: bool) -> Callable[[Rex, Rex], Rex]:
    def build(array: Rex, value: Rex) -> Rex:
        inner = element_of(array)
        if grows:
            inner = ty.with_nullable(inner, inner.is_nullable or value.type.is_nullable)
        result = t.ArrayType(inner, array.type.is_nullable)
        return Call(result, name, (array, value))

    return build


_with_element("ARRAY_CONTAINS", _searching("ARRAY_CONTAINS", ty.BOOLEAN))
_with_element("ARRAY_POSITION", _searching("ARRAY_POSITION", ty.INT))
_with_element("ARRAY_APPEND", _changing("ARRAY_APPEND", True))
_with_element("ARRAY_PREPEND", _changing("ARRAY_PREPEND", True))
_with_element("ARRAY_REMOVE", _changing("ARRAY_REMOVE", False))


def _of_alike(
    name: str, parameter: type[t.DataType], usage: str, least: int, most: int | None
) -> None:
    """Add a function of several arrays or maps, converted to their common type."""

    def resolver(operands: Sequence[Rex], _: MessageWording) -> Rex:
        if len(operands) < least or (most is not None and len(operands) > most):
            raise wrong_count(name, operands, usage)
        for at, each in enumerate(operands):
            if not isinstance(each.type, parameter) and not ty.is_null(each):
                raise wrong_operand(name, at, operands, usage)
        converted = common_operands(name, operands)
        result = ty.with_nullable(converted[0].type, ty.any_nullable(converted))
        return Call(result, name, tuple(converted))

    register(name, usage, resolver)


for _name, _least, _most in (
    ("ARRAY_CONCAT", 1, None),
    ("ARRAY_UNION", 2, 2),
    ("ARRAY_EXCEPT", 2, 2),
    ("ARRAY_INTERSECT", 2, 2),
):
    _of_alike(_name, t.ArrayType, f"{_name}(array, array)", _least, _most)
_of_alike("MAP_UNION", t.MapType, "MAP_UNION(map, ...)", 1, None)
