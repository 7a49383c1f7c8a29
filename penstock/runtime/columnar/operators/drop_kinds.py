"""Operators before a sink: rows of some kinds are dropped, and NOT NULL constraints are enforced."""

from __future__ import annotations

from typing import Any

import polars as pl

from penstock.errors import RecordError
from penstock.graph.operator_specs.columnar.changes import DropKindsSpec, NotNullSpec
from penstock.graph.operator_specs.columnar.common import (
    DELETE,
    INSERT,
    KIND,
    UPDATE_BEFORE,
    column,
)
from penstock.records.dropped_records import NULL_COLUMN
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.keys import keys_of
from penstock.runtime.operators.base import OperatorContext, StreamOperator


class DropKindsOperator(StreamOperator):
    """Leaves out rows of some kinds."""

    spec: DropKindsSpec

    def open(self, context: OperatorContext) -> None:
        """Compute the row kinds to drop."""
        super().open(context)
        spec = self.spec
        self._dropped = [
            kind
            for kind, drops in ((UPDATE_BEFORE, spec.update_before), (DELETE, spec.deletes))
            if drops
        ]

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Forward the remaining rows."""
        frame = batch.frame
        if KIND in frame.columns:
            if self.spec.keys is not None:
                frame = self._with_deletes(frame, self.spec.keys)
            frame = frame.filter(~frame[KIND].is_in(self._dropped))
            if (frame[KIND] == INSERT).all():
                frame = frame.drop(KIND)
        if frame.height:
            self.output.emit(ColumnBatch(frame, batch.timestamps if frame is batch.frame else None))

    def _with_deletes(self, frame: pl.DataFrame, keys: tuple[int, ...]) -> pl.DataFrame:
        """Turn -U rows into -D rows where no row that replaces them follows."""
        kinds = frame[KIND].to_list()
        if UPDATE_BEFORE not in kinds:
            return frame
        followed: set[Any] = set()
        names = keys_of(frame, keys)
        for at in range(len(kinds) - 1, -1, -1):
            if kinds[at] == UPDATE_BEFORE and names[at] not in followed:
                kinds[at] = DELETE
            followed.add(names[at])
        return frame.with_columns(pl.Series(KIND, kinds, pl.Int8))


class NotNullOperator(StreamOperator):
    """Refuses NULLs in columns that are declared NOT NULL, or drops the rows."""

    spec: NotNullSpec

    def open(self, context: OperatorContext) -> None:
        """Compile the conditions, register the counter of dropped rows."""
        super().open(context)
        self._dropped = context.runtime_context.get_metrics_group().counter(NULL_COLUMN)
        spec = self.spec
        paths = spec.paths or [()] * len(spec.columns)
        self._violations = [
            (name, _is_missing(pl.col(column(index)), path))
            for index, name, path in zip(spec.columns, spec.names, paths, strict=True)
        ]

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Check the columns."""
        frame = batch.frame
        for name, missing in self._violations:
            found = frame.select(missing).to_series()
            if not found.any():
                continue
            if not self.spec.drops:
                raise RecordError(
                    f"column '{name}' is NOT NULL, but the sink got a row with NULL in it",
                    hint="set 'table.exec.sink.not-null-enforcer' = 'DROP' to drop such rows",
                )
            self._dropped.inc(int(found.sum()))
            frame = frame.filter(~found)
        if frame.height:
            self.output.emit(ColumnBatch(frame, batch.timestamps if frame is batch.frame else None))


def _is_missing(value: pl.Expr, path: tuple[str, ...]) -> pl.Expr:
    """Return whether the part of a value that a path leads to is NULL. A NULL has no parts."""
    if not path:
        return value.is_null()
    step, *rest = path
    if step == "*":
        inside = value.list.eval(_is_missing(pl.element(), tuple(rest))).list.any()
    else:
        inside = _is_missing(value.struct.field(step), tuple(rest))
    return value.is_not_null() & inside.fill_null(False)
