"""Which rows of a batch are late, for operators that order rows by time."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from penstock.runtime.columnar.times import Millis
from penstock.runtime.operators.lateness import LateRecords

Flags = np.ndarray[Any, np.dtype[np.bool_]]


def timely_rows(times: Millis, watermark: int) -> Flags:
    """Return which rows are not late: those whose time is to come, as `earliest_timely` has it for records.

    >>> timely_rows(np.array([8, 9, 10]), 9).tolist()
    [False, False, True]
    """
    timely: Flags = times > watermark
    return timely


def without_late(
    frame: pl.DataFrame, times: Millis, timely: Flags, late: LateRecords, watermark: int
) -> tuple[pl.DataFrame, Millis]:
    """Return the timely rows and their times; the others are counted as late."""
    if timely.all():
        return frame, times
    late.drop(times[~timely].tolist(), watermark)
    return frame.filter(pl.Series(timely)), times[timely]
