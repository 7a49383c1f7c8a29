"""The rows of a bounded query as files, of which Spark makes a DataFrame when the job has ended."""

from __future__ import annotations

from typing import Any

from penstock.common.user_types import StateValue
from penstock.connectors.base.sink import (
    CommitRequest,
    Committer,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.connectors.spark.records import ColumnRecords
from penstock.connectors.spark.staged_files import StagedFile, StagedFileWriter
from penstock.errors import InvalidProgramError


class ResultFiles:
    """The files of a result, in the order of its rows. Lives in the driver; the sink's committer fills it."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._checkpoint_id = -1  # the last checkpoint whose files were added

    def put(self, checkpoint_id: int, files: list[StagedFile]) -> None:
        """Add the files of a checkpoint; repeated calls are ignored."""
        if checkpoint_id > self._checkpoint_id:
            self._checkpoint_id = checkpoint_id
            self.paths += [file.path for file in files]


class ResultSink(Sink):
    """Writes rows to files in a directory that outlives the job; the program learns their names."""

    def __init__(self, records: ColumnRecords, directory: str, result: ResultFiles) -> None:
        self.records = records
        self.directory = directory
        self.result: ResultFiles | None = result

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Create the writer of one subtask."""
        return StagedFileWriter(context, self.records, self.directory)

    def create_committer(self) -> Committer:
        """Create the committer, which tells the names of the files."""
        if self.result is None:
            raise InvalidProgramError(
                "the rows of to_spark() cannot come back from another process",
                hint="run the job in the process that has the SparkSession",
            )
        return _ResultCommitter(self.result)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "result": None}


class _ResultCommitter(Committer):
    def __init__(self, result: ResultFiles) -> None:
        self._result = result

    def commit(self, request: CommitRequest) -> None:
        self._result.put(request.checkpoint_id, request.committables)
