"""Keys that stand for whole key groups."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.routing import key_groups_of

Numbers = np.ndarray[Any, np.dtype[Any]]


def key_groups(frame: pl.DataFrame, columns: Sequence[int], max_parallelism: int) -> Numbers:
    """Return the key group of each row.

    >>> key_groups(pl.DataFrame({"c0": [1, 2]}), (0,), 128).tolist()
    [40, 34]
    """
    series = [frame[column(index)] for index in columns]
    return key_groups_of(series, frame.height, max_parallelism).astype(np.int64)


@functools.lru_cache(maxsize=8)
def group_keys(max_parallelism: int) -> tuple[int, ...]:
    """Return a key of each key group: state that belongs to a whole group is kept under it, and moves with it."""
    found: dict[int, int] = {}
    start, size = 0, 4 * max_parallelism
    while len(found) < max_parallelism:
        frame = pl.DataFrame({"c0": np.arange(start, start + size)})
        groups, first = np.unique(key_groups(frame, (0,), max_parallelism), return_index=True)
        for group, at in zip(groups.tolist(), first.tolist(), strict=True):
            found.setdefault(group, start + at)
        start += size
    return tuple(found[group] for group in range(max_parallelism))
