"""GROUP BY without windows: a table of results that changes with every batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import (
    DELETE,
    INSERT,
    KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    column,
)
from penstock.runtime.columnar.accumulator_columns import Mask, Slots, SlotStore
from penstock.runtime.columnar.aggregates.distinct import DistinctState
from penstock.runtime.columnar.aggregates.plan import ROWS, AggregatePlan, older
from penstock.runtime.columnar.aggregates.row_state import RowState
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.keys import keys_of, series_of_keys
from penstock.runtime.operators.base import OperatorContext, StreamOperator

_EMIT_AT = 50_000


class GroupAggregateOperator(StreamOperator):
    """Folds each batch by key, merges it into the accumulators, and emits one change per key whose result has changed.

    In BATCH mode all results are emitted at the end, as inserts.
    """

    def open(self, context: OperatorContext) -> None:
        """Compile the calls; state is read when its keys come."""
        super().open(context)
        spec = self.spec
        self._plan = plan = AggregatePlan(
            spec.keys,
            spec.aggregates,
            retracts=spec.retracts,
            zone=spec.zone,
            counts_rows=spec.retracts,
        )
        columns = dict(plan.accumulators)
        for row in plan.all_rows:
            columns[row.name] = (dtype_of(plan.calls[row.index].type), None)
        state = context.keyed_state
        self._store = SlotStore(state.table("groups"), columns, ttl_ms=spec.ttl_ms)
        self._distinct = [
            DistinctState(plan, group, state.table("distinct", namespaced=True), spec.ttl_ms)
            for group in plan.distinct
        ]
        self._rows = (
            RowState(plan.all_rows, state.table("rows"), context) if plan.all_rows else None
        )
        self._finish = [
            each.alias(column(len(spec.keys) + at)) for at, each in enumerate(plan.finishes)
        ]
        self._keys = plan.keys
        self._key_types = [spec.input_types[index] for index in spec.keys]

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Fold the rows and emit the changed results."""
        frame = batch.frame
        if not frame.height:
            return
        plan, now = self._plan, self.context.clock() if self.spec.ttl_ms else 0
        if self.spec.merges:
            partial = plan.merge(self._named_accumulators(frame), self._keys)
        else:
            frame = plan.signed(frame)
            partial = plan.fold(frame, self._keys)
        for state in self._distinct:
            partial = state.add(frame, partial, now)
        keys = keys_of(partial, self.spec.keys) if self._keys else [()]
        slots, known = self._store.find(keys, now)
        before = pl.DataFrame(self._store.read(slots))
        changed = self._changed(partial, before)
        if self._rows is not None:
            changed = self._rows.update(
                frame, changed, self._keys, keys, known, _pick(self._distinct)
            )
        gone = (changed[ROWS] <= 0).to_numpy() if self.spec.retracts else None
        self._emit_changes(partial, before, changed, known, gone)
        self._keep(slots, changed, known, gone, keys, now)
        self._store.trim_cache()
        for state in self._distinct:
            state.trim_cache()

    def _named_accumulators(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Give the columns of accumulators their names: they follow the keys in the plan's order."""
        names = list(self._plan.accumulators)
        start = len(self.spec.keys)
        return frame.rename({column(start + at): name for at, name in enumerate(names)})

    def _changed(self, partial: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
        if not self._plan.aligned:
            return before
        both = pl.DataFrame(
            [
                *(partial[name] for name in self._plan.accumulators),
                *(before[name].alias(older(name)) for name in self._plan.accumulators),
            ]
        )
        changed = both.select(self._plan.aligned)
        rows = [before[each.name] for each in self._plan.all_rows]
        return changed.with_columns(rows) if rows else changed

    def _keep(
        self,
        slots: Slots,
        changed: pl.DataFrame,
        known: Mask,
        gone: Mask | None,
        keys: list[Any],
        now: int,
    ) -> None:
        if gone is None or not gone.any():
            self._store.write(slots, changed, now)
            return
        stays = ~gone
        self._store.write(slots[stays], changed.filter(pl.Series(stays)), now)
        left = slots[gone & known]
        if len(left):
            self._store.remove(left)
        if self._rows is not None:
            self._rows.remove([keys[at] for at in np.flatnonzero(gone).tolist()])

    # Results

    def _emit_changes(
        self,
        partial: pl.DataFrame,
        before: pl.DataFrame,
        changed: pl.DataFrame,
        known: Mask,
        gone: Mask | None,
    ) -> None:
        if self.context.batch_mode:
            return
        count = len(known)
        keys = [partial[name] for name in self._keys]
        if not known.any() and gone is None:
            self.output.emit(ColumnBatch(self._results(keys, changed, count)))
            return
        # Old and new ones at once: what each step of Polars costs by itself is paid half as often.
        results = self._finished(pl.concat([before, changed]), 2 * count)
        here = np.ones(count, np.bool_) if gone is None else ~gone
        updated = known & here
        if not self.spec.ttl_ms:
            updated &= _differ(results, count)
        self._emit_pairs(
            keys, results, inserted=here & ~known, updated=updated, deleted=known & ~here
        )

    def _finished(self, frame: pl.DataFrame, count: int) -> pl.DataFrame:
        if not self._finish:
            return pl.DataFrame()
        made = frame.select(self._finish)
        # Constants only are one row.
        return made if made.height == count else pl.concat([made] * count)

    def _results(self, keys: list[pl.Series], frame: pl.DataFrame, count: int) -> pl.DataFrame:
        named = [each.alias(column(at)) for at, each in enumerate(keys)]
        return pl.DataFrame(named + self._finished(frame, count).get_columns())

    def _emit_pairs(
        self,
        keys: list[pl.Series],
        results: pl.DataFrame,
        *,
        inserted: Mask,
        updated: Mask,
        deleted: Mask,
    ) -> None:
        """Emit old and new results, of which the old ones come first; the rows of a key follow each other."""
        count = len(inserted)
        leaves = deleted | updated if self.spec.update_before else deleted
        going, coming = np.flatnonzero(leaves), np.flatnonzero(inserted | updated)
        if not len(going) and not len(coming):
            return
        kinds = np.where(inserted[coming], INSERT, UPDATE_AFTER)
        rows, chosen = coming, count + coming
        if len(going):
            kinds = np.concatenate([np.where(deleted[going], DELETE, UPDATE_BEFORE), kinds])
            rows = np.concatenate([going, coming])
            order = np.argsort(np.concatenate([2 * going, 2 * coming + 1]), kind="stable")
            chosen = np.concatenate([going, count + coming])[order]
            kinds, rows = kinds[order], rows[order]
        columns = [each.alias(column(at)).gather(rows) for at, each in enumerate(keys)]
        columns += [each.gather(chosen) for each in results.get_columns()]
        if kinds.any():
            columns.append(pl.Series(KIND, kinds.astype(np.int8)))
        self.output.emit(ColumnBatch(pl.DataFrame(columns)))

    # The end, and snapshots

    def finish(self, *, ends_for_good: bool) -> None:
        """In BATCH mode, emit all results; without keys there is one even if there was no row. Else forget them, if nothing comes that could change them: the last checkpoint would write them all."""
        if not self.context.batch_mode:
            if ends_for_good:
                self._forget()
            return
        self._flush()
        entries = list(self.context.keyed_state.table("groups").items())
        if not entries and not self._keys and self.context.subtask == 0:
            slots, _ = self._store.find([()])
            nothing = pl.DataFrame(self._store.read(slots))
            self.output.emit(ColumnBatch(self._results([], nothing, 1)))
            return
        for at in range(0, len(entries), _EMIT_AT):
            keys = [key for key, _ in entries[at : at + _EMIT_AT]]
            slots, _ = self._store.find(keys)
            series = series_of_keys(keys, [dtype_of(each) for each in self._key_types])
            frame = pl.DataFrame(self._store.read(slots))
            self.output.emit(ColumnBatch(self._results(series, frame, len(keys))))
            self._store.trim_cache()

    def _forget(self) -> None:
        self._store.forget()
        for state in self._distinct:
            state.forget()
        if self._rows is not None:
            self._rows.forget()

    def barrier(self) -> list[Any]:
        """Write the changed entries to the state tables."""
        if self.spec.ttl_ms:
            self._store.expire_all(self.context.clock())
        self._flush()
        return []

    def _flush(self) -> None:
        self._store.flush()
        for state in self._distinct:
            state.flush()
        if self._rows is not None:
            self._rows.flush()

    def close(self) -> None:
        """Close the user functions."""
        if self._rows is not None:
            self._rows.close()


def _pick(states: list[DistinctState]) -> dict[int, pl.DataFrame]:
    return {state.number: state.fresh for state in states if state.fresh is not None}


def _differ(results: pl.DataFrame, count: int) -> Mask:
    """Return which keys have other results in the second half than in the first; NULL equals NULL, NaN equals NaN."""
    differ = np.zeros(count, np.bool_)
    for each in results.get_columns():
        differ |= each.slice(count).ne_missing(each.slice(0, count)).to_numpy()
    return differ
