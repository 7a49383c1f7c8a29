"""Joins of two complete frames, used when windows end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.joins.pairs import JoinPairs, gather_from
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.key_index import KeyIndex, RowIndex


def join_frames(
    pairing: JoinPairs,
    kind: str,
    left: pl.DataFrame,
    right: pl.DataFrame,
    keys: tuple[Sequence[int], Sequence[int]],
    null_safe: Sequence[bool],
) -> list[pl.DataFrame]:
    """Return the join of two frames, in parts."""
    slots, index = KeyIndex(), RowIndex()
    theirs = np.flatnonzero(comparable(right, keys[1], null_safe))
    mine = np.flatnonzero(comparable(left, keys[0], null_safe))
    right_slots = slots.of_rows(gather_from(right)(theirs), keys[1])
    index.add(right_slots, theirs, len(slots))
    left_slots = slots.of_rows(gather_from(left)(mine), keys[0])
    at, partners = index.find(left_slots, len(slots))
    rows = mine[at]
    found: list[pl.DataFrame] = []
    left_met = np.zeros(left.height, np.bool_)
    right_met = np.zeros(right.height, np.bool_)
    pairs_wanted = kind not in {"SEMI", "ANTI"}
    for pairs, met, part in pairing.joined(
        gather_from(left), gather_from(right), rows, partners, own_is_left=True
    ):
        chosen = slice(None) if met is None else met
        left_met[rows[part][chosen]] = True
        right_met[partners[part][chosen]] = True
        if pairs_wanted:
            found.append(pairs)
    if kind in {"SEMI", "ANTI"}:
        found.append(left.filter(pl.Series(left_met if kind == "SEMI" else ~left_met)))
    if kind in {"LEFT", "FULL"}:
        found.append(pairing.padded(left.filter(pl.Series(~left_met)), is_left=True))
    if kind in {"RIGHT", "FULL"}:
        found.append(pairing.padded(right.filter(pl.Series(~right_met)), is_left=False))
    return [frame for frame in found if frame.height]


def comparable(frame: pl.DataFrame, keys: Sequence[int], null_safe: Sequence[bool]) -> Numbers:
    """Return which rows have a key that can equal another."""
    result = np.ones(frame.height, np.bool_)
    for key, safe in zip(keys, null_safe, strict=True):
        if not safe and frame[column(key)].has_nulls():
            result &= frame[column(key)].is_not_null().to_numpy()
    return result
