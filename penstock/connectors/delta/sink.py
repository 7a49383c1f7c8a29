"""The Delta Lake sink: exactly once, one commit per checkpoint."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from penstock.common.user_types import StateValue
from penstock.connectors.base.retrying import retry
from penstock.connectors.base.sink import (
    CommitRequest,
    Committer,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.connectors.delta.tables import (
    arrow_schema_of,
    check_location,
    deltalake,
    is_table,
    open_table,
)
from penstock.connectors.lake.data_files import (
    TARGET_FILE_SIZE,
    DataFile,
    LakeWriter,
    TableLayout,
    check_target_size,
    digest_of,
)
from penstock.errors import ArgumentError
from penstock.formats.base.field_types import arrow_schema, row_type

if TYPE_CHECKING:
    import pyarrow as pa


# Metadata of a commit in the table's history.
_APPLICATION = "penstock.application"
_CHECKPOINT_ID = "penstock.checkpoint-id"
_FILES = "penstock.files"


class DeltaSink(Sink):
    """Appends records to a Delta table.

    A missing table is created, with the columns of `row_type` and partitioned by `partition_by`; an existing table must have
    these columns, and needs no row type. Records are Rows, tuples, dicts or objects with its fields.
    """

    def __init__(
        self,
        table_uri: str,
        row_type: Any = None,
        *,
        partition_by: Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
        target_file_size: int = TARGET_FILE_SIZE,
    ) -> None:
        self.table_uri, self.storage_options = check_location(table_uri, storage_options)
        self.target_file_size = check_target_size(target_file_size)
        declared = None if row_type is None else _declared_schema(row_type)
        wanted = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        if is_table(self.table_uri, self.storage_options):
            self.schema, self.partition_by = self._of_existing(declared, wanted)
        elif declared is None:
            raise ArgumentError(
                f"the Delta table at {table_uri} does not exist, and no row type is given",
                hint="create it with DeltaSink(uri, row_type=Types.ROW_NAMED([...], [...]))",
            )
        else:
            self.schema, self.partition_by = declared, wanted
        missing = [name for name in self.partition_by if name not in self.schema.names]
        if missing or len(self.partition_by) == len(self.schema.names):
            raise ArgumentError(
                "unknown partition columns of a Delta table",
                detail=f"partition_by={wanted}, the columns are {self.schema.names}",
            )

    def _of_existing(self, declared: Any, wanted: list[str]) -> tuple[Any, list[str]]:
        table = open_table(self.table_uri, self.storage_options)
        schema = arrow_schema_of(table)
        partitions: list[str] = list(table.metadata().partition_columns)
        if declared is not None and [(f.name, f.type) for f in declared] != [
            (f.name, f.type) for f in schema
        ]:
            raise ArgumentError(
                f"the Delta table at {self.table_uri} has other columns",
                detail=f"it has {_show(schema)}; the sink's row type has {_show(declared)}",
                hint="omit the row type to use the table's columns",
            )
        if wanted and wanted != partitions:
            raise ArgumentError(
                f"the Delta table at {self.table_uri} has other partition columns",
                detail=f"it is partitioned by {partitions}, not by {wanted}",
                hint="omit partition_by to use the table's partitioning",
            )
        return schema, partitions

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Create the writer of one subtask."""
        return LakeWriter(context, DeltaLayout(self), self.target_file_size)

    def create_committer(self) -> Committer:
        """Create the committer, which adds files to the table."""
        return DeltaCommitter(self)


def _declared_schema(given: object) -> object:
    return arrow_schema(row_type(given), utc_timestamp=True)


