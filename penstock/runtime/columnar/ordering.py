"""ORDER BY within groups of rows: their order, and the numbers that ranking functions give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import SortKey, column
from penstock.runtime.columnar.store.groups import Numbers

_GROUP: Final = "$group"


class Ordering:
    """Some columns to order by. Rows that are equal in them stay in the order in which they came."""

    def __init__(self, order: Sequence[SortKey]) -> None:
        self.order = tuple(order)
        self.columns = list(dict.fromkeys(column(key.index) for key in order))
        self._by = [_GROUP, *(column(key.index) for key in order)]
        self._descending = [False, *(not key.ascending for key in order)]
        self._nulls_last = [False, *(not key.nulls_first for key in order)]

    def sorted(self, frame: pl.DataFrame, groups: Numbers) -> Numbers:
        """Return the positions of rows, group after group, each in order."""
        if not self.order:
            return np.argsort(groups, kind="stable")
        chosen = frame.select(self.columns).with_columns(pl.Series(_GROUP, groups))
        found = chosen.select(
            pl.arg_sort_by(
                self._by,
                descending=self._descending,
                nulls_last=self._nulls_last,
                maintain_order=True,
            )
        )
        return found.to_series().to_numpy().astype(np.int64)

    def begins(self, frame: pl.DataFrame, positions: Numbers, fresh: Numbers) -> Numbers:
        """Return for each row in order whether it differs from the one before; `fresh`: whether a group begins with it."""
        begins = fresh.copy()
        chosen = frame.select(self.columns)[pl.Series(positions, dtype=pl.UInt32)]
        for name in self.columns:
            values = chosen[name]
            begins |= values.ne_missing(values.shift(1)).to_numpy()
        return begins


def fresh_groups(ordered: Numbers) -> Numbers:
    """Return for each of some ordered numbers whether it differs from the one before."""
    if not len(ordered):
        return np.zeros(0, np.bool_)
    return np.concatenate(([True], ordered[1:] != ordered[:-1]))


def row_numbers(fresh: Numbers) -> Numbers:
    """Return 1, 2, 3 ... for the rows of each group.

    >>> row_numbers(np.array([True, False, True])).tolist()
    [1, 2, 1]
    """
    places = np.arange(len(fresh))
    return places - np.maximum.accumulate(np.where(fresh, places, 0)) + 1


def ranks(fresh: Numbers, begins: Numbers) -> Numbers:
    """Return RANK(): rows that are equal have the number of the first of them.

    >>> ranks(np.array([True, False, False]), np.array([True, False, True])).tolist()
    [1, 1, 3]
    """
    numbers = row_numbers(fresh)
    places = np.maximum.accumulate(np.where(begins, np.arange(len(fresh)), 0))
    return numbers[places] if len(numbers) else numbers


def dense_ranks(fresh: Numbers, begins: Numbers) -> Numbers:
    """Return DENSE_RANK(): the number of different values up to a row.

    >>> dense_ranks(np.array([True, False, False]), np.array([True, False, True])).tolist()
    [1, 1, 2]
    """
    counted = np.cumsum(begins)
    before = np.maximum.accumulate(np.where(fresh, counted, 0))
    return counted - before + 1
