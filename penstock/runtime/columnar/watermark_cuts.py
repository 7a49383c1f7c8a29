"""Where watermarks belong between the rows of a batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.runtime.columnar.times import Millis


def watermark_cuts(watermarks: Millis, emitted: int) -> Iterator[tuple[int, int]]:
    """Return after how many rows the watermark rises, and to what. `watermarks` are those of the rows, `emitted` is the last one.

    >>> list(watermark_cuts(np.array([1, 5, 3, 5, 9]), 1))
    [(2, 5), (5, 9)]
    """
    highest = np.maximum.accumulate(np.maximum(watermarks, emitted))
    rises = np.flatnonzero(highest > np.concatenate(([emitted], highest[:-1])))
    return zip((rises + 1).tolist(), highest[rises].tolist(), strict=True)
