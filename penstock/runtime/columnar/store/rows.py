"""Rows that an operator keeps, as columns in memory, with their copy in the keyed state.

The state has them by key group, not by key: a group's rows are a few pieces of Arrow, under a key that belongs to the group. So a snapshot costs what has
come since the last one, at the speed of columns, and rescaling moves the groups as it moves any other state.

Pieces come in runs: what one barrier writes. Runs are merged when a later one has grown as large, so a row is written a few times and there are few runs.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from penstock.errors import InvalidProgramError
from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.store.groups import Numbers, group_keys, key_groups
from penstock.runtime.columnar.store.growing_array import GrowingArray
from penstock.runtime.state.table import StateTable

_NUMBER: Final = "$number"  # the column that rows are known by in the state
_GROUP: Final = "$group"
_ALIKE: Final = 8
_MOST_RUNS: Final = 12
_WORTH_IT: Final = 4096
_FEW: Final = 256
_MUCH: Final = 8 << 20

Entry = tuple[int, int]  # a key of the key group, and the number of the run


@dataclass(slots=True)
class _Run:
    """A run: rows that were written together, all rows from a number on, and the numbers of earlier rows that have gone."""

    first: int
    size: int
    entries: list[Entry]
    gone: list[tuple[Numbers, Numbers]]  # groups, numbers


class RowStore:
    """Rows by their position. `remove` leaves holes; `compact` closes them and says where rows are now.

    `unsaved` rows (see `append`) are stored in state by another component.
    """

    def __init__(
        self,
        table: StateTable,
        schema: Mapping[str, pl.DataType],
        keys: Sequence[int],
        max_parallelism: int,
    ) -> None:
        #: Types of the columns by name; every part has exactly these.
        self.schema = dict(schema)
        #: Holds the runs: entries (key of a group, number of the run) -> rows and removals.
        self._table = table
        # With state on disk, written pieces need not be kept as objects until the end of the barrier.
        self._backend = getattr(table, "backend", None)
        #: Columns whose values decide the key group of a row.
        self._keys = tuple(keys)
        #: The maximum parallelism; state that was saved with another one is refused.
        self._groups = max_parallelism
        #: The rows by position, in frames that are never empty.
        self._parts: list[pl.DataFrame] = []
        #: All parts as one frame; None since a part was added.
        self._whole: pl.DataFrame | None = None
        #: Of each row: its number. Numbers ascend, and stay when holes are closed.
        self._numbers = GrowingArray(np.int64)
        #: Of each row: False once it was removed.
        self._alive = GrowingArray(np.bool_)
        #: Of each row: whether this store saves it.
        self._saved_here = GrowingArray(np.bool_)
        #: The number of the next row: above all numbers here and in the state.
        self._next = 0
        #: Rows before this position are in the state, if they were alive when they were saved.
        self._clean = 0
        #: What the state has, oldest first; each has more rows than the next.
        self._runs: list[_Run] = []
        #: The number of the last run.
        self._run = 0
        #: Key groups and numbers of saved rows that were removed since the last barrier.
        self._gone: list[tuple[Numbers, Numbers]] = []
        #: Removals in the runs and in `_gone`; with more of them than rows, all is rewritten.
        self._count_gone = 0
        #: The number of rows that are not alive and still have a position.
        self._dead = 0
        #: Whether the next `save` writes one new run in place of all.
        self._rewrite_all = False
        self._restore()

    def __len__(self) -> int:
        """How many positions there are, with the holes."""
        return len(self._numbers)

    @property
    def live(self) -> int:
        """How many rows there are."""
        return len(self._numbers) - self._dead

    @property
    def alive(self) -> Numbers:
        """For each position, whether there is a row."""
        return self._alive.values

    @property
    def frame(self) -> pl.DataFrame:
        """All positions."""
        if self._whole is None:
            self._whole = (
                pl.concat(self._parts, rechunk=False)
                if self._parts
                else pl.DataFrame(schema=self.schema)
            )
        return self._whole

    def gather(self, rows: Numbers) -> pl.DataFrame:
        """Return some rows, in the order that is asked for."""
        return self.frame[pl.Series(rows, dtype=pl.UInt32)]

    def is_saved_here(self, rows: Numbers) -> Numbers:
        """Return for some rows whether it is this store that saves them."""
        saved: Numbers = self._saved_here.values[rows]
        return saved

    def size_bytes(self) -> int:
        """Return about how much memory the columns take."""
        return int(self.frame.estimated_size())

    # Changes

    def append(self, frame: pl.DataFrame, *, saved_elsewhere: bool = False) -> Numbers:
        """Add rows; return their positions."""
        start, height = len(self), frame.height
        self._add_part(only(frame, self.schema))
        self._numbers.extend(np.arange(self._next, self._next + height))
        self._alive.extend(np.ones(height, np.bool_))
        self._saved_here.extend(np.full(height, not saved_elsewhere))
        self._next += height
        return np.arange(start, start + height)

    def _add_part(self, frame: pl.DataFrame) -> None:
        if not frame.height:
            return
        parts = self._parts
        parts.append(frame)
        self._whole = None
        # Eight parts of a size become one of the next size: a row is copied a few times, however many there are. Measured: to gather from 20 parts
        # takes a sixth longer than from 4.
        while True:
            size = _size(parts[-1])
            alike = 1
            while alike < len(parts) and _size(parts[-alike - 1]) <= size:
                alike += 1
            if alike < _ALIKE:
                return
            parts[-alike:] = [pl.concat(parts[-alike:], rechunk=True)]

    def remove(self, rows: Numbers, *, silently: bool = False) -> None:
        """Take rows away. `silently`: the state is rewritten without them at the next barrier."""
        if not len(rows):
            return
        self._alive.values[rows] = False
        self._dead += len(rows)
        if silently:
            self._rewrite_all = True
            return
        saved = rows[(rows < self._clean) & self._saved_here.values[rows]]
        if len(saved) and not self._rewrite_all:
            groups = key_groups(self._key_columns(saved), self._keys, self._groups)
            self._gone.append((groups, self._numbers.values[saved]))
            self._count_gone += len(saved)

    def _key_columns(self, rows: Numbers) -> pl.DataFrame:
        # A key may have a column twice: `l.a = r.c AND l.b = r.c`.
        names = list(dict.fromkeys(map(column, self._keys))) or list(self.schema)[:1]
        return self.frame.select(names)[pl.Series(rows, dtype=pl.UInt32)]

    def compact(self, *, at_once: bool = False) -> Numbers | None:
        """Close the holes if there are many; return the new position of each row (-1: gone), or None if nothing has changed."""
        total = len(self)
        if not self._dead or not (at_once or (self._dead > _WORTH_IT and 2 * self._dead > total)):
            return None
        alive = self._alive.values
        kept = np.flatnonzero(alive)
        moved = np.full(total, -1, np.int64)
        moved[kept] = np.arange(len(kept))
        self._clean = int(np.count_nonzero(alive[: self._clean]))
        frame = self.gather(kept)
        self._parts = [frame] if frame.height else []
        self._whole = None
        for each in (self._numbers, self._alive, self._saved_here):
            each.keep(kept)
        self._dead = 0
        return moved

    # State

    def save(self) -> None:
        """Write pending changes to keyed state, at a barrier."""
        start, self._clean = self._clean, len(self)
        rows = self._to_save(start)
        if (
            self._rewrite_all
            or self._count_gone > max(self.live, _FEW)
            or (self._gone and not self.live)
        ):
            self._write_all()
        elif len(rows) or self._gone:
            self._write_run(start, rows)

    def clear(self) -> None:
        """Forget all rows, here and, with the next `save`, in the state."""
        self._parts, self._whole = [], None
        for each in (self._numbers, self._alive, self._saved_here):
            each.clear()
        self._gone, self._count_gone, self._dead, self._clean = [], 0, 0, 0
        self._rewrite_all = True

    def _to_save(self, start: int) -> Numbers:
        wanted = self._alive.values[start:] & self._saved_here.values[start:]
        return np.flatnonzero(wanted) + start

    def _write_all(self) -> None:
        self._rewrite_all = False
        for run in self._runs:
            self._forget(run)
        self._runs = []
        self._gone, self._count_gone = [], 0
        rows = self._to_save(0)
        if len(rows):
            self._write_run(0, rows)

    def _write_run(self, start: int, rows: Numbers) -> None:
        """Write the rows since a position, merged with earlier runs that are not much larger."""
        size = len(rows)
        gone, self._gone = self._gone, []
        while self._runs and self._runs[-1].size <= size:
            last = self._runs.pop()
            self._forget(last)
            start = int(np.searchsorted(self._numbers.values, last.first))
            gone = last.gone + gone
            size += last.size
        rows = self._to_save(start) if size > len(rows) else rows
        first = int(self._numbers.values[start]) if start < len(self) else self._next
        # Removed rows are not in this run: only removals from earlier runs must be recorded.
        gone = [_before(*each, first) for each in gone] if self._runs else []
        self._run += 1
        entries = self._put(rows, gone)
        self._runs.append(_Run(first, len(rows), entries, gone))
        if len(self._runs) == 1:
            self._count_gone = 0

    def _forget(self, run: _Run) -> None:
        for entry in run.entries:
            self._table.remove(entry)

    def _put(self, rows: Numbers, gone: list[tuple[Numbers, Numbers]]) -> list[Entry]:
        pieces: dict[int, bytes] = {}
        if len(rows):
            frame = self.gather(rows).with_columns(
                pl.Series(_NUMBER, self._numbers.values[rows], pl.Int64)
            )
            groups = key_groups(frame, self._keys, self._groups)
            order = np.argsort(groups, kind="stable")
            frame = frame[pl.Series(order, dtype=pl.UInt32)]
            for group, start, end in _stretches(groups[order]):
                pieces[group] = _to_bytes(frame.slice(start, end - start))
        removed: dict[int, bytes] = {}
        if gone:
            groups, numbers = (np.concatenate(each) for each in zip(*gone, strict=True))
            order = np.argsort(groups, kind="stable")
            for group, start, end in _stretches(groups[order]):
                removed[group] = numbers[order[start:end]].astype("<i8").tobytes()
        keys, put = group_keys(self._groups), self._table.put
        entries = []
        size = 0
        for group in sorted({*pieces, *removed}):
            entry = (keys[group], self._run)
            piece = pieces.pop(group, None)
            put(entry, (self._groups, piece, removed.get(group)))
            entries.append(entry)
            size += len(piece or b"")
            if size > _MUCH and self._backend is not None:
                size = 0
                self._backend.trim_cache(at_once=True)
        return entries

    def _restore(self) -> None:
        frames: list[pl.DataFrame] = []
        gone: dict[int, list[Numbers]] = {}
        entries: list[Entry] = []
        for (key, run), (groups, rows, removed) in self._table.items():
            if groups != self._groups:
                raise InvalidProgramError(
                    f"state was saved with max parallelism {groups}, not {self._groups}",
                    hint="restore with the max parallelism of the savepoint",
                )
            entries.append((key, run))
            self._run = max(self._run, run)
            if rows is not None:
                frames.append(_from_bytes(rows).with_columns(pl.lit(key).alias(_GROUP)))
            if removed is not None:
                gone.setdefault(key, []).append(np.frombuffer(removed, "<i8"))
        if not entries:
            return
        if frames:
            frame = _without(pl.concat(frames), gone).sort(_NUMBER, maintain_order=True)
            numbers = frame[_NUMBER].to_numpy()
            self.append(frame)
            self._numbers.values[:] = numbers
            self._next = max(self._next, int(numbers.max()) + 1 if len(numbers) else 0)
        for removed_numbers in gone.values():
            self._next = max(self._next, int(max(each.max() for each in removed_numbers)) + 1)
        self._clean = len(self)
        first = int(self._numbers.values[0]) if len(self) else 0
        self._runs = [_Run(first, len(self), entries, [])]
        if len(entries) > _MOST_RUNS * self._groups or (gone and not len(self)):
            self._rewrite_all = True


def only(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Return some columns of a frame, in this order."""
    wanted = list(names)
    return frame if frame.columns == wanted else pl.DataFrame([frame[name] for name in wanted])


