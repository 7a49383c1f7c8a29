"""Files that are merged have the rows of all, and are of the same kind."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import Any

import fastavro
import polars as pl
import pyarrow.orc
import pyarrow.parquet
import pytest

from penstock.formats.avro.frames import AvroPart, merge_avro
from penstock.formats.columnar.parts import OrcPart, ParquetPart, merge_orc, merge_parquet

PARTS: dict[str, Any] = {"parquet": ParquetPart, "orc": OrcPart, "avro": AvroPart}
NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123456)
COLUMNS: dict[str, tuple[Any, Any]] = {
    "i8": (pl.Int8, -7),
    "i16": (pl.Int16, 300),
    "i32": (pl.Int32, 1 << 30),
    "i64": (pl.Int64, 1 << 60),
    "f32": (pl.Float32, 1.5),
    "f64": (pl.Float64, -0.1),
    "b": (pl.Boolean, True),
    "s": (pl.String, "ä,\n"),
    "y": (pl.Binary, b"\x00\xff"),
    "m": (pl.Decimal(10, 2), Decimal("12.34")),
    "d": (pl.Date, NOON.date()),
    "t": (pl.Time, dt.time(1, 2, 3)),
    "us": (pl.Datetime("us"), NOON),
    "ms": (pl.Datetime("ms"), NOON.replace(microsecond=123000)),
    "ltz": (pl.Datetime("us", "UTC"), NOON.replace(tzinfo=dt.UTC)),
    "a": (pl.List(pl.Int32), [1, 2]),
    "r": (pl.Struct({"x": pl.Int32, "y": pl.String}), {"x": 5, "y": "z"}),
}


def written(form: str, rows: int) -> bytes:
    schema = {name: kind for name, (kind, _) in COLUMNS.items()}
    values = {name: [value, None] * rows for name, (_, value) in COLUMNS.items()}
    stream = io.BytesIO()
    part = PARTS[form]("snappy", {}, stream)
    part.add_elements(pl.DataFrame(values, schema))
    part.add_elements(pl.DataFrame(values, schema))
    part.finish()
    return stream.getvalue()


def read(form: str, data: bytes) -> tuple[Any, pl.DataFrame]:
    """Return the schema that a file has, and its rows."""
    stream = io.BytesIO(data)
    if form == "parquet":
        return pyarrow.parquet.read_schema(io.BytesIO(data)), pl.read_parquet(stream)
    if form == "orc":
        found = pyarrow.orc.ORCFile(stream)
        return found.schema, pl.DataFrame(pl.from_arrow(found.read()))
    frame = pl.read_avro(stream)
    return frame.schema, frame


MERGES = {"parquet": merge_parquet, "orc": merge_orc, "avro": merge_avro}


@pytest.mark.parametrize("form", PARTS)
def test_merged_files_have_all_rows_in_their_order(form: str) -> None:
    files = [written(form, rows) for rows in (1, 3, 2)]
    out = io.BytesIO()
    MERGES[form]("snappy", [io.BytesIO(each) for each in files], out)
    schemas, frames = zip(*(read(form, each) for each in files), strict=True)
    schema, frame = read(form, out.getvalue())
    assert schema == schemas[0]
    assert frame.equals(pl.concat(frames))
    assert frame.height == 24


@pytest.mark.parametrize("form", PARTS)
def test_merged_files_have_maps(form: str) -> None:
    entries = pl.DataFrame({"m": [[{"key": "a", "value": 1}]]})
    files = []
    for _ in range(2):
        stream = io.BytesIO()
        part = PARTS[form]("snappy", {"m": pl.Map(pl.String(), pl.Int64())}, stream)
        part.add_elements(entries)
        part.finish()
        files.append(io.BytesIO(stream.getvalue()))
    out = io.BytesIO()
    MERGES[form]("snappy", files, out)
    out.seek(0)
    if form == "avro":
        assert list(fastavro.reader(out)) == [{"m": {"a": 1}}] * 2
    else:
        library = pyarrow.parquet if form == "parquet" else pyarrow.orc
        assert library.read_table(out)["m"].to_pylist() == [[("a", 1)]] * 2
