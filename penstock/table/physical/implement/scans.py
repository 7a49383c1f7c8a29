"""Where rows come from: tables, streams, the query itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from penstock.columnar.specs.changes import ChangelogNormalizeSpec
from penstock.columnar.specs.stateless import RowsToColumnsSpec, WatermarkSpec
from penstock.common.options import table as options
from penstock.common.types import RowKind
from penstock.table.catalog.tables import ComputedColumn, MetadataColumn, PhysicalColumn
from penstock.table.changelog_mode import ChangelogMode
from penstock.table.connectors.providers import TableContext
from penstock.table.errors import UnsupportedQueryError, ValidationError, nearest
from penstock.table.expressions.nodes import Call, InputRef, Rex, inputs_of
from penstock.table.expressions.typing import holds
from penstock.table.physical.implement.context import Context
from penstock.table.physical.make import calc, exchange, operator, project
from penstock.table.physical.nodes import (
    EVERYTHING,
    INSERTS,
    Changes,
    Physical,
    Rows,
    StreamInput,
    TableScan,
    Traits,
)
from penstock.table.plan.nodes import AssignWatermark, Field, Scan, Schema, StreamScan, Values
from penstock.table.plan.tables import SOURCE_WATERMARK
from penstock.table.rules.expressions import all_of, remap
from penstock.table.types import BitmapType


def changes_of(mode: ChangelogMode) -> Changes:
    """Return what a connector's mode means for the plan."""
    return Changes(
        updates=mode.contains(RowKind.UPDATE_AFTER),
        deletes=mode.contains(RowKind.DELETE),
        before=mode.contains(RowKind.UPDATE_BEFORE),
    )


def table_source(table: Any, given: dict[str, str], context: Context) -> Any:
    """Return what the connector of a table offers to readers."""
    factory = factory_of(table, given, context)
    source = factory.source(table_context(table, given, context))
    if source is None:
        raise ValidationError(
            f"table {table.path} cannot be read",
            detail=f"the connector '{factory.identifier}' has no source",
        )
    return source


def factory_of(table: Any, given: dict[str, str], context: Context) -> Any:
    """Return the factory of a table's connector."""
    name = {**table.options, **given}.get("connector")
    if name is None:
        near = nearest("connector", {**table.options, **given})
        raise ValidationError(
            f"table {table.path} has no connector",
            hint=f"did you mean 'connector' instead of '{near}'?"
            if near
            else "give it one: WITH ('connector' = '...')",
        )
    factory = context.settings.factories.find(name)
    if not getattr(factory, "takes_all_types", False):
        for column in table.columns:
            if not isinstance(column, ComputedColumn) and holds(column.type, BitmapType):
                raise ValidationError(
                    f"column '{column.name}' of table {table.path} is {column.type}, for which the connector '{name}' has no values",
                    hint="declare it as BYTES, and use BITMAP_TO_BYTES and BITMAP_FROM_BYTES",
                )
    return factory


def table_context(table: Any, given: dict[str, str], context: Context) -> TableContext:
    """Return what a factory is told."""
    settings = context.settings
    return TableContext(table, {**table.options, **given}, settings.configuration, settings.batch)


def implement_scan(node: Scan, context: Context) -> Physical:
    """Read a table: conditions, columns and limit go to the connector where it takes them; what it gives is made a proper changelog."""
    table = node.table
    source = table_source(table, node.options, context)
    if not hasattr(source, "scan"):
        raise ValidationError(
            f"table {table.path} can only be looked up",
            hint="join it with FOR SYSTEM_TIME AS OF a processing time attribute",
        )
    changes = changes_of(source.changelog_mode())
    # A change whose row is left out would not be told: its former row would stay.
    taken = context.settings.configuration.get(options.PUSH_DOWN) and not changes.retracts
    rest, pushed = _push_filters(source, node.filters, taken)
    wanted = [field.name for field in node.schema]
    read = _columns_read(table, wanted, rest, node, keyed=changes.retracts)
    if node.columns is not None and hasattr(source, "apply_projection"):
        source.apply_projection(read)
        pushed.append(f"project=[{', '.join(read)}]")
    if (
        node.limit is not None
        and not rest
        and not changes.retracts
        and hasattr(source, "apply_limit")
    ):
        source.apply_limit(node.limit)
        pushed.append(f"limit=[{node.limit}]")
    scanned = source.scan()
    schema = _schema_of(scanned, node, table)
    key = _primary_key(table, schema)
    scan: Physical = TableScan(
        schema=schema,
        traits=Traits(changes, key, bounded=bool(source.bounded())),
        table=table,
        scanned=scanned,
        detail=", ".join(pushed),
    )
    if not scanned.columnar:
        kinds = changes.retracts
        spec = RowsToColumnsSpec(scan.types, scanned.names, kinds)
        scan = operator(spec, (scan,), schema, scan.traits)
    scan = normalized(scan, table.path, context)
    if rest:
        names = _physical_names(table)
        at = {field.name: index for index, field in enumerate(schema)}
        conditions = [
            remap(each, lambda ref: InputRef(ref.type, at[names[ref.index]])) for each in rest
        ]
        scan = calc(scan, schema, condition=all_of(conditions), zone=context.zone)
    if [field.name for field in scan.schema] != wanted:
        at = {field.name: index for index, field in enumerate(scan.schema)}
        _check_metadata(table, at)
        scan = project(scan, [at[name] for name in wanted], zone=context.zone)
    return scan


