"""Lookup joins ask for each key once per batch, and put the answers where they belong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.graph.operator_specs.columnar.joins import LookupJoinSpec
from penstock.runtime.columnar.operators.lookup_join import AsyncLookupJoinOperator
from penstock.sql.expr.nodes import Call, InputRef, Literal
from penstock.table.types import DataTypes
from penstock.testing.harness import OperatorHarness
from tests.unit.runtime.columnar.changes import FrameOutput, batch_of, changes_of
from tests.unit.runtime.columnar.join_cases import Stopped

INPUT = (DataTypes.INT(), DataTypes.STRING())
TABLE = (DataTypes.INT(), DataTypes.STRING())
KEY = ((InputRef(INPUT[0], 0), 0),)
ROWS = {1: [(1, "one")], 2: [(2, "two"), (2, "zwei")]}


class Table:
    """A table in memory that counts what it is asked for."""

    def __init__(self, fails: int = 0) -> None:
        self.asked: list[Any] = []
        self.opened = self.closed = 0
        self.fails = fails

    def open(self, context: Any) -> None:
        self.opened += 1

    def lookup(self, keys: Sequence[Any]) -> list[Any]:
        self.asked += keys
        if self.fails:
            self.fails -= 1
            return [[] for _ in keys]
        return [ROWS.get(key[0], []) for key in keys]

    def close(self) -> None:
        self.closed += 1


class AwaitedTable(Table):
    """The same, awaited: the key 1 is answered only after `gate` was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def lookup_async(self, keys: Sequence[Any]) -> list[Any]:
        if (1,) in keys:
            await self.gate.wait()
        return self.lookup(keys)


def _spec(table: Table, kind: str = "INNER", **more: Any) -> LookupJoinSpec:
    return LookupJoinSpec(kind, INPUT, TABLE, table, KEY, **more)


ROWS_IN = [(1, "a"), (2, "b"), (None, "c"), (9, "d"), (1, "e")]
INNER = [(1, "a", 1, "one"), (2, "b", 2, "two"), (2, "b", 2, "zwei"), (1, "e", 1, "one")]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("kind", ["INNER", "LEFT"])
def test_rows_get_what_the_table_has_for_their_key(kind: str, asynchronous: bool) -> None:
    table = Table()
    running = Stopped(_spec(table, kind, asynchronous=asynchronous, capacity=1), "hashmap")
    running.send(ROWS_IN, INPUT)
    running.harness.finish()
    running.harness.close()
    alone = [(None, "c", None, None), (9, "d", None, None)]
    expected = INNER if kind == "INNER" else [*INNER[:3], *alone, INNER[3]]
    assert running.changes() == [("+I", row) for row in expected]
    assert sorted(table.asked) == [(1,), (2,), (9,)]
    assert (table.opened, table.closed) == (1, 1)


def test_changes_keep_their_kinds() -> None:
    running = Stopped(_spec(Table(), "LEFT"), "hashmap")
    running.send([("-U", (1, "a")), ("+U", (9, "a"))], INPUT)
    assert running.changes() == [("-U", (1, "a", 1, "one")), ("+U", (9, "a", None, None))]


def test_a_condition_decides_which_answers_count() -> None:
    wanted = Call(
        DataTypes.BOOLEAN(),
        "=",
        (InputRef(TABLE[1], 3), Literal(DataTypes.STRING(), "zwei")),
    )
    running = Stopped(_spec(Table(), "LEFT", condition=wanted), "hashmap")
    running.send([(2, "b"), (1, "a")], INPUT)
    assert running.changes() == [("+I", (2, "b", 2, "zwei")), ("+I", (1, "a", None, None))]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_key_without_rows_is_asked_for_again_if_that_is_wanted(asynchronous: bool) -> None:
    table = Table(fails=2)
    retry = {"predicate": "lookup_miss", "attempts": 2, "delay_ms": 1}
    running = Stopped(_spec(table, retry=retry, asynchronous=asynchronous), "hashmap")
    running.send([(1, "a")], INPUT)
    running.harness.finish()
    assert running.changes() == [("+I", INNER[0])]
    assert table.asked == [(1,)] * 3


class Slow(Table):
    """A table whose rows are there one after another: a key has been asked for as often as it says."""

    def lookup(self, keys: Sequence[Any]) -> list[Any]:
        self.asked += keys
        return [ROWS.get(key[0], []) if self.asked.count(key) >= key[0] else [] for key in keys]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_retried_lookups_belong_to_their_keys(asynchronous: bool) -> None:
    retry = {"predicate": "lookup_miss", "attempts": 3, "delay_ms": 1}
    table = Slow()
    spec = _spec(table, "LEFT", retry=retry, asynchronous=asynchronous, capacity=1)
    running = Stopped(spec, "hashmap")
    running.send(ROWS_IN, INPUT)
    running.harness.finish()
    alone = [(None, "c", None, None), (9, "d", None, None)]
    assert running.changes() == [("+I", row) for row in [*INNER[:3], *alone, INNER[3]]]
    assert table.asked == [(1,), (2,), (9,), (2,), (9,), (9,), (9,)]


class Broken(Table):
    """A table that cannot be asked."""

    def lookup(self, keys: Sequence[Any]) -> list[Any]:
        raise ConnectionError("no table here")


def _run(running: Stopped) -> None:
    running.send([(1, "a")], INPUT)
    running.harness.finish()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_error_of_the_table_names_the_operator(asynchronous: bool) -> None:
    running = Stopped(_spec(Broken(), asynchronous=asynchronous), "hashmap")
    with pytest.raises(PenstockError, match="no table here"):
        _run(running)


def test_an_answer_that_does_not_come_is_an_error() -> None:
    running = Stopped(_spec(AwaitedTable(), asynchronous=True, timeout_ms=10), "hashmap")
    with pytest.raises(PenstockError, match="timed out after 10 ms"):
        _run(running)
    running.harness.close()


@pytest.mark.parametrize("ordered", [True, False])
def test_answers_come_in_order_or_as_they_are_there(ordered: bool) -> None:
    table = AwaitedTable()
    spec = _spec(table, asynchronous=True, ordered=ordered, capacity=2)
    output = FrameOutput()
    harness = OperatorHarness(spec, pipelined=True, output=output)
    harness.operator.process(batch_of([(1, "a"), (2, "b")], INPUT))
    harness.operator.on_wakeup()
    assert [row[1] for _, row in changes_of(output.frames)] == ([] if ordered else ["b", "b"])
    table.gate.set()
    for _ in range(3):
        harness.operator.on_wakeup()
    expected = ["a", "b", "b"] if ordered else ["b", "b", "a"]
    assert [row[1] for _, row in changes_of(output.frames)] == expected
    harness.close()


def test_rows_whose_answers_are_out_are_part_of_the_checkpoint() -> None:
    spec = _spec(AwaitedTable(), asynchronous=True)
    harness = OperatorHarness(spec, pipelined=True)
    assert isinstance(harness.operator, AsyncLookupJoinOperator)
    harness.operator.process(batch_of([(1, "a")], INPUT))
    snapshot = harness.snapshot()
    harness.close()
    output = FrameOutput()
    restored = OperatorHarness.restore(_spec(Table(), asynchronous=True), [snapshot], output=output)
    restored.finish()
    assert changes_of(output.frames) == [("+I", INNER[0])]
    assert threading.active_count() < 50
