"""One side of a join: its rows in memory, indexed by key, and its spilled rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from penstock.runtime.columnar.keys import keys_of
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.growing_array import GrowingArray
from penstock.runtime.columnar.store.key_index import KeyIndex, RowIndex
from penstock.runtime.columnar.store.rows import RowStore, only
from penstock.runtime.columnar.store.spilled import SpilledRows
from penstock.runtime.state.keyed import KeyedStateBackend

TIME = "$time"  # when a row was written, where rows expire
_PARTNERS = "$partners"  # how many partners a row has, where partners expire


class JoinSide:
    """The rows of one input. All keys are known by the slots that both sides share.

    `partners` has for each row how many rows of the other side it is joined with, if that is needed (`counts`). With `saves_counts` the state has these
    numbers, too: a partner that has expired cannot be counted again.
    `identities` finds rows by what they are known by, where rows are taken back: the unique key, or else all of their columns.
    """

    def __init__(
        self,
        name: str,
        backend: KeyedStateBackend,
        slots: KeyIndex,
        schema: dict[str, pl.DataType],
        keys: Sequence[int],
        unique: Sequence[int] | None,
        *,
        ttl_ms: int,
        counts: bool,
        max_parallelism: int,
        saves_counts: bool = False,
    ) -> None:
        self.schema = schema
        self.keys = tuple(keys)
        self.unique = None if unique is None else tuple(unique)
        self.ttl_ms = ttl_ms
        self.counts = counts
        self.saves_counts = saves_counts
        self.slots = slots
        stored = {**schema, TIME: pl.Int64()} if ttl_ms else schema
        if saves_counts:
            stored = {**stored, _PARTNERS: pl.Int64()}
        self.store = RowStore(backend.table(name, namespaced=True), stored, keys, max_parallelism)
        self.spilled = SpilledRows(backend, f"{name}-spilled", stored)
        self.index = RowIndex()
        self.slot_of = GrowingArray(np.int64)  # of each row
        self.partners = GrowingArray(np.int64)
        self.identities: dict[Any, Any] | None = None
        self._times = GrowingArray(np.int64)
        # Whether the spilled rows of a slot are not in memory; unknown for a new slot.
        self._cold = GrowingArray(np.bool_)
        if len(self.store):
            frame = self.store.frame
            self._note(frame, slots.of_rows(frame, self.keys), np.arange(frame.height))

    def _note(self, frame: pl.DataFrame, slots: Numbers, rows: Numbers) -> None:
        self.index.add(slots, rows, len(self.slots))
        self.slot_of.extend(slots)
        if self.saves_counts:
            self.partners.extend(frame[_PARTNERS].to_numpy())
        elif self.counts:
            self.partners.extend(np.zeros(len(rows), np.int64))
        if self.ttl_ms:
            self._times.extend(frame[TIME].to_numpy())
        if self.identities is not None:
            self._identify(frame, slots, rows)

    def add(
        self, frame: pl.DataFrame, slots: Numbers, now: int, *, loaded: bool = False
    ) -> Numbers:
        """Keep rows; return their positions."""
        if self.ttl_ms and TIME not in frame.columns:
            frame = frame.with_columns(pl.lit(now, pl.Int64).alias(TIME))
        if self.saves_counts and _PARTNERS not in frame.columns:
            frame = frame.with_columns(pl.lit(0, pl.Int64).alias(_PARTNERS))
        rows = self.store.append(frame, saved_elsewhere=loaded)
        self._note(frame, slots, rows)
        return rows

    def add_counted(self, frame: pl.DataFrame, slots: Numbers, now: int, partners: Numbers) -> None:
        """Store rows with their numbers of partners."""
        if self.saves_counts:
            frame = frame.with_columns(pl.Series(_PARTNERS, partners, pl.Int64))
        rows = self.add(frame, slots, now)
        self.partners.values[rows] = partners

    def count(self, rows: Numbers, partners: Numbers, now: int) -> None:
        """Set the numbers of partners of rows. Where the state has these numbers, the rows are written now, as in Flink: they expire later."""
        if not self.saves_counts:
            self.partners.values[rows] = partners
            return
        frame, slots = only(self.store.gather(rows), self.schema), self.slot_of.values[rows]
        self.remove(rows)
        self.add_counted(frame, slots, now, partners)

    def remove(self, rows: Numbers) -> None:
        """Forget rows."""
        if not len(rows):
            return
        slots = self.slot_of.values[rows]
        self.index.remove(slots, rows)
        if self.identities is not None:
            self._forget_identities(rows, slots)
        self.store.remove(rows)

    def find(self, slots: Numbers, now: int) -> tuple[Numbers, Numbers]:
        """Return the pairs of a position in `slots` and a row."""
        positions, rows = self.index.find(slots, len(self.slots))
        if self.ttl_ms and len(rows):
            fresh = self._times.values[rows] > now - self.ttl_ms
            return positions[fresh], rows[fresh]
        return positions, rows

    # Identities

    def track(self) -> None:
        """Index rows by identity: from now on rows are retracted."""
        if self.identities is not None:
            return
        self.identities = {}
        rows = np.flatnonzero(self.store.alive)
        if len(rows):
            self._identify(self.store.gather(rows), self.slot_of.values[rows], rows)

    def identities_of(self, frame: pl.DataFrame, slots: Numbers) -> list[Any]:
        """Return the identity of each row."""
        if self.unique is not None:
            known: list[Any] = keys_of(frame, self.unique)
        else:
            chosen = only(frame, self.schema)
            if any(dtype.is_nested() for dtype in self.schema.values()):
                known = keys_of(chosen, range(chosen.width))
            else:
                known = chosen.hash_rows().to_list()
        return list(zip(slots.tolist(), known, strict=True))

    def _identify(self, frame: pl.DataFrame, slots: Numbers, rows: Numbers) -> None:
        identities = self.identities
        assert identities is not None
        names = self.identities_of(frame, slots)
        if self.unique is not None:
            identities.update(zip(names, rows.tolist(), strict=True))
            return
        for name, row in zip(names, rows.tolist(), strict=True):
            identities.setdefault(name, []).append(row)

    def _forget_identities(self, rows: Numbers, slots: Numbers) -> None:
        identities = self.identities
        assert identities is not None
        names = self.identities_of(self.store.gather(rows), slots)
        for name, row in zip(names, rows.tolist(), strict=True):
            if self.unique is not None:
                if identities.get(name) == row:
                    del identities[name]
                continue
            there = identities[name]
            there.remove(row)
            if not there:
                del identities[name]

    # Memory

    def absent(self, slots: Numbers) -> Numbers:
        """Return the slots, each once, whose spilled rows are not in memory."""
        if not self.spilled.any:
            return np.empty(0, np.int64)
        self._reach()
        return np.unique(slots[self._cold.values[slots]])

    def _reach(self) -> None:
        known = len(self._cold)
        self._cold.reach(len(self.slots))
        self._cold.values[known:] = self.spilled.any

    def load(self, slots: Numbers, now: int, *, take: bool) -> Numbers:
        """Bring the spilled rows of slots back; return their positions. `take`: the state has them in this place no longer."""
        keys = self.slots.keys_at(slots)
        frame, at = self.spilled.fetch(keys)
        self._reach()
        self._cold.values[slots] = False
        if take:  # expired ones too: they are never needed again
            self.spilled.forget([keys[position] for position in np.unique(at).tolist()])
        if self.ttl_ms and frame.height:
            fresh = frame[TIME].to_numpy() > now - self.ttl_ms
            frame, at = frame.filter(pl.Series(fresh)), at[fresh]
        if not frame.height:
            return np.empty(0, np.int64)
        return self.add(frame, slots[at], now, loaded=not take)

    def expire(self, now: int) -> None:
        """Forget rows that have expired, if they are many."""
        if not self.ttl_ms or not len(self.store):
            return
        old = np.flatnonzero(self.store.alive & (self._times.values <= now - self.ttl_ms))
        if len(old) * 8 > self.store.live:
            self.remove(old)

    def clear(self) -> None:
        """Drop all rows: the input has ended, so they are never needed again."""
        self.store.clear()
        for each in (self.slot_of, self.partners, self._times):
            each.clear()
        self.index = RowIndex()
        self.identities = None if self.identities is None else {}

    def spill(self, slots: Numbers) -> None:
        """Spill the rows of slots to state, by key; they stay in memory until `compact`."""
        self._reach()  # before anything is spilled: what is in memory now is not cold
        chosen = np.zeros(len(self.slots), np.bool_)
        chosen[slots] = True
        rows = np.flatnonzero(self.store.alive & chosen[self.slot_of.values])
        mine = rows[self.store.is_saved_here(rows)]
        if len(mine):
            slots_of_rows = self.slot_of.values[mine]
            order = np.argsort(slots_of_rows, kind="stable")
            distinct, counts = np.unique(slots_of_rows, return_counts=True)
            keys = self.slots.keys_at(distinct)
            self.spilled.add(keys, self.store.gather(mine[order]), counts.tolist())
        self.store.remove(rows, silently=True)

    def let_go_of_loaded(self) -> None:
        """Drop the loaded copies of rows that are stored in state by key."""
        rows = np.flatnonzero(self.store.alive)
        loaded = rows[~self.store.is_saved_here(rows)]
        self._reach()
        self._cold.values[self.slot_of.values[loaded]] = True
        self.remove(loaded)

    def compact(self, moved_slots: Numbers | None = None, *, at_once: bool = False) -> None:
        """Close the holes that removed rows left, if it is worth it; take the new numbers of slots."""
        moved = self.store.compact(at_once=at_once or moved_slots is not None)
        if moved is None and moved_slots is None:
            return
        if moved is None:
            moved = np.arange(len(self.store))
        kept = np.flatnonzero(moved >= 0)
        for each in (self.slot_of, self.partners, self._times):
            if len(each):
                each.keep(kept)
        self.index.renumber(moved, moved_slots)
        if moved_slots is not None:
            self.slot_of.values[:] = moved_slots[self.slot_of.values]
            self._cold.keep(np.flatnonzero(moved_slots >= 0))
        if self.identities is not None:
            self.identities = None
            self.track()
