"""Rows spilled from memory: in keyed state, as a list per key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from penstock.runtime.columnar.state import read_many
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.values import numbers_dtype
from penstock.runtime.state.keyed import KeyedStateBackend

Row = tuple[Any, ...]

_KEYS_AT_ONCE: Final = 10_000
_MOST_IN_USE: Final = 50_000


class SpilledRows:
    """Lists of rows by key. Rows are tuples of physical values, so that times are numbers."""

    def __init__(
        self, backend: KeyedStateBackend, name: str, schema: Mapping[str, pl.DataType]
    ) -> None:
        self._backend = backend
        self._table = table = backend.table(name)
        self._in_use = 0  # rows that the table may have as objects
        self._schema = dict(schema)
        self._physical = physical_schema(schema)
        self.any = next(iter(table.items()), None) is not None

    def fetch(self, keys: list[Any]) -> tuple[pl.DataFrame, Numbers]:
        """Return the rows of keys, and for each row the position of its key."""
        lists: list[list[Row]] = read_many(self._table, keys, ())
        found = [row for rows in lists for row in rows]
        sizes = list(map(len, lists))
        self._trim_cache(len(found))
        frame = pl.DataFrame(found, schema=self._physical, orient="row").cast(self._schema)  # type: ignore[arg-type]
        return frame, np.repeat(np.arange(len(keys)), sizes)

    def _trim_cache(self, rows: int) -> None:
        """Evict cached objects of the table: the rows are kept as columns here."""
        self._in_use += rows
        if self._in_use > _MOST_IN_USE:
            self._in_use = 0
            self._backend.trim_cache(at_once=True)

    def add(self, keys: list[Any], frame: pl.DataFrame, counts: list[int]) -> None:
        """Give keys more rows: the next `counts` of the frame."""
        start = first = 0
        while first < len(keys):
            last = min(first + _KEYS_AT_ONCE, len(keys))
            height = sum(counts[first:last])
            self._add(keys[first:last], frame.slice(start, height), counts[first:last])
            first, start = last, start + height
        self.any = self.any or bool(keys)

    def _add(self, keys: list[Any], frame: pl.DataFrame, counts: list[int]) -> None:
        before = read_many(self._table, keys, ()) if self.any else [()] * len(keys)
        rows = frame.cast(self._physical).rows()  # type: ignore[arg-type]
        start = 0
        for key, count, there in zip(keys, counts, before, strict=True):
            more = rows[start : start + count]
            self._table.put(key, [*there, *more] if there else more)
            start += count
        self._trim_cache(len(rows) + sum(map(len, before)))

    def forget(self, keys: list[Any]) -> None:
        """Remove the rows of keys."""
        for key in keys:
            self._table.remove(key)


def physical_schema(schema: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """Return columns as state has their values: times are numbers."""
    return {
        name: pl.Series([], dtype=dtype).to_physical().dtype
        if dtype.is_temporal()
        else numbers_dtype(dtype)
        for name, dtype in schema.items()
    }
