"""Small files of a checkpoint become one: rows in the same form, in the order of the files."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import IO, Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from penstock.connectors.filesystem.table.avro_records import merge_records, needs_records


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


# By format, given how files are compressed. Of other formats, which are lines, files are put together one after another.
MERGES: Final[dict[str, Callable[[Any, Sequence[IO[bytes]], IO[bytes]], None]]] = {
    "parquet": merge_parquet,
    "orc": merge_orc,
    "avro": merge_avro,
}
