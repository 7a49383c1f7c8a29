"""Files that are Arrow streams: written batch by batch in one place, read in another."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.files.file_system import resolve

# Little to compute, and a quarter of the bytes of typical columns.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class ArrowStreamFile:
    """An Arrow stream that is being written to a new file."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._files, self._path = resolve(path)
        self._stream = self._files.open_output(self._path)
        self._writer = pa.ipc.new_stream(self._stream, schema, options=_OPTIONS)
        self.rows = 0

    @property
    def size(self) -> int:
        """How many bytes were written."""
        return self._stream.tell()

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        self._writer.write_table(table)
        self.rows += table.num_rows

    def finish(self) -> None:
        """Make the file durable."""
        self._writer.close()
        self._files.finish(self._stream)

    def abandon(self) -> None:
        """Delete the file."""
        self._stream.close()
        self._files.delete(self._path)


def read_arrow_stream(path: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file."""
    files, at = resolve(path)
    with files.open_input(at) as stream, pa.ipc.open_stream(stream) as batches:
        yield from batches
