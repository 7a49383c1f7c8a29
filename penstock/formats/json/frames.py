"""Files of JSON lines that are read and written in columns."""

from __future__ import annotations

import io
from typing import IO, Any

import polars as pl

from penstock.formats.base.field_types import field_type
from penstock.formats.frames.line_parts import short_times
from penstock.formats.frames.reading import LineFrames, as_read
from penstock.formats.json.fields import LOOKED_AT, FieldNameCheck
from penstock.sql.types import RowField, RowType


class JsonFrames(LineFrames):
    """One JSON object per line; a missing field is NULL, an unknown field is ignored."""

    _fields: FieldNameCheck | None = None

    def use_metrics(self, group: object) -> None:
        """Look at the names of fields."""
        row = RowType([RowField(name, kind) for name, kind in self.types.items()])
        self._fields = FieldNameCheck(field_type(row), group)

    def _frame(self, data: bytes, path: str, start: int) -> pl.DataFrame:
        if self._fields is not None and not self._fields.done:
            self._fields.look(data.split(b"\n", LOOKED_AT)[:LOOKED_AT])
        return super()._frame(data, path, start)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fields": None}

    def parse(self, data: bytes) -> pl.DataFrame:
        """Read the columns that are wanted."""
        schema = {name: _as_json(self.known[name]) for name in self.columns}
        return pl.read_ndjson(io.BytesIO(data), schema=schema)


def write_json(frame: pl.DataFrame, stream: IO[bytes]) -> None:
    """Write one JSON object per line."""
    frame.with_columns(short_times(frame)).write_ndjson(stream)


def _as_json(kind: pl.DataType) -> pl.DataType:
    """Return how a field is read: Polars reads no small numbers from JSON."""
    if isinstance(kind, pl.Int8 | pl.Int16):
        return pl.Int32()
    return pl.Float64() if isinstance(kind, pl.Float32) else as_read(kind)
