"""Rows that tasks put into files, for DataFrames that Spark makes of them after the checkpoint."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.base.sink import CheckpointContext, SinkWriter, WriterContext
from penstock.connectors.spark.records import Records
from penstock.files.file_system import resolve
from penstock.files.paths import join_path

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.files.arrow_streams import ArrowStreamFile

# A file is one partition of the DataFrame.
TARGET_FILE_SIZE: Final = 64 << 20
_ROWS_PER_BATCH: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished file that waits for its commit: some rows of one subtask, as an Arrow stream."""

    directory: str
    name: str
    job_id: str

    @property
    def path(self) -> str:
        """Its path or URI."""
        return join_path(self.directory, self.name)


class StagedFileWriter(SinkWriter):
    """Writes the records of a checkpoint to files of its own, which are not read before the commit.

    Files that were not handed over are deleted when the writer closes. What a killed process leaves goes with the directory.
    """

    def __init__(
        self,
        context: WriterContext,
        records: Records,
        directory: str,
        target_size: int = TARGET_FILE_SIZE,
    ) -> None:
        self._records = records
        self._directory = directory
        self._job_id = context.job_id
        self._subtask = context.subtask
        self._target_size = target_size
        self._prefix = ""
        self._count = 0
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._open: ArrowStreamFile | None = None
        self._names: list[str] = []  # of this checkpoint; the last one may be open

    def begin(self, checkpoint: CheckpointContext) -> None:
        """Start the files of the next checkpoint: their names contain the attempt."""
        attempt = hashlib.sha256(checkpoint.attempt.encode()).hexdigest()[:16]
        self._prefix = f"{checkpoint.checkpoint_id}-{self._subtask}-{attempt}"
        self._count = 0

    def write(self, values: Any, timestamps: list[int | None] | None, watermark: int) -> None:
        """Write records."""
        table = self._records.table(values)
        self._tables.append(table)
        self._rows += table.num_rows
        if self._rows >= _ROWS_PER_BATCH:
            self._flush()

    def prepare_commit(self) -> list[Any]:
        """Finish the files and return them as committables."""
        self._flush()
        self._finish()
        names, self._names = self._names, []
        return [StagedFile(self._directory, name, self._job_id) for name in names]

    def close(self) -> None:
        """Delete files that were not handed over."""
        stream, self._open = self._open, None
        names, self._names, self._tables, self._rows = self._names, [], [], 0
        if stream is not None:
            names = names[:-1]
            with contextlib.suppress(Exception):  # it is discarded
                stream.abandon()
        with contextlib.suppress(Exception):
            delete_files([StagedFile(self._directory, name, self._job_id) for name in names])

    def _flush(self) -> None:
        """Write what has come as one batch: a batch for each few records would be slow to read."""
        import pyarrow as pa

        tables, self._tables, self._rows = self._tables, [], 0
        if not tables:
            return
        if self._open is None:
            self._open = self._create()
        self._open.write(pa.concat_tables(tables).combine_chunks())
        if self._open.size >= self._target_size:
            self._finish()

    def _create(self) -> ArrowStreamFile:
        from penstock.files.arrow_streams import ArrowStreamFile

        self._count += 1
        name = f"{self._prefix}-{self._count}.arrow"
        stream = ArrowStreamFile(join_path(self._directory, name), self._records.schema)
        self._names.append(name)
        return stream

    def _finish(self) -> None:
        stream, self._open = self._open, None
        if stream is not None:
            stream.finish()


def missing_files(files: Sequence[StagedFile]) -> list[StagedFile]:
    """Return the files that are not there."""
    return [file for file in files if not _exists(file)]


def _exists(file: StagedFile) -> bool:
    system, path = resolve(file.path)
    return system.has_file(path)


def delete_files(files: Sequence[StagedFile]) -> None:
    """Delete files; missing ones are not an error."""
    for file in files:
        system, path = resolve(file.path)
        system.delete(path)


def sweep_directory(directory: str, kept: set[str]) -> None:
    """Delete all staged files of a directory but these."""
    system, path = resolve(directory)
    if not system.exists(path):
        return
    for each in system.walk(path):
        name = each.path.rpartition("/")[2]
        if name.endswith(".arrow") and name not in kept:
            system.delete(each.path)
