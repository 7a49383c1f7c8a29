"""Tables as CREATE TABLE describes them: columns, keys, LIKE."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.catalogs.tables import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    ResolvedTable,
    ResolvedView,
    TablePath,
)
from penstock.sql.errors import ValidationError, did_you_mean
from penstock.sql.parse import statements as sql

if TYPE_CHECKING:
    from penstock.catalogs.manager import CatalogManager

_WHAT = (
    "CONSTRAINTS",
    "DISTRIBUTION",
    "GENERATED",
    "METADATA",
    "OPTIONS",
    "PARTITIONS",
    "WATERMARKS",
)


def column_of(definition: sql.ColumnDefinition) -> Column:
    """Return a column as catalogs keep it."""
    name, comment = definition.name, definition.comment
    if definition.kind == "computed":
        return ComputedColumn(
            name, definition.expression, definition.expression_text or "", comment
        )
    assert definition.type is not None
    if definition.kind == "metadata":
        key = definition.metadata_key or name
        return MetadataColumn(name, definition.type, key, definition.virtual, comment)
    return PhysicalColumn(name, definition.type, comment)


def table_of(
    path: TablePath, statement: sql.CreateTableStatement, manager: CatalogManager
) -> ResolvedTable:
    """Return the table that a statement describes; what a query adds to it is missing, and it is not checked before."""
    table = ResolvedTable(
        path,
        tuple(map(column_of, statement.columns)),
        dict(statement.options),
        watermark_of(statement.watermark),
        statement.primary_key,
        statement.partition_keys,
        statement.comment,
    )
    if statement.like is not None:
        table = _like(table, statement.like, manager)
    return checked(table) if statement.query is None else table


def watermark_of(definition: sql.WatermarkDefinition | None) -> tuple[str, object, str] | None:
    """Return a watermark as catalogs keep it."""
    if definition is None:
        return None
    return definition.column, definition.expression, definition.expression_text


def checked(table: ResolvedTable) -> ResolvedTable:
    """Reject a table whose parts do not fit; columns of the primary key are NOT NULL."""
    names = [each.name for each in table.columns]
    for name in names:
        if names.count(name) > 1:
            raise ValidationError(f"duplicate column '{name}' in {table.path}")
    physical = {each.name for each in table.columns if isinstance(each, PhysicalColumn)}
    _check_names(table.primary_key or (), names, "primary key", table.path)
    for name in table.primary_key or ():
        if name not in physical:
            raise ValidationError(
                f"column '{name}' of the primary key of {table.path} is not a physical column"
            )
    if len(set(table.primary_key or ())) < len(table.primary_key or ()):
        raise ValidationError(f"the primary key of {table.path} names a column twice")
    _check_names(table.partition_keys, names, "partition", table.path)
    if table.watermark is not None:
        top = table.watermark[0].split(".")[0]
        _check_names([top], names, "watermark", table.path)
    return table


def _check_names(wanted: Iterable[str], known: Sequence[str], what: str, path: TablePath) -> None:
    for name in wanted:
        if name not in known:
            raise ValidationError(
                f"the {what} of {path} refers to unknown column '{name}'",
                hint=did_you_mean(name, known),
            )


def _like(table: ResolvedTable, like: sql.LikeClause, manager: CatalogManager) -> ResolvedTable:
    """Return a table with the parts that LIKE copies from another one."""
    source = manager.get(like.table)
    if isinstance(source, ResolvedView) or source.bound is not None:
        raise ValidationError(
            f"cannot use {source.path} in LIKE", hint="LIKE needs a table created by a statement"
        )
    strategies = _merge_strategies(like)
    columns = _merged_columns(table, source, strategies)
    watermark, key, partitions = table.watermark, table.primary_key, table.partition_keys
    if strategies["WATERMARKS"] != "EXCLUDING" and source.watermark is not None:
        _check_overlap("watermark", strategies["WATERMARKS"], table.watermark)
        watermark = watermark or source.watermark
    if strategies["CONSTRAINTS"] != "EXCLUDING" and source.primary_key is not None:
        _check_overlap("primary key", strategies["CONSTRAINTS"], table.primary_key)
        key = key or source.primary_key
    if strategies["PARTITIONS"] != "EXCLUDING" and source.partition_keys:
        _check_overlap("partitions", strategies["PARTITIONS"], table.partition_keys or None)
        partitions = partitions or source.partition_keys
    options = dict(table.options)
    if strategies["OPTIONS"] != "EXCLUDING":
        twice = [key for key in options if key in source.options]
        if strategies["OPTIONS"] == "INCLUDING" and twice:
            raise ValidationError(
                f"option '{twice[0]}' already exists in {source.path}",
                hint="use OVERWRITING OPTIONS",
            )
        options = {**source.options, **options}
    return ResolvedTable(
        table.path, columns, options, watermark, key, partitions, table.comment or source.comment
    )


def _merge_strategies(like: sql.LikeClause) -> dict[str, str]:
    """Return for each part of a table whether it is included, excluded or overwritten."""
    strategies = dict.fromkeys(_WHAT, "INCLUDING")
    strategies["OPTIONS"] = "OVERWRITING"
    given = {what: strategy for strategy, what in like.options}
    if "ALL" in given:
        strategies = dict.fromkeys(_WHAT, given.pop("ALL"))
    strategies.update(given)
    return strategies


def _merged_columns(
    table: ResolvedTable, source: ResolvedTable, strategies: dict[str, str]
) -> tuple[Column, ...]:
    """Return the columns of the other table that are taken over, then those that are new."""
    own = {each.name: each for each in table.columns}
    taken: list[Column] = []
    for each in source.columns:
        strategy = "INCLUDING"
        if isinstance(each, ComputedColumn):
            strategy = strategies["GENERATED"]
        elif isinstance(each, MetadataColumn):
            strategy = strategies["METADATA"]
        if strategy == "EXCLUDING":
            continue
        if each.name in own:
            if strategy != "OVERWRITING":
                raise ValidationError(
                    f"column '{each.name}' already exists in {source.path}",
                    hint="only computed and metadata columns can be overwritten: OVERWRITING GENERATED",
                )
            taken.append(own.pop(each.name))
        else:
            taken.append(each)
    return (*taken, *own.values())


def _check_overlap(what: str, strategy: str, own: object) -> None:
    if own is not None and strategy != "OVERWRITING":
        raise ValidationError(
            f"the source table already has a {what}", hint="use EXCLUDING or OVERWRITING"
        )
