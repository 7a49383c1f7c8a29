"""Tables of TableDescriptors and Schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.catalogs.tables import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    ResolvedTable,
    TablePath,
)
from penstock.errors import ArgumentError
from penstock.sql.execution.tables import checked
from penstock.sql.types import DataType
from penstock.table.schema import DeclaredColumn, Schema
from penstock.table.table_descriptor import TableDescriptor

if TYPE_CHECKING:
    from penstock.table.table_environment import TableEnvironment


def table_of(
    environment: TableEnvironment, path: TablePath, descriptor: TableDescriptor
) -> ResolvedTable:
    """Return the table that a descriptor describes."""
    schema = descriptor.get_schema()
    if schema is None:
        raise ArgumentError(
            f"the descriptor of {path} has no schema", hint="call schema(...) on the builder"
        )
    table = ResolvedTable(
        path,
        tuple(column_of(environment, each) for each in schema.columns),
        descriptor.get_options(),
        watermark_of(environment, schema),
        schema.primary_key,
        tuple(descriptor.get_partition_keys()),
        descriptor.get_comment(),
    )
    environment.planning.check_table(checked(table))
    return table


def column_of(environment: TableEnvironment, column: DeclaredColumn) -> Column:
    """Return a column of a Schema as catalogs keep it."""
    if column.kind == "computed":
        tree, text = parsed(environment, column.expression)
        return ComputedColumn(column.name, tree, text, column.comment)
    kind = type_of(column.type)
    if column.kind == "metadata":
        key = column.metadata_key or column.name
        return MetadataColumn(column.name, kind, key, column.virtual, column.comment)
    return PhysicalColumn(column.name, kind, column.comment)


def watermark_of(environment: TableEnvironment, schema: Schema) -> tuple[str, Any, str] | None:
    """Return the watermark of a Schema as catalogs keep it."""
    if schema.watermark is None:
        return None
    name, expression = schema.watermark
    return (name, *parsed(environment, expression))


def parsed(environment: TableEnvironment, expression: Any) -> tuple[Any, str]:
    """Return an expression, given as text or of the Table API, as a tree and as text."""
    from penstock.sql.parse.parser import parse_expression

    text = expression
    if not isinstance(expression, str):
        from penstock.sql.table_api.text import to_sql

        text = to_sql(environment, expression)
    return parse_expression(text), text


def type_of(given: Any) -> DataType:
    """Return a type that may be written as text."""
    if isinstance(given, DataType):
        return given
    from penstock.sql.parse.types import data_type_of

    return data_type_of(given)
