"""StreamTableEnvironment: tables of streams, and streams of tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from penstock.common.types import Row, RowKind
from penstock.datastream._unexecuted import used_by_tables
from penstock.datastream.data_stream import DataStream
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.errors import ArgumentError
from penstock.errors.argument_checks import check_instance
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.type_mapping import type_information_of
from penstock.sql.errors import UnsupportedQueryError, ValidationError, did_you_mean
from penstock.sql.execution.descriptors import type_of
from penstock.sql.execution.planner import as_rows
from penstock.sql.execution.streams import plan_of_stream
from penstock.sql.logical.nodes import LogicalNode
from penstock.sql.physical.nodes import ChangelogTraits
from penstock.sql.table_api.schema import Schema
from penstock.sql.types import RowField, RowType
from penstock.table.environment_settings import EnvironmentSettings
from penstock.table.table import Table
from penstock.table.table_environment import TableEnvironment, checked_settings


class StreamTableEnvironment(TableEnvironment):
    """A TableEnvironment on top of a StreamExecutionEnvironment: streams become tables, and tables streams.

    A stream made of a table belongs to the program of streams, and runs with its execute(). INSERT and SELECT run at once, as jobs of their own.
    """

    @staticmethod
    def create(  # type: ignore[override]
        stream_execution_environment: StreamExecutionEnvironment | None = None,
        environment_settings: EnvironmentSettings | None = None,
    ) -> StreamTableEnvironment:
        """Return a new environment on top of a StreamExecutionEnvironment."""
        if stream_execution_environment is None:
            stream_execution_environment = StreamExecutionEnvironment.get_execution_environment()
        check_instance(
            stream_execution_environment,
            StreamExecutionEnvironment,
            "stream_execution_environment",
        )
        if environment_settings is None:
            environment_settings = _settings_of(stream_execution_environment)
        return StreamTableEnvironment(
            stream_execution_environment, checked_settings(environment_settings)
        )

    # Streams become tables

    def from_data_stream(self, data_stream: DataStream, *fields_or_schema: Any) -> Table:
        """Return a stream as a table to which rows are added: columns by its type, by a Schema, or by expressions."""
        check_instance(data_stream, DataStream, "data_stream")
        return Table(self, self._plan_of(data_stream, fields_or_schema))

    def from_changelog_stream(
        self,
        data_stream: DataStream,
        schema: Schema | None = None,
        changelog_mode: ChangelogMode | None = None,
    ) -> Table:
        """Return a stream of Rows with row kinds as a table that they change."""
        check_instance(data_stream, DataStream, "data_stream")
        if schema is not None:
            check_instance(schema, Schema, "schema")
        mode = ChangelogMode.all() if changelog_mode is None else changelog_mode
        check_instance(mode, ChangelogMode, "changelog_mode")
        upserts = mode.contains(RowKind.UPDATE_AFTER) and not mode.contains(RowKind.UPDATE_BEFORE)
        if upserts and (schema is None or schema.primary_key is None):
            raise ArgumentError(
                "updates without UPDATE_BEFORE need a primary key",
                hint="declare it: Schema.new_builder().column(...).primary_key('id')",
            )
        plan = self._plan_of(
            data_stream,
            () if schema is None else (schema,),
            changes=not mode.contains_only(RowKind.INSERT),
            upserts=upserts,
        )
        return Table(self, plan)

    def _plan_of(
        self,
        stream: DataStream,
        fields_or_schema: Sequence[Any],
        *,
        changes: bool = False,
        upserts: bool = False,
    ) -> LogicalNode:
        plan = plan_of_stream(
            self.context,
            stream.transformation,
            stream.get_type(),
            fields_or_schema,
            changes=changes,
            upserts=upserts,
        )
        used_by_tables(stream.transformation)
        return plan

    def create_temporary_view(
        self, view_path: str, table_or_data_stream: Any, *fields_or_schema: Any
    ) -> None:
        """Give a table or a stream a name that statements of this environment can use."""
        given = table_or_data_stream
        if isinstance(given, DataStream):
            given = self.from_data_stream(given, *fields_or_schema)
        super().create_temporary_view(view_path, given)

    # Tables become streams

    def to_data_stream(self, table: Table) -> DataStream:
        """Return a table to which rows are only added as a stream of Rows."""
        check_instance(table, Table, "table")
        return self._stream(table.plan, ChangelogMode.insert_only(), "to_data_stream")

    def to_changelog_stream(
        self,
        table: Table,
        target_schema: Schema | None = None,
        changelog_mode: ChangelogMode | None = None,
    ) -> DataStream:
        """Return a table as the stream of its changes: Rows with row kinds."""
        check_instance(table, Table, "table")
        mode = ChangelogMode.all() if changelog_mode is None else changelog_mode
        check_instance(mode, ChangelogMode, "changelog_mode")
        plan, key = table.plan, None
        if target_schema is not None:
            check_instance(target_schema, Schema, "target_schema")
            plan = self._as_declared(table, target_schema)
            key = _key_columns(target_schema, plan)
        return self._stream(plan, mode, "to_changelog_stream", key)

    def to_append_stream(self, table: Table, type_info: TypeInformation) -> DataStream:
        """Return a table to which rows are only added as a stream, in PyFlink's old form."""
        rows = self._stream(table.plan, ChangelogMode.insert_only(), "to_append_stream")
        converted = rows.map(_converter(type_info), type_info)
        used_by_tables(converted.transformation)
        return converted

    def to_retract_stream(self, table: Table, type_info: TypeInformation) -> DataStream:
        """Return a table as a stream of (True, row) for rows that come and (False, row) for rows that go."""
        rows = self._stream(table.plan, ChangelogMode.all(), "to_retract_stream")
        convert = _converter(type_info)
        converted = rows.map(
            lambda row: (_is_added(row), convert(row)), Types.TUPLE([Types.BOOLEAN(), type_info])
        )
        used_by_tables(converted.transformation)
        return converted

    def _as_declared(self, table: Table, schema: Schema) -> LogicalNode:
        """Return the plan with the columns and types of a schema."""
        columns = [each for each in schema.columns if each.kind == "physical"]
        if not columns:
            return table.plan
        chosen = ", ".join(
            f"CAST(`{each.name}` AS {type_of(each.type).nullable()}) AS `{each.name}`"
            for each in columns
        )
        return self.context.query(f"SELECT {chosen} FROM {table}")  # noqa: S608

    def _stream(
        self, plan: LogicalNode, mode: ChangelogMode, what: str, key: tuple[int, ...] | None = None
    ) -> DataStream:
        wants_before = mode.contains(RowKind.UPDATE_BEFORE)
        physical = self.context.planner.plan([plan], update_before=wants_before, primary_key=key)
        _check_changes(physical.result.traits.changes, mode, what)
        (columns,) = self.context.planner.translate_plan(physical)
        times = [at for at, each in enumerate(plan.schema) if each.time == "rowtime"]
        rows = as_rows(
            plan,
            columns,
            timestamp=times[0] if len(times) == 1 else None,
            output_type=type_information_of(
                RowType([RowField(each.name, each.type) for each in plan.schema])
            ),
        )
        self.stream_environment.add_operator(rows)
        used_by_tables(rows)
        return DataStream(self.stream_environment, rows)


