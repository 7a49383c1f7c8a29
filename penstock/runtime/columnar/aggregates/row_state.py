"""Accumulators of functions that are computed row by row, by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.accumulator_columns import Mask
from penstock.runtime.columnar.aggregates.columns import SIGN
from penstock.runtime.columnar.aggregates.plan import RowCall
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.keys import keys_of
from penstock.runtime.columnar.state import KeyedCache
from penstock.runtime.columnar.values import column_of, listed
from penstock.runtime.state.table import StateTable

Lists = dict[Any, tuple[list[tuple[Any, ...]], list[int]]]  # key -> rows, signs


class RowState:
    """One list of accumulators per key, one for each call."""

    def __init__(self, calls: Sequence[RowCall], table: StateTable, context: Any) -> None:
        self._calls = list(calls)
        self._cache = KeyedCache(table)
        for call in self._calls:
            call.function.open(context.runtime_context)

    def update(
        self,
        frame: pl.DataFrame,
        changed: pl.DataFrame,
        key_names: Sequence[str],
        keys: Sequence[Any],
        known: Mask,
        fresh: Mapping[int, pl.DataFrame],
    ) -> pl.DataFrame:
        """Add rows to the accumulators of these keys; return the frame with the calls' results."""
        lists = [
            rows_of(call, *self._source(call, frame, key_names, fresh)) for call in self._calls
        ]
        results: list[list[Any]] = [listed(changed[call.name]) for call in self._calls]
        for row, (key, there) in enumerate(zip(keys, known.tolist(), strict=True)):
            found = [each.get(key) for each in lists]
            if there and not any(found):
                continue  # no row passes the filters of these calls
            accumulators = self._cache.get(key) if there else None
            if accumulators is None:
                accumulators = [call.function.create() for call in self._calls]
            for at, call in enumerate(self._calls):
                rows = found[at]
                if rows is not None:
                    call.function.update(accumulators[at], *rows)
                if rows is not None or not there:
                    results[at][row] = call.function.result(accumulators[at])
            self._cache.put(key, accumulators)
        self._cache.trim_cache()
        return changed.with_columns(
            column_of(call.name, values, dtype_of(call.function.call.type))
            for call, values in zip(self._calls, results, strict=True)
        )

    def _source(
        self,
        call: RowCall,
        frame: pl.DataFrame,
        key_names: Sequence[str],
        fresh: Mapping[int, pl.DataFrame],
    ) -> tuple[pl.DataFrame, Sequence[str]]:
        if call.distinct is None:
            return frame, key_names
        return fresh[call.distinct], [f"k{at}" for at in range(len(key_names))]

    def remove(self, keys: Sequence[Any]) -> None:
        """Forget keys."""
        for key in keys:
            self._cache.remove(key)

    def flush(self) -> None:
        """Write the changed entries to the state table."""
        self._cache.flush()

    def forget(self) -> None:
        """Discard changes that have not been written to the table."""
        self._cache.forget()

    def close(self) -> None:
        """Close the user functions."""
        for call in self._calls:
            call.function.close()


def _nested(frame: pl.DataFrame, names: Sequence[str]) -> bool:
    return any(frame.schema[name].is_nested() for name in names)


def rows_of(call: RowCall, frame: pl.DataFrame, key_names: Sequence[str]) -> Lists:
    """Return the rows that a call wants, by key, in their order."""
    if call.filter is not None:
        frame = frame.filter(call.filter)
    sign = pl.col(SIGN) if SIGN in frame.columns else pl.lit(1, pl.Int64)
    named = frame.select(
        *(pl.col(name).alias(column(at)) for at, name in enumerate(key_names)),
        *(each.alias(f"v{at}") for at, each in enumerate(call.operands)),
        sign.alias(SIGN),
    )
    values = [f"v{at}" for at in range(len(call.operands))]
    keys = [column(at) for at in range(len(key_names))]
    if SIGN in frame.columns and not call.function.in_order and not _nested(named, values):
        # An insert and a retraction within one batch cancel out.
        named = named.group_by(keys + values, maintain_order=True).agg(pl.col(SIGN).sum())
        named = named.filter(pl.col(SIGN) != 0)
    if not keys:
        rows = list(zip(*(listed(named[name]) for name in values), strict=True))
        rows = rows if values else [()] * named.height
        return {(): (rows, named[SIGN].to_list())} if rows else {}
    grouped = named.group_by(keys, maintain_order=True).agg([*values, SIGN])
    found = keys_of(grouped, range(len(keys)))
    columns = [listed(grouped[name]) for name in values]
    signs = grouped[SIGN].to_list()
    return {
        key: (list(zip(*(each[at] for each in columns), strict=True)), signs[at])
        for at, key in enumerate(found)
    }
