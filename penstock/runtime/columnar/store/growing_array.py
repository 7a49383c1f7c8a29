"""Arrays of numbers that grow at their end."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.runtime.columnar.store.groups import Numbers


class GrowingArray:
    """Numbers of one type, one after another; `values` are those that are there."""

    __slots__ = ("_fill", "_size", "_space")

    def __init__(self, dtype: Any, fill: int = 0) -> None:
        self._fill = fill
        self._space: Numbers = np.full(1024, fill, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> Numbers:
        """The current values: a writable view."""
        return self._space[: self._size]

    def reach(self, size: int) -> None:
        """Grow to at least this length; new elements get the fill value."""
        if size > len(self._space):
            grown = np.full(max(2 * len(self._space), size), self._fill, self._space.dtype)
            grown[: self._size] = self.values
            self._space = grown
        self._size = max(self._size, size)

    def extend(self, values: Any) -> None:
        """Add values at the end."""
        start = self._size
        self.reach(start + len(values))
        self._space[start : self._size] = values

    def clear(self) -> None:
        """Have none."""
        self.cut(0)

    def cut(self, size: int) -> None:
        """Truncate to this length."""
        self._space[size : self._size] = self._fill
        self._size = size

    def keep(self, kept: Numbers) -> None:
        """Leave the values at these positions only."""
        left = self.values[kept]
        self._space[: len(left)] = left
        self.cut(len(left))
