"""Runs a physical plan by hand: each operator in some subtasks, one batch at a time, in an order that a seed decides.

Rows are fed as changes of tables and come out as a changelog, and so are watermarks. A channel between two subtasks keeps its order;
which channel is served next is chance, as between the threads of a job. Nothing waits, so a run with the same seed is the same run.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any, Self

import polars as pl

from penstock.graph.operator_specs.columnar.aggregates import ColumnarLocalAggregateSpec
from penstock.graph.operator_specs.columnar.common import KIND, column
from penstock.graph.operator_specs.columnar.stateless import RowsToColumnsSpec
from penstock.options import table as options
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.routing import targets_of
from penstock.runtime.operators.hooks import UsesProcessingTime
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator
from penstock.sql.physical.operators.exchange import PhysicalExchange
from penstock.sql.physical.operators.result import PhysicalResult
from penstock.sql.physical.operators.table_scan import PhysicalTableScan
from penstock.sql.physical.operators.table_sink import PhysicalTableSink
from penstock.sql.physical.operators.union import PhysicalUnion
from penstock.sql.physical.planner import PhysicalPlan
from penstock.testing.harness import HarnessSnapshot, ManualClock, OperatorHarness
from tests.unit.runtime.columnar.changes import KINDS, batch_of, changes_of

Change = tuple[str, tuple[Any, ...]]
Channel = tuple[int, int, int, int]
MAX_PARALLELISM = 128


class _Output:
    """Sends what a subtask emits to those who read it."""

    def __init__(self, run: PlanRun, node: PhysicalNode, subtask: int) -> None:
        self._run, self._node, self._subtask = run, node, subtask

    def emit(self, batch: ColumnBatch) -> None:
        self._run.send(self._node, self._subtask, batch.frame)

    def emit_side(self, tag: str, batch: Any) -> None:
        raise AssertionError(tag)

    def emit_watermark(self, watermark: int) -> None:
        self._run.send(self._node, self._subtask, watermark)

    def emit_status(self, idle: bool) -> None:
        pass


class PlanRun:
    """One run of a plan. `out` is the changelog of its first end, in the order in which it got there."""

    def __init__(
        self,
        plan: PhysicalPlan,
        *,
        parallelism: int = 1,
        seed: int = 0,
        clock: int = 0,
        backend: str = "hashmap",
    ) -> None:
        self.plan = plan
        self.out: list[Change] = []
        self.clock = ManualClock(clock)
        self.parallelism = parallelism
        self._backend = backend
        self._rng = random.Random(seed)
        # By the node (its place in the plan) and subtask that read, the number of the input, and the subtask that sends.
        self._channels: dict[Channel, deque[pl.DataFrame | int]] = {}
        # By the same names, the watermark that has come; and the one that tables have sent, by their names.
        self._valves: dict[Channel, int] = {}
        self._sent: dict[str, int] = {}
        self._nodes = plan.nodes
        self._places = {id(node): at for at, node in enumerate(plan.nodes)}
        self._readers: dict[int, list[tuple[PhysicalNode, int]]] = {}
        for node in self._nodes:
            for at, each in enumerate(node.inputs):
                self._readers.setdefault(id(each), []).append((node, at))
        self._running: dict[tuple[int, int], OperatorHarness] = {}
        # The two levels of a split aggregate agree on what is there at the end only, as in Flink.
        self._keeps_promises = not plan.settings.configuration.get(options.DISTINCT_SPLIT)
        self._start(parallelism, {})

    def _start(self, parallelism: int, snapshots: dict[int, list[HarnessSnapshot]]) -> None:
        self.parallelism = parallelism
        self._running.clear()
        self._valves.clear()
        self._watermarks: dict[tuple[int, int], int] = {}
        for place, node in enumerate(self._nodes):
            if not isinstance(node, PhysicalOperator) or isinstance(node.spec, RowsToColumnsSpec):
                continue
            for subtask in range(1 if node.single else parallelism):
                output: Any = _Output(self, node, subtask)
                self._running[place, subtask] = OperatorHarness(
                    node.spec,
                    subtask=subtask,
                    parallelism=1 if node.single else parallelism,
                    max_parallelism=MAX_PARALLELISM,
                    clock=self.clock,
                    batch_mode=self.plan.settings.batch,
                    state_backend=self._backend,
                    snapshots=snapshots.get(place, ()),
                    output=output,
                )

    def feed(self, table: str, *changes: Change, by: int = 0) -> None:
        """Let a table send changes: each subtask those of the rows whose value in a column (`by`) is its own, in one batch, so that changes of a row stay in order."""
        for node in self._nodes:
            if isinstance(node, PhysicalTableScan) and node.table.path.name == table:
                names = [each.name for each in node.table.columns]
                chosen = [names.index(name) for name in node.scanned.names]
                parts: dict[int, list[Change]] = {}
                for kind, row in changes:
                    subtask = hash(row[by] or 0) % self.parallelism
                    parts.setdefault(subtask, []).append((kind, tuple(row[at] for at in chosen)))
                for subtask, rows in parts.items():
                    self.send(node, subtask, batch_of(rows, node.types).frame)

    def advance(self, table: str, watermark: int) -> None:
        """Let a table send a watermark, from all subtasks."""
        self._sent[table] = watermark
        for node in self._nodes:
            if isinstance(node, PhysicalTableScan) and node.table.path.name == table:
                for subtask in range(self.parallelism):
                    self.send(node, subtask, watermark)

    def send(self, node: PhysicalNode, subtask: int, emitted: pl.DataFrame | int) -> None:
        """Put what a node emits, rows or a watermark, into the channels of its readers."""
        if isinstance(emitted, pl.DataFrame) and self._keeps_promises:
            check_promises(node, emitted)
        for reader, at in self._readers.get(id(node), ()):
            if isinstance(emitted, int):
                parts: Iterable[tuple[int, Any]] = (
                    (target, emitted) for target in self._targets(reader, subtask)
                )
            else:
                routed = self._routed(reader, subtask, emitted)
                parts = ((target, part) for target, part in routed if part.height)
            for target, part in parts:
                channel = (self._places[id(reader)], target, at, subtask)
                self._channels.setdefault(channel, deque()).append(part)

    def _targets(self, reader: PhysicalNode, subtask: int) -> Iterable[int]:
        """Return the subtasks of a reader that a subtask sends to."""
        if not isinstance(reader, PhysicalExchange):
            return (subtask,)
        if not reader.columns:
            return (0,)
        return (
            (subtask,) if reader.inputs[0].is_hashed_by(reader.columns) else range(self.parallelism)
        )

    def _subtasks(self, node: PhysicalNode) -> int:
        """Return in how many subtasks a node has rows."""
        if isinstance(node, PhysicalExchange):
            return self.parallelism if node.columns else 1
        return max(map(self._subtasks, node.inputs), default=self.parallelism)

    def _routed(
        self, reader: PhysicalNode, subtask: int, frame: pl.DataFrame
    ) -> Iterable[tuple[int, pl.DataFrame]]:
        if not isinstance(reader, PhysicalExchange):
            yield subtask, frame
        elif not reader.columns:
            yield 0, frame
        elif self.parallelism == 1 or reader.inputs[0].is_hashed_by(reader.columns):
            yield subtask, frame
        else:
            keys = [frame[column(at)] for at in reader.columns]
            targets = targets_of(keys, frame.height, self.parallelism, MAX_PARALLELISM)
            for target in range(self.parallelism):
                yield target, frame.filter(pl.Series(targets == target))

    def step(self) -> bool:
        """Serve one channel; return whether there was something in one."""
        waiting = sorted(key for key, each in self._channels.items() if each)
        if not waiting:
            return False
        chosen = self._rng.choice(waiting)
        self._process(*chosen, self._channels[chosen].popleft())
        return True

    def _process(
        self, place: int, subtask: int, at: int, sender: int, given: pl.DataFrame | int
    ) -> None:
        node = self._nodes[place]
        if isinstance(given, int):
            self._valves[place, subtask, at, sender] = given
            self._move_on(node, place, subtask)
            return
        frame = given
        match node:
            case PhysicalResult() | PhysicalTableSink():
                if node is self.plan.roots[0]:
                    self.out += changes_of([frame])
            case PhysicalExchange() | PhysicalUnion():
                self.send(node, subtask, frame)
            case PhysicalOperator(spec=RowsToColumnsSpec()):
                self.send(node, subtask, frame)
            case PhysicalOperator():
                self._running[place, subtask].operator.process(ColumnBatch(frame), at)
            case _:
                raise AssertionError(node)

    def _move_on(self, node: PhysicalNode, place: int, subtask: int) -> None:
        """Let a subtask have the least of the watermarks that came from all subtasks that send to it, if it is a new one."""
        expected = [
            (place, subtask, at, sender)
            for at, each in enumerate(node.inputs)
            for sender in range(self._subtasks(each))
            if subtask in self._targets(node, sender)
        ]
        least = min(self._valves.get(channel, MIN_WATERMARK) for channel in expected)
        if least <= self._watermarks.get((place, subtask), MIN_WATERMARK):
            return
        self._watermarks[place, subtask] = least
        if (place, subtask) in self._running:
            self._running[place, subtask].process_watermark(least)
        else:
            self.send(node, subtask, least)

    def pass_time(self, millis: int) -> None:
        """Drain, and move the clock on."""
        self.drain()
        self.clock.advance(millis)
        for harness in self._running.values():
            if isinstance(harness.operator, UsesProcessingTime):
                harness.operator.advance_processing_time(self.clock.now)

    def steps(self, count: int) -> None:
        """Serve some channels."""
        for _ in range(count):
            self.step()

    def drain(self) -> None:
        """Serve all channels until nothing is on its way."""
        while self.step():
            pass

    def finish(self) -> None:
        """Drain, and end all tables: with the last watermark, and the inputs of all operators, one after another."""
        for table in {
            node.table.path.name for node in self._nodes if isinstance(node, PhysicalTableScan)
        }:
            self.advance(table, MAX_WATERMARK)
        for place in range(len(self._nodes)):
            self.drain()
            for subtask in range(self.parallelism):
                if (place, subtask) in self._running:
                    self._running[place, subtask].operator.finish(ends_for_good=False)
        self.drain()

    @property
    def watermark(self) -> int:
        """The watermark that has come to the end of the plan, in its first subtask."""
        return self._watermarks.get((self._places[id(self.plan.roots[0])], 0), MIN_WATERMARK)

    def harnesses(self, place: int) -> list[OperatorHarness]:
        """Return the subtasks of a node that runs an operator, by its place in the plan."""
        return [harness for (at, _), harness in self._running.items() if at == place]

    def restart(self, parallelism: int | None = None) -> None:
        """Drain, and go on from a snapshot, with this parallelism or the same."""
        self.drain()
        taken: dict[int, list[HarnessSnapshot]] = {}
        for (place, _), harness in self._running.items():
            taken.setdefault(place, []).append(harness.snapshot())
        self.close()
        self._start(parallelism or self.parallelism, taken)
        for table, watermark in self._sent.items():
            self.advance(table, watermark)

    def close(self) -> None:
        """Close all operators and their state: RocksDB takes a second where it is left to the garbage collector."""
        for harness in self._running.values():
            harness.close()
            harness.keyed_state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def check_promises(node: PhysicalNode, frame: pl.DataFrame) -> None:
    """Check that rows are what the schema and the traits of a node say: no NULL where there is none, and no kind of change that is not expected."""
    if isinstance(node, PhysicalOperator) and isinstance(node.spec, ColumnarLocalAggregateSpec):
        return  # it sends accumulators
    for at, field in enumerate(node.schema):
        if not field.type.is_nullable:
            assert not frame[column(at)].null_count(), f"NULL in {field.name} of {node}"
    changes = node.traits.changes
    allowed = {
        "+I": True,
        "-U": changes.updates and changes.before,
        "+U": changes.updates,
        "-D": changes.deletes,
    }
    found = set(frame[KIND].unique()) if KIND in frame.columns else set()
    wrong = {KINDS[kind] for kind in found if not allowed[KINDS[kind]]}
    assert not wrong, f"{wrong} of {node}"


class ChangingTable:
    """A table as it is now, and what is valid to happen to it next."""

    def __init__(self) -> None:
        self.rows: dict[Any, tuple[Any, ...]] = {}

    def change(self, rng: random.Random, row: tuple[Any, ...]) -> list[Change]:
        """Insert a row by its first value, or update or delete the one that is there: the changes that say so."""
        key = row[0]
        old = self.rows.get(key)
        if old is None:
            self.rows[key] = row
            return [("+I", row)]
        if rng.random() < 0.35:
            del self.rows[key]
            return [("-D", old)]
        self.rows[key] = row
        return [("-U", old), ("+U", row)]


def valid_table(changes: Sequence[Change]) -> Counter[tuple[Any, ...]]:
    """Return the table that a changelog leaves; each prefix must be a table: nothing is taken back that is not there."""
    table: Counter[tuple[Any, ...]] = Counter()
    for number, (kind, row) in enumerate(changes):
        table[row] += 1 if kind in {"+I", "+U"} else -1
        assert table[row] >= 0, f"change {number}: {kind} {row} takes back what is not there"
    return +table


def check_kinds(changes: Sequence[Change], key: Iterable[int], *, before: bool) -> None:
    """Check that what comes is new (+I) or replaces (+U) the row of its key, and that what goes is there. `before`: each +U follows the -U of its key, and each -U is followed by one."""
    columns = sorted(key)
    there: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    replaced: set[tuple[Any, ...]] = set()
    for number, (kind, row) in enumerate(changes):
        name, shown = tuple(row[at] for at in columns), f"change {number}: {kind} {row}"
        if kind == "+I":
            assert name not in there, f"{shown}, but the key has {there[name]}"
            assert name not in replaced, f"{shown} after -U"
            there[name] = row
        elif kind == "+U":
            assert name in (replaced if before else there), f"{shown} replaces nothing"
            replaced.discard(name)
            there[name] = row
        else:
            assert there.pop(name, None) == row, f"{shown}, but it is not there"
            if kind == "-U":
                replaced.add(name)
    assert not replaced, f"no +U after -U: {replaced}"


def upserted_table(changes: Sequence[Change], key: Iterable[int]) -> Counter[tuple[Any, ...]]:
    """Return the table that is left if only the last change of each key counts, as in a store with that primary key: -U rows delete, as -D rows do."""
    columns = sorted(key)
    last: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for kind, row in changes:
        name = tuple(row[at] for at in columns)
        if kind in {"+I", "+U"}:
            last[name] = row
        else:
            last.pop(name, None)
    return Counter(last.values())
