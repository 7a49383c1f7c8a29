"""The rows of each completed checkpoint as a Spark DataFrame, handed to a function of the program."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.user_types import StateValue
from penstock.connectors.base.arguments import check_callable
from penstock.connectors.base.sink import (
    CommitRequest,
    Committer,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.connectors.spark.commit_record import CommitRecord
from penstock.connectors.spark.records import ColumnRecords, Records, records_of
from penstock.connectors.spark.staged_files import (
    StagedFile,
    StagedFileWriter,
    delete_files,
    missing_files,
    sweep_directory,
)
from penstock.errors import ArgumentTypeError, CheckpointError, InvalidProgramError
from penstock.errors.user_errors import UserCodeError
from penstock.files.paths import join_path
from penstock.pickling.portable_pickles import is_for_a_driver
from penstock.runtime.user_code import user_traceback
from penstock.spark.staged_frames import staged_frame

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)

#: Makes a DataFrame of the rows in these files
OpenFrame = Callable[[Sequence[str], "StructType"], Any]


class SparkSink(Sink):
    """Calls `function(df, checkpoint_id)` in the driver for each completed checkpoint that has rows.

    `df` is a DataFrame of the running SparkSession with the rows that came since the checkpoint before. The calls are in the order of the
    checkpoints. After a failure the last call may be repeated, with the same number and the same rows: write so that a repetition of a
    number changes nothing, as for Spark's `foreachBatch`. `df` can be read until the function returns.

    `row_type` has the columns; without it, they are those of the type that the stream declares. A stream of single values has the column
    `value`.
    """

    reserved_slots = 1

    def __init__(self, function: Callable[[Any, int], Any], row_type: Any = None) -> None:
        self.function: Any = check_function(function, "SparkSink")
        self._records: Records | None = None
        if row_type is not None:
            self._records = records_of(row_type, "SparkSink")

    @classmethod
    def of_columns(cls, function: Callable[[Any, int], Any], records: ColumnRecords) -> SparkSink:
        """Return the sink of a table."""
        sink = cls(function)
        sink._records = records
        return sink

    def for_type(self, declared: object) -> SparkSink:
        """Return the sink of a stream with a declared type."""
        if self._records is not None:
            return self
        sink = SparkSink(self.function)
        sink._records = records_of(declared, "SparkSink")
        return sink

    @property
    def records(self) -> Records:
        """What the records are."""
        if self._records is None:
            raise InvalidProgramError(
                "the type of the records of a SparkSink is unknown",
                hint="use stream.sink_to(sink) with a stream that declares its type, or pass row_type",
            )
        return self._records

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Create the writer of one subtask."""
        directory = join_path(context.staging, f"spark-{context.operator_id}")
        return StagedFileWriter(context, self.records, directory)

    def create_committer(self) -> Committer:
        """Create the committer, which calls the function."""
        if self.function is None:
            raise InvalidProgramError(
                "the function of a SparkSink is missing",
                detail="the sink was sent to a task, which does not get the function",
                hint="use the sink in the process that created it",
            )
        return CheckpointFunctionCommitter(self.function, self.records.types, staged_frame)

    def __getstate__(self) -> dict[str, Any]:
        # The function runs in the driver only, and may use what cannot be pickled, such as the SparkSession.
        return self.__dict__ if is_for_a_driver() else {**self.__dict__, "function": None}


def check_function(function: object, method: str) -> Any:
    """Return a function after checking that it can be called with a DataFrame and a number."""
    takes = "a DataFrame and the number of the checkpoint"
    check_callable(f"the function of {method}", function, takes)
    try:
        signature = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # a built-in
        return function
    try:
        signature.bind(None, 0)
    except TypeError as error:
        raise ArgumentTypeError(
            f"the function of {method} must take two arguments",
            detail=f"{getattr(function, '__name__', function)}{signature}: {error}",
            hint="define it as: def write(df, checkpoint_id)",
        ) from None
    return function


class CheckpointFunctionCommitter(Committer):
    """Calls a function with the rows of each checkpoint.

    The order is: call, record of the call, deletion of the files. So a checkpoint whose call is recorded is not called again, and one
    without record has all its files.
    """

    def __init__(
        self, function: Callable[[Any, int], Any], types: StructType, open_frame: OpenFrame
    ) -> None:
        self._function = function
        self._types = types
        self._open_frame = open_frame

    def commit(self, request: CommitRequest) -> None:
        """Call the function, unless that was done before."""
        files: list[StagedFile] = request.committables
        if not files:
            return
        record = CommitRecord(files[0].directory)
        if not self._was_called(record, request.checkpoint_id, files):
            self._call(request.checkpoint_id, files)
            record.write(request.checkpoint_id, files)
        delete_files(files)

    def _was_called(
        self, record: CommitRecord, checkpoint_id: int, files: Sequence[StagedFile]
    ) -> bool:
        """Whether the function was called with these files, and returned.

        Files are deleted only after that. Those of an older checkpoint, which a job may be restored from, are gone long since; when a
        job has finished, the record is gone with them.
        """
        last = record.read()
        if last is not None and last.is_of(checkpoint_id, files):
            return True
        missing = missing_files(files)
        if not missing:
            return False
        known = len(missing) == len(files) if last is None else last.checkpoint_id > checkpoint_id
        if not known:
            raise CheckpointError(
                f"staged rows of checkpoint {checkpoint_id} are missing",
                detail=f"{len(missing)} of {len(files)} files are gone, such as {missing[0].path}",
                hint="keep the directory of checkpoints as it is; to go on without these rows, start from another checkpoint",
            )
        if last is None:
            _log.warning(
                "the rows of checkpoint %d are taken as handed over: the job that staged them has finished",
                checkpoint_id,
            )
        return True

    def _call(self, checkpoint_id: int, files: Sequence[StagedFile]) -> None:
        frame = self._open_frame([file.path for file in files], self._types)
        try:
            self._function(frame, checkpoint_id)
        except Exception as error:
            raise UserCodeError(
                user_traceback(error).rstrip(),
                detail=f"in the function for the rows of checkpoint {checkpoint_id}",
            ) from error

    def clean_up(self, requests: Sequence[CommitRequest], job_id: str) -> None:
        """Delete files of the job that no checkpoint refers to."""
        kept: dict[str, set[str]] = {}
        for request in requests:
            for file in request.committables:
                if file.job_id == job_id:
                    kept.setdefault(file.directory, set()).add(file.name)
        for directory, names in kept.items():
            sweep_directory(directory, names)


__all__ = ["CheckpointFunctionCommitter", "SparkSink", "check_function"]
