"""Scans of tables, with what is pushed into their connectors."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.catalogs.tables import MetadataColumn, PhysicalColumn
from penstock.common.types import RowKind
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.graph.operator_specs import OperatorSpec, SourceSpec
from penstock.graph.operator_specs.columnar.sources import TableSourceSpec
from penstock.graph.operator_specs.columnar.stateless import RowsToColumnsSpec
from penstock.graph.state_description import ColumnOrigin, StateDescription, Text
from penstock.graph.transformations import Transformation
from penstock.options import table as options
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.providers import ScanProvider
from penstock.sql.connector.watermark_options import PREFIX, watermark_options
from penstock.sql.errors import UnsupportedQueryError, ValidationError
from penstock.sql.expr.nodes import InputRef, Rex, inputs_of
from penstock.sql.expr.rewriting import all_of, remap
from penstock.sql.logical.nodes import Field, LogicalTableScan, ScanWatermark, Schema
from penstock.sql.logical.texts import show, show_path
from penstock.sql.physical.connectors import table_source
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.lineage import Lineage
from penstock.sql.physical.nodes import ChangelogTraits, PhysicalNode, PhysicalTraits
from penstock.sql.physical.operators.calc import calc, project
from penstock.sql.physical.operators.changelog_normalize import normalized
from penstock.sql.physical.operators.rows_to_columns import PhysicalRowsToColumns

if TYPE_CHECKING:
    from penstock.sql.physical.translate import Translation

_log = logging.getLogger("penstock.table")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalTableScan(PhysicalNode):
    """Reads a table of a catalog. `scanned` is a penstock.sql.connector.providers.ScanProvider.

    `spec`: what reads it if it makes watermarks of the table's columns; None: the connector's source, as it is.
    """

    table: Any
    scanned: Any
    detail: str = ""  # descriptions of push-downs
    spec: OperatorSpec | None = None

    @property
    def name(self) -> str:
        """Its name in plans."""
        return "TableSourceScan"

    def describe(self) -> list[str]:
        """Return the table, what was pushed into it, and the columns."""
        detail = f", {self.detail}" if self.detail else ""
        columns = f"fields=[{', '.join(self.names)}]"
        return [f"table=[[{show_path(self.table.path)}{detail}]]", columns]

    def parallelism(self, of_inputs: Sequence[int | None]) -> int | None:
        """Return that of the source."""
        return self.scanned.parallelism  # type: ignore[no-any-return]

    @property
    def has_watermarks(self) -> bool:
        """Whether it emits watermarks."""
        return self.spec is not None or self.scanned.watermarks is not None

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return its columns."""
        lineage.scanned.append(self._path)
        declared = [column.name for column in self.table.columns]
        return lineage.table(self.table.path.name, self, declared)

    @property
    def _path(self) -> str:
        return show_path(self.table.path, ".")

    def translate(self, job: Translation, inputs: Sequence[Transformation]) -> Transformation:
        """Return a source. Its state says which table its positions belong to."""
        strategy = self.scanned.watermarks or WatermarkStrategy.no_watermarks()
        spec = self.spec or SourceSpec(self.scanned.source, strategy, table=str(self.table.path))
        state = StateDescription(
            "Source",
            {"table": (ColumnOrigin(self._path),)},
            dict.fromkeys(job.lineage.scanned, ()),
        )
        return job.source(self, spec, self.table.path.name, state)


def changes_of(mode: ChangelogMode) -> ChangelogTraits:
    """Translate the changelog mode of a connector."""
    return ChangelogTraits(
        updates=mode.contains(RowKind.UPDATE_AFTER),
        deletes=mode.contains(RowKind.DELETE),
        before=mode.contains(RowKind.UPDATE_BEFORE),
    )


@implements(LogicalTableScan)
def implement_scan(node: LogicalTableScan, context: PhysicalPlanContext) -> PhysicalNode:
    """Read a table: filters, columns and limit are pushed into the connector where it supports them; its output is normalized to a changelog."""
    table = node.table
    source = table_source(table, node.options, context)
    if not hasattr(source, "scan"):
        raise ValidationError(
            f"table {table.path} can only be used in lookup joins",
            hint="join it with FOR SYSTEM_TIME AS OF a processing time attribute",
        )
    changes = changes_of(source.changelog_mode())
    # Filtering out a change would lose it, and the former row would stay.
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
    types = tuple(field.type for field in schema)
    rows = None if scanned.columnar else RowsToColumnsSpec(types, scanned.names, changes.retracts)
    spec, shown = _watermarks(node, scanned, rows, context)
    scan: PhysicalNode = PhysicalTableScan(
        schema=schema,
        traits=PhysicalTraits(changes, key, bounded=bool(source.bounded())),
        table=table,
        scanned=scanned,
        detail=", ".join([*pushed, *shown]),
        spec=spec,
    )
    if rows is not None and spec is None:
        scan = PhysicalRowsToColumns.of(rows, (scan,), schema, scan.traits)
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


