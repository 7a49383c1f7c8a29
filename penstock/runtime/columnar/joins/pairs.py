"""Pairs of rows of two inputs: put together, checked by the condition, emitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import polars as pl

from penstock.errors.user_errors import FunctionFailedError
from penstock.graph.operator_specs.columnar.common import INSERT, KIND, column
from penstock.graph.operator_specs.columnar.stateless import Types
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import schema_of
from penstock.runtime.columnar.expressions import compile_expression
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.rows import only
from penstock.runtime.columnar.user_functions import open_functions, with_row
from penstock.runtime.user_code import close_functions
from penstock.sql.expr.nodes import Rex

# Maximum number of pairs per step: a row may have any number of partners.
_AT_ONCE: Final = 50_000

Gather = Callable[[Numbers], pl.DataFrame]


def gather_from(frame: pl.DataFrame) -> Gather:
    """Return a function that gathers rows of a frame by position."""
    return lambda rows: frame[pl.Series(rows, dtype=pl.UInt32)]


def kinds_of(frame: pl.DataFrame) -> Numbers:
    """Return the row kind of each row."""
    if KIND in frame.columns:
        return frame[KIND].to_numpy()
    return np.zeros(frame.height, np.int8)


class JoinPairs:
    """Knows the columns of both inputs, and the condition that pairs must meet."""

    def __init__(
        self, left: Types, right: Types, condition: Rex | None, zone: str, runtime_context: Any
    ) -> None:
        self.left = schema_of(left)
        self.right = schema_of(right)
        # the right columns as they are called behind those of the left side
        self._names = {column(at): column(len(left) + at) for at in range(len(right))}
        self._condition = None if condition is None else compile_expression(condition, zone)
        self._functions = open_functions([condition], runtime_context)

    def close(self) -> None:
        """Close the user functions that the condition calls."""
        close_functions(self._functions)

    @property
    def is_conditional(self) -> bool:
        """Whether pairs have to meet more than equal keys."""
        return self._condition is not None

    def together(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        """Return the columns of both."""
        moved = [right[name].alias(new) for name, new in self._names.items()]
        return only(left, self.left).hstack(moved)

    def padded(self, frame: pl.DataFrame, is_left: bool) -> pl.DataFrame:
        """Return the rows of one side with NULLs for the other."""
        if is_left:
            return self.together(frame, nulls(self.right, frame.height))
        return self.together(nulls(self.left, frame.height), frame)

    def meets(self, pairs: pl.DataFrame) -> pl.Series | None:
        """Return which pairs meet the condition; None: all."""
        if self._condition is None:
            return None
        try:
            met = pairs.select(self._condition.fill_null(value=False).alias("met"))["met"]
        except FunctionFailedError as failed:
            raise with_row(failed, pairs)  # noqa: B904 - it is the same error
        # A condition without columns has one answer for all.
        return met if len(met) == pairs.height else met.new_from_index(0, pairs.height)

    def joined(
        self, own: Gather, other: Gather, rows: Numbers, partners: Numbers, own_is_left: bool
    ) -> Iterator[tuple[pl.DataFrame, Numbers | None, slice]]:
        """Yield pairs that meet the condition, some at a time, with which of the given ones they are (None: all of the slice)."""
        for start in range(0, len(rows), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            mine, theirs = own(rows[part]), other(partners[part])
            pairs = self.together(mine, theirs) if own_is_left else self.together(theirs, mine)
            met = self.meets(pairs)
            if met is None:
                yield pairs, None, part
            else:
                yield pairs.filter(met), met.to_numpy(), part


def nulls(schema: dict[str, pl.DataType], height: int) -> pl.DataFrame:
    """Return rows of NULLs."""
    return pl.DataFrame(
        [pl.Series(name, [None], dtype).new_from_index(0, height) for name, dtype in schema.items()]
    )


class JoinChanges:
    """The output of a batch: retractions first, then additions."""

    def __init__(self) -> None:
        self._parts: tuple[list[pl.DataFrame], list[pl.DataFrame]] = ([], [])
        self._kinds: tuple[list[Any], list[Any]] = ([], [])

    def add(self, frame: pl.DataFrame, kinds: Any) -> None:
        """Add rows; `kinds` is one kind for all, or an array. Additions and retractions are not mixed."""
        if not frame.height:
            return
        if isinstance(kinds, int | np.integer):
            kinds = np.full(frame.height, kinds, np.int8)
        comes = int(kinds[0]) in (0, 2)
        self._parts[comes].append(frame)
        self._kinds[comes].append(kinds)

    def batch(self) -> ColumnBatch | None:
        """Return all, or None if there is nothing."""
        parts = [*self._parts[0], *self._parts[1]]
        if not parts:
            return None
        frame = pl.concat(parts) if len(parts) > 1 else parts[0]
        kinds = np.concatenate([*self._kinds[0], *self._kinds[1]])
        if (kinds != INSERT).any():
            frame = frame.with_columns(pl.Series(KIND, kinds, pl.Int8))
        return ColumnBatch(frame)
