"""Avro container files that are read and written in columns."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import polars as pl

from penstock.files.file_info import FileInfo
from penstock.files.file_system import FileSystem
from penstock.formats.avro.container_records import (
    PolarsType,
    merge_records,
    needs_records,
    read_records,
    write_records,
)
from penstock.formats.base.file_formats import FilePart
from penstock.formats.frames.reading import FrameFormat
from penstock.formats.frames.times_of_day import clocks, read_times


class AvroFrames(FrameFormat):
    """Avro container files."""

    title = "Avro"

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Give each file as one part."""
        return [(0, None)] if file.size else []

    def frames(self, part: FilePart, files: FileSystem, rows: int) -> Iterator[pl.DataFrame]:
        """Read the file, and give it in parts."""
        with files.open_input(part.path) as stream:
            data = stream.read()
        if needs_records(data):
            known = dict(zip(self.names, self.types, strict=True))
            yield from read_records(data, known, self.columns, rows)
            return
        frame = pl.read_avro(io.BytesIO(data), columns=self.columns)
        frame = frame.with_columns(read_times(frame, self.schema))
        for start in range(0, frame.height, rows):
            yield frame.slice(start, rows)


class AvroPart:
    """An Avro container file; it is written when it is whole."""

    def __init__(
        self, compression: Any, maps: Mapping[str, pl.DataType], stream: IO[bytes]
    ) -> None:
        self._compression = compression
        self._maps = maps
        self._stream = stream
        self._frames: list[pl.DataFrame] = []
        self.size = 0

    def add_elements(self, frame: pl.DataFrame) -> None:
        """Keep rows."""
        self._frames.append(frame)

    def finish(self) -> None:
        """Write the file."""
        whole = _as_avro(pl.concat(self._frames))
        if self._maps:
            write_records(whole, self._maps, self._compression, self._stream)
            return
        buffer = io.BytesIO()
        whole.write_avro(buffer, compression=self._compression)
        self._stream.write(buffer.getvalue())


def merge_avro(compression: Any, sources: Sequence[IO[bytes]], out: IO[bytes]) -> None:
    """Read Avro files, and write them as one."""
    files = [each.read() for each in sources]
    if needs_records(files[0]):
        merge_records(files, compression, out)
        return
    whole = pl.concat([pl.read_avro(io.BytesIO(each)) for each in files])
    buffer = io.BytesIO()
    whole.write_avro(buffer, compression=compression)
    out.write(buffer.getvalue())


def _as_avro(frame: pl.DataFrame) -> pl.DataFrame:
    """Return columns with the types that Avro has: no small numbers, moments without their zone, which is UTC."""
    plain = frame.with_columns(clocks(frame))
    return plain.cast({name: _avro_dtype(kind) for name, kind in plain.schema.items()})


def _avro_dtype(kind: PolarsType) -> PolarsType:
    match kind:
        case pl.Int8() | pl.Int16():
            return pl.Int32()
        case pl.Datetime():
            return pl.Datetime(kind.time_unit)
        case pl.List():
            return pl.List(_avro_dtype(kind.inner))
        case pl.Struct():
            return pl.Struct([pl.Field(each.name, _avro_dtype(each.dtype)) for each in kind.fields])
    return kind
