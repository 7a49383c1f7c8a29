"""Sessions that have not ended: windows per key that grow and merge with the rows that come.

Rows of a batch are first folded to *fragments*: runs of a key's rows with no gap between them. Fragments are appended as they come; when time moves, those that touch
are merged, all keys at once, and those that have ended leave.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.keys import keys_of, physical, series_of_keys
from penstock.runtime.columnar.window_names import END, START, TIME
from penstock.runtime.state.table import StateTable

_MERGE_AT: Final = 16
Mask = np.ndarray[Any, np.dtype[np.bool_]]


def sessions_of(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return fragments with the number of the session that they belong to, `$session`; windows that touch are one session."""
    ordered = frame.sort([*keys, START, END], nulls_last=False)
    end = pl.col(END).cum_max()
    before = end.over(keys).shift(1).over(keys) if keys else end.shift(1)
    ordered = ordered.with_columns(before.alias("$before"))
    begins = (pl.col("$before").is_null() | (pl.col(START) > pl.col("$before"))).cum_sum()
    return ordered.with_columns(begins.alias("$session")).drop("$before")


class SessionStore:
    """Sessions by key, all in memory, and in the state table: key -> (sessions, rows by function)."""

    def __init__(
        self,
        table: StateTable,
        key_types: Sequence[pl.DataType],
        main: dict[str, pl.DataType],
        merged: Sequence[pl.Expr],
        rows: Sequence[dict[str, pl.DataType]],
    ) -> None:
        self._table = table
        self._key_types = list(key_types)
        self._keys = [column(at) for at in range(len(key_types))]
        self._main = {START: pl.Int64(), END: pl.Int64(), **main}
        self._merged = list(merged)
        self._schemas = [{TIME: pl.Int64(), **each} for each in rows]
        self._parts: list[pl.DataFrame] = []
        self._rows: list[list[pl.DataFrame]] = [[] for _ in rows]
        self._touched: list[pl.DataFrame] = []  # keys whose table entry is outdated
        self._load()

    def add(self, main: pl.DataFrame, rows: Sequence[pl.DataFrame]) -> None:
        """Take fragments, and the rows that functions want to keep."""
        self._parts.append(main)
        self._touched.append(self._only_keys(main))
        for mine, frame in zip(self._rows, rows, strict=True):
            mine.append(frame)
        if len(self._parts) > _MERGE_AT:
            self.merge()

    def merge(self) -> pl.DataFrame:
        """Merge the fragments that touch; return all sessions."""
        if not self._parts:
            return pl.DataFrame(schema=self._schema(self._main))
        if len(self._parts) > 1:
            marked = sessions_of(pl.concat(self._parts), self._keys)
            steps = [pl.col(START).min(), pl.col(END).max(), *self._merged]
            found = marked.group_by([*self._keys, "$session"]).agg(steps).drop("$session")
            self._parts = [found]
        return self._parts[0]

    def take(self, ended: Callable[[pl.Series], Mask]) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
        """Remove the sessions that have ended, by their ends; return them and the rows that were kept for them."""
        found = self.merge()
        mask = ended(found[END])
        if not mask.any():
            return found.clear(), [pl.DataFrame(schema=self._schema(s)) for s in self._schemas]
        leaving = found.filter(pl.Series(mask))
        self._parts = [found.filter(pl.Series(~mask))]
        self._touched.append(self._only_keys(leaving))
        taken = []
        for at, schema in enumerate(self._schemas):
            theirs, rest = self._split(self._all_rows(at, schema), leaving)
            self._rows[at] = [rest]
            taken.append(theirs)
        return leaving, taken

    def sessions_of_keys(self, keys: Collection[Any]) -> dict[Any, list[tuple[int, int]]]:
        """Return the starts and ends of the sessions of some keys."""
        found: dict[Any, list[tuple[int, int]]] = {key: [] for key in keys}
        sessions = self.merge()
        for key, start, end in zip(
            self._keys_of(sessions), sessions[START], sessions[END], strict=True
        ):
            if key in found:
                found[key].append((start, end))
        return found

    def _all_rows(self, at: int, schema: dict[str, pl.DataType]) -> pl.DataFrame:
        frames = self._rows[at]
        return pl.concat(frames) if frames else pl.DataFrame(schema=self._schema(schema))

    def _split(
        self, rows: pl.DataFrame, sessions: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows that belong to sessions, with the starts of these, and the others."""
        numbered = rows.with_row_index("$row")
        windows = sessions.select(*self._keys, START, END)
        if self._keys:
            both = numbered.join(windows, on=self._keys, how="inner", nulls_equal=True)
        else:
            both = numbered.join(windows, how="cross")
        inside = both.filter((pl.col(TIME) >= pl.col(START)) & (pl.col(TIME) < pl.col(END)))
        inside = inside.sort("$row")
        rest = numbered.join(inside.select("$row"), on="$row", how="anti").drop("$row")
        return inside.drop("$row", END), rest

    def first_end(self) -> int | None:
        """Return an end that no session's is before."""
        ends = [part[END].min() for part in self._parts if part.height]
        return min(map(int, ends), default=None)  # type: ignore[arg-type]

    # The state table

    def _schema(self, values: dict[str, pl.DataType]) -> dict[str, pl.DataType]:
        return {**dict(zip(self._keys, self._key_types, strict=True)), **values}

    def _only_keys(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.select(self._keys) if self._keys else pl.DataFrame({"$none": [0]})

    def _keys_of(self, frame: pl.DataFrame) -> list[Any]:
        return keys_of(frame, range(len(self._keys))) if self._keys else [()] * frame.height

    def flush(self) -> None:
        """Write the changed entries to the state table, before every snapshot."""
        if not self._touched:
            return
        touched = pl.concat(self._touched).unique()
        self._touched = []
        entries: dict[Any, tuple[list[Any], ...]] = {
            key: tuple([] for _ in range(1 + len(self._schemas))) for key in self._keys_of(touched)
        }
        frames = [self.merge()]
        for at, schema in enumerate(self._schemas):
            self._rows[at] = [self._all_rows(at, schema)]
            frames.append(self._rows[at][0])
        for at, found in enumerate(frames):
            frame = found
            if self._keys:
                frame = found.join(touched, on=self._keys, how="semi", nulls_equal=True)
            names = [name for name in frame.columns if name not in self._keys]
            for key, values in zip(self._keys_of(frame), _tuples(frame, names), strict=True):
                entries[key][at].append(values)
        for key, entry in entries.items():
            if entry[0]:
                self._table.put(key, entry)
            else:
                self._table.remove(key)

    def _load(self) -> None:
        lists: list[tuple[list[Any], list[Any]]] = [([], []) for _ in range(1 + len(self._schemas))]
        for key, entry in self._table.items():
            for (keys, values), found in zip(lists, entry, strict=True):
                keys.extend([key] * len(found))
                values.extend(found)
        schemas = [self._main, *self._schemas]
        for at, ((keys, values), schema) in enumerate(zip(lists, schemas, strict=True)):
            if not keys:
                continue
            frame = self._frame(keys, values, schema)
            if at == 0:
                self._parts = [frame]
            else:
                self._rows[at - 1] = [frame]

    def _frame(
        self, keys: list[Any], values: list[Any], schema: dict[str, pl.DataType]
    ) -> pl.DataFrame:
        series = series_of_keys(keys, self._key_types) if self._key_types else []
        columns = zip(*values, strict=True)
        for (name, dtype), stored in zip(schema.items(), columns, strict=True):
            numbers = dtype.is_temporal()
            made = pl.Series(name, list(stored), dtype=pl.Int64() if numbers else dtype)
            series.append(made.cast(dtype) if numbers else made)
        return pl.DataFrame(series)


def _tuples(frame: pl.DataFrame, names: list[str]) -> list[tuple[Any, ...]]:
    return pl.DataFrame([physical(frame[name]) for name in names]).rows()
