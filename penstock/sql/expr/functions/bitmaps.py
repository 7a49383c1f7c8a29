"""Functions of bitmaps: parameters and result types."""

from __future__ import annotations

from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.functions.definitions import BINARY, Parameter, define
from penstock.sql.expr.nodes import Literal, Rex, Symbol

_BITMAP = t.BitmapType()
_SMALL = (t.TinyIntType, t.SmallIntType, t.IntType)


def _bitmap(operand: Rex) -> Rex | None:
    fits = not isinstance(operand, Symbol) and isinstance(operand.type, t.BitmapType)
    return operand if fits else None


def _integers(operand: Rex) -> Rex | None:
    if isinstance(operand, Symbol):
        return None
    if ty.is_null(operand):
        return Literal(t.ArrayType(ty.INT), None)
    kind = operand.type
    fits = isinstance(kind, t.ArrayType) and isinstance(kind.element_type, _SMALL)
    return operand if fits else None


BITMAP = Parameter("bitmap", _bitmap)
define("BITMAP_BUILD", Parameter("array of INT", _integers), returns=_BITMAP)
define("BITMAP_FROM_BYTES", BINARY, returns=_BITMAP)
define("BITMAP_TO_BYTES", BITMAP, returns=ty.BYTES)
define("BITMAP_TO_ARRAY", BITMAP, returns=t.ArrayType(ty.INT))
define("BITMAP_TO_STRING", BITMAP, returns=ty.STRING)
define("BITMAP_CARDINALITY", BITMAP, returns=ty.BIGINT)
for _name in ("BITMAP_AND", "BITMAP_OR", "BITMAP_XOR", "BITMAP_ANDNOT"):
    define(_name, BITMAP, BITMAP, returns=_BITMAP)
