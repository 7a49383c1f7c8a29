"""`spark-data-source`: tables of Python data sources that were written for PySpark."""

from __future__ import annotations

import importlib
from typing import Any, Final

from penstock.catalogs.tables import PhysicalColumn
from penstock.connectors.spark.data_source_reading import DataSourceSource, DataSourceStream
from penstock.connectors.spark.data_source_writing import DataSourceSink
from penstock.connectors.spark.records import ColumnRecords
from penstock.errors import ConfigurationError
from penstock.spark import python_data_sources as pyspark_sources
from penstock.spark.data_frame_types import spark_schema
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.options import Option, OptionGroup, checked, flag, text
from penstock.sql.connector.providers import (
    ScanProvider,
    SinkProvider,
    TableContext,
    TableFactory,
)
from penstock.sql.types import RowField, RowType

_PREFIX: Final = "option."
OPTIONS: Final[tuple[Option, ...]] = (
    text("class", "Class of the data source: module.Class.", required=True),
    flag("scan.unbounded", "Whether the data source is read as a stream, from offset to offset."),
)


class DataSourceFactory(TableFactory):
    """Rows of a Python data source that was written for PySpark, read and written in columns."""

    identifier = "spark-data-source"
    options = OPTIONS
    option_groups = (OptionGroup(_PREFIX, "Options of the data source, without the prefix."),)

    def source(self, context: TableContext) -> DataSourceScan:
        """Return the table to read."""
        return DataSourceScan(context)

    def sink(self, context: TableContext) -> DataSourceTarget:
        """Return the table to write."""
        return DataSourceTarget(context)


class _DataSourceTable:
    """Base of both: the data source with its options, and the columns of the table."""

    def __init__(self, context: TableContext) -> None:
        name = str(context.table.path)
        self._options = checked(context.options, OPTIONS, name, free=(_PREFIX,))
        columns = [each for each in context.table.columns if isinstance(each, PhysicalColumn)]
        self._columns = RowType([RowField(each.name, each.type) for each in columns])
        own = {
            option.removeprefix(_PREFIX): value
            for option, value in context.options.items()
            if option.startswith(_PREFIX)
        }
        self._data_source = pyspark_sources.create_data_source(
            _load(self._options["class"], name), own
        )


class DataSourceScan(_DataSourceTable):
    """A table that is read."""

    def changelog_mode(self) -> ChangelogMode:
        """Return that rows are inserts."""
        return ChangelogMode.insert_only()

    def bounded(self) -> bool:
        """Whether all rows are read, and not a stream."""
        return not self._options["scan.unbounded"]

    def scan(self) -> ScanProvider:
        """Return a source of columns."""
        names, types = self._columns.field_names(), self._columns.field_types()
        schema = spark_schema(names, types)
        if self.bounded():
            reader = pyspark_sources.open_reader(self._data_source, schema)
            source = DataSourceSource(self._data_source, schema, reader, self._columns)
        else:
            reader = pyspark_sources.open_stream_reader(self._data_source, schema)
            source = DataSourceStream(self._data_source, schema, reader, self._columns)
        return ScanProvider(source, tuple(names), tuple(types), columnar=True)


class DataSourceTarget(_DataSourceTable):
    """A table that is written."""

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        """Return that rows are inserts."""
        return ChangelogMode.insert_only()

    def write(self, *, overwrite: bool, partition: dict[str, Any]) -> SinkProvider:
        """Return a sink of columns."""
        sink = DataSourceSink(self._data_source, overwrite=overwrite)
        records = ColumnRecords(self._columns.field_names(), self._columns.field_types())
        return SinkProvider(sink.of(records), columnar=True)


def _load(address: str, table: str) -> object:
    """Return the class of an address."""
    module, _, name = address.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"table {table}: cannot load the class '{address}' of option 'class'",
            detail=f"{type(error).__name__}: {error}",
            hint="write module.Class, with a module that this process and the tasks can import",
        ) from error
