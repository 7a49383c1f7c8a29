"""INSERT: the columns of a query as those of a table."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.catalogs.tables import ResolvedTable
from penstock.sql.errors import SqlError, ValidationError, did_you_mean
from penstock.sql.expr import typing
from penstock.sql.expr.casts import can_cast
from penstock.sql.expr.nodes import InputRef, Literal, Rex
from penstock.sql.logical import tables
from penstock.sql.logical.context import LogicalPlanContext
from penstock.sql.logical.expressions import Expressions
from penstock.sql.logical.nodes import Field, LogicalNode, LogicalSink
from penstock.sql.logical.queries import query
from penstock.sql.logical.schemas import project
from penstock.sql.logical.scope import NameScope
from penstock.sql.parse.locating import position_of_name
from penstock.sql.parse.statements import InsertStatement
from penstock.sql.types import DataType, NullType


def insert(context: LogicalPlanContext, statement: InsertStatement) -> LogicalSink:
    """Return the plan of INSERT."""
    return write(context, statement, query(context, statement.query.tree))


def write(
    context: LogicalPlanContext, statement: InsertStatement, node: LogicalNode
) -> LogicalSink:
    """Return the plan that writes rows into the table of an INSERT."""
    tree = statement.query.tree if statement.query is not None else None
    target = tree if statement.target is None else statement.target
    table = tables.find(context, target, statement.table)
    if not isinstance(table, ResolvedTable):
        raise context.error(target, f"cannot insert into view {table.path}")
    columns = tables.written_columns(table)
    partition = {
        name: _constant(context, value)
        for name, value in statement.partition.items()
        if value is not None
    }
    given = _given(context, tree, statement, table, columns, partition)
    if len(given) != len(node.schema):
        raise context.error(
            tree,
            f"the query returns {len(node.schema)} columns, but table {table.path} expects {len(given)}",
            detail=_schemas(node.schema, [each for each in columns if each.name in given]),
        )
    expressions = [
        _column(context, tree, statement, each, given, node, partition) for each in columns
    ]
    return LogicalSink(
        schema=tuple(columns),
        input=project(node, expressions, [each.name for each in columns]),
        table=table,
        options=dict(statement.options),
        overwrite=statement.overwrite,
        partition={name: rex.value for name, rex in partition.items()},
        place=context.place(target),
    )


def _constant(context: LogicalPlanContext, value: object) -> Literal:
    """The value of PARTITION (p = value)."""
    if not isinstance(value, exp.Expression):
        return typing.literal_of(value)
    rex = Expressions(context, NameScope()).convert(value)
    if not isinstance(rex, Literal):
        raise context.error(value, "the value of a partition must be a constant")
    return rex


def _given(
    context: LogicalPlanContext,
    tree: exp.Expr,
    statement: InsertStatement,
    table: ResolvedTable,
    target: Sequence[Field],
    partition: dict[str, Literal],
) -> list[str]:
    """Return the names of the columns that the query gives, in its order."""
    names = [each.name for each in target]

    def refused(name: str, message: str, hint: str | None, occurrence: int = 0) -> SqlError:
        error = ValidationError(message, hint=hint)
        written = statement.target
        begin = 0 if written is None else int(written.meta.get("end", 0))
        found = position_of_name(context.text, name, begin, occurrence=occurrence)
        if found is not None:
            error.at(found[0], context.text, found[1])
        return context.wrapped(tree, error)

    for name in partition:
        if name not in table.partition_keys:
            raise refused(
                name,
                f"'{name}' is not a partition column of table {table.path}",
                did_you_mean(name, table.partition_keys)
                or "partition columns are declared with CREATE TABLE ... PARTITIONED BY (...)",
            )
    if statement.columns is None:
        return [name for name in names if name not in partition]
    for name in statement.columns:
        if name not in names:
            computed = name in [each.name for each in table.columns]
            raise refused(
                name,
                f"cannot insert into column '{name}' of table {table.path}"
                if computed
                else f"column '{name}' not found in table {table.path}",
                "computed and virtual columns are read-only: remove it"
                if computed
                else did_you_mean(name, names) or f"available columns: {', '.join(names)}",
            )
        if name in partition:
            raise refused(name, f"duplicate column '{name}'", "its value is set by PARTITION", 1)
        if statement.columns.count(name) > 1:
            raise refused(name, f"duplicate column '{name}'", None, occurrence=1)
    return list(statement.columns)


def _column(
    context: LogicalPlanContext,
    tree: exp.Expr,
    statement: InsertStatement,
    column: Field,
    given: Sequence[str],
    node: LogicalNode,
    partition: dict[str, Literal],
) -> Rex:
    """Return the value of a sink column: a column of the query, a partition value, or NULL."""
    if column.name in partition:
        return typing.cast_to(partition[column.name], column.type)
    if column.name not in given:
        if not column.type.is_nullable:
            raise context.error(
                tree, f"column '{column.name}' has no default value and does not allow NULLs"
            )
        return Literal(column.type, None)
    index = given.index(column.name)
    source = node.schema[index]
    rex: Rex = InputRef(source.type, index)
    if not assignable(source.type, column.type):
        raise context.error(
            tree,
            f"column types of query result and sink '{'.'.join(statement.table)}' do not match: "
            f"column '{column.name}' at position {index} is {column.type}, the query returns {source.type}",
            hint=f"use CAST(... AS {column.type.nullable()})"
            if can_cast(source.type, column.type)
            else None,
        )
    if isinstance(source.type, NullType):
        return Literal(column.type.nullable(), None)
    return typing.cast_to(rex, column.type)


def assignable(source: DataType, target: DataType) -> bool:
    """Whether values may be written to a column without CAST: types widen, and texts and bytes may be cut."""
    if source.nullable() == target.nullable() or isinstance(source, NullType):
        return True
    if typing.is_text(source) and typing.is_text(target):
        return True
    if typing.is_binary(source) and typing.is_binary(target):
        return True
    return typing.can_widen(source, target)


def _schemas(query_schema: Sequence[Field], sink: Sequence[Field]) -> str:
    def shown(schema: Sequence[Field]) -> str:
        return ", ".join(f"{each.name}: {each.type}" for each in schema)

    return f"query schema: [{shown(query_schema)}], sink schema: [{shown(sink)}]"
