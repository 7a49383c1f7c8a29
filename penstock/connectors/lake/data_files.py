"""Data files of a table: written as Parquet in tasks, and handed over at the barrier."""

from __future__ import annotations

import contextlib
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

from penstock.connectors.base.sink import CheckpointContext, SinkWriter, WriterContext
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.formats.base.arrow_rows import ArrowRows
from penstock.formats.base.field_types import row_type

if TYPE_CHECKING:
    import pyarrow as pa


TARGET_FILE_SIZE: Final = 128 << 20
_ROWS_PER_GROUP: Final = 64 << 10
_MOST_OPEN: Final = 64  # files of different partitions at a time


@dataclass(frozen=True, slots=True)
class DataFile:
    """A finished file that is not yet visible to readers of the table.

    `path` is the path in the table's metadata. `partition` has the partition values, `statistics` those of Delta Lake.
    `application` is the sink that wrote it.
    """

    path: str
    size: int
    rows: int
    application: str
    partition: tuple[tuple[str, str | None], ...] = ()
    statistics: str = ""


class TableLayout(ABC):
    """Schema and location of a table's files; created in the task."""

    schema: pa.Schema  # of records
    file_schema: pa.Schema  # of files

    @abstractmethod
    def partition_keys(self, table: object) -> list[Hashable] | None:
        """Return the partition of each row, or None if the table is not partitioned."""

    @abstractmethod
    def path_of(self, partition: object, name: str) -> str:
        """Return the path of a partition's file."""

    @abstractmethod
    def partition_values(self, partition: object) -> tuple[tuple[str, str | None], ...]:
        """Return the partition's values for the table's metadata."""

    @abstractmethod
    def open_output(self, path: str) -> IO[bytes]:
        """Open a new file."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file that was not added to the table."""


class LakeWriter(SinkWriter):
    """Writes the records of a checkpoint to files, one or more for each partition.

    Files that were not handed over are deleted when the writer closes. A killed process leaves orphan files, which the
    table's own maintenance (VACUUM, orphan file removal) deletes.
    """

    def __init__(self, context: WriterContext, layout: TableLayout, target_size: int) -> None:
        self._layout = layout
        self._application = application_of(context)
        self._prefix = f"part-{context.job_id[:8]}-{context.operator_id[:8]}-{context.subtask}"
        self._rows_to_arrow = ArrowRows(row_type(layout.schema), layout.schema)
        self._target_size = target_size
        self._attempt = ""
        self._count = 0
        self._rows: list[Sequence[Any]] = []
        self._open: dict[Any, _OpenFile] = {}
        self._finished: list[DataFile] = []

    def begin(self, checkpoint: CheckpointContext) -> None:
        """Start the files of the next checkpoint: their names contain the attempt."""
        self._attempt = hashlib.sha256(checkpoint.attempt.encode()).hexdigest()[:16]
        self._count = 0

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        """Write records."""
        self._rows += self._rows_to_arrow.values(values)
        if len(self._rows) >= _ROWS_PER_GROUP:
            self._flush()

    def prepare_commit(self) -> list[Any]:
        """Finish all files and return them as committables."""
        self._flush()
        for partition in list(self._open):
            self._finish(partition)
        files, self._finished = self._finished, []
        return files

    def close(self) -> None:
        """Delete files that were not handed over."""
        written = [each.path for each in self._open.values()]
        for each in self._open.values():
            with contextlib.suppress(Exception):  # it is discarded
                each.abandon()
        for path in [*written, *(file.path for file in self._finished)]:
            with contextlib.suppress(Exception):
                self._layout.delete(path)
        self._open, self._finished, self._rows = {}, [], []

    def _flush(self) -> None:
        if not self._rows:
            return
        table = self._rows_to_arrow.table(self._rows)
        self._rows = []
        keys = self._layout.partition_keys(table)
        if keys is None:
            self._write(None, table)
            return
        places: dict[Hashable, list[int]] = {}
        for place, key in enumerate(keys):
            places.setdefault(key, []).append(place)
        for key, found in places.items():
            self._write(key, table.take(found))

    def _write(self, partition: Any, table: pa.Table) -> None:
        file = self._open.get(partition)
        if file is None:
            if len(self._open) >= _MOST_OPEN:
                self._finish(max(self._open, key=lambda each: self._open[each].size))
            self._count += 1
            name = f"{self._prefix}-{self._attempt}-{self._count}.parquet"
            path = self._layout.path_of(partition, name)
            stream = self._layout.open_output(path)
            file = self._open[partition] = _OpenFile(path, stream, self._layout.file_schema)
        file.write(table.select(self._layout.file_schema.names))
        if file.size >= self._target_size:
            self._finish(partition)

    def _finish(self, partition: Any) -> None:
        file = self._open.pop(partition)
        metadata, size = file.finish()
        self._finished.append(
            DataFile(
                file.path,
                size,
                metadata.num_rows,
                self._application,
                self._layout.partition_values(partition),
                json.dumps(statistics(metadata)),
            )
        )