def _settings_of(environment: StreamExecutionEnvironment) -> EnvironmentSettings:
    """Return settings with the runtime mode of the streams."""
    from penstock import options

    batch = environment.get_configuration().get(options.RUNTIME_MODE) == "BATCH"
    return EnvironmentSettings.in_batch_mode() if batch else EnvironmentSettings.in_streaming_mode()


def _key_columns(schema: Schema, plan: LogicalNode) -> tuple[int, ...] | None:
    """Return the columns of a declared primary key."""
    if schema.primary_key is None:
        return None
    names = [each.name for each in plan.schema]
    for name in schema.primary_key:
        if name not in names:
            raise ValidationError(
                f"the primary key refers to unknown column '{name}'",
                detail=f"the columns are {', '.join(names)}",
                hint=did_you_mean(name, names),
            )
    return tuple(names.index(name) for name in schema.primary_key)


def _check_changes(changes: ChangelogTraits, mode: ChangelogMode, what: str) -> None:
    refused = None
    if changes.updates and not mode.contains(RowKind.UPDATE_AFTER):
        refused = "update"
    elif changes.deletes and not mode.contains(RowKind.DELETE):
        refused = "delete"
    if refused is not None:
        raise UnsupportedQueryError(
            f"the table produces {refused} changes, which {what} does not support",
            hint="use to_changelog_stream with a ChangelogMode that contains them",
        )


def _is_added(row: Row) -> bool:
    return row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER)


def _converter(info: TypeInformation) -> Callable[[Row], Any]:
    """Return a converter from Rows to records of a type: a Row, a tuple, or the single field."""
    if isinstance(info, RowTypeInfo):
        return _plain_row
    if isinstance(info, TupleTypeInfo):
        return tuple
    return _first


def _plain_row(row: Row) -> Row:
    return Row(*row)


def _first(row: Row) -> Any:
    return row[0]


__all__ = ["StreamTableEnvironment"]
