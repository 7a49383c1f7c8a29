"""Time attributes: columns of times as epoch milliseconds, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

Millis = np.ndarray[Any, np.dtype[np.int64]]

_PER_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}


def millis(series: pl.Series) -> pl.Series:
    """Return a column of times as Int64 epoch milliseconds; what is finer is cut off towards the past.

    >>> millis(pl.Series([1_500], dtype=pl.Datetime("us"))).to_list()
    [1]
    """
    dtype = series.dtype
    if not isinstance(dtype, pl.Datetime):
        return series.cast(pl.Int64)
    numbers = series.to_physical()
    parts = _PER_MILLI[dtype.time_unit]
    return numbers if parts == 1 else numbers // parts


def millis_array(series: pl.Series) -> Millis:
    """Return a column of times without NULLs as an array of epoch milliseconds."""
    return millis(series).to_numpy()


def local_to_epoch(series: pl.Series, zone: str) -> Millis:
    """Return a column of local times without NULLs as epoch milliseconds.

    Of two instants with the same local time it is the later one, so that nothing that waits for it comes too early; a local time that is left out when
    clocks are put forward is the instant an hour later.

    >>> local_to_epoch(pl.Series([0], dtype=pl.Datetime("ms")), "Europe/Berlin").tolist()
    [-3600000]
    """
    if zone == "UTC":
        return millis_array(series)
    local = series.cast(pl.Datetime("ms"))
    placed = local.dt.replace_time_zone(zone, ambiguous="latest", non_existent="null")
    if placed.has_nulls():
        later = local.dt.offset_by("1h").dt.replace_time_zone(
            zone, ambiguous="latest", non_existent="null"
        )
        placed = later.zip_with(placed.is_null(), placed)
    return placed.to_physical().to_numpy()
