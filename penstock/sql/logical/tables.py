"""Tables and views of catalogs as plans: scan, computed columns, watermark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from penstock.catalogs.tables import (
    ComputedColumn,
    MetadataColumn,
    ResolvedTable,
    ResolvedView,
)
from penstock.errors import PenstockError
from penstock.sql.errors import did_you_mean
from penstock.sql.expr.nodes import Call, InputRef, Rex
from penstock.sql.logical.context import LogicalPlanContext
from penstock.sql.logical.expressions import Expressions
from penstock.sql.logical.nodes import (
    Field,
    LogicalNode,
    LogicalTableScan,
    LogicalWatermarkAssigner,
)
from penstock.sql.logical.schemas import project, rename, renamed
from penstock.sql.logical.scope import scope_of
from penstock.sql.parse import trees
from penstock.sql.types import LocalZonedTimestampType, TimestampType

SOURCE_WATERMARK = "SOURCE_WATERMARK"


def find(
    context: LogicalPlanContext, tree: exp.Expr, name: Sequence[str]
) -> ResolvedTable | ResolvedView:
    """Return the table or view of a name, or refuse the query."""
    found = context.catalog.find_table(name)
    if found is None:
        known = [*context.named, *context.catalog.table_names()]
        raise context.error(
            tree,
            f"table '{'.'.join(name)}' not found",
            hint=did_you_mean(".".join(name), known),
        )
    return found


def read(
    context: LogicalPlanContext, tree: exp.Expr, name: Sequence[str], options: dict[str, str]
) -> LogicalNode:
    """Return the plan that reads a table or view."""
    found = find(context, tree, name)
    if isinstance(found, ResolvedView):
        return _read_view(context, tree, found)
    if found.bound is not None:
        return _bound(found)
    return read_table(context, tree, found, options)


def _bound(found: ResolvedTable | ResolvedView) -> LogicalNode:
    """The plan of a table that another plan is behind of; it may give names of its own."""
    node: LogicalNode = found.bound() if callable(found.bound) else found.bound
    names: Sequence[str] | None
    if isinstance(found, ResolvedView):
        names = found.columns
    else:
        names = [each.name for each in found.columns]
    if names and len(names) == len(node.schema):
        return rename(node, renamed(node.schema, names))
    return node


def _read_view(context: LogicalPlanContext, tree: exp.Expr, view: ResolvedView) -> LogicalNode:
    from penstock.sql.logical.queries import query

    if view.bound is not None:
        return _bound(view)
    shown = str(view.path)
    if shown in context.views:
        raise context.error(tree, f"view {shown} refers to itself")
    catalog = context.catalog
    if view.catalog or view.database:
        catalog = catalog.at(view.catalog, view.database)
    node = query(context.of_view(shown, catalog, view.text), view.query)
    if view.columns is None:
        return node
    if len(view.columns) != len(node.schema):
        raise context.error(
            tree,
            f"view {shown} names {len(view.columns)} columns, but its query returns {len(node.schema)}",
        )
    return rename(node, renamed(node.schema, view.columns))


def read_table(
    context: LogicalPlanContext, tree: Any, table: ResolvedTable, options: dict[str, str]
) -> LogicalNode:
    """Return the scan of a table, its computed columns and its watermark."""
    key = set(table.primary_key or ())
    stored = [each for each in table.columns if not isinstance(each, ComputedColumn)]
    schema = tuple(
        Field(each.name, each.type.not_null() if each.name in key else each.type) for each in stored
    )
    place = context.place(tree)
    node: LogicalNode = LogicalTableScan(
        schema=schema, table=table, options=dict(options), place=place
    )
    if len(stored) < len(table.columns):
        node = _with_computed(context, tree, table, node)
    if table.watermark is not None:
        node = _with_watermark(context, tree, table, node)
    return node


def _with_computed(
    context: LogicalPlanContext, tree: exp.Expr, table: ResolvedTable, scan: LogicalNode
) -> LogicalNode:
    positions = {each.name: index for index, each in enumerate(scan.schema)}
    expressions: list[Rex] = []
    for column in table.columns:
        if isinstance(column, ComputedColumn):
            what = f"computed column '{column.name}' of table {table.path}"
            expressions.append(_table_expression(context, tree, what, column, scan))
        else:
            index = positions[column.name]
            expressions.append(InputRef(scan.schema[index].type, index))
    return project(scan, expressions, [each.name for each in table.columns])


def _table_expression(
    context: LogicalPlanContext,
    tree: exp.Expr,
    what: str,
    column: ComputedColumn,
    node: LogicalNode,
) -> Rex:
    own = replace(context, text=column.text, around=None)
    try:
        return Expressions(own, scope_of(node.schema)).convert(column.expression)
    except PenstockError as error:
        raise context.error(
            tree, f"{what} cannot be computed: {error.message}", hint=error.hint
        ) from None


def _with_watermark(
    context: LogicalPlanContext, tree: exp.Expr, table: ResolvedTable, node: LogicalNode
) -> LogicalNode:
    assert table.watermark is not None
    name, expression, text = table.watermark
    names = [each.name for each in node.schema]
    if name not in names:
        raise context.error(
            tree,
            f"the watermark of table {table.path} refers to unknown column '{name}'",
            hint=did_you_mean(name, names),
        )
    index = names.index(name)
    kind = node.schema[index].type
    if not isinstance(kind, TimestampType | LocalZonedTimestampType) or kind.precision > 3:
        raise context.error(
            tree,
            f"invalid watermark column '{name}' of type {kind} in table {table.path}",
            hint="it must be TIMESTAMP(3) or TIMESTAMP_LTZ(3)",
        )
    column = ComputedColumn(name, expression, text)
    what = f"the watermark for '{name}' of table {table.path}"
    if _of_source(expression):
        rex: Rex = Call(LocalZonedTimestampType(3), SOURCE_WATERMARK, ())
    else:
        rex = _table_expression(context, tree, what, column, node)
    if not isinstance(rex.type, TimestampType | LocalZonedTimestampType):
        raise context.error(tree, f"{what} must be a timestamp, got {rex.type}")
    schema = tuple(
        replace(each, time="rowtime") if position == index else each
        for position, each in enumerate(node.schema)
    )
    return LogicalWatermarkAssigner(schema=schema, input=node, rowtime=index, expression=rex)


def _of_source(expression: object) -> bool:
    return (
        isinstance(expression, exp.Anonymous)
        and not expression.expressions
        and trees.function_path(expression)[-1].upper() == SOURCE_WATERMARK
    )


def written_columns(table: ResolvedTable) -> list[Field]:
    """Return the columns that INSERT gives: those that are not computed and not virtual."""
    key = set(table.primary_key or ())
    return [
        Field(each.name, each.type.not_null() if each.name in key else each.type)
        for each in table.columns
        if not isinstance(each, ComputedColumn)
        and not (isinstance(each, MetadataColumn) and each.virtual)
    ]
