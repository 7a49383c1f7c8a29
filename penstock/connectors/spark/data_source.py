"""Python data sources that were written for PySpark, as sources and sinks of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.connectors.base.sink import Sink
from penstock.connectors.base.source import Source
from penstock.connectors.spark.data_source_reading import DataSourceSource, DataSourceStream
from penstock.connectors.spark.data_source_writing import DataSourceSink
from penstock.connectors.spark.records import records_of
from penstock.errors import ArgumentTypeError
from penstock.errors.argument_checks import describe
from penstock.spark import python_data_sources as pyspark_sources

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import StructType


class SparkDataSource:
    """Makes sources and sinks of subclasses of `pyspark.sql.datasource.DataSource`.

    The job calls the data source itself. Spark's JVM has no part in it, and the class need not be registered with a session.
    """

    @staticmethod
    def source(
        data_source: type[DataSource],
        options: Mapping[str, object] | None = None,
        *,
        schema: StructType | str | None = None,
        unbounded: bool = False,
    ) -> Source:
        """Return a source of Rows.

        It reads all rows (`reader`), or with `unbounded` the stream (`streamReader`, else `simpleStreamReader`). `schema` replaces the one
        that the data source has.
        """
        _check_bool("unbounded", unbounded)
        created = pyspark_sources.create_data_source(data_source, options or {})
        types = pyspark_sources.schema_of(created, schema)
        if unbounded:
            reader = pyspark_sources.open_stream_reader(created, types)
            return DataSourceStream(created, types, reader)
        return DataSourceSource(created, types, pyspark_sources.open_reader(created, types))

    @staticmethod
    def sink(
        data_source: type[DataSource],
        options: Mapping[str, object] | None = None,
        *,
        row_type: Any = None,
        overwrite: bool = False,
    ) -> Sink:
        """Return a sink.

        It writes checkpoint by checkpoint (`streamWriter`); a data source that only has a `writer` commits once, at the end of a bounded job.
        `row_type` has the columns; without it, they are those of the type that the stream declares.
        """
        _check_bool("overwrite", overwrite)
        created = pyspark_sources.create_data_source(data_source, options or {})
        sink = DataSourceSink(created, overwrite=overwrite)
        return sink if row_type is None else sink.of(records_of(row_type, "SparkDataSource.sink()"))


def _check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"{name} must be True or False, got {describe(value)}")
