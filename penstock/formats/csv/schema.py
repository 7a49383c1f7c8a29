"""The columns and the syntax of CSV files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.formats.base.field_types import INTEGER_KINDS, FieldType, field_type


@dataclass(frozen=True, slots=True)
class CsvColumn:
    """A column: its name, its type and, for arrays, the separator of elements."""

    name: str
    type: FieldType
    separator: str = ";"


@dataclass(frozen=True, slots=True)
class CsvSchema:
    """The columns and the syntax of a CSV file."""

    columns: tuple[CsvColumn, ...] = ()
    column_separator: str = ","
    line_separator: str = "\n"
    quote_char: str | None = '"'
    escape_char: str | None = None
    null_value: str | None = None
    allow_comments: bool = False
    use_header: bool = False
    strict_headers: bool = False
    skip_first_data_row: bool = False
    any_property_name: str | None = None

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Return a builder."""
        return CsvSchemaBuilder()

    def size(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


class CsvSchemaBuilder:
    """Builds a CsvSchema."""

    def __init__(self) -> None:
        self._columns: list[CsvColumn] = []
        self._options: dict[str, Any] = {}

    def add_array_column(
        self, name: str, separator: str = ";", element_type: object = None
    ) -> CsvSchemaBuilder:
        """Add a column of lists; elements are strings unless a type is given."""
        element = field_type("STRING" if element_type is None else element_type)
        return self._add(name, FieldType("ARRAY", (("element", element),)), separator)

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of true and false."""
        return self._add(name, field_type("BOOLEAN"))

    def add_number_column(self, name: str, number_type: object = None) -> CsvSchemaBuilder:
        """Add a column of numbers; BIGINT unless a type is given."""
        kind = field_type("BIGINT" if number_type is None else number_type)
        if kind.kind not in INTEGER_KINDS and kind.kind not in {"FLOAT", "DOUBLE", "DECIMAL"}:
            raise ArgumentTypeError(
                "a number column needs a numeric type",
                detail=f"column {name!r} has {kind.kind}",
                hint="use DataTypes.BIGINT(), DataTypes.DOUBLE() or another numeric type",
            )
        return self._add(name, kind)

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of text."""
        return self._add(name, field_type("STRING"))

    def add_column(self, name: str, column_type: object) -> CsvSchemaBuilder:
        """Add a column of any type: dates and times are in ISO format."""
        return self._add(name, field_type(column_type))

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add all columns of another schema."""
        for column in schema.columns:
            self._add(column.name, column.type, column.separator)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Remove all columns."""
        self._columns.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Skip lines that start with #."""
        return self._set("allow_comments", bool(allow))

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Accepted as in Jackson, without effect: rows with too many columns are errors."""
        return self._set("any_property_name", name)

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the separator of elements in all array columns."""
        self._columns = [replace(column, separator=separator) for column in self._columns]
        return self

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Read an array column's whole text as its only element."""
        self._columns[index] = replace(self._columns[index], separator="")
        return self

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Read the whole text as the only element, in all array columns."""
        return self.set_array_element_separator("")

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set the character between columns."""
        return self._set("column_separator", _one(char, "column separator"))

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Set the escape character."""
        return self._set("escape_char", _one(char, "escape character"))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Disable the escape character."""
        return self._set("escape_char", None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Set the character around values that contain separators or line feeds."""
        return self._set("quote_char", _one(char, "quote character"))

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Read quotes literally. Large files can then be split."""
        return self._set("quote_char", None)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        r"""Set the line separator for writing: \n, \r\n or \r. Reading accepts \n and \r\n."""
        if separator not in {"\n", "\r\n", "\r"}:
            raise ArgumentError("unknown line separator", detail=f"got {separator!r}")
        return self._set("line_separator", separator)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text that stands for None."""
        return self._set("null_value", null_value)

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Skip the first row of a file (after the header, if there is one)."""
        return self._set("skip_first_data_row", bool(skip))

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Require that the header names the columns of the schema, in order."""
        return self._set("strict_headers", bool(strict))

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Use a header line with column names. Writers write it; readers go by position, like Flink."""
        return self._set("use_header", bool(use))

    def size(self) -> int:
        """Return the number of columns."""
        return len(self._columns)

    def build(self) -> CsvSchema:
        """Create the schema."""
        return CsvSchema(tuple(self._columns), **self._options)

    def _add(self, name: str, kind: FieldType, separator: str = ";") -> CsvSchemaBuilder:
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError("a column needs a name", detail=f"got {name!r}")
        if any(column.name == name for column in self._columns):
            raise ArgumentError("duplicate column name", detail=f"column {name!r}")
        self._columns.append(CsvColumn(name, kind, separator))
        return self

    def _set(self, option: str, value: object) -> CsvSchemaBuilder:
        self._options[option] = value
        return self


def _one(char: str, what: str) -> str:
    if not isinstance(char, str) or len(char) != 1:
        raise ArgumentError(f"the {what} must be one character", detail=f"got {char!r}")
    return char
