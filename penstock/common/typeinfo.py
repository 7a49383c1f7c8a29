"""Types of composite values, and `Types`, where users find all types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.type_information import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    PickledBytesTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from penstock.common.types import Row
from penstock.common.user_types import Record
from penstock.errors import ArgumentError, ArgumentTypeError, PenstockError, RecordError

if TYPE_CHECKING:
    import pyarrow as pa


def check_type(value: object, what: str) -> TypeInformation:
    """Return `value` if it is a type; `what` names the argument in the error."""
    if isinstance(value, TypeInformation):
        return value
    hint = "use a type such as Types.STRING()"
    name = getattr(value, "__name__", "")
    if name and getattr(Types, name, None) is value:
        hint = f"call it: Types.{name}()"
    raise ArgumentTypeError(f"{what} is not a type: {value!r}", hint=hint)


def _check_types(types: object, what: str) -> tuple[TypeInformation, ...]:
    if isinstance(types, TypeInformation) or not isinstance(types, Sequence):
        raise ArgumentTypeError(f"{what} is not a list of types: {types!r}")
    return tuple(check_type(kind, f"{what}[{index}]") for index, kind in enumerate(types))


def _nested(kind: TypeInformation, value: Any, where: str) -> Any:
    try:
        return kind.validate(value)
    except RecordError as error:
        place = f"{where}, {error.detail}" if error.detail else where
        raise RecordError(error.message, detail=place, hint=error.hint) from None


class RowTypeInfo(TypeInformation):
    """Type of a Row. Fields may be None. Field names do not count for equality, as in Flink."""

    def __init__(
        self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None
    ) -> None:
        self._field_types = _check_types(field_types, "field_types")
        self._named = field_names is not None
        if field_names is None:
            field_names = [f"f{index}" for index in range(len(self._field_types))]
        self._field_names = tuple(field_names)
        for name in self._field_names:
            if not isinstance(name, str):
                raise ArgumentTypeError(f"a field name is not a str: {name!r}")
        if len(self._field_names) != len(self._field_types):
            raise ArgumentError(
                f"{len(self._field_names)} field names do not fit {len(self._field_types)} field types",
                detail=f"names {list(self._field_names)}, types {list(self._field_types)}",
            )
        if len(set(self._field_names)) != len(self._field_names):
            raise ArgumentError(f"field names are not unique: {list(self._field_names)}")

    def get_field_names(self) -> list[str]:
        """Return the names of the fields; f0, f1 and so on where none were given."""
        return list(self._field_names)

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return list(self._field_types)

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a field, or -1."""
        return self._field_names.index(field_name) if field_name in self._field_names else -1

    def validate(self, value: Record) -> Row:
        """Return a Row with this type's field names. Rows, tuples, lists and dictionaries are taken."""
        fields: Sequence[Any]
        if isinstance(value, Row):
            try:
                fields = value.get_fields_by_names(self._field_names)
            except PenstockError as error:
                if value.get_field_names() is None or self._named:
                    raise RecordError(
                        error.message, detail=f"in {self!r}", hint=error.hint
                    ) from None
                fields = list(value)  # the type has no names of its own: the positions count
        elif isinstance(value, dict):
            unknown = [key for key in value if key not in self._field_names]
            if unknown:
                raise self._rejected(
                    value, f"the type has no field {', '.join(map(repr, unknown))}"
                )
            fields = [value.get(name) for name in self._field_names]
        elif isinstance(value, tuple | list):
            fields = value
        else:
            raise self._rejected(value, "return a Row, a tuple or a list")
        if len(fields) != len(self._field_types):
            raise self._rejected(value, f"the type has {len(self._field_types)} fields")
        row = Row(
            *[
                None if field is None else _nested(kind, field, f"in field '{name}'")
                for field, kind, name in zip(
                    fields, self._field_types, self._field_names, strict=True
                )
            ]
        )
        row.set_field_names(self._field_names)
        if isinstance(value, Row):
            row.set_row_kind(value.get_row_kind())
        return row

    def to_arrow(self) -> pa.DataType:
        """Return a struct."""
        import pyarrow as pa

        pairs = zip(self._field_names, self._field_types, strict=True)
        return pa.struct([pa.field(name, kind.to_arrow()) for name, kind in pairs])

    def _parts(self) -> tuple[Any, ...]:
        return self._field_types

    def __repr__(self) -> str:
        if not self._named:
            return f"RowTypeInfo({', '.join(map(repr, self._field_types))})"
        pairs = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {kind!r}' for name, kind in pairs)})"


