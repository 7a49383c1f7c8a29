"""Which rows are too late for any session.

A row opens a session of its own, which merges with those that it touches. It is late if the result has ended already: if its own session has, and no session
touches it at the moment when it comes. So rows count in the order in which they come, also within a batch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.runtime.columnar.times import Millis

Interval = tuple[int, int]  # from the first row to the end, a gap after the last


def late_rows(
    keys: Sequence[Any],
    times: Millis,
    gap: int,
    sessions: dict[Any, list[Interval]],
    is_over: np.ndarray[Any, np.dtype[np.bool_]],
) -> list[int]:
    """Return the positions of rows that are late. `sessions` are those that have not ended, of keys with a row whose own session is over (`is_over`).

    >>> late_rows("aaa", np.array([1, 6, 2]), 5, {"a": []}, np.array([True, False, True]))
    [0]
    """
    open_sessions = {key: sorted(each) for key, each in sessions.items()}
    late = []
    for position, (key, time, over) in enumerate(
        zip(keys, times.tolist(), is_over.tolist(), strict=True)
    ):
        mine = open_sessions.get(key)
        if mine is None:
            continue
        # They do not touch each other, so that both starts and ends ascend.
        first = bisect_left(mine, time, key=lambda each: each[1])
        last = first
        start, end = time, time + gap
        while last < len(mine) and mine[last][0] <= time + gap:
            start, end = min(start, mine[last][0]), max(end, mine[last][1])
            last += 1
        if over and first == last:
            late.append(position)
        else:
            mine[first:last] = [(start, end)]
    return late
