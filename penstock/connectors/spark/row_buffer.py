"""Rows that wait in a task, in memory up to a limit and in a temporary file beyond."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    import pyarrow as pa

_IN_MEMORY: Final = 32 << 20


class RowBuffer:
    """Arrow tables of one schema, which are read once, in their order."""

    def __init__(self, schema: pa.Schema, limit: int = _IN_MEMORY) -> None:
        self._schema = schema
        self._limit = limit
        self._tables: list[pa.Table] = []
        self._size = 0
        self._file: IO[bytes] | None = None
        self._spilled: Any = None  # the writer of an Arrow stream to the file

    def add(self, table: pa.Table) -> None:
        """Add rows."""
        self._tables.append(table)
        self._size += table.nbytes
        if self._size > self._limit:
            self._spill()

    def _spill(self) -> None:
        import pyarrow as pa

        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="penstock-rows-")  # noqa: SIM115 - see close
            self._spilled = pa.ipc.new_stream(self._file, self._schema)
        for table in self._tables:
            self._spilled.write_table(table)
        self._tables, self._size = [], 0

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows."""
        import pyarrow as pa

        if self._file is not None:
            self._spilled.close()
            self._file.seek(0)
            for batch in pa.ipc.open_stream(self._file):
                yield pa.Table.from_batches([batch])
        yield from self._tables

    def close(self) -> None:
        """Drop the rows."""
        self._tables = []
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
