"""Column types: state is Python objects, but Arrow and Spark need types.

A type is plain data: its name, then its parts, such as `("list", ("long",))`. Values without a common type become text:
their repr.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.common.types import Row

if TYPE_CHECKING:
    import pyarrow as pa

Type = tuple[Any, ...]

NULL: Final[Type] = ("null",)
LONG: Final[Type] = ("long",)
BIG_LONG: Final[Type] = ("big long",)  # a double cannot hold it exactly
DOUBLE: Final[Type] = ("double",)
BOOLEAN: Final[Type] = ("boolean",)
STRING: Final[Type] = ("string",)
BINARY: Final[Type] = ("binary",)
DATE: Final[Type] = ("date",)
LOCAL_TIME: Final[Type] = ("local timestamp",)
INSTANT: Final[Type] = ("timestamp",)
TEXT: Final[Type] = ("repr",)

_SCALARS: Final[dict[type, Type]] = {
    bool: BOOLEAN,
    float: DOUBLE,
    str: STRING,
    bytes: BINARY,
    bytearray: BINARY,
    dt.date: DATE,
}
_DECLARED: Final = {
    "String": STRING,
    "Character": STRING,
    "Boolean": BOOLEAN,
    "Byte": LONG,
    "Short": LONG,
    "Integer": LONG,
    "Long": LONG,
    "Float": DOUBLE,
    "Double": DOUBLE,
}
_LISTS: Final = {"ListTypeInfo", "BasicArrayTypeInfo", "ObjectArrayTypeInfo"}
_MAX_FIELDS: Final = 64
_MAX_DEPTH: Final = 8
_EXACT_IN_DOUBLE: Final = 2**53
_PRECISION: Final = 38  # digits of Arrow's and Spark's decimals


def declared(shape: Any) -> Type | None:
    """Return the type that a state's schema declares, or None if it declares none.

    >>> declared(("Row", ("user", ("String",)), ("spent", ("Long",))))
    ('struct', (('user', ('string',)), ('spent', ('long',))))
    """
    if shape is None:
        return None
    name, *parts = shape
    if name in _DECLARED:
        return _DECLARED[name]
    if name == "Row":
        fields = [(field, declared(kind)) for field, kind in parts]
    elif name == "Tuple":
        fields = [(f"f{index}", declared(kind)) for index, kind in enumerate(parts)]
    else:
        inner = [declared(kind) for kind in parts] if name == "Map" or name in _LISTS else [None]
        if None in inner:
            return None
        return ("map" if name == "Map" else "list", *inner)
    if not fields or any(kind is None for _, kind in fields):
        return None
    return ("struct", tuple(fields))


def infer(value: Any, depth: int = 0) -> Type:
    """Return the type of one value.

    >>> infer([1, None, 2]), infer({1, 2})
    (('list', ('long',)), ('repr',))
    """
    if value is None:
        return NULL
    kind = type(value)
    found = _SCALARS.get(kind)
    if found is not None:
        return found
    if kind is int:
        if abs(value) <= _EXACT_IN_DOUBLE:
            return LONG
        return BIG_LONG if -(2**63) <= value < 2**63 else TEXT
    if kind is Decimal:
        return _decimal(value)
    if kind is dt.datetime:
        return LOCAL_TIME if value.tzinfo is None else INSTANT
    if depth >= _MAX_DEPTH:
        return TEXT
    if kind is list:
        return ("list", unify_all(infer(item, depth + 1) for item in value))
    if kind is dict:
        if all(type(key) is str and key.isidentifier() for key in value):
            return _struct(value, depth)
        return mapping(value, depth)
    fields = fields_of(value)
    if fields is not None:
        return _struct(fields, depth)
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return infer(value.tolist(), depth)
    return TEXT


def _decimal(value: Decimal) -> Type:
    """Return the type of a decimal: its digits before and after the decimal point."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):  # NaN and infinity
        return TEXT
    return _decimal_of(max(len(digits) + exponent, 0), max(-exponent, 0))


def _decimal_of(before: int, after: int) -> Type:
    return ("decimal", before, after) if before + after <= _PRECISION else TEXT


def mapping(value: Mapping[Any, Any], depth: int = 0) -> Type:
    """Return the type of a dictionary whose keys are data, not names; Arrow's maps have no null keys."""
    if None in value:
        return TEXT
    return (
        "map",
        unify_all(infer(key, depth + 1) for key in value),
        unify_all(infer(item, depth + 1) for item in value.values()),
    )


