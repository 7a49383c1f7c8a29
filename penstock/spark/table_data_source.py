"""A format of `spark.read` whose tables Spark's tasks read part by part, as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from penstock.spark.staged_frames import check_session
from penstock.spark.state_frames import session_of_process

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, InputPartition
    from pyspark.sql.types import StructType


class PartReader(Protocol):
    """Reads parts of a table."""

    def look_at(self, parts: Sequence[Any]) -> Any:
        """Return what some parts say about the types of the columns."""

    def schema(self, profiles: Sequence[Any]) -> tuple[Any, pa.Schema]:
        """Return the types of the columns, as the reader has them and as Arrow's."""

    def batches(self, parts: Sequence[Any], types: Any) -> Iterator[pa.RecordBatch]:
        """Read parts."""


#: From the options of `spark.read` to the parts of a table, and what reads them
OpenTable: TypeAlias = Callable[[Mapping[str, str]], tuple[Sequence[Any], PartReader]]


def register_format(session: SparkSession | None, name: str, open_table: OpenTable) -> None:
    """Register a format with a session, by default that of this process."""
    check_session(session)
    session = session or session_of_process()
    session.dataSource.register(_data_source(name, open_table))


def _data_source(format_name: str, open_table: OpenTable) -> type[DataSource]:
    """Return the class of a format. Spark pickles it by value, because it is made here."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    class Reader(DataSourceReader):  # type: ignore[misc]  # pyspark has no types here
        def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
            self._parts, self._reader = open_table(options)
            self._types, _ = self._reader.schema([self._reader.look_at(self._parts)])
            self._schema = schema

        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(number) for number in range(len(self._parts))]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            wanted = to_arrow_schema(self._schema, timezone="UTC")
            part = [] if partition.value is None else [self._parts[partition.value]]
            for batch in self._reader.batches(part, self._types):
                yield batch.cast(wanted)

    class Source(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return format_name

        def schema(self) -> StructType:
            parts, reader = open_table(self.options)
            return from_arrow_schema(reader.schema([reader.look_at(parts)])[1])

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader(self.options, schema)

    return Source
