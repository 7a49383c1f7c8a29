"""Columns by which rows are known, through projections and joins."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.sql.expr.nodes import InputRef, Rex
from penstock.sql.physical.nodes import Key, Keys, WindowAttributes

_MOST = 16  # maximum number of upsert keys per node


def smallest(keys: Iterable[Key]) -> Keys:
    """Return keys without those that contain another one.

    >>> sorted(map(sorted, smallest([frozenset({1}), frozenset({1, 2}), frozenset({3, 4})])))
    [[1], [3, 4]]
    """
    kept: list[Key] = []
    for key in sorted(set(keys), key=lambda each: (len(each), sorted(each))):
        if not any(other <= key for other in kept):
            kept.append(key)
    return frozenset(kept[:_MOST])


def places(projection: Sequence[Rex]) -> dict[int, list[int]]:
    """Return for each column of the input where a projection has it."""
    found: dict[int, list[int]] = {}
    for at, each in enumerate(projection):
        if isinstance(each, InputRef):
            found.setdefault(each.index, []).append(at)
    return found


def project_keys(keys: Keys, projection: Sequence[Rex]) -> Keys:
    """Return the keys whose columns a projection keeps, by their new positions."""
    where = places(projection)
    found: list[Key] = []
    for key in keys:
        if all(column in where for column in key):
            choices = itertools.product(*(where[column][:2] for column in sorted(key)))
            found += [frozenset(each) for each in itertools.islice(choices, _MOST)]
    return smallest(found)


def project_window(
    window: WindowAttributes | None, projection: Sequence[Rex]
) -> WindowAttributes | None:
    """Return where a projection has the window's columns; None if one of them is gone."""
    if window is None:
        return None
    where = places(projection)
    if window.start not in where or window.end not in where:
        return None
    return replace(window, start=where[window.start][0], end=where[window.end][0])


def shift(keys: Keys, by: int) -> Keys:
    """Return keys whose columns stand further right."""
    return frozenset(frozenset(column + by for column in key) for key in keys)


def containing(keys: Keys, columns: Iterable[int]) -> Keys:
    """Return the keys that contain all these columns: they survive an exchange by them, since all changes of a row take the same path."""
    needed = frozenset(columns)
    return frozenset(key for key in keys if needed <= key)
