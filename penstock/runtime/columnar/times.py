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
