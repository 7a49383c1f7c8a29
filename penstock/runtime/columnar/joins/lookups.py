"""Lookups: request rows of an external table by key and join the results with the requesting rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from penstock.errors import RecordError
from penstock.graph.operator_specs.columnar.common import KIND, column
from penstock.graph.operator_specs.columnar.joins import LookupJoinSpec
from penstock.runtime.columnar.dtypes import schema_of
from penstock.runtime.columnar.expressions import compile_expression
from penstock.runtime.columnar.joins.bulk import comparable
from penstock.runtime.columnar.joins.pairs import JoinPairs, gather_from, nulls
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.key_index import KeyIndex, RowIndex
from penstock.runtime.columnar.user_functions import open_functions
from penstock.runtime.columnar.values import series_of, values_of_series
from penstock.runtime.user_code import close_functions

Key = tuple[Any, ...]
Answers = Sequence[Sequence[Key]]


class LookupKeys:
    """The distinct keys that a batch looks up. Keys with NULL match nothing and are skipped."""

    def __init__(self, frame: pl.DataFrame, keys: list[Key | None]) -> None:
        self.frame = frame
        self.keys: list[Key] = []
        known: dict[Any, int] = {}
        at: list[int] = []
        for key in keys:
            if key is None:
                at.append(-1)
                continue
            name = _hashable(key)
            number = known.get(name)
            if number is None:
                number = known[name] = len(self.keys)
                self.keys.append(key)
            at.append(number)
        self.at: Numbers = np.array(at, np.int64)


class Lookup:
    """Base of synchronous and asynchronous lookups."""

    def __init__(self, spec: LookupJoinSpec, runtime_context: Any) -> None:
        self._spec = spec
        self._pairing = JoinPairs(
            spec.input_types, spec.table_types, spec.condition, spec.zone, runtime_context
        )
        self._functions = open_functions([key for key, _ in spec.keys], runtime_context)
        self._keys = [
            compile_expression(key, spec.zone).alias(column(at))
            for at, (key, _) in enumerate(spec.keys)
        ]
        self._schema = schema_of(spec.table_types)
        self._whole: pl.DataFrame | None = None
        retry = spec.retry or {}
        self.retries: int = int(retry.get("attempts", 0))
        self.delay_ms: int = int(retry.get("delay_ms", 0))

    def close(self) -> None:
        """Close the user functions of keys and the condition."""
        self._pairing.close()
        close_functions(self._functions)

    def question(self, frame: pl.DataFrame) -> LookupKeys:
        """Return the keys that a batch looks up."""
        values = [
            values_of_series(self._key_column(frame, each), key.type)
            for each, (key, _) in zip(self._keys, self._spec.keys, strict=True)
        ]
        keys = [None if None in key else key for key in zip(*values, strict=True)]
        return LookupKeys(frame, keys)

    def misses(self, answers: Answers) -> list[int]:
        """Return the keys to retry, if retries are enabled: those without rows."""
        return [at for at, rows in enumerate(answers) if not rows]

    def join_frame(self, frame: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
        """Join a batch with a table that is completely in memory."""
        if table is not self._whole:
            self._whole = table
            self._slots, self._index = KeyIndex(), RowIndex()
            columns = [at for _, at in self._spec.keys]
            there = np.flatnonzero(comparable(table, columns, (False,) * len(columns)))
            slots = self._slots.of_rows(gather_from(table)(there), columns)
            self._index.add(slots, there, len(self._slots))
        asked = pl.DataFrame([self._key_column(frame, each) for each in self._keys])
        slots = self._slots.known_rows(asked, range(asked.width))
        known = np.flatnonzero(slots >= 0)
        at, partners = self._index.find(slots[known], len(self._slots))
        return self._joined(frame, table, known[at], partners)

    def _key_column(self, frame: pl.DataFrame, key: pl.Expr) -> pl.Series:
        found = frame.select(key).to_series()
        return found if len(found) == frame.height else found.new_from_index(0, frame.height)

    def join(self, question: LookupKeys, answers: Answers) -> pl.DataFrame:
        """Join a batch with the lookup results."""
        counts = np.array([len(rows) for rows in answers], np.int64)
        starts = np.cumsum(counts) - counts
        asked = np.flatnonzero(question.at >= 0)
        sizes = counts[question.at[asked]]
        rows = np.repeat(asked, sizes)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        partners = np.repeat(starts[question.at[asked]], sizes) + within
        table = self._table([row for rows_of_key in answers for row in rows_of_key])
        return self._joined(question.frame, table, rows, partners)

    def _joined(
        self, frame: pl.DataFrame, table: pl.DataFrame, rows: Numbers, partners: Numbers
    ) -> pl.DataFrame:
        parts: list[pl.DataFrame] = []
        found: list[Numbers] = []
        for pairs, met, part in self._pairing.joined(
            gather_from(frame), gather_from(table), rows, partners, own_is_left=True
        ):
            parts.append(pairs)
            found.append(rows[part] if met is None else rows[part][met])
        order = np.concatenate(found) if found else np.empty(0, np.int64)
        if self._spec.kind == "LEFT":
            alone = np.setdiff1d(np.arange(frame.height), order)
            if len(alone):
                parts.append(self._pairing.padded(gather_from(frame)(alone), is_left=True))
                order = np.concatenate((order, alone))
        if not parts:
            return nulls({**self._pairing.left, **self._right_names()}, 0)
        whole = pl.concat(parts)
        if KIND in frame.columns:
            whole = whole.with_columns(frame[KIND].gather(order))
        if len(parts) > 1:
            whole = gather_from(whole)(np.argsort(order, kind="stable"))
        return whole

    def _right_names(self) -> dict[str, pl.DataType]:
        width = len(self._pairing.left)
        return {column(width + at): dtype for at, dtype in enumerate(self._schema.values())}

    def _table(self, rows: list[Key]) -> pl.DataFrame:
        types = self._spec.table_types
        if not rows:
            return nulls(self._schema, 0)
        if len(rows[0]) != len(types):
            raise RecordError(
                f"lookup returned a row of {len(rows[0])} values for {len(types)} columns",
                detail=f"the row is {rows[0]!r}",
            )
        columns = zip(*rows, strict=True)
        return pl.DataFrame(
            [
                series_of(column(at), list(values), kind, f"column {at + 1}")
                for at, (values, kind) in enumerate(zip(columns, types, strict=True))
            ]
        )


def ask(lookup: Callable[[Sequence[Key]], Any], keys: Sequence[Key]) -> list[Sequence[Key]]:
    """Look up keys, and check that each has a result."""
    return checked(lookup(keys), keys) if keys else []


def checked(answers: Any, keys: Sequence[Key]) -> list[Sequence[Key]]:
    """Return the results as a list, one per key."""
    found: list[Sequence[Key]] = [
        rows if isinstance(rows, list | tuple) else list(rows) for rows in answers
    ]
    if len(found) != len(keys):
        raise RecordError(f"lookup returned {len(found)} results for {len(keys)} keys")
    return found


def _hashable(key: Key) -> object:
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key
