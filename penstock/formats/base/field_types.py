"""Column types of files: a common form for TypeInformation, DataTypes, Python and Arrow types."""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import ArgumentTypeError

if TYPE_CHECKING:
    import pyarrow as pa


_PYTHON_TYPES = {
    str: "STRING",
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    bytes: "BYTES",
    decimal.Decimal: "DECIMAL",
    dt.date: "DATE",
    dt.time: "TIME",
    dt.datetime: "TIMESTAMP",
}

# Names of BasicType members, of PyFlink's DataType classes and of SQL types, in upper case without "TYPE".
_NAMES = {
    "STRING": "STRING", "VARCHAR": "STRING", "CHAR": "STRING", "CHARACTER": "STRING",
    "BOOLEAN": "BOOLEAN", "BOOL": "BOOLEAN",
    "BYTE": "TINYINT", "TINYINT": "TINYINT", "SHORT": "SMALLINT", "SMALLINT": "SMALLINT",
    "INT": "INT", "INTEGER": "INT", "LONG": "BIGINT", "BIGINT": "BIGINT",
    "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "REAL": "FLOAT",
    "DECIMAL": "DECIMAL", "NUMERIC": "DECIMAL", "BIG_DEC": "DECIMAL", "BIGDEC": "DECIMAL", "BIG_INT": "DECIMAL0",
    "DATE": "DATE", "SQL_DATE": "DATE", "SQLDATE": "DATE", "TIME": "TIME", "SQL_TIME": "TIME", "SQLTIME": "TIME",
    "TIMESTAMP": "TIMESTAMP", "SQL_TIMESTAMP": "TIMESTAMP", "SQLTIMESTAMP": "TIMESTAMP",
    "INSTANT": "TIMESTAMP_LTZ", "TIMESTAMP_LTZ": "TIMESTAMP_LTZ", "LOCALZONEDTIMESTAMP": "TIMESTAMP_LTZ",
    "BYTES": "BYTES", "BINARY": "BYTES", "VARBINARY": "BYTES",
}  # fmt: skip

_TEXT_OF_LENGTH = frozenset({"CHAR", "CHARACTER", "VARCHAR"})
INTEGER_KINDS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL0"})


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a column.

    `kind` is a name such as STRING, BIGINT, DECIMAL, ARRAY, MAP or ROW; ANY accepts every value. `fields` are a ROW's
    (name, type) pairs, an ARRAY's element, a MAP's key and value or the members of an Avro UNION. `precision` and `scale` are
    those of a DECIMAL, None if not declared. `length` is that of a CHAR (`fixed`) or VARCHAR, whose kind is STRING.
    """

    kind: str
    fields: tuple[tuple[str, FieldType], ...] = ()
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    fixed: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields of a ROW."""
        return tuple(name for name, _ in self.fields)


ANY = FieldType("ANY")


def field_type(given: Any) -> FieldType:
    """Convert a type: TypeInformation, DataType, Python type, Arrow type or schema, or a name."""
    if given is None:
        return ANY
    if isinstance(given, FieldType):
        return given
    if isinstance(given, type):
        if given in _PYTHON_TYPES:
            return _simple(_PYTHON_TYPES[given])
        raise _unknown(given)
    if isinstance(given, str):
        name = given.strip().upper()
        if name in _NAMES:
            return _simple(_NAMES[name])
        raise _unknown(given)
    if isinstance(given, dict):
        return FieldType("ROW", tuple((name, field_type(kind)) for name, kind in given.items()))
    if type(given).__module__.startswith("pyarrow"):
        return _from_arrow(given)
    return _from_object(given)


def row_type(given: object) -> FieldType:
    """Convert a type that must be a row type."""
    found = field_type(given)
    if found.kind != "ROW":
        raise ArgumentTypeError(
            "the type is not a row type",
            detail=f"got {given!r}",
            hint="use Types.ROW_NAMED([...], [...]) or DataTypes.ROW([...])",
        )
    return found


def arrow_type(field: FieldType, *, utc_timestamp: bool = True) -> pa.DataType:
    """Return the Arrow type that stores a column."""
    import pyarrow as pa

    def nested(inner: FieldType) -> pa.DataType:
        return arrow_type(inner, utc_timestamp=utc_timestamp)

    kind = field.kind
    if kind in {"ROW", "UNION"}:
        return pa.struct([pa.field(name, nested(inner)) for name, inner in field.fields])
    if kind == "ARRAY":
        return pa.list_(nested(field.fields[0][1]))
    if kind == "MAP":
        return pa.map_(nested(field.fields[0][1]), nested(field.fields[1][1]))
    if kind == "DECIMAL":
        return pa.decimal128(*decimal_size(field))
    simple = {
        "STRING": pa.string(),
        "BOOLEAN": pa.bool_(),
        "TINYINT": pa.int8(),
        "SMALLINT": pa.int16(),
        "INT": pa.int32(),
        "BIGINT": pa.int64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "DECIMAL0": pa.decimal128(38, 0),
        "DATE": pa.date32(),
        "TIME": pa.time64("us"),
        "TIMESTAMP": pa.timestamp("us", tz="UTC" if utc_timestamp else None),
        "TIMESTAMP_LTZ": pa.timestamp("us", tz="UTC"),
        "BYTES": pa.binary(),
    }
    if kind not in simple:
        raise ArgumentTypeError(
            "a column of this format needs a declared type",
            detail=f"the type is {kind}",
            hint="declare a type such as Types.STRING() for each field",
        )
    return simple[kind]


