"""The columns that windows have: window_start, window_end, window_time, and processing time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.times import Millis
from penstock.runtime.columnar.windows import LocalTime


class WindowColumnBuilder:
    """Makes columns of the local starts and ends of windows. `zone`: of the time attribute, if it is a TIMESTAMP_LTZ."""

    def __init__(self, zone: str | None, properties: Sequence[str]) -> None:
        self._zoned = zone is not None
        self._local = LocalTime(zone)
        self._properties = tuple(properties)

    def make(
        self, starts: Millis, ends: Millis, first: int, now: int | None = None
    ) -> list[pl.Series]:
        """Return the columns, of which the first has this place."""
        return [
            self._series(each, starts, ends, now).alias(column(first + at))
            for at, each in enumerate(self._properties)
        ]

    def _series(self, name: str, starts: Millis, ends: Millis, now: int | None) -> pl.Series:
        if name == "start":
            return pl.Series(starts).cast(pl.Datetime("ms"))
        if name == "end":
            return pl.Series(ends).cast(pl.Datetime("ms"))
        if name == "proctime":
            return pl.Series(np.full(len(ends), now or 0, np.int64)).cast(pl.Datetime("ms", "UTC"))
        if not self._zoned:
            return pl.Series(ends - 1).cast(pl.Datetime("ms"))
        moments = {end: self._local.to_epoch(end - 1) for end in np.unique(ends).tolist()}
        times = [moments[end] for end in ends.tolist()]
        return pl.Series(times, dtype=pl.Int64).cast(pl.Datetime("ms", "UTC"))
