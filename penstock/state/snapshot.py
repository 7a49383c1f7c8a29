"""A snapshot of a job, opened for reading: a checkpoint of either backend, or a savepoint."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock.checkpoint.handles import StateChain
from penstock.checkpoint.manifest import Manifest
from penstock.errors import ArgumentError, ArgumentTypeError, RestoreRefusedError
from penstock.runtime.operators.windows.window import MERGING_SET
from penstock.runtime.operators.windows.window_base import CONTENTS
from penstock.runtime.state.schema import StateSchema, combined
from penstock.state import unpickling
from penstock.state.catalog import (
    EVENT_TIMERS,
    PROCESSING_TIMERS,
    TIMERS,
    OperatorInfo,
    StateInfo,
    describe_operator_state,
    describe_table,
    find_operator,
    find_state,
    unknown,
)
from penstock.state.chains import ChainReader, TableSummary
from penstock.state.databases import Databases
from penstock.state.tables import (
    KeyedPart,
    KeyedStateTable,
    RowsPart,
    SnapshotTable,
    TimerPart,
    value_columns,
)

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import SourceSnapshot

TIMER_COLUMNS = ("key", "namespace", "timestamp", "domain")
OFFSET_COLUMNS = ("operator", "subtask", "split", "position", "watermark", "finished", "idle")


class Snapshot:
    """The state of a job at one point in time. Everything is read lazily.

    `operators` lists the contents; print the snapshot for an overview. Operators are selected by uid, name or id.
    """

    def __init__(self, path: str, kind: str, directory: str, manifest: Manifest) -> None:
        self.path = path
        self.kind = kind
        self.manifest = manifest
        self.directory = directory
        self.databases = Databases()
        self._locals: dict[str, list[dict[str, Any]]] = {}

    @property
    def job_id(self) -> str:
        """The id of the job."""
        return self.manifest.job_id

    @property
    def job_name(self) -> str:
        """The name of the job."""
        return self.manifest.job_name

    @property
    def checkpoint_id(self) -> int:
        """The checkpoint id."""
        return self.manifest.checkpoint_id

    @property
    def created(self) -> dt.datetime:
        """When it was taken."""
        return dt.datetime.fromtimestamp(self.manifest.created_ms / 1000, dt.UTC)

    @cached_property
    def operators(self) -> tuple[OperatorInfo, ...]:
        """All operators, with their states: sources first, then those with most states."""
        found = (
            OperatorInfo(
                id=name,
                uid=op.uid,
                name=op.name,
                parallelism=op.parallelism,
                max_parallelism=op.max_parallelism,
                states=(*self._keyed_states(name), *self._operator_states(name)),
                size=sum(chain.size for chain in op.subtasks),
                description=op.description,
            )
            for name, op in self.manifest.operators.items()
        )
        return tuple(sorted(found, key=self._place))

    def _place(self, operator: OperatorInfo) -> tuple[Any, ...]:
        users = sum(not state.internal for state in operator.states)
        return operator.id not in self.manifest.sources, -users, operator.label, operator.id

    def operator(self, operator: str) -> OperatorInfo:
        """Return one operator."""
        return find_operator(self.operators, operator)

    # Keyed state.

    def state(self, operator: str, name: str, *, explode: bool = False) -> KeyedStateTable:
        """Return a keyed state as a table, one row per key (and window).

        With `explode` a list has a row per element and a map a row per entry. A window's contents are the state
        `window-contents`.
        """
        found = self.operator(operator)
        keyed = [state for state in found.states if state.is_keyed]
        state = self._find(found, name, keyed)
        if state.kind == "timers":
            return self._timers(found, (state.table,))
        if explode and state.kind not in {"list", "map", "contents"}:
            raise ArgumentError(
                f"state '{name}' of operator '{found.label}' is {state.kind} state and cannot be exploded",
                hint="explode=True is for list state, map state and contents of windows",
            )
        return self.table_of(found, state, explode=explode)

    def table_of(
        self,
        operator: OperatorInfo,
        state: StateInfo,
        *,
        explode: bool = False,
        chains: Sequence[StateChain] | None = None,
    ) -> KeyedStateTable:
        """Return the table of a described keyed state, or the part of it in some of its chains."""
        merges = state.table == CONTENTS and any(s.table == MERGING_SET for s in operator.states)
        reader = self.reader(operator.id)
        parts = [
            KeyedPart(reader, part, whole, operator.label, state, explode, merging=merges)
            for whole in (self.chains(operator.id) if chains is None else chains)
            for part in reader.parts(whole, state.table)
        ]
        scope = () if state.scope is None else (state.scope,)
        return KeyedStateTable(
            f"state '{state.name}' of operator '{operator.label}'",
            ("key", *scope, *value_columns(state, explode=explode)),
            parts,
            self.databases,
            state,
            explode=explode,
        )

    def windows(self, operator: str, *, explode: bool = False) -> KeyedStateTable:
        """Return the contents of a window operator's windows; with `explode` a row per element."""
        return self.state(operator, CONTENTS, explode=explode)

    def timers(self, operator: str) -> KeyedStateTable:
        """Return the pending timers: key, namespace (a window, or None), timestamp, domain ('event' or 'processing')."""
        return self._timers(self.operator(operator), (EVENT_TIMERS, PROCESSING_TIMERS))

    def _timers(self, operator: OperatorInfo, tables: Sequence[str]) -> KeyedStateTable:
        there = {state.table for state in operator.states}
        reader = self.reader(operator.id)
        parts = [
            TimerPart(reader, part, operator.label, table)
            for table in tables
            if table in there
            for chain in self.chains(operator.id)
            for part in reader.parts(chain, table)
        ]
        name = f"timers of operator '{operator.label}'"
        return KeyedStateTable(name, TIMER_COLUMNS, parts, self.databases)

    # Operator state.

    def operator_state(self, operator: str, name: str) -> KeyedStateTable:
        """Return an operator state: list, union list, broadcast, or internal state of the operator.

        Lists have the columns subtask, position, value; broadcast state has key, value (all subtasks hold the same);
        internal state has subtask, value.
        """
        found = self.operator(operator)
        own = [state for state in found.states if not state.is_keyed]
        state = self._find(found, name, own)
        held = self.locals_of(found.id)
        names: tuple[str, ...]
        rows: list[tuple[Any, ...]]
        if state.kind == "broadcast":
            names = ("key", "value")
            copies = (values[state.table] for values in held if state.table in values)
            rows = list(next(copies, {}).items())
        elif state.kind == "operator":
            names = ("subtask", "value")
            rows = [
                (index, values[state.table])
                for index, values in enumerate(held)
                if state.table in values
            ]
        else:
            names = ("subtask", "position", "value")
            rows = [
                (index, position, value)
                for index, values in enumerate(held)
                for position, value in enumerate(values.get(state.table, ()))
            ]
        label = f"{state.kind} state '{state.name}' of operator '{found.label}'"
        return KeyedStateTable(label, names, [RowsPart(tuple(rows))], self.databases)

    def _find(self, operator: OperatorInfo, name: str, states: Sequence[StateInfo]) -> StateInfo:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"state name must be a str, got {name!r}")
        try:
            return find_state(operator, name, states)
        except ArgumentError as error:
            other = [s for s in operator.states if name in {s.name, s.table}]
            if not other or other[0] in states:
                raise
            method = "state" if other[0].is_keyed else "operator_state"
            raise ArgumentError(
                error.message,
                detail=f"'{name}' is {other[0].kind} state",
                hint=f"use .{method}('{operator.label}', '{name}')",
            ) from None

    # Sources and time.

    def sources(self) -> SnapshotTable:
        """Return the sources: operator, splits, finished (number of finished splits), watermark (the lowest of a split)."""

        def rows() -> Iterator[tuple[Any, ...]]:
            for name, source in self.manifest.sources.items():
                progress = [split for _, split in _splits(source, self._label(name))]
                low = min(
                    (split.watermark for split in progress if not split.finished), default=None
                )
                yield self._label(name), len(progress), sum(s.finished for s in progress), low

        return SnapshotTable("sources", ("operator", "splits", "finished", "watermark"), rows)

    def offsets(self, operator: str | None = None) -> KeyedStateTable:
        """Return the positions of the splits of a source, or of all sources.

        Columns: operator, subtask, split, position, watermark, finished, idle.
        """
        wanted = list(self.manifest.sources)
        if operator is not None:
            found = self.operator(operator)
            if found.id not in self.manifest.sources:
                labels = [self._label(name) for name in wanted]
                raise unknown("source", operator, labels, "the snapshot")
            wanted = [found.id]
        rows = tuple(
            (
                self._label(name),
                subtask,
                split.split.split_id,
                split.position,
                split.watermark,
                split.finished,
                split.idle,
            )
            for name in wanted
            for subtask, split in _splits(self.manifest.sources[name], self._label(name))
        )
        return KeyedStateTable("offsets", OFFSET_COLUMNS, [RowsPart(rows)], self.databases)

    def watermarks(self) -> SnapshotTable:
        """Return the watermark of each subtask: operators (of the chain), subtask, watermark, finished."""

        def rows() -> Iterator[tuple[Any, ...]]:
            for vertex, snapshot in self.manifest.vertices.items():
                chain = " -> ".join(
                    op.name for op in self.manifest.operators.values() if op.vertex == vertex
                )
                for index, subtask in enumerate(snapshot.subtasks):
                    yield chain, index, subtask.watermark, subtask.finished

        return SnapshotTable("watermarks", ("operators", "subtask", "watermark", "finished"), rows)

    # Comparing.

    def diff(self, other: Snapshot, *, internal: bool = False) -> SnapshotTable:
        """Return the changes from this snapshot to another one: keys, timers, offsets, operator state.

        Columns: operator, state, key, window, change ('added', 'removed' or 'changed'), before, after. With `internal`
        internal tables of operators are compared, too.
        """
        if not isinstance(other, Snapshot):
            raise ArgumentTypeError(
                f"cannot compare a snapshot with a {type(other).__name__}",
                hint="open the other one with penstock.state.read(path)",
            )
        from penstock.state.diffs import DIFF_COLUMNS, differences

        return SnapshotTable(
            f"changes from {self._title()} to {other._title()}",
            DIFF_COLUMNS,
            lambda: differences(self, other, internal=internal),
        )

    # Internals.

    def chains(self, operator: str) -> list[StateChain]:
        """Return the chains of an operator's keyed state, by id; empty ones are omitted."""
        return [chain for chain in self.manifest.operators[operator].subtasks if chain]

    def reader(self, operator: str) -> ChainReader:
        """Return the reader for the chains of an operator."""
        return ChainReader(
            self.directory,
            self.manifest.operators[operator].max_parallelism,
            self.checkpoint_id if self.kind == "checkpoint" else None,
        )

    def locals_of(self, operator: str) -> list[dict[str, Any]]:
        """Return the operator's state in each subtask, besides keyed state."""
        vertex = self.manifest.operators[operator].vertex
        if vertex not in self._locals:
            snapshot = self.manifest.vertices.get(vertex)
            subtasks = () if snapshot is None else snapshot.subtasks
            what = f"the state of subtasks of '{self._label(operator)}'"
            self._locals[vertex] = [
                {} if subtask.local is None else unpickling.load(subtask.local, what)["operators"]
                for subtask in subtasks
            ]
        return [operators.get(operator, {}) for operators in self._locals[vertex]]

    def _keyed_states(self, operator: str) -> list[StateInfo]:
        reader = self.reader(operator)
        found: dict[str, TableSummary] = {}
        for chain in self.chains(operator):
            for name, summary in reader.tables(chain, self.databases).items():
                total = found.get(name)
                if total is None:
                    found[name] = summary
                    continue
                total.entries = _sum(total.entries, summary.entries)
                total.size = _sum(total.size, summary.size)
                total.schema = _combined(total.schema, summary.schema)
        states = [
            describe_table(name, s.namespaced, s.schema, s.entries, s.size)
            for name, s in found.items()
            if s.entries != 0 or s.schema is not None
        ]
        return sorted(states, key=_order)

    def _operator_states(self, operator: str) -> list[StateInfo]:
        held = self._locals_for_listing(operator)
        names = dict.fromkeys(name for values in held for name in values)
        states = [
            describe_operator_state(name, [values[name] for values in held if name in values])
            for name in names
        ]
        return sorted(states, key=_order)

    def _locals_for_listing(self, operator: str) -> list[dict[str, Any]]:
        vertex = self.manifest.vertices.get(self.manifest.operators[operator].vertex)
        subtasks = () if vertex is None else vertex.subtasks
        return [
            unpickling.load_leniently(subtask.local)["operators"].get(operator, {})
            for subtask in subtasks
            if subtask.local is not None
        ]

    def _label(self, operator: str) -> str:
        op = self.manifest.operators.get(operator)
        return operator if op is None else op.uid or op.name

    def _title(self) -> str:
        name = f"checkpoint {self.checkpoint_id}" if self.kind == "checkpoint" else "savepoint"
        return f"{name} of job '{self.job_name}'"

    def __str__(self) -> str:
        moment = self.created.strftime("%Y-%m-%d %H:%M:%S UTC")
        lines = [f"{self._title()} ({self.job_id}), taken {moment}", ""]
        others = 0
        for op in self.operators:
            if not op.states and op.id not in self.manifest.sources:
                others += 1
                continue
            lines.append(str(op))
            splits = self.manifest.sources.get(op.id)
            if splits is not None:
                progress = [split for _, split in _splits(splits, op.label)]
                done = sum(split.finished for split in progress)
                noun = "split" if len(progress) == 1 else "splits"
                lines.append(f"  offsets of {len(progress)} {noun}, {done} finished")
        if others:
            lines.append(f"{others} operator{'s' if others > 1 else ''} without state")
        if self.manifest.has_in_flight_data:
            size = self.manifest.in_flight_size
            lines.append(
                f"{size} bytes of in-flight records (unaligned checkpoint), which are not shown"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<{self._title()} at '{self.path}', {len(self.manifest.operators)} operators>"


def _splits(source: SourceSnapshot, label: str) -> Iterator[tuple[int, Any]]:
    for subtask, pickled in enumerate(source.splits):
        for split in unpickling.load(pickled.data, f"the splits of source '{label}'"):
            yield subtask, split


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _combined(one: StateSchema | None, other: StateSchema | None) -> StateSchema | None:
    """Return the combined schema of two subtasks; one of them may not have used the state since the program changed."""
    if one is None or other is None:
        return one or other
    try:
        return combined("", "", one, other)
    except RestoreRefusedError:
        return replace(one, shape=None, text="any type")


def _order(state: StateInfo) -> tuple[bool, bool, str]:
    return state.internal, state.table.startswith(TIMERS), state.name
