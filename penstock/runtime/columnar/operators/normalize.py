"""Changelog normalisation: the last row of a key is kept, so that upserts become updates and duplicates are dropped."""

from __future__ import annotations

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.changes import ChangelogNormalizeSpec
from penstock.graph.operator_specs.columnar.common import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
)
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.joins.pairs import JoinChanges, kinds_of
from penstock.runtime.columnar.operators.keyed_row import KeyedRowOperator
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.key_index import rounds_of
from penstock.runtime.columnar.store.rows import only


class ChangelogNormalizeOperator(KeyedRowOperator):
    """Keeps the last row of each key. A key's changes within a batch are one."""

    spec: ChangelogNormalizeSpec

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Compare the last change of each key with its stored row."""
        frame = batch.frame
        if not frame.height:
            return
        now = self.context.clock()
        slots = self._slots.of_rows(frame, self.spec.keys)
        self._room.touch(slots)
        rows = self._rows
        absent = rows.absent(slots)
        if len(absent):
            rows.load(absent, now, take=True)
        chosen = rounds_of(slots) if self.spec.every else [_last_of_each(slots)]
        for part in chosen:
            self._compare(frame[pl.Series(part, dtype=pl.UInt32)], slots[part], now)
        self._room.look()

    def _compare(self, frame: pl.DataFrame, slots: Numbers, now: int) -> None:
        """Compare one change of each key with its stored row."""
        rows = self._rows
        comes = np.isin(kinds_of(frame), (INSERT, UPDATE_AFTER))
        frame = only(frame, rows.schema)
        stored = np.full(len(slots), -1, np.int64)
        at, found = rows.find(slots, now)
        stored[at] = found
        self._emit(frame, stored, comes, slots, now)

    def _emit(
        self, frame: pl.DataFrame, stored: Numbers, comes: Numbers, slots: Numbers, now: int
    ) -> None:
        rows, update_before = self._rows, self.spec.update_before
        known = stored >= 0
        both = np.flatnonzero(known & comes)
        before = only(rows.store.gather(stored[both]), rows.schema)
        after = frame[pl.Series(both, dtype=pl.UInt32)]
        # With a TTL a repeated row is an update too: else the state of operators behind this one would expire too early.
        differs = (
            pl.Series(np.ones(len(both), np.bool_)) if self.spec.ttl_ms else _differs(before, after)
        )
        new, gone = comes & ~known, known & ~comes
        changes = JoinChanges()
        changes.add(only(rows.store.gather(stored[gone]), rows.schema), DELETE)
        changed = differs.to_numpy()
        if update_before:
            changes.add(before.filter(differs), UPDATE_BEFORE)
        # in the order in which the keys came
        kept = np.sort(np.concatenate((both[changed], np.flatnonzero(new))))
        kinds = np.where(new[kept], INSERT, UPDATE_AFTER).astype(np.int8)
        written = frame[pl.Series(kept, dtype=pl.UInt32)]
        changes.add(written, kinds)
        replaced = stored[kept]
        rows.remove(np.concatenate((stored[gone], replaced[replaced >= 0])))
        rows.add(written, slots[kept], now)
        emitted = changes.batch()
        if emitted is not None:
            self.output.emit(emitted)


def _last_of_each(slots: Numbers) -> Numbers:
    """Return the last position of each slot, in the order of positions."""
    _, first = np.unique(slots[::-1], return_index=True)
    return np.sort(len(slots) - 1 - first)


def _differs(before: pl.DataFrame, after: pl.DataFrame) -> pl.Series:
    """Return for each row whether any column has changed."""
    result = pl.Series(np.zeros(before.height, np.bool_))
    for name in before.columns:
        result |= before[name].ne_missing(after[name])
    return result
