"""Operators and conditions: comparison, logic, arithmetic, CASE and its short forms."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import ArgumentError
from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.functions.definitions import (
    BOOLEAN,
    NUMBER,
    TEXT,
    MessageWording,
    common_operands,
    define,
    kinds,
    register,
    same_as,
    wrong_count,
    wrong_operand,
)
from penstock.sql.expr.nodes import (
    Call,
    Literal,
    Rex,
    Symbol,
)

TRUE = Literal(ty.BOOLEAN.not_null(), True)

# --- logic -------------------------------------------------------------------------------------------

for _name in ("AND", "OR"):
    define(_name, BOOLEAN, BOOLEAN, returns=ty.BOOLEAN, repeated=True)
define("NOT", BOOLEAN, returns=ty.BOOLEAN)
for _name in ("TRUE", "FALSE", "UNKNOWN"):
    define(f"IS {_name}", BOOLEAN, returns=ty.BOOLEAN, nullable=False)
    define(f"IS NOT {_name}", BOOLEAN, returns=ty.BOOLEAN, nullable=False)
_VALUE = kinds("value", lambda _: True)
define("IS NULL", _VALUE, returns=ty.BOOLEAN, nullable=False)
define("IS NOT NULL", _VALUE, returns=ty.BOOLEAN, nullable=False)

# --- comparison --------------------------------------------------------------------------------------


_ORDER = frozenset(["<", "<=", ">", ">="])


def comparable(name: str, left: Rex, right: Rex) -> tuple[Rex, Rex]:
    """Return two operands as they are compared.

    Text that meets another kind of value is read as such a value: a date is compared with text as dates are.
    """
    for one, other in ((left.type, right.type), (right.type, left.type)):
        if ty.is_text(one) and _read_from_text(other, name):
            return ty.cast_to(left, other), ty.cast_to(right, other)
    common = ty.common_type([left.type, right.type])
    if common is not None and ty.is_approximate(common):
        common = ty.DOUBLE
    if common is None:
        raise ArgumentError(
            f"cannot compare {left.type} and {right.type} with {name}",
            hint="convert one of them with CAST",
        )
    if name in _ORDER:
        _check_order(common)
    return ty.cast_to(left, common), ty.cast_to(right, common)


def _check_order(data_type: t.DataType) -> None:
    if not ty.is_ordered(data_type):
        raise ArgumentError(f"type {data_type} is not ordered", hint="it only supports = and <>")


def _read_from_text(data_type: t.DataType, name: str) -> bool:
    if name in _ORDER and ty.is_number(data_type):
        return True
    return ty.is_time_point(data_type)


def _comparison(name: str, *, missing: bool = False) -> None:
    def resolver(operands: Sequence[Rex], _: MessageWording) -> Rex:
        if len(operands) != 2:
            raise wrong_count(name, operands, f"a {name} b")
        left, right = comparable(name, *operands)
        nullable = False if missing else ty.any_nullable((left, right))
        return Call(ty.with_nullable(ty.BOOLEAN, nullable), name, (left, right))

    register(name, f"a {name} b", resolver)


for _name in ("=", "<>", "<", "<=", ">", ">="):
    _comparison(_name)
for _name in ("IS DISTINCT FROM", "IS NOT DISTINCT FROM"):
    _comparison(_name, missing=True)


def call(name: str, *operands: Rex) -> Rex:
    """Return a typed call of one of these operators."""
    from penstock.sql.expr.functions.definitions import DEFINITIONS

    return DEFINITIONS[name].resolver(operands, {})


def _between(operands: Sequence[Rex], words: MessageWording) -> Rex:
    if len(operands) != 3:
        raise wrong_count("BETWEEN", operands, "a BETWEEN b AND c")
    value, low, high = operands
    inside = call("AND", call(">=", value, low), call("<=", value, high))
    if words.get("symmetric"):
        other = call("AND", call(">=", value, high), call("<=", value, low))
        return call("OR", inside, other)
    return inside


def _in(operands: Sequence[Rex], _: MessageWording) -> Rex:
    if len(operands) < 2:
        raise wrong_count("IN", operands, "a IN (b, ...)")
    value, *choices = operands
    if any(ty.is_text(each.type) != ty.is_text(value.type) for each in choices):
        choices = [comparable("IN", value, each)[1] for each in choices]
        value = comparable("IN", value, choices[0])[0]
    converted = common_operands("IN", [value, *choices])
    nullable = ty.any_nullable(converted)
    return Call(ty.with_nullable(ty.BOOLEAN, nullable), "IN", tuple(converted))


register("BETWEEN", "a BETWEEN b AND c", _between)
register("NOT BETWEEN", "a NOT BETWEEN b AND c", lambda o, w: call("NOT", _between(o, w)))
register("IN", "a IN (b, ...)", _in)
register("NOT IN", "a NOT IN (b, ...)", lambda o, w: call("NOT", _in(o, w)))
define("LIKE", TEXT, TEXT, TEXT, optional=1, returns=ty.BOOLEAN)
register("NOT LIKE", "a NOT LIKE b", lambda o, _: call("NOT", call("LIKE", *o)))
define("SIMILAR TO", TEXT, TEXT, TEXT, optional=1, returns=ty.BOOLEAN)
register("NOT SIMILAR TO", "a NOT SIMILAR TO b", lambda o, _: call("NOT", call("SIMILAR TO", *o)))

# --- arithmetic --------------------------------------------------------------------------------------


def _arithmetic(name: str) -> None:
    usage = f"a {name} b"

    def resolver(operands: Sequence[Rex], words: MessageWording) -> Rex:
        if len(operands) != 2:
            raise wrong_count(name, operands, usage)
        left, right = _typed_nulls(operands)
        nullable = ty.any_nullable((left, right))
        of_times = _time_arithmetic(name, left, right, words)
        if of_times is not None:
            result, operands = of_times
            return Call(ty.with_nullable(result, nullable), name, tuple(operands))
        for at, operand in enumerate((left, right)):
            if not ty.is_number(operand.type):
                raise wrong_operand(name, at, operands, usage)
        result = ty.arithmetic_type(name, left.type, right.type)
        if name == "%" and not isinstance(result, t.DecimalType):
            return _remainder(left, right, result, operands)
        if not isinstance(result, t.DecimalType):
            left, right = ty.cast_to(left, result), ty.cast_to(right, result)
        return Call(ty.with_nullable(result, nullable), name, (left, right))

    register(name, usage, resolver)


def _remainder(left: Rex, right: Rex, common: t.DataType, operands: Sequence[Rex]) -> Rex:
    """Return `left % right`; it has the type of the second operand."""
    if ty.is_approximate(common):
        raise wrong_operand("MOD", 0, operands, "MOD(exact number, exact number)")
    nullable = ty.any_nullable((left, right))
    both = (ty.cast_to(left, common), ty.cast_to(right, common))
    return ty.cast_to(Call(ty.with_nullable(common, nullable), "%", both), right.type)


def _typed_nulls(operands: Sequence[Rex]) -> tuple[Rex, Rex]:
    """Return NULL without a type as one of the other operand's type."""
    left, right = operands
    if ty.is_null(left):
        left = ty.cast_to(left, ty.INT if ty.is_null(right) else _partner(right.type))
    if ty.is_null(right):
        right = ty.cast_to(right, _partner(left.type))
    return left, right


