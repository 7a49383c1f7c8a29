"""Arrow files: rows that one task writes once, and that others read from any row on."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.errors import RecordError
from penstock.files.file_system import resolve

# A batch of columns is worth its fixed cost from some ten thousand rows on; Spark hands over 10 000 at most.
ROWS_PER_BATCH: Final = 64 * 1024
_BYTES_PER_BATCH: Final = 32 << 20
_COMPRESSION: Final = "lz4"


@dataclass(frozen=True, slots=True)
class ArrowFile:
    """A file of rows in batches: `ends[i]` is the number of rows up to and including batch i."""

    path: str
    ends: tuple[int, ...]
    size: int  # bytes

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.ends[-1]


def write_arrow_file(path: str, batches: Iterable[pa.RecordBatch]) -> ArrowFile | None:
    """Write rows to a file that survives a crash of the machine; without rows, write nothing and return None."""
    files, at = resolve(path)
    parts = _joined(batch for batch in batches if batch.num_rows)
    first = next(parts, None)
    if first is None:
        return None
    ends: list[int] = []
    stream = files.open_output(at)
    options = pa.ipc.IpcWriteOptions(compression=_COMPRESSION)
    with pa.ipc.new_file(stream, first.schema, options=options) as writer:
        part: pa.RecordBatch | None = first
        while part is not None:
            writer.write_batch(part)
            ends.append(part.num_rows + (ends[-1] if ends else 0))
            part = next(parts, None)
    size = stream.tell()
    files.finish(stream)
    return ArrowFile(path, tuple(ends), size)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROWS_PER_BATCH or size >= _BYTES_PER_BATCH:
            yield pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)


def read_arrow_file(
    file: ArrowFile, position: int, rows: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the rows of a file from a position on, at most so many at once, with the position after them."""
    if position >= file.rows:
        return
    files, at = resolve(file.path)
    with contextlib.ExitStack() as opened:
        try:
            stream = opened.enter_context(files.open_input(at))
            reader = opened.enter_context(pa.ipc.open_file(stream))
        except FileNotFoundError:
            raise missing_file(file) from None
        for index in range(bisect.bisect_right(file.ends, position), len(file.ends)):
            begin = file.ends[index - 1] if index else 0
            batch = reader.get_batch(index)
            while position < file.ends[index]:
                part = batch.slice(position - begin, rows)
                position += part.num_rows
                yield part, position


def missing_file(file: ArrowFile) -> RecordError:
    """Return the error for a file that was deleted."""
    return RecordError(
        "rows that were read from Spark no longer exist",
        detail=f"file: {file.path}",
        hint="they are kept in the job's checkpoint directory until the job has finished: start the job without a checkpoint",
    )
