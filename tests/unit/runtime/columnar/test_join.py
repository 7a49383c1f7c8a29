"""Regular joins give the table that a join is, however batches are cut and whenever the job is stopped."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from penstock.graph.operator_specs.columnar.joins import JoinSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.joins import memory
from penstock.runtime.columnar.routing import targets_of
from penstock.runtime.columnar.store import key_index
from penstock.sql.expr.nodes import Call, InputRef
from penstock.table.types import DataTypes
from penstock.testing.harness import OperatorHarness
from tests.builders.tight_bounds import tight_bounds
from tests.unit.runtime.columnar.changes import (
    FrameOutput,
    batch_of,
    changes_of,
    cut,
    table_of,
)
from tests.unit.runtime.columnar.join_cases import (
    Change,
    Stopped,
    joined,
    shown,
)

SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
LEFT = (DataTypes.INT(), DataTypes.BIGINT(), DataTypes.STRING(), DataTypes.TIMESTAMP(3))
RIGHT = (DataTypes.BIGINT(), DataTypes.INT(), DataTypes.DECIMAL(10, 2))
KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
MORE = Call(DataTypes.BOOLEAN(), "<", (InputRef(LEFT[1], 1), InputRef(RIGHT[1], 5)))


def _left(rng: random.Random, number: int) -> tuple[Any, ...]:
    key = rng.choice([1, 2, 3, 4, 5, None])
    return (key, number, rng.choice(["a", "b", None]), dt.datetime(2020, 1, 1, 0, 0, number % 60))


def _right(rng: random.Random, number: int) -> tuple[Any, ...]:
    return (rng.choice([1, 2, 3, 4, 7, None]), number, rng.choice([Decimal("1.50"), None]))


def _changelog(make: Any, rng: random.Random, unique: int | None, retracts: bool) -> list[Change]:
    """Changes of a table whose rows have a number that is unique, or rows that are there more than once."""
    there: list[tuple[Any, ...]] = []
    changes: list[Change] = []
    for step in range(80):
        number = step if unique is not None or not retracts else rng.randrange(4)
        if retracts and there and rng.random() < 0.45:
            old = there.pop(rng.randrange(len(there)))
            if rng.random() < 0.5:
                new = list(make(rng, number))
                if unique is not None:
                    new[unique] = old[unique]
                    new[0] = old[0] if rng.random() < 0.7 else new[0]
                changes += [("-U", old), ("+U", tuple(new))]
                there.append(tuple(new))
            else:
                changes.append(("-D", old))
        else:
            row = make(rng, number)
            there.append(row)
            changes.append(("+I", row))
    return changes


def _run(spec: JoinSpec, backend: str, seed: int, sides: list[list[Change]]) -> Stopped:
    running = Stopped(spec, backend, seed, stops=0.2 if backend == "hashmap" else 0.06)
    parts = [[(side, part) for part in cut(sides[side], seed + side)] for side in (0, 1)]
    rng = random.Random(seed)
    while parts[0] or parts[1]:
        side, part = rng.choice([each for each in parts if each]).pop(0)
        running.send(part, (LEFT, RIGHT)[side], side)
    return running


def _table(changes: list[Change]) -> Counter[Any]:
    table: Counter[Any] = Counter()
    for kind, row in changes:
        table[row] += -1 if kind in {"-U", "-D"} else 1
    return +table


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("condition", [None, MORE], ids=["equal keys", "with a condition"])
@pytest.mark.parametrize("retracts", [False, True], ids=["appends", "changes"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_join_gives_the_table_that_it_is(
    kind: str,
    retracts: bool,
    condition: Any,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if backend == "rocksdb" and kind in {"RIGHT", "SEMI"} and not SOAK:
        pytest.skip("the others are enough, except where there is time")
    if condition is not None:  # with room for few pairs at once
        monkeypatch.setattr(key_index, "MOST_PAIRS", 5)
    if backend == "rocksdb":  # with so little memory that most rows are not there
        monkeypatch.setattr(memory, "RESIDENT_BYTES", 500)
        monkeypatch.setattr(memory, "LOOK_EVERY", 3)
    for seed, unique in ((1, None), (2, 1)) if retracts else ((3, None),):
        spec = JoinSpec(
            kind,
            LEFT,
            RIGHT,
            (0,),
            (0,),
            condition,
            left_unique=None if unique is None else (1,),
            right_unique=None if unique is None else (1,),
            left_retracts=retracts,
            right_retracts=retracts,
        )
        rng = random.Random(seed)
        sides = [_changelog(make, rng, unique, retracts) for make in (_left, _right)]
        running = _run(spec, backend, seed, sides)
        expected = joined(
            kind,
            _table(sides[0]),
            _table(sides[1]),
            (4, 3),
            lambda mine, theirs: (
                mine[0] is not None
                and mine[0] == theirs[0]
                and (condition is None or mine[1] < theirs[1])
            ),
        )
        assert table_of(running.changes()) == shown(expected)


def _part(batch: Any, key: int, subtask: int, parallelism: int) -> Any:
    """The rows of a batch that a subtask gets."""
    frame = batch.frame
    targets = targets_of([frame[f"c{key}"]], frame.height, parallelism, 128)
    return ColumnBatch(frame.filter(pl.Series(targets == subtask)))


@pytest.mark.parametrize("backends", [("hashmap", "rocksdb"), ("rocksdb", "hashmap")], ids=str)
@pytest.mark.parametrize("kind", ["INNER", "FULL"])
def test_join_is_restored_with_another_parallelism_and_backend(
    kind: str, backends: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "RESIDENT_BYTES", 500)
    monkeypatch.setattr(memory, "LOOK_EVERY", 2)
    rng = random.Random(17)
    changes = kind == "FULL"
    spec = JoinSpec(kind, LEFT, RIGHT, (0,), (0,), left_retracts=changes, right_retracts=changes)
    sides = [_changelog(make, rng, None, changes) for make in (_left, _right)]
    output = FrameOutput()
    snapshots: list[Any] = []
    for step, parallelism in enumerate((1, 3, 1)):
        after = []
        for subtask in range(parallelism):
            harness = OperatorHarness(
                spec,
                subtask=subtask,
                parallelism=parallelism,
                snapshots=snapshots,
                state_backend=backends[step % 2],
                output=output,
            )
            for side, types in enumerate((LEFT, RIGHT)):
                rows = sides[side][step * 40 : (step + 1) * 40 if step < 2 else None]
                for part in cut(rows, step):
                    batch = _part(batch_of(part, types), 0, subtask, parallelism)
                    harness.operator.process(batch, side)
            after.append(harness.snapshot())
            harness.close()
        snapshots = after
    expected = joined(
        kind,
        _table(sides[0]),
        _table(sides[1]),
        (4, 3),
        lambda mine, theirs: mine[0] is not None and mine[0] == theirs[0],
    )
    assert table_of(changes_of(output.frames)) == shown(expected)


@pytest.mark.parametrize("kind", ["INNER", "FULL"])
def test_when_the_input_has_ended_nothing_is_kept(kind: str) -> None:
    running = Stopped(JoinSpec(kind, LEFT, RIGHT, (0,), (0,)), "hashmap")
    running.send([(1, 1, "a", None), (2, 1, "b", None)], LEFT)
    running.harness.snapshot()
    running.send([(1, 2, None)], RIGHT, 1)
    running.harness.finish()
    assert running.harness.state_entries() == {}


def test_rows_expire_after_their_time_to_live() -> None:
    spec = JoinSpec("INNER", LEFT, RIGHT, (0,), (0,), left_ttl_ms=1000)
    running = Stopped(spec, "hashmap")
    row = (1, 1, "a", None)
    running.send([row], LEFT)
    running.clock.advance(999)
    running.harness.snapshot()
    running.send([(1, 1, None)], RIGHT, 1)
    running.clock.advance(1)
    running.send([(1, 2, None)], RIGHT, 1)
    running.send([row], LEFT)  # the right side does not expire
    assert [found[5] for _, found in running.changes()] == [1, 1, 2]
    running.clock.advance(1000)
    assert running.harness.state_entries().keys() == {"right"}


def test_update_is_one_row_without_update_before() -> None:
    spec = JoinSpec(
        "LEFT",
        LEFT,
        RIGHT,
        (0,),
        (0,),
        left_unique=(0,),
        right_unique=(0,),
        right_retracts=True,
        update_before=False,
    )
    running = Stopped(spec, "hashmap")
    running.send([(1, 1, "a", None)], LEFT)
    for change, number in (("+I", 5), ("+U", 6), ("-D", 6)):
        running.send([(change, (1, number, None))], RIGHT, 1)
    assert [(kind, row[5]) for kind, row in running.changes()] == [
        ("+I", None),
        ("-D", None),
        ("+I", 5),
        ("+U", 6),
        ("-D", 6),
        ("+I", None),
    ]


def test_keys_with_null_are_equal_where_the_condition_says_so() -> None:
    spec = JoinSpec("INNER", LEFT, RIGHT, (0,), (0,), null_safe=(True,))
    running = Stopped(spec, "hashmap")
    running.send([(None, 1, "a", None)], LEFT)
    running.send([(None, 2, None), (1, 3, None)], RIGHT, 1)
    assert [row[5] for _, row in running.changes()] == [2]


def test_a_join_without_keys_pairs_all_rows() -> None:
    spec = JoinSpec("INNER", LEFT, RIGHT, (), ())
    running = Stopped(spec, "hashmap", seed=1, stops=0.5)
    running.send([(None, 1, "a", None), (2, 2, "a", None)], LEFT)
    running.send([(None, 3, None), (1, 4, None)], RIGHT, 1)
    assert sorted((row[1], row[5]) for _, row in running.changes()) == [
        (1, 3),
        (1, 4),
        (2, 3),
        (2, 4),
    ]


def test_changes_that_the_plan_did_not_tell_of_are_taken() -> None:
    running = Stopped(JoinSpec("INNER", LEFT, RIGHT, (0,), (0,)), "hashmap")
    running.send([(1, 1, "a", None), (1, 2, "b", None)], LEFT)
    running.send([(1, 9, None)], RIGHT, 1)
    running.send([("-D", (1, 1, "a", None))], LEFT)
    assert [(kind, row[1]) for kind, row in running.changes()] == [("+I", 1), ("+I", 2), ("-D", 1)]


def test_changes_that_the_plan_did_not_tell_of_reach_rows_on_disk() -> None:
    """A row that was only read from disk for its partner is taken back: it must not come back from there."""
    with tight_bounds():
        running = Stopped(JoinSpec("INNER", LEFT, RIGHT, (0,), (0,)), "rocksdb")
        rows = [(key, key, "a", None) for key in range(6)]
        for row in rows:
            running.send([row], LEFT)
        running.send([(0, 9, None)], RIGHT, 1)
        running.send([("-D", rows[0])], LEFT)
        for key in range(1, 6):
            running.send([(key, 9, None)], RIGHT, 1)
        running.output.frames.clear()
        running.send([(0, 10, None), (1, 10, None)], RIGHT, 1)
        assert [row[0] for _, row in running.changes()] == [1]


@pytest.mark.parametrize("update_before", [True, False])
def test_pairs_of_a_row_that_is_updated_are_updated_or_come_or_go(update_before: bool) -> None:
    spec = JoinSpec(
        "INNER",
        LEFT,
        RIGHT,
        (0,),
        (0,),
        MORE,
        left_unique=(2,),
        left_retracts=True,
        update_before=update_before,
    )
    running = Stopped(spec, "hashmap")
    running.send([(1, 5, None), (1, 20, None)], RIGHT, 1)
    there = (1, 3, "x", None)
    running.send([there], LEFT)
    for number, reported in (
        (7, ["-D 3 5", "-U 3 20", "+U 7 20"]),
        (1, ["-U 7 20", "+I 1 5", "+U 1 20"]),
        (30, ["-D 1 5", "-D 1 20"]),
        (4, ["+I 4 5", "+I 4 20"]),
    ):
        running.output.frames.clear()
        new = (1, number, "x", None)
        running.send([("-U", there), ("+U", new)] if update_before else [("+U", new)], LEFT)
        there = new
        found = [f"{kind} {row[1]} {row[5]}" for kind, row in running.changes()]
        assert sorted(found) == sorted(
            each for each in reported if update_before or not each.startswith("-U")
        )
