"""ColumnBatch: a batch of rows of a table, as columns, passed between operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import KIND, column
from penstock.runtime.columnar.arrow_streams import decode_frame, encode_frame
from penstock.runtime.columnar.changelogs import concat_changes
from penstock.runtime.columnar.keys import ColumnsKey, keys_of
from penstock.runtime.columnar.routing import targets_of
from penstock.runtime.network.buffers import register_kind
from penstock.runtime.records import Batch, register_maker
from penstock.runtime.user_code import call_each


class ColumnBatch(Batch):
    """Rows as a polars.DataFrame with the columns `c0`, `c1`, ..., and `$kind` if not all of them are inserts.

    Frames are never changed in place, so batches share them. Appended parts are concatenated only when `frame` is read.
    """

    __slots__ = ("_length", "_parts", "keys", "timestamps")

    TAG = 0x43
    LEAST_PORTION = 4_096
    # A buffer takes 0.2 ms to write and to read, however few rows it has, and what an aggregation costs by the batch is more: Nexmark's q16 took 5.9 s of a processor for a million events
    # with buffers and frames of a quarter of the size, and takes 3.4 s.
    BUFFER_FACTOR = 64

    def __init__(
        self,
        frame: pl.DataFrame,
        timestamps: list[int | None] | None = None,
        keys: list[Any] | None = None,
    ) -> None:
        self._parts = [frame]
        self._length = frame.height
        self.timestamps = timestamps
        self.keys = keys

    @property
    def frame(self) -> pl.DataFrame:
        """All columns."""
        if len(self._parts) > 1:
            self._parts = [concat_changes(self._parts)]
        return self._parts[0]

    @property
    def kinds(self) -> np.ndarray[Any, np.dtype[np.int8]] | None:
        """The row kinds; None if all rows are inserts."""
        frame = self.frame
        return frame[KIND].to_numpy() if KIND in frame.columns else None

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"ColumnBatch({self.frame!r})"

    def extract(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return the keys of columns; any other function is called with each row as a tuple."""
        if isinstance(function, ColumnsKey):
            return keys_of(self.frame, function.columns)
        return call_each(function, self.frame.rows())

    def routes_of(
        self, selector: Any, parallelism: int, max_parallelism: int
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the subtask that owns each row's key, where keys are columns; any other selector is called with rows."""
        if isinstance(selector, ColumnsKey):
            columns = [self.frame[column(index)] for index in selector.columns]
        else:
            columns = [pl.Series(self.extract(selector), dtype=pl.Object)]
        return targets_of(columns, len(self), parallelism, max_parallelism)

    def with_keys(self, keys: list[Any] | None) -> ColumnBatch:
        """Share the columns."""
        return ColumnBatch(self.frame, self.timestamps, keys)

    def scatter(self, targets: Sequence[int], pending: dict[int, ColumnBatch]) -> Iterable[int]:
        """Filter by target."""
        numbers = np.asarray(targets)
        chosen = [int(each) for each in np.flatnonzero(np.bincount(numbers))]
        for target in chosen:
            mask = numbers == target
            part = ColumnBatch(
                self.frame if len(chosen) == 1 else self.frame.filter(pl.Series(mask)),
                _chosen(self.timestamps, mask),
                _chosen(self.keys, mask),
            )
            there = pending.get(target)
            if there is None:
                pending[target] = part
            else:
                there.extend(part)
        return chosen

    def slice(self, start: int, stop: int | None = None, step: int = 1) -> ColumnBatch:
        """Slice the columns."""
        part = slice(start, stop, step)
        begin, end, stride = part.indices(self._length)
        frame = self.frame.slice(begin, max(end - begin, 0))
        return ColumnBatch(
            frame if stride == 1 else frame.gather_every(stride),
            None if self.timestamps is None else self.timestamps[part],
            None if self.keys is None else self.keys[part],
        )

    def copy(self) -> ColumnBatch:
        """Share the columns: only the list of parts grows."""
        return ColumnBatch(
            self.frame,
            None if self.timestamps is None else list(self.timestamps),
            None if self.keys is None else list(self.keys),
        )

    def extend(self, other: ColumnBatch) -> int:
        """Remember the other's columns."""
        if self.timestamps is not None or other.timestamps is not None:
            mine = self.timestamps or [None] * self._length
            self.timestamps = [*mine, *(other.timestamps or [None] * len(other))]
        if self.keys is not None and other.keys is not None:
            self.keys += other.keys
        self._parts.append(other.frame)
        self._length += len(other)
        return self._length

    def isolated(self) -> ColumnBatch:
        """Share the columns: they are never changed in place."""
        return ColumnBatch(self.frame, self.timestamps)

    def apply_types(self, apply: Callable[[list[Any]], list[Any]]) -> None:
        """Do nothing: columns have their types."""

    def encode(self) -> bytes:
        """Write an Arrow stream after the tag. Keys are not sent: receivers extract them from the columns."""
        return encode_frame(self.frame, self.TAG)

    @classmethod
    def decode(cls, payload: bytes) -> ColumnBatch:
        """Read the Arrow stream."""
        return ColumnBatch(decode_frame(payload))


def batch_of_columns(
    frame: pl.DataFrame, timestamps: list[int | None] | None = None
) -> ColumnBatch:
    """Return a frame with named columns, as read by a source, as a batch with positional columns."""
    names = [name for name in frame.columns if name != KIND]
    wanted = [column(index) for index in range(len(names))]
    if names != wanted or frame.columns[: len(names)] != names:
        kinds = [] if len(names) == len(frame.columns) else [frame[KIND]]
        frame = pl.DataFrame(
            [frame[name].alias(new) for name, new in zip(names, wanted, strict=True)] + kinds
        )
    return ColumnBatch(frame, timestamps)


def _chosen(values: list[Any] | None, mask: np.ndarray[Any, Any]) -> list[Any] | None:
    return None if values is None else [values[at] for at in np.flatnonzero(mask)]


register_kind(ColumnBatch)
register_maker(pl.DataFrame, batch_of_columns)
