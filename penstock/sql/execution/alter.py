"""ALTER TABLE and ALTER VIEW."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.catalogs.tables import (
    Column,
    ComputedColumn,
    ResolvedTable,
    ResolvedView,
)
from penstock.sql.errors import ValidationError, did_you_mean
from penstock.sql.execution.tables import checked, column_of, watermark_of
from penstock.sql.parse import statements as sql
from penstock.sql.results import table_result
from penstock.sql.results.table_result import TableResult

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext


def alter_table(context: StatementContext, statement: sql.AlterTableStatement) -> TableResult:
    """Carry out ALTER TABLE: all actions, or none."""
    manager = context.catalogs
    path = manager.qualify(statement.table)
    found = manager.find(path)
    if found is None and statement.if_exists:
        return table_result.ok()
    if found is None:
        raise manager.missing(path)
    if isinstance(found, ResolvedView):
        raise ValidationError(f"{path} is a view", hint="use ALTER VIEW")
    table = found
    for what, *arguments in statement.actions:
        if what == "RENAME TO":
            manager.rename(path, manager.qualify(arguments[0], path.catalog, path.database))
            return table_result.ok()
        action = _ACTIONS.get(what)
        if action is None:
            raise ValidationError(f"ALTER TABLE ... {what} is not supported")
        table = action(table, *arguments)
    table = checked(table)
    context.planner.check_table(table)
    manager.change(path, table)
    return table_result.ok()


def alter_view(context: StatementContext, statement: sql.AlterViewStatement) -> TableResult:
    """Carry out ALTER VIEW: another name, or another query."""
    manager = context.catalogs
    path = manager.qualify(statement.view)
    found = manager.find(path)
    if found is None:
        raise manager.missing(path)
    if isinstance(found, ResolvedTable):
        raise ValidationError(f"{path} is a table", hint="use ALTER TABLE")
    if statement.new_name is not None:
        manager.rename(path, manager.qualify(statement.new_name, path.catalog, path.database))
    if statement.query is not None:
        context.planner.query(statement.query, statement.source)
        changed = ResolvedView(
            path,
            statement.query.tree,
            statement.query.text,
            None,
            manager.current_catalog,
            manager.current_database,
            comment=found.comment,
        )
        manager.change(path, changed)
    return table_result.ok()


def _set(table: ResolvedTable, options: dict[str, str]) -> ResolvedTable:
    return replace(table, options={**table.options, **options})


def _reset(table: ResolvedTable, keys: list[str]) -> ResolvedTable:
    if "connector" in keys:
        raise ValidationError("option 'connector' cannot be reset")
    kept = {key: value for key, value in table.options.items() if key not in keys}
    return replace(table, options=kept)


def _add_column(table: ResolvedTable, definition: sql.ColumnDefinition) -> ResolvedTable:
    if any(each.name == definition.name for each in table.columns):
        raise ValidationError(f"column '{definition.name}' already exists in {table.path}")
    columns = _placed(table, list(table.columns), definition, len(table.columns))
    return replace(table, columns=tuple(columns))


def _modify_column(table: ResolvedTable, definition: sql.ColumnDefinition) -> ResolvedTable:
    index = _index(table, definition.name)
    columns = [each for each in table.columns if each.name != definition.name]
    columns = _placed(table, columns, definition, index)
    return replace(table, columns=tuple(columns))


def _placed(
    table: ResolvedTable, columns: list[Column], definition: sql.ColumnDefinition, index: int
) -> list[Column]:
    if definition.position == "FIRST":
        index = 0
    elif definition.after is not None:
        names = [each.name for each in columns]
        if definition.after not in names:
            raise _no_column(table, definition.after)
        index = names.index(definition.after) + 1
    return [*columns[:index], column_of(definition), *columns[index:]]


def _drop_column(table: ResolvedTable, names: Any) -> ResolvedTable:
    gone = {names} if isinstance(names, str) else set(names)
    for name in gone:
        _index(table, name)
        _check_unused(table, name, gone)
    return replace(table, columns=tuple(each for each in table.columns if each.name not in gone))


def _rename_column(table: ResolvedTable, old: str, new: str) -> ResolvedTable:
    index = _index(table, old)
    if any(each.name == new for each in table.columns):
        raise ValidationError(f"column '{new}' already exists in {table.path}")
    _check_unread(table, old, set())
    column = table.columns[index]
    renamed: Column = replace(column, name=new)
    columns = (*table.columns[:index], renamed, *table.columns[index + 1 :])
    keys = tuple(new if each == old else each for each in table.primary_key or ())
    partitions = tuple(new if each == old else each for each in table.partition_keys)
    return replace(table, columns=columns, primary_key=keys or None, partition_keys=partitions)


def _check_unused(table: ResolvedTable, name: str, gone: set[str]) -> None:
    if name in (table.primary_key or ()):
        raise ValidationError(f"column '{name}' is part of the primary key of {table.path}")
    if name in table.partition_keys:
        raise ValidationError(f"{table.path} is partitioned by column '{name}'")
    _check_unread(table, name, gone)


def _check_unread(table: ResolvedTable, name: str, gone: set[str]) -> None:
    from sqlglot import exp

    for each in table.columns:
        if not isinstance(each, ComputedColumn) or each.name in gone:
            continue
        if name in {found.name for found in each.expression.find_all(exp.Column)}:
            raise ValidationError(f"column '{name}' is used by computed column '{each.name}'")
    if table.watermark is not None:
        read = {found.name for found in table.watermark[1].find_all(exp.Column)}
        if name in {table.watermark[0], *read}:
            raise ValidationError(f"column '{name}' is used by the watermark of {table.path}")


def _add_watermark(table: ResolvedTable, definition: sql.WatermarkDefinition) -> ResolvedTable:
    if table.watermark is not None:
        raise ValidationError(f"{table.path} already has a watermark", hint="use MODIFY WATERMARK")
    return replace(table, watermark=watermark_of(definition))


def _modify_watermark(table: ResolvedTable, definition: sql.WatermarkDefinition) -> ResolvedTable:
    if table.watermark is None:
        raise ValidationError(f"{table.path} has no watermark", hint="use ADD WATERMARK")
    return replace(table, watermark=watermark_of(definition))


def _drop_watermark(table: ResolvedTable) -> ResolvedTable:
    if table.watermark is None:
        raise ValidationError(f"{table.path} has no watermark")
    return replace(table, watermark=None)


def _add_key(table: ResolvedTable, names: tuple[str, ...]) -> ResolvedTable:
    if table.primary_key is not None:
        raise ValidationError(
            f"{table.path} already has a primary key", hint="use MODIFY PRIMARY KEY"
        )
    return replace(table, primary_key=tuple(names))


def _modify_key(table: ResolvedTable, names: tuple[str, ...]) -> ResolvedTable:
    if table.primary_key is None:
        raise ValidationError(f"{table.path} has no primary key", hint="use ADD PRIMARY KEY")
    return replace(table, primary_key=tuple(names))


def _drop_key(table: ResolvedTable) -> ResolvedTable:
    if table.primary_key is None:
        raise ValidationError(f"{table.path} has no primary key")
    return replace(table, primary_key=None)


def _index(table: ResolvedTable, name: str) -> int:
    names = [each.name for each in table.columns]
    if name not in names:
        raise _no_column(table, name)
    return names.index(name)


def _no_column(table: ResolvedTable, name: str) -> ValidationError:
    return ValidationError(
        f"column '{name}' does not exist in {table.path}",
        hint=did_you_mean(name, [each.name for each in table.columns]),
    )


_ACTIONS: dict[str, Callable[..., ResolvedTable]] = {
    "SET": _set,
    "RESET": _reset,
    "ADD COLUMN": _add_column,
    "MODIFY COLUMN": _modify_column,
    "DROP COLUMN": _drop_column,
    "RENAME COLUMN": _rename_column,
    "ADD WATERMARK": _add_watermark,
    "MODIFY WATERMARK": _modify_watermark,
    "DROP WATERMARK": _drop_watermark,
    "ADD PRIMARY KEY": _add_key,
    "MODIFY PRIMARY KEY": _modify_key,
    "DROP PRIMARY KEY": _drop_key,
}
