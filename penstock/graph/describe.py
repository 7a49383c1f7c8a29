"""Describes user code in plans by name only, so that the same program prints the same text everywhere."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import re
import types
from typing import Any

from penstock.graph.operator_specs import OperatorSpec
from penstock.graph.partitioning import Partitioning

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")
_CALLABLES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)


def describe(value: object) -> Any:
    """Return the JSON description of a value inside a spec.

    Plain values stay, specs and partitionings become objects with a `type`, everything else becomes the name of its function
    or class.

    >>> describe(len), describe(3), describe(object())
    ('len', 3, 'object')
    """
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, OperatorSpec):
        return {"type": spec_name(value)} | _fields(value)
    if isinstance(value, Partitioning):
        return {"type": value.NAME} | _fields(value)
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    return name_of(value)


def _fields(value: Any) -> dict[str, Any]:
    return {
        field.name: describe(getattr(value, field.name))
        for field in dataclasses.fields(value)
        if field.metadata.get("shown") != "if set" or getattr(value, field.name) != field.default
    }


def name_of(value: object) -> str:
    """Return the name of a function or class, or the name of an object's class.

    >>> name_of(str.upper), name_of(int), name_of(functools.partial(max, 1))
    ('str.upper', 'int', 'partial(max)')
    """
    if isinstance(value, functools.partial):
        return f"partial({name_of(value.func)})"
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, _CALLABLES):
        return value.__qualname__
    return type(value).__name__


def spec_name(spec: OperatorSpec) -> str:
    """Return the kind of operator that a spec describes: its class name without "Spec"."""
    return type(spec).__name__.removeprefix("Columnar").removesuffix("Spec")


def type_name(output_type: object) -> str | None:
    """Return the display name of a type: its own text if it has one, else the name of its class."""
    if output_type is None or isinstance(output_type, str):
        return output_type
    if not isinstance(output_type, type) and _has_own_text(type(output_type)):
        text = str(output_type)
        if not _ADDRESS.search(text):
            return text
    return name_of(output_type)


def _has_own_text(kind: type[Any]) -> bool:
    return any(name in vars(base) for base in kind.__mro__[:-1] for name in ("__str__", "__repr__"))