def _partner(data_type: t.DataType) -> t.DataType:
    return t.DayTimeIntervalType() if ty.is_time_point(data_type) else data_type


def _time_arithmetic(
    name: str, left: Rex, right: Rex, words: MessageWording
) -> tuple[t.DataType, tuple[Rex, ...]] | None:
    if name == "+" and ty.is_interval(left.type) and ty.is_time_point(right.type):
        left, right = right, left
    if name in {"+", "-"}:
        if "type" in words:
            return _difference(left, right, words["type"])
        if ty.is_time_point(left.type) and ty.is_interval(right.type):
            return left.type, (left, right)  # a date plus hours is a date
        if ty.is_interval(left.type) and type(left.type) is type(right.type):
            common = ty.common_type([left.type, right.type])
            assert common is not None  # of the same kind
            return common, (left, right)
        if name == "-" and ty.is_time_point(left.type) and ty.is_time_point(right.type):
            raise ArgumentError(
                f"the difference of {left.type} and {right.type} needs an interval qualifier",
                hint="write (a - b) DAY TO SECOND, or TIMESTAMPDIFF(unit, a, b)",
            )
    if name == "*" and ty.is_number(left.type) and ty.is_interval(right.type):
        left, right = right, left
    if name in {"*", "/"} and ty.is_interval(left.type) and ty.is_number(right.type):
        return left.type, (left, right)
    return None


def shifted_type(point: t.DataType, interval: t.DataType) -> t.DataType:
    """Return the type of a date or time plus an interval in TIMESTAMPADD: a date plus hours is a timestamp."""
    if isinstance(point, t.DateType) and isinstance(interval, t.DayTimeIntervalType):
        return point if interval.resolution.name == "DAY" else t.TimestampType(6)
    return point


