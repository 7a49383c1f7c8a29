"""Upsert materialisation: for sinks that keep one row per primary key, while the query may have several, in any order."""

from __future__ import annotations

from typing import Any

import polars as pl

from penstock.graph.operator_specs.columnar.changes import UpsertMaterializeSpec
from penstock.graph.operator_specs.columnar.common import (
    DELETE,
    INSERT,
    KIND,
    UPDATE_AFTER,
)
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import schema_of
from penstock.runtime.columnar.joins.pairs import kinds_of
from penstock.runtime.columnar.keys import keys_of
from penstock.runtime.columnar.state import KeyedCache
from penstock.runtime.columnar.store.rows import only
from penstock.runtime.columnar.store.spilled import physical_schema
from penstock.runtime.operators.base import OperatorContext, StreamOperator

Row = tuple[Any, ...]
Entry = tuple[int, tuple[Row, ...]]  # when it was written, and the rows, oldest first


class UpsertMaterializeOperator(StreamOperator):
    """Keeps all rows of a key, and emits the latest when it has become another one: once per key and batch."""

    spec: UpsertMaterializeSpec

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        self._schema = schema_of(self.spec.input_types)
        self._physical = physical_schema(self._schema)
        self._rows = KeyedCache(context.keyed_state.table("rows"))

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Change the lists of keys, then compare the last rows."""
        frame = batch.frame
        kinds = kinds_of(frame).tolist()
        keys = keys_of(frame, self.spec.keys)
        rows = only(frame, self._schema).cast(self._physical).rows()  # type: ignore[arg-type]
        upsert = self.spec.upsert
        names: list[Any] = (
            rows if upsert is None else [tuple(row[at] for at in upsert) for row in rows]
        )
        now = self.context.clock()
        distinct = list(dict.fromkeys(keys))
        found = self._rows.get_many(distinct)
        before = {key: self._live(entry, now) for key, entry in zip(distinct, found, strict=True)}
        lists = {key: list(there) for key, there in before.items()}
        for key, kind, row, name in zip(keys, kinds, rows, names, strict=True):
            there = lists[key]
            at = self._find(there, name)
            if kind in (INSERT, UPDATE_AFTER):
                if at is None or upsert is None:
                    there.append(row)
                else:
                    there[at] = row
            elif at is not None:
                del there[at]
        self._emit(before, lists, now)
        self._rows.trim_cache()

    def _live(self, entry: Entry | None, now: int) -> tuple[Row, ...]:
        if entry is None or (self.spec.ttl_ms and entry[0] <= now - self.spec.ttl_ms):
            return ()
        return entry[1]

    def _find(self, rows: list[Row], name: object) -> int | None:
        upsert = self.spec.upsert
        for at, row in enumerate(rows):
            if (row if upsert is None else tuple(row[index] for index in upsert)) == name:
                return at
        return None

    def _emit(
        self, before: dict[Any, tuple[Row, ...]], after: dict[Any, list[Row]], now: int
    ) -> None:
        shown: list[Row] = []
        kinds: list[int] = []
        for key, old in before.items():
            new = after[key]
            if new:
                self._rows.put(key, (now, tuple(new)))
            elif old:
                self._rows.remove(key)
            if old and not new:
                shown.append(old[-1])
                kinds.append(DELETE)
            elif new and (not old or old[-1] != new[-1]):
                shown.append(new[-1])
                kinds.append(UPDATE_AFTER if old else INSERT)
        if not shown:
            return
        frame = pl.DataFrame(shown, schema=self._physical, orient="row").cast(self._schema)  # type: ignore[arg-type]
        if any(kinds):
            frame = frame.with_columns(pl.Series(KIND, kinds, pl.Int8))
        self.output.emit(ColumnBatch(frame))

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._rows.flush()
        return super().barrier()