class TupleTypeInfo(TypeInformation):
    """Type of a tuple. Fields may not be None, as in Flink."""

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        self._field_types = _check_types(field_types, "field_types")

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return list(self._field_types)

    def validate(self, value: Record) -> tuple[Any, ...]:
        """Return a tuple. Tuples, lists and rows are taken."""
        if not isinstance(value, tuple | list | Row):
            raise self._rejected(value, "return a tuple")
        if len(value) != len(self._field_types):
            raise self._rejected(value, f"the type has {len(self._field_types)} fields")
        fields = []
        for index, (field, kind) in enumerate(zip(value, self._field_types, strict=True)):
            if field is None and not isinstance(kind, PickledBytesTypeInfo):
                raise RecordError(
                    f"None is not a value of type {kind!r}",
                    detail=f"in field {index}",
                    hint="fields of a Row may be None: declare Types.ROW",
                )
            fields.append(_nested(kind, field, f"in field {index}"))
        return tuple(fields)

    def to_arrow(self) -> pa.DataType:
        """Return a struct with fields f0, f1 and so on."""
        import pyarrow as pa

        return pa.struct(
            [pa.field(f"f{i}", kind.to_arrow()) for i, kind in enumerate(self._field_types)]
        )

    def _parts(self) -> tuple[Any, ...]:
        return self._field_types

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(repr, self._field_types))})"


class _SequenceTypeInfo(TypeInformation):
    """Base of the types of lists and arrays."""

    nullable = True
    allowed: tuple[BasicType, ...] | None = None  # element types; None: any

    def __init__(self, element_type: TypeInformation) -> None:
        self.elem_type = check_type(element_type, "element_type")
        if self.allowed is not None and (
            not isinstance(element_type, BasicTypeInfo)
            or element_type.basic_type not in self.allowed
        ):
            raise ArgumentTypeError(
                f"{element_type!r} cannot be the element type of a {type(self).__name__}",
                hint="use Types.OBJECT_ARRAY or Types.LIST",
            )

    def get_element_type(self) -> TypeInformation:
        """Return the type of the elements."""
        return self.elem_type

    def validate(self, value: Record) -> Record:
        """Return a list. Lists, tuples and arrays are taken."""
        if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__"):
            raise self._rejected(value, "return a list")
        if not isinstance(value, list | tuple) and hasattr(value, "tolist"):
            value = value.tolist()
        kind = self.elem_type
        return [
            item if item is None and self.nullable else _nested(kind, item, f"in element {index}")
            for index, item in enumerate(value)
        ]

    def to_arrow(self) -> pa.DataType:
        """Return Arrow's list."""
        import pyarrow as pa

        return pa.list_(self.elem_type.to_arrow())

    def _parts(self) -> tuple[Any, ...]:
        return (self.elem_type,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.elem_type!r}>"


_PRIMITIVES = (
    BasicType.BOOLEAN,
    BasicType.BYTE,
    BasicType.SHORT,
    BasicType.INT,
    BasicType.LONG,
    BasicType.FLOAT,
    BasicType.DOUBLE,
    BasicType.CHAR,
)


class PrimitiveArrayTypeInfo(_SequenceTypeInfo):
    """Type of an array of numbers, booleans or characters; elements may not be None. BYTE: a bytes object."""

    nullable = False
    allowed = _PRIMITIVES

    def is_bytes(self) -> bool:
        """Whether values are bytes objects."""
        return self.elem_type == BasicTypeInfo(BasicType.BYTE)

    def validate(self, value: Record) -> Record:
        """Return a list; bytes for an array of BYTE."""
        if not self.is_bytes():
            return super().validate(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        return bytes(number & 0xFF for number in super().validate(value))

    def to_arrow(self) -> pa.DataType:
        """Return Arrow's list; binary for an array of BYTE."""
        import pyarrow as pa

        return pa.binary() if self.is_bytes() else super().to_arrow()


class BasicArrayTypeInfo(_SequenceTypeInfo):
    """Type of an array of text, numbers, booleans or characters; elements may be None."""

    allowed = (*_PRIMITIVES, BasicType.STRING)


class ObjectArrayTypeInfo(_SequenceTypeInfo):
    """Type of an array of anything; elements may be None."""


class ListTypeInfo(_SequenceTypeInfo):
    """Type of a list; elements may be None."""


class MapTypeInfo(TypeInformation):
    """Type of a dictionary; values may be None."""

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self.key_type_info = check_type(key_type_info, "key_type_info")
        self.value_type_info = check_type(value_type_info, "value_type_info")

    def validate(self, value: Record) -> dict[Any, Any]:
        """Return a dictionary."""
        if not isinstance(value, dict):
            raise self._rejected(value, "return a dict")
        keys, values = self.key_type_info, self.value_type_info
        return {
            _nested(keys, key, "in a key"): None
            if item is None
            else _nested(values, item, f"in the value of key {key!r}")
            for key, item in value.items()
        }

    def to_arrow(self) -> pa.DataType:
        """Return Arrow's map."""
        import pyarrow as pa

        return pa.map_(self.key_type_info.to_arrow(), self.value_type_info.to_arrow())

    def _parts(self) -> tuple[Any, ...]:
        return (self.key_type_info, self.value_type_info)

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self.key_type_info!r}, {self.value_type_info!r}>"


