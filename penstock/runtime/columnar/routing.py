"""Hash routing of the rows of a batch by key, vectorized.

The arithmetic is exactly that of `penstock.graph.key_groups`: keyed state must be found by single-key lookups, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from penstock.graph.key_groups import stable_hash
from penstock.runtime.columnar.keys import values_of

Numbers = np.ndarray[Any, np.dtype[np.uint32]]

_PRIME: Final = (1 << 61) - 1  # modulus of Python's hash of integers
_NONE: Final = np.uint32(stable_hash(None))
_KEPT: Final = 200_000


class _Hashes(dict[Any, int]):
    """Value -> its stable hash, computed on first sight."""

    def __init__(self, hasher: Callable[[Any], int]) -> None:
        super().__init__()
        self._hasher = hasher

    def __missing__(self, value: object) -> int:
        found = self[value] = self._hasher(value)
        return found


_known = _Hashes(stable_hash)


def _mixed(numbers: Numbers) -> Numbers:
    """Spread the bits, as `key_groups` does."""
    numbers = numbers ^ (numbers >> np.uint32(16))
    numbers = numbers * np.uint32(0x85EBCA6B)
    numbers ^= numbers >> np.uint32(13)
    numbers *= np.uint32(0xC2B2AE35)
    return numbers ^ (numbers >> np.uint32(16))


def _hashes_of_integers(series: pl.Series) -> Numbers:
    nulls = series.is_null().to_numpy() if series.null_count() else None
    values = (series.fill_null(0) if nulls is not None else series).cast(pl.Int64).to_numpy()
    large = np.abs(values) >= _PRIME
    if large.any() or (values == np.iinfo(np.int64).min).any():
        values = np.array([hash(each) for each in values.tolist()], dtype=np.int64)
    else:
        values = np.where(values == -1, -2, values)
    folded = (values ^ (values >> 32)).astype(np.uint32)
    hashes = _mixed(folded)
    if nulls is not None:
        hashes[nulls] = _NONE
    return hashes


def _hashes_by_value(series: pl.Series) -> Numbers:
    if len(_known) > _KEPT:
        _known.clear()
    values = values_of(series)
    return np.fromiter(map(_known.__getitem__, values), dtype=np.uint32, count=len(values))


def stable_hashes(series: pl.Series) -> Numbers:
    """Return `stable_hash` of each value of a column, as keys have it.

    >>> stable_hashes(pl.Series([7, None])).tolist() == [stable_hash(7), stable_hash(None)]
    True
    """
    if series.dtype.is_temporal():
        series = series.to_physical()
    if series.dtype.is_integer() or series.dtype == pl.Boolean:
        return _hashes_of_integers(series)
    return _hashes_by_value(series)


def key_groups_of(columns: Sequence[pl.Series], count: int, max_parallelism: int) -> Numbers:
    """Return the key group of each row's key, which is made of these columns."""
    if len(columns) == 1:
        hashes = stable_hashes(columns[0])
    else:
        hashes = np.full(count, 0x345678, dtype=np.uint32)
        for each in columns:
            hashes = hashes * np.uint32(31) + stable_hashes(each)
        hashes = _mixed(hashes ^ np.uint32(len(columns)))
    return _mixed(hashes) % np.uint32(max_parallelism)


def targets_of(
    columns: Sequence[pl.Series], count: int, parallelism: int, max_parallelism: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the subtask that owns each row's key."""
    groups = key_groups_of(columns, count, max_parallelism).astype(np.int64)
    return groups * parallelism // max_parallelism