class _OpenFile:
    """A Parquet file that is being written."""

    def __init__(self, path: str, stream: IO[bytes], schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self.path = path
        self._stream = stream
        self._metadata: list[Any] = []
        self._writer = pq.ParquetWriter(stream, schema, metadata_collector=self._metadata)

    @property
    def size(self) -> int:
        return int(self._stream.tell())

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def finish(self) -> tuple[Any, int]:
        """Write the footer; return it, and the size of the file."""
        self._writer.close()
        size = self.size
        self._stream.close()
        return self._metadata[0], size

    def abandon(self) -> None:
        self._writer.close()
        self._stream.close()


def statistics(metadata: Any) -> dict[str, Any]:
    """Return the statistics of a file in Delta Lake's form: numbers of rows and nulls, bounds of numbers and short strings."""
    nulls: dict[str, int] = {}
    bounds: dict[str, list[Any]] = {}
    unbounded: set[str] = set()
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            name, found = column.path_in_schema, column.statistics
            if "." in name or found is None:
                continue
            if found.has_null_count:
                nulls[name] = nulls.get(name, 0) + found.null_count
            if not found.has_min_max:
                if found.null_count != column.num_values:
                    unbounded.add(name)
            elif all(map(_is_plain, (found.min, found.max))):
                low, high = bounds.setdefault(name, [found.min, found.max])
                bounds[name] = [min(low, found.min), max(high, found.max)]
            else:
                unbounded.add(name)
    known = {name: each for name, each in bounds.items() if name not in unbounded}
    return {
        "numRecords": metadata.num_rows,
        "minValues": {name: low for name, (low, _) in known.items()},
        "maxValues": {name: high for name, (_, high) in known.items()},
        "nullCount": nulls,
    }


def _is_plain(value: object) -> bool:
    """Whether a bound can be stored exactly: long strings would have to be truncated, times rounded."""
    if isinstance(value, str):
        return len(value) <= 32
    return isinstance(value, int) and not isinstance(value, bool)


def application_of(context: WriterContext) -> str:
    """Return the application id with which the sink of a job commits."""
    return f"penstock-{context.job_id}-{context.operator_id}"


def digest_of(files: Iterable[DataFile]) -> str:
    """Return a digest that identifies the files of one attempt at a checkpoint."""
    names = "\n".join(sorted(file.path for file in files))
    return hashlib.sha256(names.encode()).hexdigest()


def check_target_size(target_file_size: object) -> int:
    """Return the target file size after checking it."""
    if not isinstance(target_file_size, int) or isinstance(target_file_size, bool):
        raise ArgumentTypeError(
            "target_file_size is not a number of bytes",
            detail=f"target_file_size={target_file_size!r}",
        )
    if target_file_size < 1:
        raise ArgumentError(
            "target_file_size must be positive", detail=f"target_file_size={target_file_size}"
        )
    return target_file_size