def _show(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


class DeltaLayout(TableLayout):
    """Files below the table's directory; values of partition columns are in the table's log, not in the files."""

    def __init__(self, sink: DeltaSink) -> None:
        import pyarrow as pa
        from pyarrow import fs

        self.schema = sink.schema
        self._partition_by = sink.partition_by
        self.file_schema = pa.schema([f for f in sink.schema if f.name not in sink.partition_by])
        scheme, _, path = sink.table_uri.rpartition("://")
        if scheme in {"", "file"}:
            Path(path).mkdir(parents=True, exist_ok=True)  # there may be no commit yet
        handler = deltalake("fs").DeltaStorageHandler(sink.table_uri, sink.storage_options)
        self._files = fs.PyFileSystem(handler)

    def partition_keys(self, table: Any) -> list[Hashable] | None:
        """Return the values of the partition columns, row by row."""
        if not self._partition_by:
            return None
        columns = [map(partition_text, table[name].to_pylist()) for name in self._partition_by]
        return list(zip(*columns, strict=True))

    def partition_values(self, partition: Any) -> tuple[tuple[str, str | None], ...]:
        """Return names and values, in the format of the table's log."""
        return tuple(zip(self._partition_by, partition or (), strict=True))

    def path_of(self, partition: object, name: str) -> str:
        """Return a path in Hive's style: column=value/file.

        Paths are informative only: the log has the values. So nothing is encoded in them, which clients do differently.
        """
        folders = [
            f"{_plain(column)}={_plain('null' if value is None else value)}"
            for column, value in self.partition_values(partition)
        ]
        return "/".join([*folders, name])

    def open_output(self, path: str) -> IO[bytes]:
        """Open a new file."""
        stream: IO[bytes] = self._files.open_output_stream(path)
        return stream

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._files.delete_file(path)


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)


def partition_text(value: object) -> str | None:
    """Return a value of a partition column in the format of Delta's protocol.

    >>> partition_text(True), partition_text(None), partition_text(7)
    ('true', None, '7')
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return str(value)


_PAUSES_S = (0.05, 0.2, 1.0)


class DeltaCommitter(Committer):
    """Adds the files of a checkpoint to the table, in one version of it.

    The table's log has the last checkpoint of each application; it and the files identify a repeated commit.
    """

    def __init__(self, sink: DeltaSink) -> None:
        self._sink = sink

    def commit(self, request: CommitRequest) -> Any:
        """Append the files, unless the table has them."""
        files: list[DataFile] = request.committables
        if not files:
            return
        conflict = deltalake("exceptions").CommitFailedError

        def attempt() -> None:
            # If others have created or changed the table since it was opened, it is opened again.
            table = self._open()
            if not self._has(table, files[0].application, request.checkpoint_id, files):
                self._append(table, files, request.checkpoint_id)

        retry(attempt, _PAUSES_S, when=lambda error: isinstance(error, conflict))

    def _append(self, table: Any, files: Sequence[DataFile], checkpoint_id: int) -> None:
        library, application = deltalake(), files[0].application
        now = time.time_ns() // 1_000_000
        add = deltalake("transaction").AddAction
        table.create_write_transaction(
            [
                add(
                    path=file.path,
                    size=file.size,
                    partition_values=dict(file.partition),
                    modification_time=now,
                    data_change=True,
                    stats=file.statistics,
                )
                for file in files
            ],
            mode="append",
            schema=self._sink.schema,
            partition_by=self._sink.partition_by or None,
            commit_properties=library.CommitProperties(
                custom_metadata={
                    _APPLICATION: application,
                    _CHECKPOINT_ID: str(checkpoint_id),
                    _FILES: digest_of(files),
                },
                app_transactions=[library.Transaction(application, checkpoint_id)],
            ),
        )

    def _open(self) -> Any:
        sink = self._sink
        if is_table(sink.table_uri, sink.storage_options):
            return open_table(sink.table_uri, sink.storage_options)
        return deltalake().DeltaTable.create(
            sink.table_uri,
            schema=sink.schema,
            mode="ignore",
            partition_by=sink.partition_by or None,
            storage_options=sink.storage_options,
        )

    @staticmethod
    def _has(table: Any, application: str, checkpoint_id: int, files: Sequence[DataFile]) -> bool:
        """Whether the files were added before.

        A checkpoint with this id may have been committed by an attempt that was discarded later: then these are other files.
        """
        last = table.transaction_version(application)
        if last is None or last < checkpoint_id:
            return False
        digest = digest_of(files)
        return any(
            commit.get(_APPLICATION) == application and commit.get(_FILES) == digest
            for commit in table.history()
        )
