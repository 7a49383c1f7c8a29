"""Data sources that are written for PySpark's Python Data Source API: what Spark does with them, done here.

It uses the conversions that Spark's own workers use, so that a data source sees and gives the same values as in Spark.
"""

from __future__ import annotations

import inspect
import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import ArgumentError, ArgumentTypeError, InvalidProgramError, RecordError
from penstock.errors.argument_checks import describe
from penstock.pickling import cloudpickling
from penstock.spark.state_frames import session_of_process

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import StructType

Offset = dict[str, Any]


def create_data_source(data_source: object, options: Mapping[str, object]) -> DataSource:
    """Return an object of a class of data sources; refuse anything that is not one."""
    from pyspark.sql.datasource import CaseInsensitiveDict, DataSource

    if not (isinstance(data_source, type) and issubclass(data_source, DataSource)):
        raise ArgumentTypeError(
            f"a subclass of pyspark.sql.datasource.DataSource is required, got {describe(data_source)}",
            hint="pass the class itself, not an object or its name",
        )
    if not isinstance(options, Mapping) or not all(isinstance(each, str) for each in options):
        raise ArgumentTypeError(
            "options must be a dict with the names of options", detail=f"got {options!r}"
        )
    texts = {name: _text(name, value) for name, value in options.items()}
    return data_source(CaseInsensitiveDict(texts))


def _text(name: str, value: object) -> str:
    """Return the value of an option as Spark passes it on."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ArgumentTypeError(f"option '{name}' must be a str, number or bool, got {describe(value)}")


def schema_of(source: DataSource, given: object) -> StructType:
    """Return the columns of a data source: those that the user gives, else its own."""
    from pyspark.errors import PySparkNotImplementedError
    from pyspark.sql.types import StructType

    name = source.name()
    if given is None:
        try:
            given = source.schema()
        except PySparkNotImplementedError:
            raise ArgumentError(
                f"data source '{name}' has no schema of its own",
                hint="pass schema, such as 'id INT, name STRING'",
            ) from None
    if isinstance(given, str):
        session_of_process()  # Spark's parser of types is in the JVM
        given = StructType.fromDDL(given)
    if not isinstance(given, StructType):
        raise ArgumentTypeError(
            f"the schema of data source '{name}' is neither a StructType nor a text, but {describe(given)}"
        )
    return given


def open_reader(source: DataSource, schema: StructType) -> Any:
    """Return the reader of all rows that a data source has."""
    return _open(source, "is read", {"reader": (schema,)})[1]


def open_stream_reader(source: DataSource, schema: StructType) -> Any:
    """Return the reader of a stream, simple ones in the form of others."""
    kind, reader = _open(
        source, "is read as a stream", {"streamReader": (schema,), "simpleStreamReader": (schema,)}
    )
    return SimpleReader(reader) if kind == "simpleStreamReader" else reader


def open_writer(source: DataSource, schema: StructType, *, overwrite: bool) -> tuple[bool, Any]:
    """Return whether a data source takes checkpoints one by one, and its writer."""
    arguments = (schema, overwrite)
    kind, writer = _open(source, "is written", {"streamWriter": arguments, "writer": arguments})
    return kind == "streamWriter", writer


def _open(source: DataSource, used: str, methods: Mapping[str, tuple[Any, ...]]) -> tuple[str, Any]:
    """Call the first of some methods that a data source has; return its name and result."""
    from pyspark.errors import PySparkNotImplementedError

    for name, arguments in methods.items():
        try:
            return name, getattr(source, name)(*arguments)
        except (PySparkNotImplementedError, NotImplementedError):
            continue
    raise InvalidProgramError(
        f"data source '{source.name()}' {used}, but does not implement it",
        detail=f"{type(source).__name__} has none of the methods {', '.join(methods)}",
    )


# Partitions


def plan_partitions(reader: Any) -> list[bytes]:
    """Return the partitions of all rows, pickled: one without value if the reader has none."""
    from pyspark.sql.datasource import InputPartition

    try:
        found = reader.partitions()
    except NotImplementedError:
        found = []
    return pickled_partitions(found or [InputPartition(None)])


def pickled_partitions(partitions: Sequence[Any]) -> list[bytes]:
    """Return partitions as tasks get them."""
    from pyspark.sql.datasource import InputPartition

    for each in partitions:
        if not isinstance(each, InputPartition):
            raise RecordError(
                f"partitions() must return InputPartitions, got {describe(each)}",
                hint="derive the class from pyspark.sql.datasource.InputPartition",
            )
    return [cloudpickling.dumps(each) for each in partitions]


def read_partition(
    source: DataSource, reader: Any, partition: bytes, schema: StructType, size: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition as Arrow batches; rows in Python become batches of this size."""
    from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

    rows = reader.read(pickle.loads(partition))
    return iter(records_to_arrow_batches(iter(rows), size, schema, source))


