"""Functions of numbers, and hashes."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.functions.definitions import (
    BIGINT,
    DOUBLE,
    INTEGER,
    NUMBER,
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

for _name in [
    "SQRT",
    "EXP",
    "LN",
    "LOG10",
    "LOG2",
    "SIN",
    "COS",
    "TAN",
    "COT",
    "ASIN",
    "ACOS",
    "ATAN",
    "SINH",
    "COSH",
    "TANH",
    "DEGREES",
    "RADIANS",
]:
    define(_name, DOUBLE, returns=ty.DOUBLE)
define("LOG", DOUBLE, DOUBLE, optional=1, returns=ty.DOUBLE)
define("POWER", DOUBLE, DOUBLE, returns=ty.DOUBLE)
define("ATAN2", DOUBLE, DOUBLE, returns=ty.DOUBLE)
define("PI", returns=ty.DOUBLE)
define("E", returns=ty.DOUBLE)
define("RAND", INTEGER, optional=1, returns=ty.DOUBLE, nullable=False)
define("RAND_INTEGER", INTEGER, INTEGER, optional=1, returns=ty.INT, nullable=False)
define("UUID", returns=t.CharType(36), nullable=False)
define("BIN", BIGINT, returns=ty.STRING)


define("HEX", kinds("number or text", ty.is_integer, ty.is_text), returns=ty.STRING)
define("UNHEX", TEXT, returns=ty.BYTES, nullable=True)
define("INET_ATON", TEXT, returns=ty.BIGINT, nullable=True)
define("INET_NTOA", BIGINT, returns=ty.STRING, nullable=True)

_UNITS = {
    "MILLENNIUM",
    "CENTURY",
    "DECADE",
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
    "MICROSECOND",
    "NANOSECOND",
}
_FLOORED = kinds("number, date or timestamp", ty.is_number, ty.is_time_point)


def _floor(name: str) -> None:
    usage = f"{name}(number) or {name}(timestamp TO unit)"

    def resolver(operands: Sequence[Rex], _: MessageWording) -> Rex:
        if len(operands) not in {1, 2}:
            raise wrong_count(name, operands, usage)
        value = _FLOORED.convert(operands[0])
        if value is None or ty.is_time_point(value.type) != (len(operands) == 2):
            raise wrong_operand(name, 0, operands, usage)
        if len(operands) == 2:
            unit = operands[1]
            if not isinstance(unit, Symbol) or unit.name not in _UNITS:
                raise wrong_operand(name, 1, operands, usage)
            return Call(value.type, name, (value, unit))
        result = value.type
        if isinstance(result, t.DecimalType):
            result = t.DecimalType(result.precision, 0, result.is_nullable)
        return Call(result, name, (value,))

    register(name, usage, resolver, *(("CEILING",) if name == "CEIL" else ()))


_floor("FLOOR")
_floor("CEIL")


def _rounded(name: str) -> None:
    def returns(operands: Sequence[Rex]) -> t.DataType:
        given = operands[0].type
        if not isinstance(given, t.DecimalType):
            return given
        digits: int | None = 0
        if len(operands) == 2:
            last = operands[1]
            digits = last.value if isinstance(last, Literal) else None
        if digits is None or digits >= given.scale:
            return given
        if digits < 0:
            return t.DecimalType(min(ty.MOST_DIGITS, 1 + given.precision - given.scale), 0)
        whole = given.precision - given.scale
        return t.DecimalType(min(ty.MOST_DIGITS, 1 + whole + digits), digits)

    define(name, NUMBER, INTEGER, optional=1, returns=returns)


_rounded("ROUND")
_rounded("TRUNCATE")

for _name, _length in (
    ("MD5", 32),
    ("SHA1", 40),
    ("SHA224", 56),
    ("SHA256", 64),
    ("SHA384", 96),
    ("SHA512", 128),
):
    define(_name, TEXT, returns=t.CharType(_length))
define("SHA2", TEXT, INTEGER, returns=t.VarCharType(128))
