"""The ends of a plan: tables that are written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.catalogs.tables import ComputedColumn, MetadataColumn
from penstock.common.types import RowKind
from penstock.graph.operator_specs.columnar.changes import NotNullSpec
from penstock.graph.operator_specs.columnar.stateless import WatermarkSpec
from penstock.options import table as options
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.errors import ValidationError
from penstock.sql.logical.nodes import Field, LogicalSink, Schema
from penstock.sql.physical.changelog_traits import loses_updates
from penstock.sql.physical.implement.context import PhysicalPlanContext
from penstock.sql.physical.implement.materialize import materialized
from penstock.sql.physical.implement.not_null import Path, not_null_paths, shown_path
from penstock.sql.physical.implement.scans import factory_of, table_context
from penstock.sql.physical.make import calc, final_table, operator
from penstock.sql.physical.nodes import (
    ChangelogTraits,
    PhysicalNode,
    PhysicalOperator,
    PhysicalStreamScan,
    PhysicalTableScan,
    PhysicalTableSink,
)


def mode_of(changes: ChangelogTraits) -> ChangelogMode:
    """Return a plan's changes as connectors know them."""
    kinds = [RowKind.INSERT]
    if changes.updates:
        kinds += [RowKind.UPDATE_AFTER, *([RowKind.UPDATE_BEFORE] if changes.before else [])]
    return ChangelogMode([*kinds, *([RowKind.DELETE] if changes.deletes else [])])


def implement_write(node: LogicalSink, context: PhysicalPlanContext) -> PhysicalNode:
    """Write to a table; reject changes that its sink does not support."""
    table = node.table
    below = context.implement(node.input)
    if context.settings.batch:
        below = final_table(below)
    factory = factory_of(table, node.options, context)
    sink = factory.sink(table_context(table, node.options, context))
    if sink is None:
        raise ValidationError(
            f"table {table.path} cannot be written",
            detail=f"connector '{factory.identifier}' has no sink",
        )
    if node.overwrite and not getattr(sink, "supports_overwrite", False):
        raise ValidationError(
            f"table {table.path} cannot be overwritten",
            detail=f"connector '{factory.identifier}' only supports inserts and upserts",
            hint="use INSERT INTO; filesystem tables support INSERT OVERWRITE in batch mode",
        )
    schema = _sink_schema(table, below)
    below = calc(below, schema, zone=context.zone)
    changes = below.traits.changes
    accepted = sink.changelog_mode(mode_of(replace(changes, before=True)))
    takes_before = not changes.updates or accepted.contains(RowKind.UPDATE_BEFORE)
    key = _primary_key(table, schema) if _takes_updates(sink) else None
    kept = _not_null(table, below, context)
    stored = kept if key is None else materialized(kept, key, context.settings)
    # Where the query's key is another, the former row of an update has another primary key, too.
    is_other = key is not None and frozenset(key) not in kept.traits.keys
    deletes_by = key if is_other and stored is kept and not takes_before else None
    loses = not takes_before and (deletes_by is not None or loses_updates(below))
    _check(table, below, accepted, deletes=changes.deletes or loses)
    below = stored
    written = sink.write(overwrite=node.overwrite, partition=dict(node.partition))
    if written.needs_watermarks and not below.traits.bounded and not _has_watermarks(below):
        raise ValidationError(
            f"table {table.path}: {written.needs_watermarks} needs watermarks, but the query has none",
            detail="no partition would ever be committed",
            hint="declare a WATERMARK on a source table of the query, or remove the option",
        )
    return PhysicalTableSink(
        schema=schema,
        traits=below.traits,
        inputs=(below,),
        table=table,
        written=written,
        takes_before=takes_before,
        deletes_by=deletes_by,
    )


def _takes_updates(sink: Any) -> bool:
    accepted: ChangelogMode = sink.changelog_mode(ChangelogMode.all())
    return accepted.contains(RowKind.UPDATE_AFTER)


def _has_watermarks(node: PhysicalNode) -> bool:
    match node:
        case PhysicalOperator(spec=WatermarkSpec()):
            return True
        case PhysicalTableScan() if node.spec is not None or node.scanned.watermarks is not None:
            return True
        case PhysicalStreamScan():
            return any(field.time == "rowtime" for field in node.schema)
    return any(map(_has_watermarks, node.inputs))


def _sink_schema(table: Any, below: PhysicalNode) -> Schema:
    """Return the columns that are written, by the table's names."""
    columns = [
        column
        for column in table.columns
        if not isinstance(column, ComputedColumn)
        and not (isinstance(column, MetadataColumn) and column.virtual)
    ]
    if len(columns) != len(below.schema):
        return below.schema
    return tuple(
        Field(column.name, field.type, field.time)
        for column, field in zip(columns, below.schema, strict=True)
    )


def _primary_key(table: Any, schema: Schema) -> tuple[int, ...] | None:
    names = [field.name for field in schema]
    if not table.primary_key or any(name not in names for name in table.primary_key):
        return None
    return tuple(names.index(name) for name in table.primary_key)


def _check(table: Any, below: PhysicalNode, accepted: ChangelogMode, *, deletes: bool) -> None:
    if below.traits.changes.updates and not accepted.contains(RowKind.UPDATE_AFTER):
        raise _refused(table, below, "update")
    if deletes and not accepted.contains(RowKind.DELETE):
        raise _refused(table, below, "delete")


def _refused(table: Any, below: PhysicalNode, kind: str) -> ValidationError:
    from penstock.sql.physical.explain import line_of

    return ValidationError(
        f"table sink {table.path} doesn't support consuming {kind} changes",
        detail=f"they are produced by {line_of(_origin(below, kind))}",
        hint="write to a table that takes updates (with a PRIMARY KEY: upsert-kafka, jdbc), or make the query "
        "append-only: window aggregation instead of GROUP BY, interval join instead of regular join",
    )


def _origin(node: PhysicalNode, kind: str) -> PhysicalNode:
    """Return the node that first makes such changes."""
    for each in node.inputs:
        changes = each.traits.changes
        if changes.updates if kind == "update" else changes.deletes:
            return _origin(each, kind)
    return node


def _not_null(table: Any, below: PhysicalNode, context: PhysicalPlanContext) -> PhysicalNode:
    """Watch over columns that must not be NULL and could be, and over the parts of them that options name."""
    configuration = context.settings.configuration
    inside = configuration.get(options.NESTED_CONSTRAINTS)
    wanted = {column.name: column for column in table.columns if hasattr(column, "type")}
    found: list[tuple[int, Path]] = []
    for at, field in enumerate(below.schema):
        if field.name not in wanted:
            continue
        target = wanted[field.name].type
        if not target.is_nullable and field.type.is_nullable:
            found.append((at, ()))
        if inside != "IGNORE":
            collections = inside == "ROWS_AND_COLLECTIONS"
            found += [(at, path) for path in not_null_paths(target, collections=collections)]
    if not found:
        return below
    spec = NotNullSpec(
        columns=tuple(at for at, _ in found),
        names=tuple(shown_path(below.schema[at].name, path) for at, path in found),
        drops=configuration.get(options.NOT_NULL) == "DROP",
        paths=tuple(path for _, path in found),
    )
    return operator(spec, (below,), below.schema, below.traits)
