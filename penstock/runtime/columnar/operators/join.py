"""Regular joins: both sides are kept, and every change of one finds its partners on the other.

Most joins are inner joins of append-only inputs: those only look up, gather and append. All others work with the net change of a
batch: rows that are added and retracted within it cancel out. Retractions are emitted before additions, so that the order is
correct for any upsert key downstream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

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
from penstock.graph.operator_specs.columnar.joins import JoinSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.joins.memory import JoinMemory
from penstock.runtime.columnar.joins.pairs import (
    Gather,
    JoinChanges,
    JoinPairs,
    gather_from,
    kinds_of,
)
from penstock.runtime.columnar.joins.sides import JoinSide
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.key_index import KeyIndex
from penstock.runtime.columnar.store.rows import only
from penstock.runtime.operators.base import OperatorContext, StreamOperator

_NOTHING: Final[Numbers] = np.empty(0, np.int64)


@dataclass(slots=True)
class _Net:
    """The net change of a batch on its side: rows that come, by position in the batch, and stored rows that go.

    `replaced` has for each row that goes the index in `come` of the row that takes its place, or -1. `unknown`: rows of the batch that are taken back and are
    not stored, by position.
    """

    come: Numbers
    come_kinds: Numbers
    go: Numbers
    go_kinds: Numbers
    replaced: Numbers
    unknown: Numbers


class JoinOperator(StreamOperator):
    """Joins two inputs."""

    spec: JoinSpec

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        spec = self.spec
        self.pairing = JoinPairs(
            spec.left_types, spec.right_types, spec.condition, spec.zone, context.runtime_context
        )
        self.slots = KeyIndex()
        # For each side, whether its rows are emitted by themselves, as long as they have no partners, or once they have some.
        kind = spec.kind
        self._left_only = kind in {"SEMI", "ANTI"}
        self._preserved = (kind in {"LEFT", "FULL"}, kind in {"RIGHT", "FULL"})
        counts = (self._left_only or self._preserved[0], self._preserved[1])
        expires = bool(spec.left_ttl_ms or spec.right_ttl_ms)
        backend = context.keyed_state
        self.left, self.right = (
            JoinSide(
                name,
                backend,
                self.slots,
                schema,
                keys,
                unique,
                ttl_ms=ttl,
                counts=counted,
                max_parallelism=context.max_parallelism,
                saves_counts=counted and expires,
            )
            for name, schema, keys, unique, ttl, counted in (
                (
                    "left",
                    self.pairing.left,
                    spec.left_keys,
                    spec.left_unique,
                    spec.left_ttl_ms,
                    counts[0],
                ),
                (
                    "right",
                    self.pairing.right,
                    spec.right_keys,
                    spec.right_unique,
                    spec.right_ttl_ms,
                    counts[1],
                ),
            )
        )
        self.sides = (self.left, self.right)
        for side, retracts in zip(
            self.sides, (spec.left_retracts, spec.right_retracts), strict=True
        ):
            if retracts:
                side.track()
        self._appends_only = kind == "INNER" and not (spec.left_retracts or spec.right_retracts)
        self._null_safe = spec.null_safe or (False,) * len(spec.left_keys)
        self._room = JoinMemory(backend, self.slots, self.sides)
        for side in self.sides:
            self._count_partners(side, np.flatnonzero(side.store.alive))

    def _other(self, side: JoinSide) -> JoinSide:
        return self.right if side is self.left else self.left

    def _count_partners(self, side: JoinSide, rows: Numbers) -> None:
        """Find out how many partners rows have that have come back from the state, where it does not say so."""
        if not len(rows) or not side.counts or side.saves_counts:
            return
        other, now = self._other(side), self.context.clock()
        at, partners = other.find(side.slot_of.values[rows], now)
        at, _ = self._met(side.store.gather, other.store.gather, rows[at], at, partners, side)
        side.partners.values[rows] = np.bincount(at, minlength=len(rows))

    # Records

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Join rows with the other side, and store them."""
        own, other = self.sides[input_index], self.sides[1 - input_index]
        frame = batch.frame
        if not frame.height:
            return
        if self._appends_only and KIND in frame.columns:
            if (frame[KIND] == INSERT).all():
                frame = frame.drop(KIND)
            else:
                self._begin_changes()
        if own.identities is None and KIND in frame.columns:
            own.track()
        frame = self._without_null_keys(frame, own)
        if frame.height:
            slots = self.slots.of_rows(frame, own.keys)
            self._room.touch(slots)
            # Rows may have so many partners that not all pairs of a batch fit into memory at once.
            portions = other.index.portions(slots, len(self.slots))
            size = -(-frame.height // portions)
            for start in range(0, frame.height, size):
                part = slice(start, start + size)
                self._take(frame[part] if portions > 1 else frame, slots[part], own, other)
        self._room.look()

    def _take(self, frame: pl.DataFrame, slots: Numbers, own: JoinSide, other: JoinSide) -> None:
        if self._appends_only:
            self._append(frame, slots, own, other)
        else:
            self._change(frame, slots, own, other)

    def _without_null_keys(self, frame: pl.DataFrame, own: JoinSide) -> pl.DataFrame:
        """Drop rows with a NULL key: on a preserved side they are emitted without a partner."""
        names = [
            column(key)
            for key, safe in zip(own.keys, self._null_safe, strict=True)
            if not safe and frame[column(key)].has_nulls()
        ]
        if not names:
            return frame
        is_null = pl.any_horizontal(pl.col(name).is_null() for name in names)
        alone = frame.filter(is_null)
        is_left = own is self.left
        if self._preserved[not is_left] or (is_left and self.spec.kind == "ANTI"):
            kinds = kinds_of(alone)
            if not self.spec.update_before:
                kinds = np.where(kinds == UPDATE_BEFORE, DELETE, kinds).astype(np.int8)
            shown = only(alone, own.schema)
            if not self._left_only:
                shown = self.pairing.padded(shown, is_left)
            if (kinds != INSERT).any():
                shown = shown.with_columns(pl.Series(KIND, kinds, pl.Int8))
            self.output.emit(ColumnBatch(shown))
        return frame.filter(~is_null)

    def _append(self, frame: pl.DataFrame, slots: Numbers, own: JoinSide, other: JoinSide) -> None:
        now = self.context.clock()
        absent = other.absent(slots)
        if len(absent):
            other.load(absent, now, take=False)
        at, partners = other.find(slots, now)
        if len(at):
            joined = self.pairing.joined(
                gather_from(frame), other.store.gather, at, partners, own is self.left
            )
            for pairs, _, _ in joined:
                if pairs.height:
                    self.output.emit(ColumnBatch(pairs))
        own.add(frame, slots, now)

    # Changes

    def _begin_changes(self) -> None:
        """Prepare for retractions that the plan did not announce."""
        self._appends_only = False
        for side in self.sides:
            side.let_go_of_loaded()

    def _change(self, frame: pl.DataFrame, slots: Numbers, own: JoinSide, other: JoinSide) -> None:
        now = self.context.clock()
        self._bring(slots, now)
        if own.identities is None:
            net = _all_come(frame)
        elif own.unique is not None:
            net = net_by_key(frame, own.identities_of(frame, slots), own.identities)
        else:
            net = net_by_row(frame, own.identities_of(frame, slots), own.identities)
        come = frame[pl.Series(net.come, dtype=pl.UInt32)]
        gone, gone_slots = own.store.gather(net.go), own.slot_of.values[net.go]
        come_slots = slots[net.come]
        if own.ttl_ms and len(net.unknown):
            gone, gone_slots = self._with_expired(net, frame, slots, gone, gone_slots, own)
        came = self._pairs_of(gather_from(come), come_slots, own, other, now)
        went = self._pairs_of(gather_from(gone), gone_slots, own, other, now)
        changes = JoinChanges()
        if self._left_only:
            if own is self.left:
                self._emit_chosen(changes, net, come, gone, came, went)
        else:
            self._emit_pairs(changes, net, come, gone, came, went, own, other)
            if self._preserved[own is self.right]:
                self._emit_alone(changes, net, come, gone, came, went, own)
        if other.counts:
            self._emit_turned(changes, came[1], went[1], other, now)
        own.remove(net.go)
        if own.counts:
            own.add_counted(come, come_slots, now, np.bincount(came[0], minlength=come.height))
        else:
            own.add(come, come_slots, now)
        batch = changes.batch()
        if batch is not None:
            self.output.emit(batch)

    @staticmethod
    def _with_expired(
        net: _Net,
        frame: pl.DataFrame,
        slots: Numbers,
        gone: pl.DataFrame,
        gone_slots: Numbers,
        own: JoinSide,
    ) -> tuple[pl.DataFrame, Numbers]:
        """Remove expired rows before they are retracted: their pairs were emitted, and partners may still be there."""
        unknown = net.unknown
        net.go_kinds = np.concatenate((net.go_kinds, kinds_of(frame)[unknown]))
        net.replaced = np.concatenate((net.replaced, np.full(len(unknown), -1)))
        expired = only(frame[pl.Series(unknown, dtype=pl.UInt32)], own.schema)
        return (
            pl.concat([only(gone, own.schema), expired]),
            np.concatenate((gone_slots, slots[unknown])),
        )

    def _bring(self, slots: Numbers, now: int) -> None:
        """Load all rows of these keys into memory."""
        for side in self.sides:
            absent = side.absent(slots)
            if len(absent):
                other = self._other(side)
                loaded = [
                    (each, each.load(absent, now, take=True))
                    for each in (side, other)
                    if each.spilled.any
                ]
                for each, rows in loaded:
                    self._count_partners(each, rows)

    def _pairs_of(
        self, gather: Gather, slots: Numbers, own: JoinSide, other: JoinSide, now: int
    ) -> tuple[Numbers, Numbers]:
        """Return the pairs of some rows: (index, row of the other side)."""
        at, partners = other.find(slots, now)
        return self._met(gather, other.store.gather, at, at, partners, own)

    def _met(
        self,
        gather: Gather,
        gather_other: Gather,
        rows: Numbers,
        at: Numbers,
        partners: Numbers,
        own: JoinSide,
    ) -> tuple[Numbers, Numbers]:
        if not self.pairing.is_conditional or not len(at):
            return at, partners
        kept: list[Any] = [
            met
            for _, met, _ in self.pairing.joined(
                gather, gather_other, rows, partners, own is self.left
            )
        ]
        chosen: Numbers = np.concatenate(kept)
        return at[chosen], partners[chosen]

    def _emit_pairs(
        self,
        changes: JoinChanges,
        net: _Net,
        come: pl.DataFrame,
        gone: pl.DataFrame,
        came: tuple[Numbers, Numbers],
        went: tuple[Numbers, Numbers],
        own: JoinSide,
        other: JoinSide,
    ) -> None:
        kinds = net.come_kinds[came[0]]
        ends = net.go_kinds[went[0]]
        at, partners = went
        replacing = net.replaced[at]
        if (net.replaced >= 0).any():
            # A pair whose row was replaced and that is there as before is an update; without its partner it goes.
            size = len(other.store) + 1
            before = np.where(replacing >= 0, replacing * size + partners, -1)
            after = came[0] * size + came[1]
            stays = np.isin(before, after)
            kinds = np.where(
                np.isin(after, before), UPDATE_AFTER, np.where(kinds == UPDATE_AFTER, INSERT, kinds)
            )
            ends = np.where(stays, UPDATE_BEFORE, np.where(replacing >= 0, DELETE, ends))
            if not self.spec.update_before:
                at, partners, ends = at[~stays], partners[~stays], ends[~stays]
        if not self.spec.update_before:
            ends = np.where(ends == UPDATE_BEFORE, DELETE, ends)
        changes.add(self._put_together(gone, at, partners, own, other), ends.astype(np.int8))
        changes.add(self._put_together(come, *came, own, other), kinds.astype(np.int8))

    def _put_together(
        self, frame: pl.DataFrame, at: Numbers, partners: Numbers, own: JoinSide, other: JoinSide
    ) -> pl.DataFrame:
        mine, theirs = gather_from(frame)(at), other.store.gather(partners)
        if own is self.left:
            return self.pairing.together(mine, theirs)
        return self.pairing.together(theirs, mine)

    def _emit_alone(
        self,
        changes: JoinChanges,
        net: _Net,
        come: pl.DataFrame,
        gone: pl.DataFrame,
        came: tuple[Numbers, Numbers],
        went: tuple[Numbers, Numbers],
        own: JoinSide,
    ) -> None:
        """Emit rows without partners, with NULLs for them."""
        arrive = np.bincount(came[0], minlength=come.height) == 0
        leave = np.bincount(went[0], minlength=gone.height) == 0
        is_left = own is self.left
        self._emit_own(
            changes,
            net,
            self.pairing.padded(only(come, own.schema), is_left),
            self.pairing.padded(only(gone, own.schema), is_left),
            arrive,
            leave,
        )

    def _emit_chosen(
        self,
        changes: JoinChanges,
        net: _Net,
        come: pl.DataFrame,
        gone: pl.DataFrame,
        came: tuple[Numbers, Numbers],
        went: tuple[Numbers, Numbers],
    ) -> None:
        """Emit left rows of a SEMI or ANTI join."""
        wanted = self.spec.kind == "SEMI"
        arrive = (np.bincount(came[0], minlength=come.height) > 0) == wanted
        leave = (np.bincount(went[0], minlength=gone.height) > 0) == wanted
        schema = self.left.schema
        self._emit_own(changes, net, only(come, schema), only(gone, schema), arrive, leave)

    def _emit_own(
        self,
        changes: JoinChanges,
        net: _Net,
        come: pl.DataFrame,
        gone: pl.DataFrame,
        arrive: Numbers,
        leave: Numbers,
    ) -> None:
        kinds, ends = net.come_kinds.copy(), net.go_kinds.copy()
        paired = np.flatnonzero(net.replaced >= 0)
        partners = net.replaced[paired]
        stays = leave[paired] & arrive[partners]
        ends[paired] = np.where(stays, UPDATE_BEFORE, DELETE)
        kinds[partners] = np.where(stays, UPDATE_AFTER, INSERT)
        if not self.spec.update_before:
            leave = leave.copy()
            leave[paired[stays]] = False
            ends = np.where(ends == UPDATE_BEFORE, DELETE, ends)
        changes.add(gone.filter(pl.Series(leave)), ends[leave].astype(np.int8))
        changes.add(come.filter(pl.Series(arrive)), kinds[arrive].astype(np.int8))

    def _emit_turned(
        self, changes: JoinChanges, came: Numbers, went: Numbers, other: JoinSide, now: int
    ) -> None:
        """Emit rows of the other side that have found their first partner, or lost their last."""
        rows, counts = np.unique(np.concatenate((came, went)), return_counts=True)
        if not len(rows):
            return
        lost = np.bincount(np.searchsorted(rows, went), minlength=len(rows))
        before = other.partners.values[rows]
        after = np.maximum(before + counts - 2 * lost, 0)
        found, lonely = rows[(before == 0) & (after > 0)], rows[(before > 0) & (after == 0)]
        first, second = (DELETE, INSERT) if self.spec.kind != "SEMI" else (INSERT, DELETE)
        for chosen, kind in ((found, first), (lonely, second)):
            frame = only(other.store.gather(chosen), other.schema)
            if not self._left_only:
                frame = self.pairing.padded(frame, other is self.left)
            changes.add(frame, kind)
        other.count(rows, after, now)

    def finish(self, *, ends_for_good: bool) -> None:
        """Drop all rows if no later row can need them, so that the last checkpoint does not write them."""
        if ends_for_good:
            for side in self.sides:
                side.clear()

    def close(self) -> None:
        """Close the user functions that the condition calls."""
        self.pairing.close()

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        now = self.context.clock()
        for side in self.sides:
            side.expire(now)
            side.compact()
            side.store.save()
        return super().barrier()


def _all_come(frame: pl.DataFrame) -> _Net:
    rows = np.arange(frame.height)
    return _Net(rows, kinds_of(frame), _NOTHING, np.empty(0, np.int8), _NOTHING, _NOTHING)


def net_by_key(frame: pl.DataFrame, names: list[Any], known: dict[Any, int]) -> _Net:
    """Return the net change of a batch whose rows have a unique key: the last row of a key counts."""
    kinds = kinds_of(frame)
    last: dict[Any, tuple[int, int]] = {}
    unknown: list[int] = []
    for at, (name, kind) in enumerate(zip(names, kinds.tolist(), strict=True)):
        if kind in (UPDATE_BEFORE, DELETE) and name not in last and name not in known:
            unknown.append(at)
        last[name] = (at, kind)
    come: list[int] = []
    come_kinds: list[int] = []
    go: list[int] = []
    go_kinds: list[int] = []
    replaced: list[int] = []
    for name, (at, kind) in last.items():
        old = known.get(name)
        comes = kind in (INSERT, UPDATE_AFTER)
        if old is not None:
            go.append(old)
            go_kinds.append(UPDATE_BEFORE if comes else kind)
            replaced.append(len(come) if comes else -1)
        if comes:
            come.append(at)
            come_kinds.append(kind)
    return _as_net(come, come_kinds, go, go_kinds, replaced, unknown)


def net_by_row(frame: pl.DataFrame, names: list[Any], known: dict[Any, list[int]]) -> _Net:
    """Return the net change of a batch whose rows are identified by all columns."""
    kinds = kinds_of(frame).tolist()
    arrived: dict[Any, list[int]] = {}
    left: dict[Any, list[int]] = {}
    unknown: list[int] = []
    for at, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        if kind in (INSERT, UPDATE_AFTER):
            waiting = left.get(name)
            if waiting:
                waiting.pop()
            else:
                arrived.setdefault(name, []).append(at)
        else:
            there = arrived.get(name)
            if there:
                there.pop()
            elif len(known.get(name, ())) > len(left.get(name, ())):
                left.setdefault(name, []).append(kind)
            else:
                unknown.append(at)
    come = sorted(at for each in arrived.values() for at in each)
    go: list[int] = []
    go_kinds: list[int] = []
    for name, ends in left.items():
        go += known[name][: len(ends)]
        go_kinds += ends
    return _as_net(come, [kinds[at] for at in come], go, go_kinds, [-1] * len(go), unknown)


def _as_net(
    come: list[int],
    come_kinds: list[int],
    go: list[int],
    go_kinds: list[int],
    replaced: list[int],
    unknown: list[int],
) -> _Net:
    return _Net(
        np.array(come, np.int64),
        np.array(come_kinds, np.int8),
        np.array(go, np.int64),
        np.array(go_kinds, np.int8),
        np.array(replaced, np.int64),
        np.array(unknown, np.int64),
    )
