"""Which rows stay in memory where state is on disk: those whose keys were asked for last."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.columnar.joins.sides import Side
from penstock.columnar.store.groups import Numbers
from penstock.columnar.store.growing import Growing
from penstock.columnar.store.index import Slots

# So much is kept in memory by an operator: about this for columns, and as much again for finding rows.
RESIDENT_BYTES: Final = 64 << 20
_BYTES_PER_KEY: Final = 150
LOOK_EVERY: Final = 8  # batches


class Room:
    """Watches how much memory some sides take, and lets the state have rows when it is too much."""

    def __init__(self, backend: Any, slots: Slots, sides: tuple[Side, ...]) -> None:
        self._backend = backend
        self._slots = slots
        self._sides = sides
        self._touched = Growing(np.int64)  # when a slot was asked for
        self._batches = 0

    def touch(self, slots: Numbers) -> None:
        """Note that these keys were asked for."""
        if not self._backend.in_memory:
            self._touched.reach(len(self._slots))
            self._touched.values[slots] = self._batches

    def look(self) -> bool:
        """Make room if it is needed, to be called after each batch; return whether slots have other numbers now."""
        self._batches += 1
        if self._batches % LOOK_EVERY:
            return False
        for side in self._sides:
            side.compact()
        if self._backend.in_memory or self._size() <= RESIDENT_BYTES:
            return False
        self._spill()
        return True

    def _size(self) -> int:
        size = sum(side.store.size_bytes() for side in self._sides)
        return size + _BYTES_PER_KEY * len(self._slots)

    def _spill(self) -> None:
        count = len(self._slots)
        self._touched.reach(count)
        filled = np.zeros(count, np.bool_)
        for side in self._sides:
            filled |= side.index.filled(count)
        # Half of the keys that have rows stay: those that were asked for last.
        used = np.flatnonzero(filled)
        order = used[np.argsort(self._touched.values[used], kind="stable")]
        cold, kept = order[: len(order) // 2], np.sort(order[len(order) // 2 :])
        for side in self._sides:
            side.spill(cold)
        moved = np.full(count, -1, np.int64)
        moved[kept] = np.arange(len(kept))
        for side in self._sides:
            side.compact(moved)
        self._slots.keep(kept)
        self._touched.keep(kept)
        self._backend.relieve()