# Offsets of streams


class OffsetReader:
    """The offsets of a stream reader, as Spark sees them: what comes out of JSON."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        # Data sources for older versions of Spark have no parameters.
        self._has_limits = bool(inspect.signature(reader.latestOffset).parameters)

    def first(self) -> Offset:
        """Return where a new job starts."""
        return _plain(self._reader.initialOffset())

    def latest(self, start: Offset) -> Offset:
        """Return the end of what may be read next, after `start`."""
        if not self._has_limits:
            return _plain(self._reader.latestOffset())
        return _plain(self._reader.latestOffset(start, self._reader.getDefaultReadLimit()))

    def partitions(self, start: Offset, end: Offset) -> list[bytes]:
        """Return the partitions between two offsets, pickled."""
        return pickled_partitions(self._reader.partitions(start, end))

    def commit(self, end: Offset) -> None:
        """Tell the source that nothing before this offset will be read again."""
        self._reader.commit(end)

    def stop(self) -> None:
        """Release what the source holds."""
        self._reader.stop()


def _plain(offset: object) -> Offset:
    if not isinstance(offset, dict):
        raise RecordError(f"an offset of a data source must be a dict, got {describe(offset)}")
    made: Offset = json.loads(json.dumps(offset))
    return made


class SimpleReader:
    """A SimpleDataSourceStreamReader in the form of other stream readers: one partition between two offsets."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def initialOffset(self) -> Offset:  # noqa: N802 - PySpark names it
        """Return where a new job starts."""
        return self._reader.initialOffset()  # type: ignore[no-any-return]

    def latestOffset(self, start: Offset, _: object) -> Offset:  # noqa: N802
        """Return the end of what can be read now; the rows are read again in a task."""
        rows, end = self._reader.read(start)
        if _plain(end) == start and next(iter(rows), None) is not None:
            raise RecordError(
                "read() of a SimpleDataSourceStreamReader returned rows, but no new offset",
                detail=f"start and end are {start}",
                hint="return the offset after the last row: the same rows would be read again and again",
            )
        return _plain(end)

    def getDefaultReadLimit(self) -> None:  # noqa: N802 - PySpark names it
        """Return that there is none."""

    def partitions(self, start: Offset, end: Offset) -> Sequence[Any]:
        """Return all that is between two offsets as one partition."""
        from pyspark.sql.datasource import InputPartition

        return [InputPartition((start, end))]

    def read(self, partition: Any) -> Iterator[Any]:
        """Return the rows of a partition."""
        return self._reader.readBetweenOffsets(*partition.value)  # type: ignore[no-any-return]

    def commit(self, end: Offset) -> None:
        """Pass on that nothing before this offset will be read again."""
        self._reader.commit(end)

    def stop(self) -> None:
        """Do nothing: simple readers have no such method."""


# Writing


def write_rows(writer: Any, schema: StructType, tables: Iterable[pa.Table]) -> bytes:
    """Let a writer write the rows of one subtask for one checkpoint; return its message, pickled."""
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceStreamArrowWriter,
        WriterCommitMessage,
    )

    if isinstance(writer, DataSourceArrowWriter | DataSourceStreamArrowWriter):
        message = writer.write(batch for table in tables for batch in table.to_batches())
    else:
        message = writer.write(row for table in tables for row in _rows(table, schema))
    if message is not None and not isinstance(message, WriterCommitMessage):
        raise RecordError(
            f"write() must return a WriterCommitMessage or None, got {describe(message)}",
            hint="derive the class from pyspark.sql.datasource.WriterCommitMessage",
        )
    return cloudpickling.dumps(message)


def _rows(table: pa.Table, schema: StructType) -> Iterator[Any]:
    from pyspark.sql.conversion import ArrowTableToRowsConversion

    return iter(ArrowTableToRowsConversion.convert(table, schema))
