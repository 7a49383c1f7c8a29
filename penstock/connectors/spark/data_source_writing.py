"""Python data sources of PySpark as sinks: checkpoint by checkpoint, or all rows at the end."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.common.user_types import StateValue
from penstock.connectors.base.sink import (
    CheckpointContext,
    CommitRequest,
    Committer,
    CommitterContext,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.connectors.spark.records import Records, records_of
from penstock.connectors.spark.row_buffer import RowBuffer
from penstock.errors import InvalidProgramError
from penstock.pickling import cloudpickling
from penstock.spark import python_data_sources as pyspark_sources

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

_WHAT: Final = "SparkDataSource.sink()"


class DataSourceSink(Sink):
    """Writes to a PySpark data source.

    A task calls write() with the rows of each checkpoint, and the driver commit() with the messages and the number of the checkpoint,
    once it is durable. After a failure commit() may be called again with the same messages and number, as in Spark.
    """

    def __init__(
        self, data_source: DataSource, *, overwrite: bool, records: Records | None = None
    ) -> None:
        self._data_source = data_source
        self._overwrite = overwrite
        self._records = records

    def for_type(self, declared: object) -> DataSourceSink:
        """Return the sink of a stream with a declared type."""
        if self._records is not None:
            return self
        return self.of(records_of(declared, _WHAT))

    def of(self, records: Records) -> DataSourceSink:
        """Return the sink of these records; a data source that cannot be written is refused."""
        sink = DataSourceSink(self._data_source, overwrite=self._overwrite, records=records)
        sink._open()
        return sink

    def __getstate__(self) -> dict[str, Any]:
        return {"pickled": cloudpickling.dumps((self._data_source, self._overwrite, self._records))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._data_source, self._overwrite, self._records = cloudpickling.loads(state["pickled"])

    @property
    def records(self) -> Records:
        """What the records are."""
        if self._records is None:
            raise InvalidProgramError(
                f"the type of the records of {_WHAT} is unknown",
                hint="use stream.sink_to(sink) with a stream that declares its type, or pass row_type",
            )
        return self._records

    def _open(self) -> tuple[bool, Any]:
        types = self.records.types
        return pyspark_sources.open_writer(self._data_source, types, overwrite=self._overwrite)

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Create the writer of one subtask."""
        return _DataSourceWriter(self._open()[1], self.records)

    def create_committer(self) -> Committer:
        """Create the committer, which calls the data source's commit()."""
        by_checkpoint, writer = self._open()
        return StreamCommitter(writer) if by_checkpoint else EndCommitter(writer)


class _DataSourceWriter(SinkWriter):
    """Keeps the rows of a checkpoint, and lets the data source write them at the barrier: write() takes all of them at once."""

    def __init__(self, writer: Any, records: Records) -> None:
        self._writer = writer
        self._records = records
        self._rows = RowBuffer(records.schema)

    def begin(self, checkpoint: CheckpointContext) -> None:
        """Start the rows of the next checkpoint."""

    def write(self, values: Any, timestamps: list[int | None] | None, watermark: int) -> None:
        """Keep records."""
        self._rows.add(self._records.table(values))

    def prepare_commit(self) -> list[Any]:
        """Let the data source write, and return its message."""
        rows, self._rows = self._rows, RowBuffer(self._records.schema)
        with rows:
            return [pyspark_sources.write_rows(self._writer, self._records.types, rows.tables())]

    def close(self) -> None:
        """Drop the rows that were not written."""
        self._rows.close()


class StreamCommitter(Committer):
    """Commits the messages of a checkpoint under its number."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._final = -1  # the last checkpoint after which nothing was to follow

    def commit(self, request: CommitRequest) -> None:
        """Pass on the messages, if there were rows."""
        if request.committables:
            self._writer.commit(
                list(map(pickle.loads, request.committables)), request.checkpoint_id
            )
        if request.final:
            self._final = request.checkpoint_id

    def clean_up(self, requests: Sequence[CommitRequest], job_id: str) -> None:
        """Tell the data source that what was written after the last checkpoint counts for nothing.

        The messages of a failed attempt are lost with its tasks, so there are none.
        """
        last = max((request.checkpoint_id for request in requests), default=0)
        if last and last != self._final:
            self._writer.abort([], last + 1)


class EndCommitter(Committer):
    """Commits all messages together, when all rows are written: the data source knows no checkpoints."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def open(self, context: CommitterContext) -> None:
        """Refuse a job without end."""
        if not context.bounded:
            raise InvalidProgramError(
                "the data source is never written: the job has no end",
                detail="it has a writer() for all rows at once, and no streamWriter()",
                hint="implement streamWriter(), or bound the sources of the job",
            )

    def commit(self, request: CommitRequest) -> Any:
        """Keep the messages, which checkpoints then have; pass them on at the end."""
        messages = [*(request.pending or ()), *request.committables]
        if not request.ended:
            return messages
        self._writer.commit(list(map(pickle.loads, messages)))
        return None
