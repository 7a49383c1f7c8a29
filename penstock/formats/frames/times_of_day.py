"""Times of a day, which files of Flink have as milliseconds, and columns of Polars as nanoseconds."""

from __future__ import annotations

from typing import Final

import polars as pl

NANOS_OF_MILLI: Final = 1_000_000


def read_times(frame: pl.DataFrame, wanted: dict[str, pl.DataType]) -> list[pl.Expr]:
    """Return the times that files have in another form: times of a day as milliseconds, moments without their zone, which is UTC."""
    found = []
    for name, kind in wanted.items():
        there = frame.schema.get(name)
        if isinstance(kind, pl.Time) and there is not None and there.is_integer():
            found.append((pl.col(name).cast(pl.Int64) * NANOS_OF_MILLI).cast(pl.Time))
        elif (
            isinstance(kind, pl.Datetime)
            and isinstance(there, pl.Datetime)
            and kind.time_zone is not None
            and there.time_zone is None
        ):
            found.append(pl.col(name).dt.replace_time_zone("UTC"))
    return found


def clocks(frame: pl.DataFrame) -> list[pl.Expr]:
    """Return times of a day as their milliseconds, as Flink has them in files."""
    return [
        (pl.col(name).cast(pl.Int64) // NANOS_OF_MILLI).cast(pl.Int32)
        for name, kind in frame.schema.items()
        if isinstance(kind, pl.Time)
    ]
