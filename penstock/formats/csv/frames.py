"""CSV files that are read and written in columns."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import IO, Any

import polars as pl

from penstock.common.serialization import DeserializationSchema
from penstock.formats.frames.line_parts import short_times
from penstock.formats.frames.reading import LineFrames, as_read
from penstock.sql.types import DataType


class CsvFrames(LineFrames):
    """CSV as Flink reads it: columns by position, without a header.

    `options` are those of Polars: separator, quote_char, null_values, comment_prefix.
    """

    def __init__(
        self,
        names: Sequence[str],
        types: Sequence[DataType],
        rows: DeserializationSchema,
        *,
        careful: bool = False,
        options: dict[str, Any],
    ) -> None:
        super().__init__(names, types, rows, careful=careful)
        self.options = options

    def parse(self, data: bytes) -> pl.DataFrame:
        """Read the columns that are wanted."""
        return pl.read_csv(
            io.BytesIO(data),
            has_header=False,
            schema={name: as_read(kind) for name, kind in self.known.items()},
            columns=[self.names.index(name) for name in self.columns],
            truncate_ragged_lines=False,
            empty_string_is_null=False,
            **self.options,
        )


def write_csv(frame: pl.DataFrame, stream: IO[bytes], options: dict[str, Any]) -> None:
    """Write lines as Flink does: without a header."""
    frame.with_columns(short_times(frame)).write_csv(stream, include_header=False, **options)