def _check_metadata(table: Any, given: Collection[str]) -> None:
    """Refuse columns of metadata that a connector does not give."""
    for column in table.columns:
        if isinstance(column, MetadataColumn) and column.name not in given:
            raise ValidationError(
                f"table {table.path} declares the metadata column '{column.name}', but its connector "
                f"'{table.options.get('connector')}' has no metadata '{column.key}'",
                hint="leave the column out, or compute it: name AS expression",
            )


def _physical_names(table: Any) -> list[str]:
    """The columns that conditions in a scan know by position."""
    return [column.name for column in table.columns if isinstance(column, PhysicalColumn)]


def _push_filters(
    source: Any, filters: Sequence[Rex], allowed: bool
) -> tuple[list[Rex], list[str]]:
    if not filters or not allowed or not hasattr(source, "apply_filters"):
        return list(filters), []
    rest = list(source.apply_filters(list(filters)))
    taken = [str(each) for each in filters if each not in rest]
    return rest, [f"filter=[{' AND '.join(taken)}]"] if taken else []


def _columns_read(
    table: Any, wanted: list[str], rest: list[Rex], node: Scan, *, keyed: bool
) -> list[str]:
    """Return the columns that are read: those that are asked for, those that conditions need, and the primary key of changes."""
    if node.columns is None:
        return wanted
    names = _physical_names(table)
    needed = {names[index] for each in rest for index in inputs_of(each)}
    needed |= set(table.primary_key or ()) if keyed else set()
    return [*wanted, *(name for name in names if name in needed and name not in wanted)]


def _schema_of(scanned: Any, node: Scan, table: Any) -> Schema:
    known = {field.name: field for field in node.schema}
    types = {column.name: column for column in table.columns if hasattr(column, "type")}
    found = []
    for name, kind in zip(scanned.names, scanned.types, strict=True):
        declared = types[name].type if name in types else kind
        field = known.get(name)
        found.append(replace(field, type=declared) if field else Field(name, declared))
    return tuple(found)


def _primary_key(table: Any, schema: Schema) -> frozenset[frozenset[int]]:
    names = [field.name for field in schema]
    if not table.primary_key or any(name not in names for name in table.primary_key):
        return frozenset()
    return frozenset([frozenset(names.index(name) for name in table.primary_key)])


def normalized(node: Physical, path: Any, context: Context) -> Physical:
    """Make a full changelog of upserts; and of changes that may come twice, if the options say so."""
    changes = node.traits.changes
    duplicates = context.settings.configuration.get(options.DUPLICATES)
    upserts = changes.updates and not changes.before
    if not upserts and not (duplicates and changes.retracts):
        return node
    if not node.traits.keys:
        raise ValidationError(
            f"table {path} gives upserts and has no primary key",
            detail="an update without its former row is only understood by a key",
            hint="declare PRIMARY KEY (...) NOT ENFORCED, and read its columns",
        )
    key = tuple(sorted(min(node.traits.keys, key=sorted)))
    spec = ChangelogNormalizeSpec(node.types, key, ttl_ms=context.settings.ttl_ms)
    sent = exchange(node, key)
    traits = replace(sent.traits, changes=EVERYTHING, keys=frozenset([frozenset(key)]))
    return operator(spec, (sent,), node.schema, traits)


def implement_stream_scan(node: StreamScan, context: Context) -> Physical:
    """Read a DataStream."""
    changes = EVERYTHING if node.changes else INSERTS
    keys = frozenset([frozenset(node.primary_key)] if node.primary_key else [])
    if node.changes and node.primary_key:
        changes = replace(changes, before=not node.upserts)
    traits = Traits(changes, keys, bounded=node.bounded)
    stream: Physical = StreamInput(
        schema=node.schema, traits=traits, transformation=node.transformation
    )
    if not node.columnar:
        names = tuple(field.name for field in node.schema)
        spec = RowsToColumnsSpec(stream.types, names, node.changes, node.timestamp, node.single)
        stream = operator(spec, (stream,), node.schema, traits)
    return normalized(stream, "of a changelog stream", context)


def implement_values(node: Values, _: Context) -> Physical:
    """Give the query's own rows."""
    return Rows(schema=node.schema, traits=Traits(bounded=True), rows=node.rows)


def implement_watermark(node: AssignWatermark, context: Context) -> Physical:
    """Emit watermarks."""
    below = context.implement(node.input)
    schema = tuple(
        replace(field, time="rowtime") if at == node.rowtime else field
        for at, field in enumerate(below.schema)
    )
    if isinstance(node.expression, Call) and node.expression.function == SOURCE_WATERMARK:
        if context.settings.batch:  # the watermark at the end of a source is all there is
            return replace(below, schema=schema)
        name = schema[node.rowtime].name
        raise UnsupportedQueryError(
            f"the time column '{name}' has SOURCE_WATERMARK(), but its table's source has no watermarks of its own",
            hint=f"declare WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND",
        )
    idle = context.settings.millis(options.IDLE_TIMEOUT)
    spec = WatermarkSpec(below.types, node.rowtime, node.expression, idle, context.zone)
    return operator(spec, (below,), schema, below.traits)
