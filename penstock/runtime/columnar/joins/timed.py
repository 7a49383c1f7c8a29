"""A side of an interval join: rows that are found by key, until their time is over."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.growing_array import GrowingArray
from penstock.runtime.columnar.store.key_index import KeyIndex, RowIndex
from penstock.runtime.columnar.store.rows import RowStore, only
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK
from penstock.runtime.state.keyed import KeyedStateBackend

_TIME: Final = "$time"
_MET: Final = "$met"  # whether a row has had a partner
_MOST_SLOTS: Final = 65_536


class TimedSide:
    """Rows with their times (milliseconds). A row is over when the clock has reached its time + `keep`."""

    def __init__(
        self,
        name: str,
        backend: KeyedStateBackend,
        slots: KeyIndex,
        schema: dict[str, pl.DataType],
        keys: tuple[int, ...],
        keep: int,
        max_parallelism: int,
    ) -> None:
        self.schema = schema
        self.keys = keys
        self.keep = keep
        self._slots = slots
        self.store = RowStore(
            backend.table(name, namespaced=True),
            {**schema, _TIME: pl.Int64(), _MET: pl.Boolean()},
            keys,
            max_parallelism,
        )
        self.times = GrowingArray(np.int64)
        self.met = GrowingArray(np.bool_)
        self.slot_of = GrowingArray(np.int64)
        self._index = RowIndex()
        self._first: int | None = None
        if len(self.store):
            frame = self.store.frame
            self._note(
                slots.of_rows(frame, keys),
                np.arange(frame.height),
                frame[_TIME].to_numpy(),
                frame[_MET].to_numpy(),
            )

    @property
    def first(self) -> int | None:
        """The time of the first row that is there, or was lately; None if there is none."""
        return self._first

    def _note(self, slots: Numbers, rows: Numbers, times: Numbers, met: Numbers) -> None:
        self._index.add(slots, rows, len(self._slots))
        self.slot_of.extend(slots)
        self.times.extend(times)
        self.met.extend(met)
        if len(times):
            first = int(times.min())
            self._first = first if self._first is None else min(self._first, first)

    def add(self, frame: pl.DataFrame, slots: Numbers, times: Numbers, met: Numbers) -> None:
        """Keep rows."""
        if not frame.height:
            return
        rows = self.store.append(
            frame.with_columns(pl.Series(_TIME, times, pl.Int64), pl.Series(_MET, met, pl.Boolean))
        )
        self._note(slots, rows, times, met)

    def find(self, slots: Numbers) -> tuple[Numbers, Numbers]:
        """Return the pairs of a position in `slots` and a row."""
        return self._index.find(slots, len(self._slots))

    def portions(self, slots: Numbers) -> int:
        """Return in how many portions to ask for these slots."""
        return self._index.portions(slots, len(self._slots))

    def gather(self, rows: Numbers) -> pl.DataFrame:
        """Return rows as they came."""
        return only(self.store.gather(rows), self.schema)

    def note_met(self, rows: Numbers) -> None:
        """Record that rows have had a partner, also in state."""
        new = np.unique(rows[~self.met.values[rows]])
        if not len(new):
            return
        frame, slots, times = self.gather(new), self.slot_of.values[new], self.times.values[new]
        self.remove(new)
        self.add(frame, slots, times, np.ones(len(new), np.bool_))

    def remove(self, rows: Numbers) -> None:
        """Forget rows."""
        if len(rows):
            self._index.remove(self.slot_of.values[rows], rows)
            self.store.remove(rows)

    def limit(self, now: int) -> int:
        """Return the time of the last rows that are over."""
        return min(max(now - self.keep, MIN_WATERMARK), MAX_WATERMARK)

    def over(self, now: int) -> Numbers:
        """Return the rows whose time is over."""
        if self._first is None or self._first + self.keep > now:
            return np.empty(0, np.int64)
        return np.flatnonzero(self.store.alive & (self.times.values <= self.limit(now)))

    def forget_over(self, rows: Numbers) -> None:
        """Forget rows that are over, and all before them."""
        self.remove(rows)
        left = self.times.values[self.store.alive]
        self._first = int(left.min()) if len(left) else None
        moved = self.store.compact(at_once=not len(left))
        if moved is not None:
            kept = np.flatnonzero(moved >= 0)
            for each in (self.times, self.met, self.slot_of):
                each.keep(kept)
            self._index.renumber(moved)

    def filled(self) -> Numbers:
        """Return for each slot whether it has rows."""
        return self._index.filled(len(self._slots))

    def renumber(self, moved: Numbers) -> None:
        """Take the new numbers of slots."""
        self._index.renumber(np.arange(len(self.store)), moved)
        # Removed rows may belong to a removed slot; they are never looked up.
        self.slot_of.values[:] = moved[self.slot_of.values]


def forget_slots(slots: KeyIndex, sides: tuple[TimedSide, TimedSide]) -> None:
    """Forget keys that have no rows, if there are many: keys come and go, as rows do."""
    if len(slots) < _MOST_SLOTS:
        return
    filled = sides[0].filled() | sides[1].filled()
    kept = np.flatnonzero(filled)
    if 2 * len(kept) > len(slots):
        return
    moved = np.full(len(slots), -1, np.int64)
    moved[kept] = np.arange(len(kept))
    for side in sides:
        side.renumber(moved)
    slots.keep(kept)
