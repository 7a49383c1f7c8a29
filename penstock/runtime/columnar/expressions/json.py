"""Functions of JSON text."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import polars as pl

from penstock.errors import RecordError
from penstock.runtime.columnar.expressions.as_text import double_text, text_expression
from penstock.runtime.columnar.expressions.casts import cast_expression
from penstock.runtime.columnar.expressions.compiler import ExpressionCompiler, compiles, rowwise
from penstock.runtime.columnar.expressions.json_path import MISSING, json_path
from penstock.runtime.columnar.expressions.texts import each_row
from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.nodes import Call, Rex, Symbol
from penstock.time.nanoseconds import nanos_of_second

INVALID = object()


class _Raw(str):
    """JSON text that is inserted unchanged."""

    __slots__ = ()


def loads(text: str) -> Any:
    """Parse JSON text; INVALID if it is not JSON. Numbers with a point keep their digits."""
    try:
        return json.loads(text, parse_constant=_refused, parse_float=Decimal)
    except ValueError:
        return INVALID


def _refused(name: str) -> object:
    raise ValueError(name)


def dumps(value: object) -> str:
    """Return a value as JSON text without blanks, keys in alphabetical order.

    >>> dumps({"a": [1, 2.5, None, "x"]})
    '{"a":[1,2.5,null,"x"]}'
    """
    if isinstance(value, _Raw):
        return str(value)
    if isinstance(value, float):
        return str(Decimal(double_text(value)))
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{_text(key)}:{dumps(item)}" for key, item in sorted(value.items()))
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(dumps, value)) + "]"
    return _text(value)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _word(call: Call, at: int) -> str:
    found = call.operands[at]
    assert isinstance(found, Symbol)
    return found.name


# --- reading -----------------------------------------------------------------------------------------


def _read(document: str, path: str) -> tuple[Any, str]:
    """Return the value at a path, and whether it was `found`, is `empty` or an `error`."""
    compiled = json_path(path)
    if compiled is None:
        raise RecordError(f"invalid JSON path {path!r}", hint="a path looks like $.name[0]")
    whole = loads(document)
    if whole is INVALID:
        return None, "error"
    found = compiled.read(whole)
    if found is MISSING:
        return None, "empty" if compiled.lax else "error"
    return found, "lax" if compiled.lax else "strict"


@compiles("JSON_VALUE", fallible=True)
def _json_value(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    document, path, on_empty, on_error = compiler.operands(call)
    behaviours = {"empty": _word(call, 2), "error": _word(call, 4)}

    def state(text: str, given: str) -> dict[str, Any]:
        found, how = _read(text, given)
        if how in {"lax", "strict"} and (isinstance(found, dict | list) or found is None):
            how = "empty" if how == "lax" else "error"
        if how in behaviours and behaviours[how] == "ERROR":
            raise RecordError(f"JSON_VALUE found no value at {given!r}", detail=f"in {text!r}")
        return {
            "how": how,
            "text": None if how in behaviours or found is None else _scalar_text(found),
        }

    kind = t.RowType([t.RowField("how", ty.STRING), t.RowField("text", ty.STRING)])
    read = rowwise(state, [document, path], kind)
    how, text = read.struct.field("how"), read.struct.field("text")
    made = cast_expression(
        compiler, text, ty.STRING, call.type, safe=behaviours["error"] != "ERROR"
    )
    failed = (how == "error") | (made.is_null() & text.is_not_null())
    return pl.when(how == "empty").then(on_empty).when(failed).then(on_error).otherwise(made)


def _scalar_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else dumps(value)


_EMPTY = {"NULL": None, "EMPTY ARRAY": "[]", "EMPTY OBJECT": "{}"}


@compiles("JSON_QUERY", fallible=True)
def _json_query(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    wrapper, on_empty, on_error = (_word(call, at) for at in (2, 3, 4))
    arrays = isinstance(call.type, t.ArrayType)

    def query(text: str, given: str) -> Any:
        found, how = _read(text, given)
        if how in {"lax", "strict"}:
            if wrapper == "UNCONDITIONAL" or (
                wrapper == "CONDITIONAL" and not isinstance(found, list | dict)
            ):
                found = [found]
            if found is None:
                how = "empty"
            elif not isinstance(found, dict | list):
                how = "empty" if how == "lax" else "error"
            else:
                return _elements(found) if arrays else dumps(found)
        behaviour = on_empty if how == "empty" else on_error
        if behaviour == "ERROR":
            raise RecordError(f"JSON_QUERY found nothing at {given!r}", detail=f"in {text!r}")
        return ([] if behaviour == "EMPTY ARRAY" else None) if arrays else _EMPTY[behaviour]

    return rowwise(query, compiler.operands(call), call.type)


def _elements(found: object) -> list[str | None] | None:
    if not isinstance(found, list):
        return None
    return [None if each is None else _scalar_text(each) for each in found]


@compiles("JSON_EXISTS", fallible=True)
def _json_exists(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    behaviour = _word(call, 2)

    def exists(text: str, given: str) -> bool | None:
        found, how = _read(text, given)
        if how != "error":
            return how != "empty" and found is not None and found != []
        if behaviour == "ERROR":
            raise RecordError(f"JSON_EXISTS found nothing at {given!r}", detail=f"in {text!r}")
        return {"TRUE": True, "FALSE": False, "UNKNOWN": None}[behaviour]

    return rowwise(exists, compiler.operands(call), call.type)


@compiles("IS JSON")
def _is_json(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    kind = _word(call, 1)

    def test(text: str | None) -> bool:
        value = INVALID if text is None else loads(text)
        if value is INVALID:
            return False
        return {
            "VALUE": True,
            "SCALAR": not isinstance(value, list | dict),
            "ARRAY": isinstance(value, list),
            "OBJECT": isinstance(value, dict),
        }[kind]

    return rowwise(test, compiler.operands(call), call.type, nulls=True)


# --- writing -----------------------------------------------------------------------------------------


def encoder(data_type: t.DataType) -> Callable[[Any], Any]:
    """Return a converter from column values to JSON values."""
    if isinstance(data_type, t.ArrayType):
        each = encoder(data_type.element_type)
        return lambda value: [None if item is None else each(item) for item in value]
    if isinstance(data_type, t.MapType | t.MultisetType):
        item_type = data_type.value_type if isinstance(data_type, t.MapType) else ty.INT
        item = encoder(item_type)
        return lambda value: {
            str(entry["key"]): None if entry["value"] is None else item(entry["value"])
            for entry in value
        }
    if isinstance(data_type, t.RowType):
        parts = [encoder(kind) for kind in data_type.field_types()]
        return lambda value: {
            name: None if item is None else part(item)
            for part, (name, item) in zip(parts, value.items(), strict=True)
        }
    if ty.is_binary(data_type):
        return lambda value: base64.b64encode(value).decode()
    return _plain


def _plain(value: object) -> object:
    if isinstance(value, dt.datetime):
        nanos = nanos_of_second(value)
        digits = 9 if nanos % 1000 else 6 if nanos % 1_000_000 else 3 if nanos else 0
        shown = f"{value:%Y-%m-%dT%H:%M:%S}" + (f".{nanos:09}"[: digits + 1] if digits else "")
        return shown + ("Z" if value.tzinfo else "")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return value


def _is_json_call(rex: Rex) -> bool:
    return getattr(rex, "function", None) in {"JSON_OBJECT", "JSON_ARRAY", "JSON"}


def _parts(
    compiler: ExpressionCompiler, operands: tuple[Rex, ...]
) -> tuple[list[pl.Expr], list[Any]]:
    columns = [
        text_expression(compiler, compiler.compile(each), each.type)
        if ty.is_interval(each.type)
        else compiler.compile(each)
        for each in operands
    ]
    encoders = [_Raw if _is_json_call(each) else encoder(each.type) for each in operands]
    return columns, encoders


@compiles("JSON_OBJECT")
def _json_object(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    keep = _word(call, 0) == "NULL"
    columns, encoders = _parts(compiler, call.operands[1:])

    def build(*values: object) -> str:
        made = {
            key: None if value is None else encode(value)
            for key, value, encode in zip(values[::2], values[1::2], encoders[1::2], strict=True)
            if keep or value is not None
        }
        return dumps(made)

    return rowwise(build, columns, call.type, nulls=True) if columns else pl.lit("{}")


@compiles("JSON_ARRAY")
def _json_array(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    keep = _word(call, 0) == "NULL"
    columns, encoders = _parts(compiler, call.operands[1:])

    def build(*values: object) -> str:
        made = [
            None if value is None else encode(value)
            for value, encode in zip(values, encoders, strict=True)
            if keep or value is not None
        ]
        return dumps(made)

    return rowwise(build, columns, call.type, nulls=True) if columns else pl.lit("[]")


@compiles("JSON_STRING")
def _json_string(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    columns, encoders = _parts(compiler, call.operands)
    encode = encoders[0]
    return rowwise(lambda value: dumps(encode(value)), columns, call.type)


@compiles("JSON")
def _json(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    def check(text: str) -> str:
        value = loads(text)
        if value is INVALID:
            raise RecordError(f"invalid JSON: {text!r}")
        return dumps(value)

    return rowwise(check, compiler.operands(call), call.type)


each_row("JSON_QUOTE", json.dumps)


def _unquote(text: str) -> str:
    if len(text) < 2 or not (text[0] == text[-1] == '"'):
        return text
    value = loads(text)
    return value if isinstance(value, str) else text


each_row("JSON_UNQUOTE", _unquote)
