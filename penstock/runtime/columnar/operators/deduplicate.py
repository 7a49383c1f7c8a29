"""Deduplication: the first or the last row of each key, by its time or by its arrival."""

from __future__ import annotations

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import (
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    column,
)
from penstock.graph.operator_specs.columnar.ranks import DeduplicateSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.joins.pairs import JoinChanges
from penstock.runtime.columnar.keys import physical
from penstock.runtime.columnar.operators.keyed_row import KeyedRowOperator
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.key_index import rounds_of
from penstock.runtime.columnar.store.rows import only


class DeduplicateOperator(KeyedRowOperator):
    """Keeps one row of each key. Of a batch, a key's best row only is compared with the one that is kept.

    Of rows with the same time the last one to come is the last, and the first one is the first.
    """

    spec: DeduplicateSpec

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Compare the best row of each key with the one that is kept."""
        frame = only(batch.frame, self._rows.schema)
        if not frame.height:
            return
        now = self.context.clock()
        slots = self._slots.of_rows(frame, self.spec.keys)
        self._room.touch(slots)
        absent = self._rows.absent(slots)
        if len(absent):
            self._rows.load(absent, now, take=True)
        chosen = rounds_of(slots) if self.spec.every else [self._best(frame, slots)]
        for rows in chosen:
            self._keep(frame[pl.Series(rows, dtype=pl.UInt32)], slots[rows], now)
        self._room.look()

    def _times(self, frame: pl.DataFrame) -> Numbers | None:
        if self.spec.time is None:
            return None
        return physical(frame[column(self.spec.time)]).to_numpy()

    def _best(self, frame: pl.DataFrame, slots: Numbers) -> Numbers:
        """Return the position of the best row of each key, in the order of positions."""
        times = self._times(frame)
        order = np.arange(len(slots)) if times is None else np.argsort(times, kind="stable")
        if not self.spec.last:
            order = order[::-1]
        # Each row takes the place of those of its key before it: the last one stays.
        ordered = slots[order]
        last = np.empty(len(self._slots), np.int64)
        last[ordered] = order
        return np.flatnonzero(last[slots] == np.arange(len(slots)))

    def _keep(self, frame: pl.DataFrame, slots: Numbers, now: int) -> None:
        rows = self._rows
        stored = np.full(len(slots), -1, np.int64)
        at, found = rows.find(slots, now)
        stored[at] = found
        known = np.flatnonzero(stored >= 0)
        before = only(rows.store.gather(stored[known]), rows.schema)
        replaces = self._replaces(frame[pl.Series(known, dtype=pl.UInt32)], before)
        changed, new = known[replaces], np.flatnonzero(stored < 0)
        changes = JoinChanges()
        if self.spec.update_before:
            changes.add(before.filter(pl.Series(replaces)), UPDATE_BEFORE)
        kept = np.sort(np.concatenate((changed, new)))
        kinds = np.where(stored[kept] < 0, INSERT, UPDATE_AFTER).astype(np.int8)
        chosen = frame[pl.Series(kept, dtype=pl.UInt32)]
        changes.add(chosen, kinds)
        rows.remove(stored[changed])
        rows.add(chosen, slots[kept], now)
        emitted = changes.batch()
        if emitted is not None:
            self.output.emit(emitted)

    def _replaces(self, comes: pl.DataFrame, there: pl.DataFrame) -> Numbers:
        """Return for each row whether it takes the place of the one that is kept."""
        new, old = self._times(comes), self._times(there)
        if new is None or old is None:
            return np.full(comes.height, self.spec.last)
        return np.asarray(new >= old if self.spec.last else new < old)
