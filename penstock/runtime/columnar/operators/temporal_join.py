"""Temporal joins: each left row with the version of the right table that was valid at its time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from penstock.common.user_types import Key
from penstock.graph.operator_specs.columnar.common import (
    DELETE,
    INSERT,
    KIND,
    UPDATE_BEFORE,
    column,
)
from penstock.graph.operator_specs.columnar.joins import TemporalJoinSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.joins.bulk import comparable
from penstock.runtime.columnar.joins.memory import JoinMemory
from penstock.runtime.columnar.joins.pairs import JoinPairs, gather_from, kinds_of
from penstock.runtime.columnar.joins.sides import JoinSide
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.key_index import KeyIndex
from penstock.runtime.columnar.store.rows import only
from penstock.runtime.columnar.store.waiting_rows import WaitingRows
from penstock.runtime.columnar.times import millis_array
from penstock.runtime.operators.base import OperatorContext, StreamOperator

_GONE: Final = "$gone"  # a version that says that the key has no row from then on


class TemporalJoinOperator(StreamOperator):
    """Base of both temporal joins: stores the versions of the right side by key, and joins left rows with them."""

    spec: TemporalJoinSpec

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        spec = self.spec
        self._pairing = JoinPairs(
            spec.left_types, spec.right_types, spec.condition, spec.zone, context.runtime_context
        )
        self._slots = KeyIndex()
        self._right = JoinSide(
            "right",
            context.keyed_state,
            self._slots,
            {**self._pairing.right, _GONE: pl.Boolean()},
            spec.right_keys,
            None,
            ttl_ms=0 if spec.left_time is not None else spec.ttl_ms,
            counts=False,
            max_parallelism=context.max_parallelism,
        )
        self._room = JoinMemory(context.keyed_state, self._slots, (self._right,))
        self._null_safe = (False,) * len(spec.left_keys)

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Take rows of either side."""
        frame = batch.frame
        if not frame.height:
            return
        if input_index == 0:
            self._take_left(frame)
        else:
            self._take_versions(frame)
        if self._room.look():
            self._slots_moved()

    def _slots_moved(self) -> None:
        """Handle renumbered slots."""

    def _take_left(self, frame: pl.DataFrame) -> None:
        raise NotImplementedError

    def _take_versions(self, frame: pl.DataFrame) -> None:
        """Store versions. UPDATE_BEFORE rows are ignored: the former version is already stored."""
        kinds = kinds_of(frame)
        wanted = (kinds != UPDATE_BEFORE) & comparable(frame, self.spec.right_keys, self._null_safe)
        rows = only(frame, self._pairing.right).with_columns(pl.Series(_GONE, kinds == DELETE))
        rows = rows.filter(pl.Series(wanted))
        if rows.height:
            self._keep_versions(rows, self._slots_of(rows, self.spec.right_keys))

    def _keep_versions(self, rows: pl.DataFrame, slots: Numbers) -> None:
        raise NotImplementedError

    def _slots_of(self, frame: pl.DataFrame, keys: tuple[int, ...]) -> Numbers:
        """Return the slots of keys, whose versions are in memory then."""
        slots = self._slots.of_rows(frame, keys)
        self._room.touch(slots)
        absent = self._right.absent(slots)
        if len(absent):
            self._right.load(absent, self.context.clock(), take=True)
            self._slots_loaded(absent)
        return slots

    def _slots_loaded(self, slots: Numbers) -> None:
        """Handle slots whose versions were loaded into memory."""

    def _join(self, frame: pl.DataFrame) -> None:
        """Emit left rows with their versions."""
        known = np.flatnonzero(comparable(frame, self.spec.left_keys, self._null_safe))
        slots = self._slots_of(gather_from(frame)(known), self.spec.left_keys)
        at, versions = self._versions_of(frame, known, slots)
        there = ~self._right.store.gather(versions)[_GONE].to_numpy()
        rows, versions = known[at[there]], versions[there]
        kinds = frame[KIND] if KIND in frame.columns else None
        parts: list[pl.DataFrame] = []
        found: list[Numbers] = []
        for pairs, met, part in self._pairing.joined(
            gather_from(frame), self._right.store.gather, rows, versions, own_is_left=True
        ):
            parts.append(pairs)
            found.append(rows[part] if met is None else rows[part][met])
        if self.spec.kind == "LEFT":
            alone = np.setdiff1d(np.arange(frame.height), np.concatenate(found or [rows]))
            parts.append(self._pairing.padded(gather_from(frame)(alone), is_left=True))
            found.append(alone)
        if not parts:
            return
        whole, order = pl.concat(parts), np.concatenate(found)
        if kinds is not None:
            whole = whole.with_columns(kinds.gather(order))
        whole = gather_from(whole)(np.argsort(order, kind="stable"))  # as the left rows came
        if whole.height:
            self.output.emit(ColumnBatch(whole))

    def _versions_of(
        self, frame: pl.DataFrame, rows: Numbers, slots: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Return for positions in `slots` the version that counts, if there is one."""
        raise NotImplementedError

    def finish(self, *, ends_for_good: bool) -> None:
        """Drop all versions if no later row can need them."""
        if ends_for_good:
            self._right.clear()

    def close(self) -> None:
        """Close the user functions that the condition calls."""
        self._pairing.close()

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._right.expire(self.context.clock())
        self._right.compact()
        self._right.store.save()
        return super().barrier()


class ProcessingTimeTemporalJoinOperator(TemporalJoinOperator):
    """Joins each left row at once with the latest version."""

    def _take_left(self, frame: pl.DataFrame) -> None:
        self._join(frame)

    def _keep_versions(self, rows: pl.DataFrame, slots: Numbers) -> None:
        now = self.context.clock()
        _, before = self._right.index.find(np.unique(slots), len(self._slots))
        self._right.remove(before)
        _, reverse = np.unique(slots[::-1], return_index=True)
        last = np.sort(len(slots) - 1 - reverse)
        last = last[~rows[_GONE].to_numpy()[last]]
        self._right.add(gather_from(rows)(last), slots[last], now)

    def _versions_of(
        self, frame: pl.DataFrame, rows: Numbers, slots: Numbers
    ) -> tuple[Numbers, Numbers]:
        return self._right.find(slots, self.context.clock())


class RowTimeTemporalJoinOperator(TemporalJoinOperator):
    """Buffers left rows until the watermark has passed their time, so that all versions are known."""

    def open(self, context: OperatorContext) -> None:
        """Find the rows that wait."""
        super().open(context)
        table = context.keyed_state.table("left", namespaced=True)
        schema = {**self._pairing.left, KIND: pl.Int8()}
        self._waiting = WaitingRows(table, schema, self.spec.left_keys, context.max_parallelism)
        self._slots_moved()

    def _slots_moved(self) -> None:
        # Keys that may have versions which are no longer needed.
        rows = np.flatnonzero(self._right.store.alive)
        self._several: set[int] = set(self._right.slot_of.values[rows].tolist())

    def _slots_loaded(self, slots: Numbers) -> None:
        self._several.update(slots.tolist())

    def _take_left(self, frame: pl.DataFrame) -> None:
        times = millis_array(frame[column(self._left_time())])
        if KIND not in frame.columns:
            frame = frame.with_columns(pl.lit(0, pl.Int8).alias(KIND))
        self._waiting.add(frame, times)

    def _left_time(self) -> int:
        assert self.spec.left_time is not None
        return self.spec.left_time

    def _right_times(self, rows: Numbers) -> Numbers:
        assert self.spec.right_time is not None
        name = column(self.spec.right_time)
        return millis_array(self._right.store.frame[name].gather(rows))

    def _keep_versions(self, rows: pl.DataFrame, slots: Numbers) -> None:
        self._right.add(rows, slots, self.context.clock())
        self._several.update(slots.tolist())

    def _versions_of(
        self, frame: pl.DataFrame, rows: Numbers, slots: Numbers
    ) -> tuple[Numbers, Numbers]:
        at, versions = self._right.find(slots, self.context.clock())
        if not len(at):
            return at, versions
        times = millis_array(frame[column(self._left_time())])[rows[at]]
        begins = self._right_times(versions)
        valid = begins <= times
        return _last_versions(at[valid], versions[valid], begins[valid])

    def process_watermark(self, watermark: int) -> None:
        """Join the rows whose time has come, then forget versions that are over."""
        timers = self.context.timers
        timers.advance_watermark(watermark, _no_timer)
        ready = self._waiting.take(timers.watermark)
        if ready.height:
            if (ready[KIND] == INSERT).all():
                ready = ready.drop(KIND)
            self._join(ready)
        self._forget_versions(timers.watermark)
        self.output.emit_watermark(watermark)

    def _forget_versions(self, watermark: int) -> None:
        """Of the versions up to the watermark, keep the last one per key: later rows need this one or newer ones."""
        if not self._several:
            return
        slots = np.fromiter(self._several, np.int64, len(self._several))
        slots.sort()
        at, versions = self._right.index.find(slots, len(self._slots))
        begins = self._right_times(versions)
        past = begins <= watermark
        _, kept = _last_versions(at[past], versions[past], begins[past])
        over = np.setdiff1d(versions[past], kept)
        # A key without a row needs no version to say so, if nothing is before it.
        gone = self._right.store.gather(kept)[_GONE].to_numpy()
        self._right.remove(np.concatenate((over, kept[gone])))
        self._several = set(slots[np.unique(at[~past])].tolist())

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._waiting.save()
        return super().barrier()


def _last_versions(at: Numbers, versions: Numbers, begins: Numbers) -> tuple[Numbers, Numbers]:
    """Return the last version for each position: by time, and of those with the same time the one that came last."""
    order = np.lexsort((versions, begins, at))
    at, versions = at[order], versions[order]
    last = np.flatnonzero(np.append(at[1:] != at[:-1], True)[: len(at)])
    return at[last], versions[last]


def _no_timer(time: int, key: Key, namespace: object) -> None:
    """Ignore timers: this operator has none."""