def _size(frame: pl.DataFrame) -> int:
    """Return the number of octal digits of a frame's height."""
    return -(-frame.height.bit_length() // 3)


def _before(groups: Numbers, numbers: Numbers, first: int) -> tuple[Numbers, Numbers]:
    earlier = numbers < first
    return groups[earlier], numbers[earlier]


def _without(frame: pl.DataFrame, gone: dict[int, list[Numbers]]) -> pl.DataFrame:
    if not gone:
        return frame
    removed = pl.concat(
        pl.DataFrame({_NUMBER: np.concatenate(numbers).astype(np.int64)}).with_columns(
            pl.lit(key).alias(_GROUP)
        )
        for key, numbers in gone.items()
    )
    return frame.join(removed, on=[_GROUP, _NUMBER], how="anti", maintain_order="left")


def _stretches(ordered: Numbers) -> Iterator[tuple[int, int, int]]:
    """Go through equal numbers: (number, start, end)."""
    if not len(ordered):
        return
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    ends = [*starts[1:].tolist(), len(ordered)]
    yield from zip(ordered[starts].tolist(), starts.tolist(), ends, strict=True)


def _to_bytes(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression="uncompressed")
    return buffer.getvalue()


def _from_bytes(content: bytes) -> pl.DataFrame:
    return pl.read_ipc_stream(io.BytesIO(content))
