"""Converts state schemas back to declared types."""

from __future__ import annotations

from typing import Any, Final

from penstock.common.type_information import (
    BasicType,
    BasicTypeInfo,
    PickledBytesTypeInfo,
    TypeInformation,
)
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    Types,
)
from penstock.runtime.state.schema import Shape

_SIMPLE: Final[dict[str, TypeInformation]] = {
    repr(kind): kind
    for kind in (
        *map(BasicTypeInfo, BasicType),
        Types.SQL_DATE(),
        Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(),
    )
}
_MADE_OF: Final[dict[str, Any]] = {
    "Map": MapTypeInfo,
    **{
        kind.__name__: kind
        for kind in (ListTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)
    },
}


def type_of(shape: Shape | None) -> TypeInformation | None:
    """Return the type with a shape, or None if it is unknown.

    >>> type_of(("Row", ("user", ("String",)), ("spent", ("Long",))))
    RowTypeInfo(user: String, spent: Long)
    """
    try:
        return None if shape is None else _type_of(shape)
    except LookupError:
        return None


def _type_of(shape: Any) -> TypeInformation:
    if shape is None:
        return PickledBytesTypeInfo()
    name, *parts = shape
    if name == "Row":
        names = [field for field, _ in parts]
        plain = names == [f"f{index}" for index in range(len(names))]
        return RowTypeInfo([_type_of(kind) for _, kind in parts], None if plain else names)
    inner = [_type_of(part) for part in parts]
    if name == "Tuple":
        return TupleTypeInfo(inner)
    found: TypeInformation = _MADE_OF[name](*inner) if name in _MADE_OF else _SIMPLE[name]
    return found
