"""State of windows that have not ended: parts (folded rows) per time slice.

Parts are appended as they come and merged when there are many, or when a window ends: no key is looked up by itself. Before each snapshot what has changed goes
to the state table, as one entry per key and slice; a slice that is not in memory is read from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.keys import keys_of, physical, series_of_keys
from penstock.windowing import TimeWindow

BOUND: Final = 4_000_000  # rows of accumulators in memory, where state may be on disk
_MERGE_AT: Final = 16


@dataclass(slots=True)
class SlicePart:
    """Rows that were folded: accumulators by key, and for functions that need all values, the values."""

    main: pl.DataFrame
    rows: tuple[pl.DataFrame, ...] = ()

    @property
    def height(self) -> int:
        """How much memory it takes, more or less."""
        return self.main.height + sum(each.height for each in self.rows)


@dataclass(slots=True)
class _Slice:
    clean: SlicePart | None = None  # parts that the table already has
    fresh: list[SlicePart] = field(default_factory=list)  # parts that are not written yet
    stored: bool = False  # whether the table has entries
    complete: bool = True  # whether all that the table has is in memory

    @property
    def parts(self) -> list[SlicePart]:
        return [*([] if self.clean is None else [self.clean]), *self.fresh]

    @property
    def height(self) -> int:
        return sum(part.height for part in self.parts)


Merge = Callable[[Sequence[SlicePart]], SlicePart]


class SliceStore:
    """Parts by slice. `merge` makes one part of several; `keys` are the types of key columns, `main` and `rows` those of the rest."""

    def __init__(
        self,
        table: Any,
        merge: Merge,
        keys: Sequence[pl.DataType],
        main: dict[str, pl.DataType],
        rows: Sequence[dict[str, pl.DataType]] = (),
        *,
        in_memory: bool = True,
        bound: int = BOUND,
    ) -> None:
        self._table = table
        self._merge = merge
        self._key_types = list(keys)
        self._key_names = [column(at) for at in range(len(keys))]
        self._main = main
        self._rows = list(rows)
        self._in_memory = in_memory
        self._bound = bound
        self._slices: dict[TimeWindow, _Slice] = {
            each: _Slice(stored=True, complete=False) for each in table.namespaces()
        }

    def __contains__(self, window: TimeWindow) -> bool:
        return window in self._slices

    def windows(self) -> list[TimeWindow]:
        """Return all slices that there are."""
        return list(self._slices)

    def add(self, window: TimeWindow, part: SlicePart) -> None:
        """Append a part to a slice."""
        found = self._slices.get(window)
        if found is None:
            found = self._slices[window] = _Slice()
        found.fresh.append(part)
        if len(found.fresh) > _MERGE_AT:
            found.fresh = [self._merge(found.fresh)]

    def read(self, window: TimeWindow) -> list[SlicePart]:
        """Return all parts of a slice."""
        found = self._slices.get(window)
        if found is None:
            return []
        if not found.complete:
            found.clean = self._load(window)
            found.complete = True
        if len(found.fresh) > 1:
            found.fresh = [self._merge(found.fresh)]
        return found.parts

    def drop(self, window: TimeWindow) -> None:
        """Forget a slice."""
        found = self._slices.pop(window, None)
        if found is not None and found.stored:
            self._table.drop_pane(window)

    def trim_cache(self) -> None:
        """Evict slices, the largest first, if memory exceeds its bound and state is on disk."""
        if self._in_memory:
            return
        total = sum(each.height for each in self._slices.values())
        if total <= self._bound:
            return
        self.flush()
        for window in sorted(self._slices, key=lambda each: -self._slices[each].height):
            found = self._slices[window]
            total -= found.height
            found.clean, found.complete = None, False
            if total <= self._bound // 2:
                return

    # The state table

    def flush(self) -> None:
        """Write the changed entries to the state table, before every snapshot."""
        for window, found in self._slices.items():
            if found.fresh:
                self._write(window, found)

    def _write(self, window: TimeWindow, found: _Slice) -> None:
        fresh = self._merge(found.fresh) if len(found.fresh) > 1 else found.fresh[0]
        if not found.stored:
            changed = found.clean = fresh
        else:
            clean = found.clean if found.complete else self._load(window)
            found.clean = fresh if clean is None else self._merge([clean, fresh])
            changed = self._only(found.clean, fresh)
            found.complete = True
        found.fresh = []
        found.stored = True
        self._table.pane(window)[0].update(self._entries(changed))

    def _only(self, part: SlicePart, chosen: SlicePart) -> SlicePart:
        """Return the rows of a part whose keys are in another part."""
        names = self._key_names
        if not names:
            return part
        keys = pl.concat([each.select(names) for each in (chosen.main, *chosen.rows)]).unique()

        def pick(frame: pl.DataFrame) -> pl.DataFrame:
            return frame.join(keys, on=names, how="semi", nulls_equal=True)

        return SlicePart(pick(part.main), tuple(pick(each) for each in part.rows))

    def _entries(self, part: SlicePart) -> dict[Any, Any]:
        """Return entries by key: the accumulators, and if values are kept, a list of them for each function."""
        keys = self._keys_of(part.main)
        main = _tuples(part.main, list(self._main))
        if not self._rows:
            return dict(zip(keys, main, strict=True))
        lists: list[dict[Any, list[Any]]] = []
        for frame, schema in zip(part.rows, self._rows, strict=True):
            found: dict[Any, list[Any]] = {}
            for key, values in zip(self._keys_of(frame), _tuples(frame, list(schema)), strict=True):
                found.setdefault(key, []).append(values)
            lists.append(found)
        return {
            key: (accumulators, [found.get(key, []) for found in lists])
            for key, accumulators in zip(keys, main, strict=True)
        }

    def _keys_of(self, frame: pl.DataFrame) -> list[Any]:
        return (
            keys_of(frame, range(len(self._key_names))) if self._key_names else [()] * frame.height
        )

    def _load(self, window: TimeWindow) -> SlicePart:
        touched, before = self._table.pane(window)
        entries = {**(dict(before.items()) if before is not None else {}), **touched}
        keys = list(entries)
        if not self._rows:
            return SlicePart(self._frame(keys, list(entries.values()), self._main))
        main = self._frame(keys, [entry[0] for entry in entries.values()], self._main)
        rows = []
        for at, schema in enumerate(self._rows):
            pairs = [(key, values) for key, entry in entries.items() for values in entry[1][at]]
            rows.append(
                self._frame([key for key, _ in pairs], [values for _, values in pairs], schema)
            )
        return SlicePart(main, tuple(rows))

    def _frame(
        self, keys: list[Any], values: list[Any], schema: dict[str, pl.DataType]
    ) -> pl.DataFrame:
        series = series_of_keys(keys, self._key_types) if self._key_types else []
        columns = list(zip(*values, strict=True)) if values else [()] * len(schema)
        for (name, dtype), stored in zip(schema.items(), columns, strict=True):
            if dtype.is_temporal():
                made = pl.Series(name, list(stored), dtype=pl.Int64).cast(dtype)
            else:
                made = pl.Series(name, list(stored), dtype=dtype)
            series.append(made)
        return pl.DataFrame(series)


def _tuples(frame: pl.DataFrame, names: list[str]) -> list[tuple[Any, ...]]:
    """Return the rows of some columns, times as numbers."""
    if not names:
        return [()] * frame.height
    return pl.DataFrame([physical(frame[name]) for name in names]).rows()