def _struct(fields: Mapping[str, Any], depth: int) -> Type:
    if not 0 < len(fields) <= _MAX_FIELDS:
        return mapping(fields, depth) if type(fields) is dict and fields else TEXT
    return ("struct", tuple((name, infer(item, depth + 1)) for name, item in fields.items()))


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of a record-like value, or None if it is not one."""
    if isinstance(value, Row):
        names = value.get_field_names() or [f"f{index}" for index in range(len(value))]
        return dict(zip(names, value, strict=True))
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None) or [f"f{index}" for index in range(len(value))]
        return dict(zip(names, value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def unify_all(types: Iterable[Type]) -> Type:
    """Return the type that can hold values of all these types."""
    found = NULL
    for kind in types:
        found = unify(found, kind)
        if found == TEXT:
            return TEXT
    return found


def unify(one: Type, other: Type) -> Type:
    """Return the type that can hold values of both.

    >>> unify(LONG, DOUBLE), unify(LONG, STRING), unify(NULL, LONG)
    (('double',), ('repr',), ('long',))
    """
    if other in {one, NULL}:
        return one
    if one == NULL:
        return other
    if {one, other} == {LONG, DOUBLE}:
        return DOUBLE
    if {one, other} == {LONG, BIG_LONG}:
        return BIG_LONG
    if one[0] != other[0]:
        return TEXT
    if one[0] == "decimal":
        return _decimal_of(max(one[1], other[1]), max(one[2], other[2]))
    if one[0] in {"list", "map"}:
        inner = [unify(a, b) for a, b in zip(one[1:], other[1:], strict=True)]
        return (one[0], *inner)
    if one[0] == "struct":
        fields = dict(one[1])
        for name, kind in other[1]:
            fields[name] = unify(fields.get(name, NULL), kind)
        return ("struct", tuple(fields.items())) if len(fields) <= _MAX_FIELDS else TEXT
    return TEXT


def fits(value: Any, kind: Type) -> bool:
    """Whether a value has a declared type. State does not enforce the types that programs declare."""
    if value is None:
        return True
    name = kind[0]
    if name == "struct":
        if isinstance(value, Row) and value.get_field_names() is None:
            value = tuple(value)
        fields = value if type(value) is dict else fields_of(value)
        if fields is None or len(fields) != len(kind[1]):
            return False
        if type(value) is not tuple and list(fields) != [field for field, _ in kind[1]]:
            return False
        items = fields.values()
        return all(fits(item, inner) for item, (_, inner) in zip(items, kind[1], strict=True))
    if name == "list":
        return type(value) in {list, tuple} and all(fits(item, kind[1]) for item in value)
    if name == "map":
        return type(value) is dict and all(
            key is not None and fits(key, kind[1]) and fits(item, kind[2])
            for key, item in value.items()
        )
    found = infer(value)
    return found == kind or (kind, found) in {(DOUBLE, LONG), (LONG, BIG_LONG)}


def plain(value: Any, kind: Type) -> Any:
    """Convert a value for an Arrow column of a type."""
    if value is None or kind == NULL:
        return None
    name = kind[0]
    if name == "repr":
        return repr(value)
    if name == "struct":
        fields = value if type(value) is dict else fields_of(value)
        assert fields is not None
        if _is_positional(value) and not fields.keys() <= {field for field, _ in kind[1]}:
            items = list(fields.values())  # the names are those of a declared type
            return {
                field: plain(item, inner)
                for (field, inner), item in zip(kind[1], items, strict=False)
            }
        return {field: plain(fields.get(field), inner) for field, inner in kind[1]}
    if name == "list":
        return [plain(item, kind[1]) for item in value]
    if name == "map":
        return [(plain(key, kind[1]), plain(item, kind[2])) for key, item in value.items()]
    if type(value).__module__ == "numpy":
        value = value.tolist()
    return float(value) if kind == DOUBLE else value


def _is_positional(value: Any) -> bool:
    if isinstance(value, Row):
        return value.get_field_names() is None
    return isinstance(value, tuple) and not hasattr(value, "_fields")


def to_arrow(kind: Type) -> pa.DataType:
    """Return the Arrow type of a column."""
    import pyarrow as pa

    name = kind[0]
    if name == "struct":
        return pa.struct([pa.field(field, to_arrow(inner)) for field, inner in kind[1]])
    if name == "list":
        return pa.list_(to_arrow(kind[1]))
    if name == "map":
        return pa.map_(to_arrow(kind[1]), to_arrow(kind[2]))
    if name == "decimal":
        return pa.decimal128(_PRECISION, kind[2])
    simple = {
        "long": pa.int64(),
        "big long": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "local timestamp": pa.timestamp("us"),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    return simple.get(name, pa.string())


class ColumnProfile:
    """The column types of a table, inferred from rows."""

    def __init__(self, wanted: Sequence[Type | None], maps: Sequence[bool]) -> None:
        self._wanted = list(wanted)  # the declared types; None once a value did not fit
        self._maps = maps  # columns of dictionaries whose keys are data
        self._found: list[Type] = [NULL] * len(self._wanted)

    def add(self, row: Sequence[Any]) -> None:
        """Add a row."""
        for index, value in enumerate(row):
            kind = self._wanted[index]
            if kind is not None and not fits(value, kind):
                self._wanted[index] = None
            found = self._found[index]
            if found != TEXT:
                is_map = self._maps[index] and isinstance(value, dict)
                self._found[index] = unify(found, mapping(value) if is_map else infer(value))

    def merge(self, other: ColumnProfile) -> None:
        """Merge another profile."""
        for index, kind in enumerate(other._wanted):
            if kind is None:
                self._wanted[index] = None
        self._found = [unify(a, b) for a, b in zip(self._found, other._found, strict=True)]

    def types(self) -> list[Type]:
        """Return the type of each column: the declared one if all values have it."""
        return [
            found if wanted is None else wanted
            for wanted, found in zip(self._wanted, self._found, strict=True)
        ]
