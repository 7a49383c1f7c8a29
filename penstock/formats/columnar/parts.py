"""Parquet and ORC files that are written in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, Any

import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from penstock.formats.frames.maps import with_maps
from penstock.formats.frames.times_of_day import clocks


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
        written = with_maps(frame.with_columns(clocks(frame)), self._maps)
        self._writer.write(plain_arrow(written))

    def finish(self) -> None:
        """Write the end of the file."""
        self._writer.close()


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


def merge_parquet(compression: str, sources: Sequence[IO[bytes]], out: IO[bytes]) -> None:
    """Copy Parquet files, row group by row group."""
    files = [pyarrow.parquet.ParquetFile(each) for each in sources]
    schema = files[0].schema_arrow
    with pyarrow.parquet.ParquetWriter(out, schema, compression=compression) as writer:
        for file in files:
            for number in range(file.num_row_groups):
                writer.write_table(file.read_row_group(number))


def merge_orc(compression: str, sources: Sequence[IO[bytes]], out: IO[bytes]) -> None:
    """Copy ORC files, stripe by stripe."""
    writer = pyarrow.orc.ORCWriter(out, compression=compression)
    for source in sources:
        file = pyarrow.orc.ORCFile(source)
        for number in range(file.nstripes):
            writer.write(pa.Table.from_batches([file.read_stripe(number)]))
    writer.close()
