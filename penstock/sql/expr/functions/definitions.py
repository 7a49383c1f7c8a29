"""Definitions of built-in functions: names, parameters and result types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import ArgumentError
from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.nodes import (
    Call,
    Literal,
    Rex,
    Symbol,
)

MessageWording = Mapping[str, Any]  # keywords of a function's syntax, such as ON EMPTY
Resolver = Callable[[Sequence[Rex], MessageWording], Rex]
Returns = t.DataType | Callable[[Sequence[Rex]], t.DataType]


@dataclass(frozen=True, slots=True)
class Definition:
    """A function by its canonical name. `usage` shows its arguments; `resolver` types a call."""

    name: str
    usage: str
    resolver: Resolver


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument: `convert` gives an operand as the function takes it, or None if it does not fit."""

    text: str
    convert: Callable[[Rex], Rex | None]


DEFINITIONS: dict[str, Definition] = {}
ALIASES: dict[str, str] = {}


def kinds(
    text: str, *accepted: Callable[[t.DataType], bool], to: t.DataType | None = None
) -> Parameter:
    """Return a parameter for operands of these types, converted to `to` if it is given."""

    def convert(operand: Rex) -> Rex | None:
        if isinstance(operand, Symbol):
            return None
        if ty.is_null(operand):
            return operand if to is None else Literal(to.nullable(), None)
        if not any(fits(operand.type) for fits in accepted):
            return None
        return operand if to is None else ty.cast_to(operand, to)

    return Parameter(text, convert)


def _is(*classes: type[t.DataType]) -> Callable[[t.DataType], bool]:
    return lambda data_type: isinstance(data_type, classes)


ANY = kinds("any", lambda _: True)
TEXT = Parameter(
    "text",
    lambda operand: (
        Literal(ty.STRING, None)
        if ty.is_null(operand)
        else operand
        if ty.is_text(operand.type)
        else None
    ),
)
INTEGER = kinds("integer", ty.is_integer, to=ty.INT)
BIGINT = kinds("integer", ty.is_integer, to=ty.BIGINT)
NUMBER = kinds("number", ty.is_number)
DOUBLE = kinds("number", ty.is_number, to=ty.DOUBLE)
BOOLEAN = kinds("boolean", _is(t.BooleanType), to=ty.BOOLEAN)
BINARY = kinds("bytes", ty.is_binary)
TEXT_OR_BINARY = kinds("text or bytes", ty.is_text, ty.is_binary)
TIMESTAMP = kinds("timestamp", ty.is_timestamp)
TIME_POINT = kinds("date or time", ty.is_time_point)
ARRAY = kinds("array", _is(t.ArrayType))
MAP = kinds("map", _is(t.MapType))
SYMBOL = Parameter("word", lambda operand: operand if isinstance(operand, Symbol) else None)


def as_text(operand: Rex) -> Rex | None:
    """Return an operand of any type as text."""
    if isinstance(operand, Symbol):
        return None
    return operand if ty.is_text(operand.type) else ty.cast_to(operand, ty.STRING)


def one_of(*parameters: Parameter) -> Parameter:
    """Return a parameter that accepts the operand of any of several parameters, the first match wins."""

    def convert(operand: Rex) -> Rex | None:
        for each in parameters:
            converted = each.convert(operand)
            if converted is not None:
                return converted
        return None

    return Parameter(" or ".join(dict.fromkeys(each.text for each in parameters)), convert)


def register(name: str, usage: str, resolver: Resolver, *aliases: str) -> None:
    """Add a function that types its calls itself."""
    DEFINITIONS[name] = Definition(name, usage, resolver)
    for alias in aliases:
        ALIASES[alias] = name


def define(
    name: str,
    *parameters: Parameter,
    returns: Returns,
    optional: int = 0,
    repeated: bool = False,
    nullable: bool | None = None,
    aliases: Sequence[str] = (),
) -> None:
    """Add a function of fixed parameters; the last `optional` ones may be left out, the last may be `repeated`.

    `nullable`: whether the result can be NULL: always (True), never (False), or if an operand can be (None).
    """
    least = len(parameters) - optional - (1 if repeated and optional == 0 else 0)
    usage = usage_of(name, parameters, optional, repeated)

    def resolver(operands: Sequence[Rex], words: MessageWording) -> Rex:
        if words:
            raise ArgumentError(
                f"{name} does not support {', '.join(sorted(words)).upper()}", hint=usage
            )
        if len(operands) < least or (len(operands) > len(parameters) and not repeated):
            raise wrong_count(name, operands, usage)
        converted = []
        for at, operand in enumerate(operands):
            fitting = parameters[min(at, len(parameters) - 1)].convert(operand)
            if fitting is None:
                raise wrong_operand(name, at, operands, usage)
            converted.append(fitting)
        given = returns if isinstance(returns, t.DataType) else returns(converted)
        can_be_null = ty.any_nullable(_values(converted)) if nullable is None else nullable
        return Call(ty.with_nullable(given, can_be_null), name, tuple(converted))

    register(name, usage, resolver, *aliases)


def _values(operands: Sequence[Rex]) -> list[Rex]:
    return [each for each in operands if not isinstance(each, Symbol)]


def usage_of(name: str, parameters: Sequence[Parameter], optional: int, repeated: bool) -> str:
    """Return how a function is called, for hints."""
    if not parameters:
        return f"{name}()"
    texts = [each.text for each in parameters]
    if repeated:
        texts[-1] += ", ..."
    fixed = len(texts) - optional
    tail = "".join(f" [, {text}" for text in texts[fixed:]) + "]" * optional
    shown = ", ".join(texts[:fixed]) + tail
    return f"{name}({shown if fixed else '[' + shown.removeprefix(' [, ')})"


def wrong_count(name: str, operands: Sequence[Rex], usage: str) -> ArgumentError:
    """Return the error for a wrong number of operands."""
    return ArgumentError(
        f"{name} does not accept {len(operands)} argument{'s' if len(operands) != 1 else ''}",
        hint=f"use it as {usage}",
    )


def wrong_operand(name: str, at: int, operands: Sequence[Rex], usage: str) -> ArgumentError:
    """Return the error for an operand of the wrong type."""
    operand = operands[at]
    got = operand.name if isinstance(operand, Symbol) else operand.type
    which = "its argument" if len(operands) == 1 else f"argument {at + 1}"
    return ArgumentError(f"{name} does not accept {got} as {which}", hint=f"use it as {usage}")


def same_as(at: int) -> Callable[[Sequence[Rex]], t.DataType]:
    """Return the typing rule: the type of one of the operands."""
    return lambda operands: operands[at].type


def common_operands(name: str, operands: Sequence[Rex]) -> list[Rex]:
    """Return operands converted to the type that they have in common."""
    common = ty.common_type([each.type for each in operands])
    if common is None:
        shown = ", ".join(str(each.type) for each in operands)
        raise ArgumentError(
            f"arguments of {name} have no common type: {shown}",
            hint="convert them to one type with CAST",
        )
    return [ty.cast_to(each, common) for each in operands]
