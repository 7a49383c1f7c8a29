"""Files of lines that are written from frames: in columns, or row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import IO

import polars as pl

from penstock.common.serialization import SerializationSchema
from penstock.common.types import RowKind, make_row
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.values import values_of_series
from penstock.sql.types import DataType


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


def short_times(frame: pl.DataFrame) -> list[pl.Expr]:
    """Return the columns of times as texts, with as many digits of the fraction as they need.

    >>> moments = pl.DataFrame({"at": [1_500, 20, 3_000, 904]}).cast(pl.Datetime("ms"))
    >>> [text[-6:] for text in moments.select(short_times(moments))["at"]]
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
