"""Changelogs in columns: the rows that are left after all changes, and the kinds of changes as users see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from penstock.graph.operator_specs.columnar.common import KIND, column
from penstock.sql import types as t

#: The kinds of changes, in the order of their numbers in the column of kinds
KINDS: Final = ("+I", "-U", "+U", "-D")
_NUMBER, _GROUP, _STEP, _SUM, _COUNT = "$n", "$group", "$step", "$sum", "$count"


def kind_numbers(frame: pl.DataFrame) -> pl.Series:
    """Return the numbers of the kinds of rows; a frame without kinds has inserts."""
    if KIND in frame.columns:
        return frame[KIND]
    return pl.repeat(0, frame.height, dtype=pl.Int8, eager=True)


def concat_changes(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return frames one after another; those without kinds have inserts."""
    if not any(KIND in frame.columns for frame in frames):
        return pl.concat(frames)
    insert = pl.lit(0, pl.Int8).alias(KIND)
    return pl.concat(
        [frame if KIND in frame.columns else frame.with_columns(insert) for frame in frames]
    )


def final_frame(frame: pl.DataFrame, types: Sequence[t.DataType]) -> pl.DataFrame:
    """Return the rows that are left after all changes, in the order in which they came.

    A deletion takes back the last row that is equal and was not taken back yet; one of a row that is not there does nothing.
    """
    if KIND not in frame.columns:
        return frame
    keys = [_comparable(column(at), kind) for at, kind in enumerate(types)]
    steps = frame.with_row_index(_NUMBER).with_columns(
        pl.col(_NUMBER).first().over(keys).alias(_GROUP),
        pl.when(pl.col(KIND).is_in([0, 2])).then(1).otherwise(-1).alias(_STEP),
    )
    sums = steps.with_columns(pl.col(_STEP).cum_sum().over(_GROUP).alias(_SUM))
    # How many equal rows there are after each change: the sum, without deletions of rows that were not there.
    below = pl.min_horizontal(pl.col(_SUM).cum_min().over(_GROUP), pl.lit(0))
    counts = sums.with_columns((pl.col(_SUM) - below).alias(_COUNT))
    # A row stays if there are never fewer from then on.
    least = pl.col(_COUNT).reverse().cum_min().reverse().over(_GROUP)
    left = counts.filter((pl.col(_STEP) == 1) & (least == pl.col(_COUNT)))
    return left.select(column(at) for at in range(len(types)))


def _comparable(name: str, kind: t.DataType) -> pl.Expr:
    """Return a column whose values are equal if the rows are: the entries of maps have no order."""
    if isinstance(kind, t.MapType | t.MultisetType):
        return pl.col(name).list.sort()
    return pl.col(name)
