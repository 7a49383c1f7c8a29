"""Memory bound of joins with state on disk: rows whose keys were used last stay in memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.runtime.columnar.joins.sides import JoinSide
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.growing_array import GrowingArray
from penstock.runtime.columnar.store.key_index import KeyIndex

# Memory per operator: about this much for columns, and the same again for indexes.
RESIDENT_BYTES: Final = 64 << 20
_BYTES_PER_KEY: Final = 150
LOOK_EVERY: Final = 8  # batches


class JoinMemory:
    """Tracks the memory of the sides of a join, and spills rows to state when it exceeds the bound."""

    def __init__(self, backend: Any, slots: KeyIndex, sides: tuple[JoinSide, ...]) -> None:
        self._backend = backend
        self._slots = slots
        self._sides = sides
        self._touched = GrowingArray(np.int64)  # when a slot was last used
        self._batches = 0

    def touch(self, slots: Numbers) -> None:
        """Record that these keys were used."""
        if not self._backend.in_memory:
            self._touched.reach(len(self._slots))
            self._touched.values[slots] = self._batches

    def look(self) -> bool:
        """Spill rows if the bound is exceeded; called after each batch. Return whether slots were renumbered."""
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
        # The half of the keys that was used last stays in memory.
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
        self._backend.trim_cache()
