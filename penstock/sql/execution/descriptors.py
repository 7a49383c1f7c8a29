"""Tables of TableDescriptors and Schemas."""

from __future__ import annotations

from collections.abc import Callable
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
from penstock.errors.argument_checks import check_instance
from penstock.sql.errors import ValidationError, did_you_mean
from penstock.sql.execution.tables import checked
from penstock.sql.table_api.schema import DeclaredColumn, Schema
from penstock.sql.table_api.table_descriptor import TableDescriptor
from penstock.sql.types import DataType, RowField, RowType

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext


def table_of(
    context: StatementContext, path: TablePath, descriptor: TableDescriptor
) -> ResolvedTable:
    """Return the table that a descriptor describes."""
    schema = descriptor.get_schema()
    if schema is None:
        raise ArgumentError(
            f"the descriptor of {path} has no schema", hint="call schema(...) on the builder"
        )
    table = ResolvedTable(
        path,
        tuple(column_of(context, each) for each in schema.columns),
        descriptor.get_options(),
        watermark_of(context, schema),
        schema.primary_key,
        tuple(descriptor.get_partition_keys()),
        descriptor.get_comment(),
    )
    context.planner.check_table(checked(table))
    return table


def name_descriptor(context: StatementContext, descriptor: TableDescriptor) -> tuple[str, ...]:
    """Return the name that statements have for a table that is described, without a name in a catalog."""
    check_instance(descriptor, TableDescriptor, "descriptor")
    connector = descriptor.get_options().get("connector", "managed")
    path = context.catalogs.qualify([f"*anonymous_{connector}${context.next_number()}*"])
    context.catalogs.add_anonymous(table_of(context, path, descriptor))
    return (path.name,)


def name_scan(
    context: StatementContext,
    kind: str,
    columns: RowType,
    schema: Schema | None,
    scan: Callable[[RowType], object],
) -> tuple[str, ...]:
    """Return the name that statements have for a table that the program reads; `kind` says what it is.

    `schema` adds computed columns and a watermark to the columns that are read, or chooses some with other types. `scan` returns a
    ScanTable of the chosen ones.
    """
    schema = Schema() if schema is None else schema
    read = _chosen_columns(kind, columns, schema)
    names = {each.name for each in schema.columns}
    declared = [column_of(context, each) for each in schema.columns if each.kind == "computed"]
    physical = {each.name: PhysicalColumn(each.name, each.data_type) for each in read}
    if any(each.kind == "physical" for each in schema.columns):
        computed = {each.name: each for each in declared}
        ordered = [{**physical, **computed}[each.name] for each in schema.columns]
    else:
        ordered = [*(each for name, each in physical.items() if name not in names), *declared]
    path = context.catalogs.qualify([f"*anonymous_{kind}${context.next_number()}*"])
    table = ResolvedTable(
        path,
        tuple(ordered),
        watermark=watermark_of(context, schema),
        primary_key=schema.primary_key,
        scan=lambda: scan(read),
    )
    context.planner.check_table(checked(table))
    context.catalogs.add_anonymous(table)
    return (path.name,)


def _chosen_columns(kind: str, columns: RowType, schema: Schema) -> RowType:
    """Return the columns that a schema reads: those that it declares, with their types, or all."""
    names, chosen = columns.field_names(), []
    for each in schema.columns:
        if each.kind == "metadata":
            raise ValidationError(
                f"column '{each.name}' cannot be metadata: a {kind} has none",
                hint="compute the column: column_by_expression(name, expression)",
            )
        if each.kind != "physical":
            continue
        if each.name not in names:
            raise ValidationError(
                f"the {kind} has no column '{each.name}'",
                detail=f"the columns are {', '.join(names)}",
                hint=did_you_mean(each.name, names),
            )
        chosen.append(RowField(each.name, type_of(each.type)))
    key = schema.primary_key or ()
    fields = chosen or columns.fields
    return RowType(
        [
            RowField(each.name, each.data_type.not_null()) if each.name in key else each
            for each in fields
        ]
    )


def column_of(context: StatementContext, column: DeclaredColumn) -> Column:
    """Return a column of a Schema as catalogs keep it."""
    if column.kind == "computed":
        tree, text = parsed(context, column.expression)
        return ComputedColumn(column.name, tree, text, column.comment)
    kind = type_of(column.type)
    if column.kind == "metadata":
        key = column.metadata_key or column.name
        return MetadataColumn(column.name, kind, key, column.virtual, column.comment)
    return PhysicalColumn(column.name, kind, column.comment)


def watermark_of(context: StatementContext, schema: Schema) -> tuple[str, Any, str] | None:
    """Return the watermark of a Schema as catalogs keep it."""
    if schema.watermark is None:
        return None
    name, expression = schema.watermark
    return (name, *parsed(context, expression))


def parsed(context: StatementContext, expression: Any) -> tuple[Any, str]:
    """Return an expression, given as text or of the Table API, as a tree and as text."""
    from penstock.sql.parse.parser import parse_expression

    text = expression
    if not isinstance(expression, str):
        from penstock.sql.execution.query_scope import to_sql

        text = to_sql(context, expression)
    return parse_expression(text), text


def type_of(given: object) -> DataType:
    """Return a type that may be written as text."""
    if isinstance(given, DataType):
        return given
    from penstock.sql.parse.types import data_type_of

    return data_type_of(given)
