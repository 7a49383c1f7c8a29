"""Part files of tables: frames become Parquet, ORC, CSV or JSON lines."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import IO, Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from penstock.common.serialization import SerializationSchema
from penstock.common.types import RowKind, make_row
from penstock.connectors.filesystem.table.avro_records import PolarsType, write_records
from penstock.connectors.filesystem.table.maps import with_maps
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.values import values_of_series
from penstock.sql.types import DataType

NANOS_OF_MILLI: Final = 1_000_000


class ParquetPart:
    """A Parquet file. `maps` are the columns that have maps, as `map_columns` gives them."""

    def __init__(
        self, compression: str, maps: Mapping[str, pl.DataType], stream: IO[bytes]
    ) -> None:
        self._compression = compression
        self._maps = maps
        self._stream = stream
        self._writer: Any = None
        self.size = 0  # known when the file is finished

    def add_elements(self, frame: pl.DataFrame) -> None:
        """Write rows."""
        table = plain_arrow(with_maps(frame, self._maps))
        if self._writer is None:
            self._writer = pyarrow.parquet.ParquetWriter(
                self._stream, table.schema, compression=self._compression
            )
        self._writer.write_table(table)

    def finish(self) -> None:
        """Write the end of the file."""
        self._writer.close()


class OrcPart:
    """An ORC file."""

    def __init__(
        self, compression: str, maps: Mapping[str, pl.DataType], stream: IO[bytes]
    ) -> None:
        self._maps = maps
        self._writer: Any = pyarrow.orc.ORCWriter(stream, compression=compression)
        self.size = 0

    def add_elements(self, frame: pl.DataFrame) -> None:
        """Write rows."""
        written = with_maps(frame.with_columns(_clocks(frame)), self._maps)
        self._writer.write(plain_arrow(written))

    def finish(self) -> None:
        """Write the end of the file."""
        self._writer.close()


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
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain(each.type)) for each in kind])
    return kind


def _clocks(frame: pl.DataFrame) -> list[pl.Expr]:
    """Return times of a day as their milliseconds, as Flink has them in files."""
    return [
        (pl.col(name).cast(pl.Int64) // NANOS_OF_MILLI).cast(pl.Int32)
        for name, kind in frame.schema.items()
        if isinstance(kind, pl.Time)
    ]


def _as_avro(frame: pl.DataFrame) -> pl.DataFrame:
    """Return columns with the types that Avro has: no small numbers, moments without their zone, which is UTC."""
    plain = frame.with_columns(_clocks(frame))
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


def write_csv(frame: pl.DataFrame, stream: IO[bytes], options: dict[str, Any]) -> None:
    """Write lines as Flink does: without a header."""
    frame.with_columns(_times(frame)).write_csv(stream, include_header=False, **options)


def write_json(frame: pl.DataFrame, stream: IO[bytes]) -> None:
    """Write one JSON object per line."""
    frame.with_columns(_times(frame)).write_ndjson(stream)


def _times(frame: pl.DataFrame) -> list[pl.Expr]:
    """Return the columns of times as texts, with as many digits of the fraction as they need.

    >>> moments = pl.DataFrame({"at": [1_500, 20, 3_000, 904]}).cast(pl.Datetime("ms"))
    >>> [text[-6:] for text in moments.select(_times(moments))["at"]]
    ['0:01.5', ':00.02', ':00:03', '00.904']
    """
    found = []
    for name, kind in frame.schema.items():
        if isinstance(kind, pl.Datetime):
            zone = "" if kind.time_zone is None else "Z"
            found.append(_short(pl.col(name).dt.strftime(f"%Y-%m-%d %H:%M:%S%.f{zone}")))
        elif isinstance(kind, pl.Time):
            found.append(_short(pl.col(name).dt.strftime("%H:%M:%S%.f")))
    return found


def _short(texts: pl.Expr) -> pl.Expr:
    """Return times without zeros at the end of their fractions, which Polars gives three, six or nine digits."""
    return texts.str.replace(r"(\.[0-9]*[1-9])0+(Z?)$", "${1}${2}")


class RowLines:
    """Writes lines row by row, for types that cannot be written in columns: lists, maps and rows."""

    def __init__(self, types: Mapping[str, DataType], writer: SerializationSchema) -> None:
        self._types = dict(types)
        self._writer = writer

    def __call__(self, frame: pl.DataFrame, stream: IO[bytes]) -> None:
        """Write a line for each row."""
        names = tuple(self._types)
        columns = [values_of_series(frame[name], kind) for name, kind in self._types.items()]
        rows = [make_row(names, list(each), RowKind.INSERT) for each in zip(*columns, strict=True)]
        for line in self._writer.serialize_batch(rows):
            stream.write(line if line.endswith(b"\n") else line + b"\n")


def writes_rows(kind: DataType, form: str) -> bool:
    """Whether values of a type are written row by row in a format of lines."""
    dtype = dtype_of(kind)
    if dtype.is_nested() or isinstance(dtype, pl.Binary):
        return True
    return form == "json" and dtype.is_decimal()  # Polars would write texts
