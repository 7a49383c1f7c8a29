"""Part files of tables: frames become Parquet, ORC, CSV or JSON lines."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import IO, Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

TIMES: Final = "%Y-%m-%d %H:%M:%S%.3f"


class ParquetPart:
    """A Parquet file, compressed with Snappy."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._writer: Any = None
        self.size = 0  # known when the file is finished

    def add_elements(self, frame: pl.DataFrame) -> None:
        """Write rows."""
        table = plain_arrow(frame)
        if self._writer is None:
            self._writer = pyarrow.parquet.ParquetWriter(self._stream, table.schema)
        self._writer.write_table(table)

    def finish(self) -> None:
        """Write the end of the file."""
        self._writer.close()


class OrcPart:
    """An ORC file."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._writer: Any = pyarrow.orc.ORCWriter(stream)
        self.size = 0

    def add_elements(self, frame: pl.DataFrame) -> None:
        """Write rows."""
        self._writer.write(plain_arrow(frame))

    def finish(self) -> None:
        """Write the end of the file."""
        self._writer.close()


class AvroPart:
    """An Avro container file, compressed with Snappy; it is written when it is whole."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._frames: list[pl.DataFrame] = []
        self.size = 0

    def add_elements(self, frame: pl.DataFrame) -> None:
        """Keep rows."""
        self._frames.append(frame)

    def finish(self) -> None:
        """Write the file."""
        whole = pl.concat(self._frames)
        buffer = io.BytesIO()
        whole.write_avro(buffer, compression="snappy")
        self._stream.write(buffer.getvalue())


class TextPart:
    """Lines: `write` puts a frame into a stream."""

    def __init__(self, write: Callable[[pl.DataFrame, IO[bytes]], None], stream: IO[bytes]) -> None:
        self._write = write
        self._stream = stream
        self.size = 0

    def add_elements(self, frame: pl.DataFrame) -> None:
        """Write rows."""
        before = self._stream.tell()
        self._write(frame, self._stream)
        self.size += self._stream.tell() - before

    def finish(self) -> None:
        """Nothing is held back."""


def plain_arrow(frame: pl.DataFrame) -> pa.Table:
    """Return an Arrow table with the types that other programs read: no views, no large offsets."""
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    fields = [pa.field(each.name, _plain(each.type)) for each in table.schema]
    return table.cast(pa.schema(fields))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain(each.type)) for each in kind])
    return kind


def write_csv(frame: pl.DataFrame, stream: IO[bytes], options: dict[str, Any]) -> None:
    """Write lines as Flink does: without a header, times to the millisecond."""
    frame.write_csv(stream, include_header=False, datetime_format=TIMES, **options)


def write_json(frame: pl.DataFrame, stream: IO[bytes]) -> None:
    """Write one JSON object per line."""
    moments = [
        pl.col(name).dt.strftime(TIMES)
        for name, kind in frame.schema.items()
        if isinstance(kind, pl.Datetime)
    ]
    frame.with_columns(moments).write_ndjson(stream)
