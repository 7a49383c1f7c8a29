"""Which rows around a row a function sees: from where to where, for all rows at once.

Rows are in order: partition after partition, and within each as ORDER BY says. A frame is a stretch of them: `low` is its first row, `high` is behind its last.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from penstock.runtime.columnar.store.groups import Numbers


@dataclass(slots=True)
class OrderedFrames:
    """Rows in order. `starts`, `ends`: of the partition of each row; `peers`: behind the last row that is equal to it in ORDER BY."""

    fresh: Numbers
    begins: Numbers
    starts: Numbers
    ends: Numbers
    peer_starts: Numbers
    peers: Numbers
    low: Numbers
    high: Numbers


def frames_of(
    fresh: Numbers,
    begins: Numbers,
    *,
    rows: bool,
    preceding: int | None,
    following: int | None,
    times: Numbers | None = None,
) -> OrderedFrames:
    """Return the frames of rows. `fresh`: a partition begins; `begins`: a row differs from the one before in ORDER BY.

    `times` are the numbers that the bounds of RANGE are distances of, ascending within a partition.
    """
    starts, ends = _stretches(fresh)
    peer_starts, peers = _stretches(begins)
    places = np.arange(len(fresh))
    if rows:
        # A frame that begins behind its partition is empty.
        low = starts if preceding is None else np.clip(places - preceding, starts, ends)
        high = ends if following is None else np.minimum(ends, places + following + 1)
    else:
        low, high = starts, ends
        if preceding == 0:
            low = peer_starts
        elif preceding is not None:
            low = _reach(fresh, times, -preceding, "left")
        if following == 0:
            high = peers
        elif following is not None:
            high = _reach(fresh, times, following, "right")
    return OrderedFrames(
        fresh, begins, starts, ends, peer_starts, peers, low, np.maximum(high, low)
    )


def _stretches(begins: Numbers) -> tuple[Numbers, Numbers]:
    """Return for each place where its stretch starts, and where the next one does."""
    size = len(begins)
    if not size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    first = np.flatnonzero(begins)
    counts = np.diff(np.append(first, size))
    return np.repeat(first, counts), np.repeat(np.append(first[1:], size), counts)


def _reach(fresh: Numbers, times: Numbers | None, distance: int, side: str) -> Numbers:
    """Return for each row the first of its partition that is not further away than a distance; or behind the last that is not."""
    assert times is not None, "bounds of a RANGE frame need a numeric ORDER BY column"
    if not len(times):
        return np.zeros(0, np.int64)
    # Partitions are so far apart that no distance leads from one to another.
    past = times - times.min() + abs(distance)
    width = int(past.max()) + abs(distance) + 1
    if len(times) * width >= 1 << 62:
        return _reach_each(fresh, times, distance, side)
    places = (np.cumsum(fresh) - 1) * width + past
    found: Numbers = np.searchsorted(
        places, places + distance, "left" if side == "left" else "right"
    )
    return found


def _reach_each(fresh: Numbers, times: Numbers, distance: int, side: str) -> Numbers:
    """Do the same where numbers would be too large: partition after partition."""
    found = np.empty(len(times), np.int64)
    bounds = [*np.flatnonzero(fresh).tolist(), len(times)]
    for start, end in itertools.pairwise(bounds):
        part = times[start:end]
        found[start:end] = start + np.searchsorted(
            part, part + distance, "left" if side == "left" else "right"
        )
    return found


def window_minima(values: Numbers, low: Numbers, high: Numbers) -> Numbers:
    """Return the least of each stretch of values that is not empty; other results mean nothing.

    >>> window_minima(np.array([3, 1, 2]), np.array([0, 1, 2]), np.array([2, 3, 3])).tolist()
    [1, 1, 2]
    """
    sizes = np.maximum(high - low, 1)
    levels = np.floor(np.log2(sizes)).astype(np.int64)
    result = values[np.minimum(low, len(values) - 1)].copy()
    table = values
    for level in range(int(levels.max(initial=0)) + 1):
        if level:
            half = 1 << (level - 1)
            table = np.minimum(table[:-half], table[half:])
        chosen = np.flatnonzero((levels == level) & (high > low))
        if len(chosen):
            result[chosen] = np.minimum(table[low[chosen]], table[high[chosen] - (1 << level)])
    return result