def _difference(left: Rex, right: Rex, wanted: t.DataType) -> tuple[t.DataType, tuple[Rex, ...]]:
    """Type `(a - b) DAY`: an interval of milliseconds or months, as `wanted` says."""
    if not ty.is_time_point(left.type) or type(left.type) is not type(right.type):
        raise ArgumentError(
            f"cannot subtract {left.type} and {right.type}",
            hint="both must have the same type: CAST one of them",
        )
    return wanted, (left, right)


for _name in ("+", "-", "*", "/", "%"):
    _arithmetic(_name)
_INTERVAL_OR_NUMBER = kinds("number or interval", ty.is_number, ty.is_interval)
define("NEGATE", _INTERVAL_OR_NUMBER, returns=same_as(0))
register("POSITIVE", "+a", lambda operands, _: operands[0])


def _modulo(operands: Sequence[Rex], _: MessageWording) -> Rex:
    result = call("%", *operands) if len(operands) == 2 else None
    if result is None:
        raise wrong_count("MOD", operands, "MOD(number, number)")
    return result


register("MOD", "MOD(number, number)", _modulo)
define("ABS", _INTERVAL_OR_NUMBER, returns=same_as(0))
define("SIGN", NUMBER, returns=same_as(0))

# --- conditions --------------------------------------------------------------------------------------


def _case(operands: Sequence[Rex], _: MessageWording) -> Rex:
    if len(operands) < 2:
        raise wrong_count("CASE", operands, "CASE WHEN a THEN b ELSE c END")
    whole = list(operands) if len(operands) % 2 else [*operands, Literal(t.NullType(), None)]
    for at in range(0, len(whole) - 1, 2):
        converted = BOOLEAN.convert(whole[at])
        if converted is None:
            raise wrong_operand("CASE WHEN", at, whole, "CASE WHEN boolean THEN value ... END")
        whole[at] = converted
    places = [*range(1, len(whole) - 1, 2), len(whole) - 1]
    values = common_operands("CASE", [whole[at] for at in places])
    for at, value in zip(places, values, strict=True):
        whole[at] = value
    nullable = ty.any_nullable(values)
    return Call(ty.with_nullable(values[0].type, nullable), "CASE", tuple(whole))


def _if(operands: Sequence[Rex], words: MessageWording) -> Rex:
    if len(operands) != 3:
        raise wrong_count("IF", operands, "IF(condition, value, value)")
    return _case(operands, words)


def _null_if(operands: Sequence[Rex], words: MessageWording) -> Rex:
    if len(operands) != 2:
        raise wrong_count("NULLIF", operands, "NULLIF(value, value)")
    left, right = operands
    return _case([call("=", left, right), Literal(left.type.nullable(), None), left], words)


def _coalesce(name: str, usage: str) -> None:
    def resolver(operands: Sequence[Rex], _: MessageWording) -> Rex:
        if not operands or (name == "IFNULL" and len(operands) != 2):
            raise wrong_count(name, operands, usage)
        converted = common_operands(name, operands)
        nullable = all(each.type.is_nullable for each in converted)
        return Call(ty.with_nullable(converted[0].type, nullable), "COALESCE", tuple(converted))

    register(name, usage, resolver)


def _extreme(name: str) -> None:
    def resolver(operands: Sequence[Rex], _: MessageWording) -> Rex:
        if not operands:
            raise wrong_count(name, operands, f"{name}(value, value, ...)")
        converted = common_operands(name, operands)
        _check_order(converted[0].type)
        nullable = ty.any_nullable(converted)
        return Call(ty.with_nullable(converted[0].type, nullable), name, tuple(converted))

    register(name, f"{name}(value, value, ...)", resolver)


register("CASE", "CASE WHEN condition THEN value ELSE value END", _case)
register("IF", "IF(condition, value, value)", _if)
register("NULLIF", "NULLIF(value, value)", _null_if)
_coalesce("COALESCE", "COALESCE(value, ...)")
_coalesce("IFNULL", "IFNULL(value, value)")
for _name in ("GREATEST", "LEAST"):
    _extreme(_name)


def _type_of(operands: Sequence[Rex], _: MessageWording) -> Rex:
    if not operands or isinstance(operands[0], Symbol):
        raise wrong_count("TYPEOF", operands, "TYPEOF(value [, force_serializable])")
    serializable = len(operands) > 1 and getattr(operands[1], "value", False) is True
    text = str(operands[0].type)
    if serializable:
        text = text.replace("STRING", f"VARCHAR({t.LONGEST})").replace(
            "BYTES", f"VARBINARY({t.LONGEST})"
        )
    return Literal(ty.STRING.not_null(), text)


register("TYPEOF", "TYPEOF(value)", _type_of)
