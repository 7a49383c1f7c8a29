"""Buffer of rows that wait for the watermark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.growing_array import GrowingArray
from penstock.runtime.columnar.store.rows import RowStore
from penstock.runtime.state.table import StateTable

_DUE = "$due"


class WaitingRows:
    """Rows, each with the time that it waits for (epoch milliseconds)."""

    def __init__(
        self,
        table: StateTable,
        schema: Mapping[str, pl.DataType],
        keys: Sequence[int],
        max_parallelism: int,
    ) -> None:
        self._schema = list(schema)
        self._store = RowStore(table, {**schema, _DUE: pl.Int64()}, keys, max_parallelism)
        self._due = GrowingArray(np.int64)
        self._due.extend(self._store.frame[_DUE].to_numpy() if len(self._store) else ())
        self._first = int(self._due.values.min()) if len(self._due) else None

    def __len__(self) -> int:
        return self._store.live

    @property
    def first(self) -> int | None:
        """The time that the first row waits for; None if there is none."""
        return self._first

    def rows(self) -> pl.DataFrame:
        """Return all rows that wait, in the order in which they came."""
        return self._store.gather(np.flatnonzero(self._store.alive)).drop(_DUE)

    def add(self, frame: pl.DataFrame, due: Numbers) -> None:
        """Let rows wait."""
        if not frame.height:
            return
        self._store.append(frame.with_columns(pl.Series(_DUE, due, pl.Int64)))
        self._due.extend(due)
        first = int(due.min())
        self._first = first if self._first is None else min(self._first, first)

    def take(self, time: int) -> pl.DataFrame:
        """Return the rows whose time has come, in the order in which they came, and forget them."""
        if self._first is None or self._first > time:
            return pl.DataFrame(schema=self._store.schema).drop(_DUE)
        alive = self._store.alive
        ready = np.flatnonzero(alive & (self._due.values <= time))
        taken = self._store.gather(ready).drop(_DUE)
        self._store.remove(ready)
        left = self._due.values[self._store.alive]
        self._first = int(left.min()) if len(left) else None
        moved = self._store.compact(at_once=not len(left))
        if moved is not None:
            self._due.keep(np.flatnonzero(moved >= 0))
        return taken

    def save(self) -> None:
        """Write pending changes to keyed state, at a barrier."""
        self._store.save()