def decimal_size(field: FieldType) -> tuple[int, int]:
    """Return precision and scale of a DECIMAL column; (38, 18) if not declared, as in Flink."""
    if field.kind == "DECIMAL0":
        return 38, 0
    return (38, 18) if field.precision is None else (field.precision, field.scale or 0)


def arrow_schema(row: FieldType, *, utc_timestamp: bool = False) -> pa.Schema:
    """Return the Arrow schema of a row type."""
    import pyarrow as pa

    return pa.schema(
        [pa.field(name, arrow_type(kind, utc_timestamp=utc_timestamp)) for name, kind in row.fields]
    )


def _simple(kind: str) -> FieldType:
    return FieldType(kind)


def _unknown(given: object) -> ArgumentTypeError:
    return ArgumentTypeError(
        "unknown column type",
        detail=f"got {given!r}",
        hint="use a member of Types or DataTypes, a Python type such as int, or a name such as 'BIGINT'",
    )


def _named(names: Any, types: Any) -> FieldType:
    return FieldType("ROW", tuple((n, field_type(t)) for n, t in zip(names, types, strict=True)))


def _from_object(given: Any) -> FieldType:
    """Convert TypeInformation and DataType objects by the names of their classes and accessors."""
    name = type(given).__name__
    if name == "MultisetType":  # it has an element type like an array, but no format supports it
        raise _unknown(given)
    basic = getattr(given, "basic_type", None)
    if basic is not None and getattr(basic, "name", None) in _NAMES:
        return _simple(_NAMES[basic.name])
    if name == "PickledBytesTypeInfo":
        return ANY
    get_types = getattr(given, "get_field_types", None)
    if callable(get_types):
        types = list(get_types())
        get_names = getattr(given, "get_field_names", None)
        names = list(get_names()) if callable(get_names) else [f"f{i}" for i in range(len(types))]
        return _named(names, types)
    fields = getattr(given, "fields", None)
    if name == "RowType" and fields is not None:
        return _named([f.name for f in fields], [f.data_type for f in fields])
    if hasattr(given, "key_type_info"):
        return _map(given.key_type_info, given.value_type_info)
    if name == "MapType":
        return _map(given.key_type, given.value_type)
    for attribute in ("element_type", "elem_type", "element_type_info", "_element_type"):
        element = getattr(given, attribute, None)
        if element is not None:
            if name == "PrimitiveArrayTypeInfo" and field_type(element).kind == "TINYINT":
                return _simple("BYTES")
            return FieldType("ARRAY", (("element", field_type(element)),))
    for suffix in ("TypeInfo", "TypeInformation", "Type"):
        short = name.removesuffix(suffix).upper()
        if short in _NAMES:
            found = _NAMES[short]
            if found == "DECIMAL":
                return FieldType(
                    found, (), getattr(given, "precision", None), getattr(given, "scale", None)
                )
            if short in _TEXT_OF_LENGTH:
                length = getattr(given, "length", None)
                return FieldType(found, length=length, fixed=short != "VARCHAR")
            return _simple(found)
    raise _unknown(given)


def _map(key: object, value: object) -> FieldType:
    return FieldType("MAP", (("key", field_type(key)), ("value", field_type(value))))


def _from_arrow(given: pa.DataType | pa.Schema) -> FieldType:
    import pyarrow as pa

    if isinstance(given, pa.Schema):
        return _named(given.names, given.types)
    types = pa.types
    if types.is_struct(given):
        inner = [given.field(i) for i in range(given.num_fields)]
        return _named([f.name for f in inner], [f.type for f in inner])
    if types.is_map(given):
        return _map(given.key_type, given.item_type)
    if types.is_list(given) or types.is_large_list(given):
        return FieldType("ARRAY", (("element", field_type(given.value_type)),))
    if types.is_decimal(given):
        return FieldType("DECIMAL", (), given.precision, given.scale)
    tests = (
        (types.is_string, "STRING"), (types.is_large_string, "STRING"), (types.is_boolean, "BOOLEAN"),
        (types.is_int8, "TINYINT"), (types.is_int16, "SMALLINT"), (types.is_int32, "INT"), (types.is_integer, "BIGINT"),
        (types.is_float32, "FLOAT"), (types.is_floating, "DOUBLE"), (types.is_date, "DATE"), (types.is_time, "TIME"),
        (types.is_binary, "BYTES"), (types.is_large_binary, "BYTES"),
    )  # fmt: skip
    for test, kind in tests:
        if test(given):
            return _simple(kind)
    if types.is_timestamp(given):
        return _simple("TIMESTAMP" if given.tz is None else "TIMESTAMP_LTZ")
    raise _unknown(given)
