"""The Iceberg sink: exactly once, one snapshot per checkpoint."""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import IO, Any, Final

from penstock.common.user_types import StateValue
from penstock.connectors.base.retrying import Backoff, retry
from penstock.connectors.base.sink import (
    CommitRequest,
    Committer,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.connectors.iceberg.tables import TableName, pyiceberg
from penstock.connectors.lake.data_files import (
    TARGET_FILE_SIZE,
    DataFile,
    LakeWriter,
    TableLayout,
    check_target_size,
    digest_of,
)
from penstock.errors import ArgumentError, UnsupportedOperationError
from penstock.formats.base.field_types import arrow_schema
from penstock.formats.base.field_types import row_type as row_type_of

# Properties of a snapshot.
_APPLICATION = "penstock.application"
_CHECKPOINT_ID = "penstock.checkpoint-id"
_FILES = "penstock.files"

_MOST_TRIES: Final = 10  # others may commit at the same time


class IcebergSink(Sink):
    """Appends records to an Iceberg table.

    `catalog` are pyiceberg's properties of the catalog, `identifier` is the table's name in it. A missing table is created,
    with the columns of `row_type` and without partitions; an existing one needs no row type. Records are Rows, tuples, dicts
    or objects with its fields.
    """

    def __init__(
        self,
        catalog: Mapping[str, str],
        identifier: str | Sequence[str],
        row_type: Any = None,
        *,
        target_file_size: int = TARGET_FILE_SIZE,
    ) -> None:
        self.name = TableName(catalog, identifier)
        self.target_file_size = check_target_size(target_file_size)
        declared = None
        if row_type is not None:
            declared = arrow_schema(row_type_of(row_type), utc_timestamp=True)
        table = self.name.open_table()
        if table is None:
            if declared is None:
                raise ArgumentError(
                    f"the Iceberg table {self.name} does not exist, and no row type is given",
                    hint="create it with IcebergSink(catalog, name, row_type=Types.ROW_NAMED([...], [...]))",
                )
            table = self._create(declared)
        schema = table_schema(table)
        if declared is not None and declared.names != schema.names:
            raise ArgumentError(
                f"the Iceberg table {self.name} has other columns",
                detail=f"it has {schema.names}; the sink's row type has {declared.names}",
                hint="omit the row type to use the table's columns",
            )
        IcebergLayout(table)  # rejects unsupported partition transforms

    def _create(self, schema: Any) -> Any:
        catalog = self.name.open_catalog()
        catalog.create_namespace_if_not_exists(self.name.parts[:-1])
        return catalog.create_table_if_not_exists(self.name.parts, schema)

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Create the writer of one subtask."""
        return LakeWriter(context, IcebergLayout(self.name.require_table()), self.target_file_size)

    def create_committer(self) -> Committer:
        """Create the committer, which adds files to the table."""
        return IcebergCommitter(self.name)


def table_schema(table: Any) -> Any:
    """Return the schema for files that are added to a table: without field ids, which only Iceberg's own writers set."""
    return pyiceberg("io.pyarrow").schema_to_pyarrow(table.schema(), include_field_ids=False)


class IcebergLayout(TableLayout):
    """Files in the table's own location; each has rows of one partition."""

    def __init__(self, table: Any) -> None:
        self.schema = self.file_schema = table_schema(table)
        self._table = table
        self._io = table.io
        schema, transforms = table.schema(), pyiceberg("transforms")
        self._keys = []
        for field in table.spec().fields:
            source = schema.find_field(field.source_id)
            if not field.transform.preserves_order and not isinstance(
                field.transform, transforms.IdentityTransform
            ):
                raise UnsupportedOperationError(
                    f"unsupported partition transform of an Iceberg table: {field.transform}({source.name})",
                    detail="the partition of an added file is derived from the bounds of its columns",
                    hint="partition by the column itself, by truncate, or by year, month, day or hour",
                )
            self._keys.append((source.name, field.transform.pyarrow_transform(source.field_type)))

    def partition_keys(self, table: Any) -> list[Hashable] | None:
        """Return the partition values of each row, by the table's transforms."""
        if not self._keys:
            return None
        columns = [
            transform(table[name].combine_chunks()).to_pylist() for name, transform in self._keys
        ]
        return list(zip(*columns, strict=True))

    def partition_values(self, partition: object) -> tuple[tuple[str, str | None], ...]:
        """Return nothing: the table derives them from the file."""
        return ()

    def path_of(self, partition: object, name: str) -> str:
        """Return a path in the table's data location."""
        location: str = self._table.location_provider().new_data_location(
            f"{uuid.uuid4().hex}-{name}"
        )
        return location

    def open_output(self, path: str) -> IO[bytes]:
        """Open a new file."""
        stream: IO[bytes] = self._io.new_output(path).create()
        return stream

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._io.delete(path)


class IcebergCommitter(Committer):
    """Adds the files of a checkpoint to the table, in one snapshot. The snapshots' properties identify repeated commits."""

    def __init__(self, name: TableName) -> None:
        self._name = name

    def commit(self, request: CommitRequest) -> Any:
        """Append the files, unless the table has them."""
        files: list[DataFile] = request.committables
        if not files:
            return
        refused = pyiceberg("exceptions").CommitFailedException
        backoff = Backoff(50, 60_000, retries=_MOST_TRIES - 1, jitter=0)
        retry(
            partial(self._append, files, request.checkpoint_id),
            backoff.pauses(),
            when=lambda error: isinstance(error, refused),
        )

    def _append(self, files: list[DataFile], checkpoint_id: int) -> None:
        digest = digest_of(files)
        table = self._name.require_table()
        if _has(table, files[0].application, digest):
            return
        table.add_files(
            [file.path for file in files],
            snapshot_properties={
                _APPLICATION: files[0].application,
                _CHECKPOINT_ID: str(checkpoint_id),
                _FILES: digest,
            },
            check_duplicate_files=False,  # it would read all manifests; the snapshots' properties are enough
        )


def _has(table: Any, application: str, digest: str) -> bool:
    """Whether one of the table's snapshots has added these files."""
    return any(
        snapshot.summary is not None
        and snapshot.summary.get(_FILES) == digest
        and snapshot.summary.get(_APPLICATION) == application
        for snapshot in reversed(table.snapshots())
    )
