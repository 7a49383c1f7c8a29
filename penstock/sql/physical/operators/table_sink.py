"""Tables that are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock.catalogs.tables import ComputedColumn, MetadataColumn
from penstock.common import Configuration
from penstock.common.types import RowKind
from penstock.graph.operator_specs import SinkSpec
from penstock.graph.operator_specs.columnar.stateless import ColumnsToRowsSpec
from penstock.graph.partitioning import Hash
from penstock.graph.transformations import PartitionTransformation, Transformation
from penstock.options import table as options
from penstock.runtime.columnar.keys import ColumnsKey
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.errors import ValidationError
from penstock.sql.logical.nodes import Field, LogicalSink, Schema
from penstock.sql.logical.texts import show_path
from penstock.sql.physical.connectors import factory_of, table_context
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.nodes import ChangelogTraits, Columns, PhysicalNode
from penstock.sql.physical.operators.calc import calc
from penstock.sql.physical.operators.constraint_enforcer import enforce_not_null
from penstock.sql.physical.operators.drop_update_before import without_update_before
from penstock.sql.physical.operators.final_table import final_table
from penstock.sql.physical.operators.sink_materializer import materialized

if TYPE_CHECKING:
    from penstock.sql.physical.translate import Translation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalTableSink(PhysicalNode):
    """Writes to a table of a catalog. `written` is a penstock.sql.connector.providers.SinkProvider; `takes_before`: -U rows are written, too.

    `deletes_by`: an update may have another primary key (these columns) than its former row, which is deleted by it then.
    """

    is_sink = True

    table: Any
    written: Any
    takes_before: bool = True
    deletes_by: tuple[int, ...] | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name in plans."""
        return "Sink"

    def describe(self) -> list[str]:
        """Return the table and the columns."""
        return [
            f"table=[{show_path(self.table.path)}]",
            f"fields=[{', '.join(self.names)}]",
        ]

    @property
    def changelog_mode(self) -> str:
        """Nothing: it emits no rows."""
        return "NONE"

    def needs_update_before(self, wanted: bool) -> bool:
        """Whether it needs -U rows: to write them, or to delete by them."""
        return self.takes_before or self.deletes_by is not None

    def settle_inputs(self, inputs: tuple[PhysicalNode, ...]) -> tuple[PhysicalNode, ...]:
        """Return the input without -U rows if the table does not take them."""
        if self.takes_before or not inputs[0].emits_update_before:
            return inputs
        return (without_update_before(inputs[0], self.deletes_by),)

    def parallelism(self, of_inputs: Sequence[int | None]) -> int | None:
        """Return that of the sink, if it has one."""
        own: int | None = self.written.parallelism
        return of_inputs[0] if own is None else own

    def translate(self, job: Translation, inputs: Sequence[Transformation]) -> Transformation:
        """Return a sink, behind an exchange by its primary key where rows must stay in order."""
        source = inputs[0]
        if self._is_sent_by_key(job.configuration):
            partitioning = Hash(ColumnsKey(self._key_columns()))
            source = PartitionTransformation("Exchange", [source], partitioning=partitioning)
        if not self.written.columnar:
            spec = ColumnsToRowsSpec(
                self.types, tuple(self.names), self._rowtime(job.configuration)
            )
            source = job.operator(self, spec, [source], title="ToRows", suffix="_rows")
        return job.sink(self, SinkSpec(self.written.sink), source, self.table.path.name)

    def _is_sent_by_key(self, configuration: Configuration) -> bool:
        """Whether rows go to the sink by its primary key (`table.exec.sink.keyed-shuffle`)."""
        strategy = configuration.get(options.KEYED_SHUFFLE)
        if strategy == "FORCE":
            return bool(self.table.primary_key)
        keyed = self.traits.changes.retracts or bool(self.table.primary_key)
        return strategy == "AUTO" and self.written.parallelism is not None and keyed

    def _key_columns(self) -> Columns:
        """Return the columns of the primary key, which keep the changes of a row in order where the sink's parallelism is another; or all."""
        names = self.names
        key = [names.index(name) for name in self.table.primary_key or () if name in names]
        return tuple(key or range(len(names)))

    def _rowtime(self, configuration: Configuration) -> int | None:
        """Return the column that becomes the timestamp of rows."""
        if configuration.get(options.ROWTIME_INSERTER) == "DISABLED":
            return None
        times = [at for at, each in enumerate(self.schema) if each.time == "rowtime"]
        return times[0] if len(times) == 1 else None


def mode_of(changes: ChangelogTraits) -> ChangelogMode:
    """Return a plan's changes as connectors know them."""
    kinds = [RowKind.INSERT]
    if changes.updates:
        kinds += [RowKind.UPDATE_AFTER, *([RowKind.UPDATE_BEFORE] if changes.before else [])]
    return ChangelogMode([*kinds, *([RowKind.DELETE] if changes.deletes else [])])


@implements(LogicalSink)
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
    kept = enforce_not_null(table, below, context)
    stored = kept if key is None else materialized(kept, key, context.settings)
    # Where the query's key is another, the former row of an update has another primary key, too.
    is_other = key is not None and frozenset(key) not in kept.traits.keys
    deletes_by = key if is_other and stored is kept and not takes_before else None
    loses = not takes_before and (deletes_by is not None or below.loses_updates)
    _check(table, below, accepted, deletes=changes.deletes or loses)
    below = stored
    written = sink.write(overwrite=node.overwrite, partition=dict(node.partition))
    if written.needs_watermarks and not below.traits.bounded and not below.has_watermarks:
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
    return ValidationError(
        f"table sink {table.path} doesn't support consuming {kind} changes",
        detail=f"they are produced by {_origin(below, kind).line}",
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