def _watermarks(
    node: LogicalTableScan,
    scanned: ScanProvider,
    rows: RowsToColumnsSpec | None,
    context: PhysicalPlanContext,
) -> tuple[TableSourceSpec | None, list[str]]:
    """Return the source that emits the table's watermarks, and its description in EXPLAIN; None if it emits none of its own."""
    table, watermark = node.table, node.watermark
    given = {**table.options, **node.options}
    if watermark is None or watermark.expression is None:
        ignored = sorted(name for name in given if name.startswith(PREFIX))
        if ignored:
            why = _why_not_pushed(table, watermark)
            _log.warning("table %s: %s has no effect: %s", table.path, ", ".join(ignored), why)
        if watermark is not None:
            _check_own_watermarks(table, scanned, context)
        return None, []
    chosen = watermark_options(given, str(table.path))
    idle_ms = context.settings.millis(options.IDLE_TIMEOUT)
    # Columns are in the order of the scan; its schema may have fewer columns.
    place = {name: at for at, name in enumerate(scanned.names)}

    def read(ref: InputRef) -> InputRef:
        return InputRef(ref.type, place[node.schema[ref.index].name])

    spec = TableSourceSpec(
        scanned.source,
        chosen.strategy(idle_ms),
        table=str(table.path),
        rowtime=remap(watermark.rowtime, read),
        watermark=remap(watermark.expression, read),
        rows=rows,
        gap=chosen.gap,
        zone=context.zone,
    )
    names = [field.name for field in node.schema]
    return spec, [f"watermark=[{show(watermark.expression, names)}]", *chosen.shown(idle_ms)]


def _why_not_pushed(table: Any, watermark: ScanWatermark | None) -> str:
    if watermark is not None:
        return "its source emits its own watermarks"
    if table.watermark is None:
        return "it does not declare a WATERMARK"
    return "its time column is not deterministic, so watermarks are not pushed into the source"


def _check_own_watermarks(table: Any, scanned: ScanProvider, context: PhysicalPlanContext) -> None:
    """Reject SOURCE_WATERMARK() of a source without watermarks, unless the one at its end is all that is needed."""
    if context.settings.batch or scanned.watermarks is not None:
        return
    name = table.watermark[0]
    raise UnsupportedQueryError(
        f"time column '{name}' uses SOURCE_WATERMARK(), but the source does not emit watermarks",
        hint=f"declare WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND",
    )


def _check_metadata(table: Any, given: Collection[str]) -> None:
    """Reject columns of metadata that a connector does not give."""
    for column in table.columns:
        if isinstance(column, MetadataColumn) and column.name not in given:
            raise ValidationError(
                f"table {table.path} declares the metadata column '{column.name}', but its connector "
                f"'{table.options.get('connector')}' has no metadata '{column.key}'",
                hint="remove the column, or compute it: name AS expression",
            )


def _physical_names(table: Any) -> list[str]:
    """The columns that conditions in a scan know by position."""
    return [column.name for column in table.columns if isinstance(column, PhysicalColumn)]


def _push_filters(
    source: object, filters: Sequence[Rex], allowed: bool
) -> tuple[list[Rex], list[str]]:
    if not filters or not allowed or not hasattr(source, "apply_filters"):
        return list(filters), []
    rest = list(source.apply_filters(list(filters)))
    taken = [str(each) for each in filters if each not in rest]
    return rest, [f"filter=[{' AND '.join(taken)}]"] if taken else []


def _columns_read(
    table: Any, wanted: list[str], rest: list[Rex], node: LogicalTableScan, *, keyed: bool
) -> list[str]:
    """Return the columns that are read: those that are asked for, those that conditions need, and the primary key of changes."""
    if node.columns is None:
        return wanted
    names = _physical_names(table)
    needed = {names[index] for each in rest for index in inputs_of(each)}
    needed |= set(table.primary_key or ()) if keyed else set()
    return [*wanted, *(name for name in names if name in needed and name not in wanted)]


def _schema_of(scanned: Any, node: LogicalTableScan, table: Any) -> Schema:
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