def element_type_of(type_info: TypeInformation | None) -> TypeInformation | None:
    """Return the element type of a list or array type, else None."""
    return type_info.elem_type if isinstance(type_info, _SequenceTypeInfo) else None


def _basic(basic_type: BasicType, what: str) -> staticmethod[[], BasicTypeInfo]:
    def create() -> BasicTypeInfo:
        return BasicTypeInfo(basic_type)

    create.__name__ = basic_type.name
    create.__qualname__ = f"Types.{basic_type.name}"
    create.__doc__ = f"Return the type of {what}."
    return staticmethod(create)


class Types:
    """All types, by PyFlink's names.

    >>> Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    RowTypeInfo(id: Integer, name: String)
    """

    STRING = _basic(BasicType.STRING, "text")
    BYTE = _basic(BasicType.BYTE, "integers of 8 bits")
    BOOLEAN = _basic(BasicType.BOOLEAN, "True and False")
    SHORT = _basic(BasicType.SHORT, "integers of 16 bits")
    INT = _basic(BasicType.INT, "integers of 32 bits")
    LONG = _basic(BasicType.LONG, "integers of 64 bits")
    FLOAT = _basic(BasicType.FLOAT, "floating-point numbers of 32 bits")
    DOUBLE = _basic(BasicType.DOUBLE, "floating-point numbers of 64 bits")
    CHAR = _basic(BasicType.CHAR, "single characters")
    BIG_INT = _basic(BasicType.BIG_INT, "integers of any size")
    BIG_DEC = _basic(BasicType.BIG_DEC, "decimal numbers")
    INSTANT = _basic(BasicType.INSTANT, "points in time")

    @staticmethod
    def SQL_DATE() -> DateTypeInfo:  # noqa: N802
        """Return the type of datetime.date."""
        return SqlTimeTypeInfo.DATE()

    @staticmethod
    def SQL_TIME() -> TimeTypeInfo:  # noqa: N802
        """Return the type of datetime.time."""
        return SqlTimeTypeInfo.TIME()

    @staticmethod
    def SQL_TIMESTAMP() -> TimestampTypeInfo:  # noqa: N802
        """Return the type of datetime.datetime."""
        return SqlTimeTypeInfo.TIMESTAMP()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> PickledBytesTypeInfo:  # noqa: N802
        """Return the type of any Python object."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:  # noqa: N802
        """Return the type of rows with fields f0, f1 and so on."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(  # noqa: N802
        field_names: Sequence[str], field_types: Sequence[TypeInformation]
    ) -> RowTypeInfo:
        """Return the type of rows with named fields."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:  # noqa: N802
        """Return the type of tuples."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> PrimitiveArrayTypeInfo:  # noqa: N802
        """Return the type of arrays without None of numbers, booleans or characters."""
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> BasicArrayTypeInfo:  # noqa: N802
        """Return the type of arrays of text, numbers, booleans or characters."""
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> ObjectArrayTypeInfo:  # noqa: N802
        """Return the type of arrays of anything."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> ListTypeInfo:  # noqa: N802
        """Return the type of lists."""
        return ListTypeInfo(element_type_info)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> MapTypeInfo:  # noqa: N802
        """Return the type of dictionaries."""
        return MapTypeInfo(key_type_info, value_type_info)


__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
    "check_type",
    "element_type_of",
]
