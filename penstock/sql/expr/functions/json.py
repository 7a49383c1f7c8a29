"""Functions of JSON text.

Keywords of their syntax are passed as words, and become symbols and constants at fixed positions of the typed call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import ArgumentError
from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.functions.definitions import (
    TEXT,
    MessageWording,
    define,
    kinds,
    register,
    wrong_count,
    wrong_operand,
)
from penstock.sql.expr.nodes import (
    Call,
    Literal,
    Rex,
    Symbol,
)

_RETURNED = (
    t.CharType,
    t.VarCharType,
    t.BooleanType,
    t.IntType,
    t.BigIntType,
    t.SmallIntType,
    t.TinyIntType,
    t.DoubleType,
    t.FloatType,
    t.DecimalType,
)


def _symbol(name: str) -> Symbol:
    return Symbol(t.NullType(), name)


def _document(name: str, operands: Sequence[Rex], usage: str) -> tuple[Rex, Rex]:
    if len(operands) != 2:
        raise wrong_count(name, operands, usage)
    converted = [TEXT.convert(each) for each in operands]
    for at, each in enumerate(converted):
        if each is None:
            raise wrong_operand(name, at, operands, usage)
    document, path = converted
    assert document is not None
    assert path is not None
    return document, path


def _behaviour(name: str, words: MessageWording, word: str, accepted: Sequence[str]) -> str:
    given = str(words.get(word, accepted[0])).upper()
    if given not in accepted:
        shown = word.replace("_", " ").upper()
        raise ArgumentError(
            f"{name} does not support {given} {shown}",
            hint=f"valid values are {', '.join(accepted)}",
        )
    return given


def _json_value(operands: Sequence[Rex], words: MessageWording) -> Rex:
    usage = "JSON_VALUE(json, path [RETURNING type] [... ON EMPTY] [... ON ERROR])"
    document, path = _document("JSON_VALUE", operands, usage)
    result: t.DataType = words.get("returning") or ty.STRING
    if not isinstance(result, _RETURNED):
        raise ArgumentError(
            f"JSON_VALUE cannot return {result}", hint="convert the result with CAST"
        )
    parts: list[Rex] = [document, path]
    for word in ("on_empty", "on_error"):
        given: Any = words.get(word, "NULL")
        if isinstance(given, Rex):
            parts += [_symbol("DEFAULT"), ty.cast_to(given, result)]
        else:
            behaviour = _behaviour("JSON_VALUE", words, word, ("NULL", "ERROR"))
            parts += [_symbol(behaviour), Literal(result.nullable(), None)]
    return Call(result.nullable(), "JSON_VALUE", tuple(parts))


_QUERY_BEHAVIOURS = ("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT")


def _json_query(operands: Sequence[Rex], words: MessageWording) -> Rex:
    usage = "JSON_QUERY(json, path [WITHOUT | WITH [CONDITIONAL] ARRAY WRAPPER] [... ON EMPTY])"
    document, path = _document("JSON_QUERY", operands, usage)
    result: t.DataType = words.get("returning") or ty.STRING
    array = isinstance(result, t.ArrayType) and ty.is_text(result.element_type)
    if not (array or ty.is_text(result)):
        raise ArgumentError(f"JSON_QUERY cannot return {result}")
    wrapper = _behaviour(
        "JSON_QUERY", words, "wrapper", ("WITHOUT", "CONDITIONAL", "UNCONDITIONAL")
    )
    behaviours = [
        _symbol(_behaviour("JSON_QUERY", words, word, _QUERY_BEHAVIOURS))
        for word in ("on_empty", "on_error")
    ]
    parts = (document, path, _symbol(wrapper), *behaviours)
    return Call(result.nullable(), "JSON_QUERY", parts)


def _json_exists(operands: Sequence[Rex], words: MessageWording) -> Rex:
    document, path = _document("JSON_EXISTS", operands, "JSON_EXISTS(json, path [... ON ERROR])")
    accepted = ("FALSE", "TRUE", "UNKNOWN", "ERROR")
    behaviour = _behaviour("JSON_EXISTS", words, "on_error", accepted)
    return Call(ty.BOOLEAN, "JSON_EXISTS", (document, path, _symbol(behaviour)))


def _check_values(name: str, operands: Sequence[Rex]) -> None:
    for each in operands:
        if not isinstance(each, Symbol) and ty.holds(each.type, t.BitmapType):
            raise ArgumentError(
                f"{name} does not accept {each.type}",
                hint="JSON cannot represent bitmaps; use BITMAP_TO_ARRAY",
            )


def _json_object(operands: Sequence[Rex], words: MessageWording) -> Rex:
    usage = "JSON_OBJECT(KEY key VALUE value, ... [NULL | ABSENT ON NULL])"
    if len(operands) % 2:
        raise wrong_count("JSON_OBJECT", operands, usage)
    for at in range(0, len(operands), 2):
        key = operands[at]
        if not (isinstance(key, Literal) and isinstance(key.value, str)):
            raise ArgumentError("keys of JSON_OBJECT must be string literals", hint=usage)
    _check_values("JSON_OBJECT", operands)
    behaviour = _behaviour("JSON_OBJECT", words, "on_null", ("NULL", "ABSENT"))
    return Call(ty.STRING.not_null(), "JSON_OBJECT", (_symbol(behaviour), *operands))


def _json_array(operands: Sequence[Rex], words: MessageWording) -> Rex:
    _check_values("JSON_ARRAY", operands)
    behaviour = _behaviour("JSON_ARRAY", words, "on_null", ("ABSENT", "NULL"))
    return Call(ty.STRING.not_null(), "JSON_ARRAY", (_symbol(behaviour), *operands))


def _is_json(operands: Sequence[Rex], words: MessageWording) -> Rex:
    usage = "json IS JSON [VALUE | SCALAR | ARRAY | OBJECT]"
    if len(operands) != 1:
        raise wrong_count("IS JSON", operands, usage)
    document = TEXT.convert(operands[0])
    if document is None:
        raise wrong_operand("IS JSON", 0, operands, usage)
    kind = _behaviour("IS JSON", words, "kind", ("VALUE", "SCALAR", "ARRAY", "OBJECT"))
    result = ty.with_nullable(ty.BOOLEAN, False)
    return Call(result, "IS JSON", (document, _symbol(kind)))


def _is_not_json(operands: Sequence[Rex], words: MessageWording) -> Rex:
    return Call(ty.BOOLEAN.not_null(), "NOT", (_is_json(operands, words),))


register("JSON_VALUE", "JSON_VALUE(json, path)", _json_value)
register("JSON_QUERY", "JSON_QUERY(json, path)", _json_query)
register("JSON_EXISTS", "JSON_EXISTS(json, path)", _json_exists)
register("JSON_OBJECT", "JSON_OBJECT(KEY key VALUE value, ...)", _json_object)
register("JSON_ARRAY", "JSON_ARRAY(value, ...)", _json_array)
register("IS JSON", "json IS JSON", _is_json, "IS_JSON")
register("IS NOT JSON", "json IS NOT JSON", _is_not_json)
define(
    "JSON_STRING",
    kinds("any but BITMAP", lambda kind: not ty.holds(kind, t.BitmapType)),
    returns=ty.STRING,
)
define("JSON", TEXT, returns=ty.STRING)
