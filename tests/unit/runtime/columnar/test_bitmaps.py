"""Bitmaps in columns: one canonical form per set; and counts of their numbers, which go up and down."""

from __future__ import annotations

import pickle
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from penstock.errors import RecordError
from penstock.graph.operator_specs.columnar.aggregates import GroupAggregateSpec
from penstock.runtime.columnar.aggregates.bitmaps import BitmapAggregate
from penstock.runtime.columnar.bitmaps import (
    normal,
    numbers_of,
    of_numbers,
    read,
    text_of,
    written,
)
from penstock.sql.expr.nodes import AggregateCall, InputRef
from penstock.sql.types import BigIntType, BitmapType, IntType
from tests.unit.runtime.columnar.changes import ColumnDriver, cut, table_of

RUNS = st.lists(st.tuples(st.integers(0, 300_000), st.integers(1, 40)), max_size=12)
SINGLE = st.lists(st.integers(0, 300_000), max_size=20)


@given(runs=RUNS, single=SINGLE)
def test_equal_sets_have_equal_bytes(runs, single):
    numbers = {each for start, length in runs for each in range(start, start + length)} | {*single}
    by_number = BitMap(sorted(numbers))
    by_run = BitMap()
    for start, length in runs:
        by_run.add_range(start, start + length)
    by_run |= BitMap(single)
    by_run.run_optimize()
    assert written(by_number) == written(by_run) == normal(by_run.serialize())
    assert sorted(BitMap.deserialize(written(by_run))) == sorted(numbers)


@pytest.mark.parametrize("containers", [1, 3, 4, 9, 17])
def test_runs_as_large_as_arrays_are_arrays(containers):
    made = BitMap()
    for at in range(containers):
        made.add_range(at << 16, (at << 16) + (3 if at % 2 == 0 else 5000))
    again = normal(made.serialize())
    assert read(again) == made
    assert again.startswith(b";0" if containers > 1 else b":0\0\0")
    assert again == written(BitMap(list(made)))


@pytest.mark.parametrize("data", [b"", b"\0", b":0\0\0\1\0\0\0", b"{1,2}", b";0\1\0"])
def test_bytes_that_are_not_a_bitmap_are_refused(data):
    with pytest.raises(RecordError, match="not a serialized bitmap"):
        normal(data)


def test_numbers_are_unsigned_as_text_and_signed_as_integers():
    data = written(of_numbers([-1, None, 7, -(2**31)]))
    assert text_of(data) == "{7,2147483648,4294967295}"
    assert numbers_of(data) == [7, -(2**31), -1]


def aggregate(function: str) -> BitmapAggregate:
    kind = IntType() if "BUILD" in function else BitmapType()
    result = BigIntType() if "CARDINALITY" in function else BitmapType()
    return BitmapAggregate(AggregateCall(function, (InputRef(kind, 0),), result))


def wanted(function: str, rows: list[frozenset[int]]) -> set[int] | None:
    if not rows:
        return None
    counts = Counter(number for row in rows for number in row)
    if "AND" in function:
        return {number for number, times in counts.items() if times == len(rows)}
    if "XOR" in function:
        return {number for number, times in counts.items() if times % 2}
    return set(counts)


@pytest.mark.parametrize("kind", ["BUILD", "AND", "OR", "XOR"])
@pytest.mark.parametrize("seed", range(5))
def test_rows_come_and_go(kind, seed):
    chance = random.Random(seed)
    functions = [aggregate(f"BITMAP_{kind}_AGG"), aggregate(f"BITMAP_{kind}_CARDINALITY_AGG")]
    accumulators = [each.create() for each in functions]
    rows: list[frozenset[int]] = []
    for _ in range(60):
        changes: list[tuple[frozenset[int], int]] = []
        for _ in range(chance.randrange(1, 4)):
            if rows and chance.random() < 0.45:
                changes.append((rows.pop(chance.randrange(len(rows))), -1))
            else:
                size = 1 if kind == "BUILD" else chance.randrange(4)
                row = frozenset(chance.sample(range(6), size))
                times = chance.choice([1, 1, 3])
                rows += [row] * times
                changes.append((row, times))
        values = [(min(row) if kind == "BUILD" else written(BitMap(row)),) for row, _ in changes]
        for at, function in enumerate(functions):
            function.update(accumulators[at], [*values, (None,)], [*(t for _, t in changes), 1])
            accumulators[at] = pickle.loads(pickle.dumps(accumulators[at]))
        found = wanted(kind, rows)
        assert functions[0].result(accumulators[0]) == (
            None if found is None else written(BitMap(found))
        )
        assert functions[1].result(accumulators[1]) == (None if found is None else len(found))


def test_expired_values_cannot_be_retracted():
    function = aggregate("BITMAP_OR_AGG")
    accumulator = function.create()
    for _ in range(2):
        function.add(accumulator, (written(BitMap([1, 2])),))
    function.retract(accumulator, (written(BitMap([2, 3])),))
    assert text_of(function.result(accumulator)) == "{1,2}"


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("retracts", [False, True], ids=["append", "retract"])
def test_groups_are_restored_from_a_snapshot(backend, retracts):
    chance = random.Random(4)
    types = (IntType(), IntType(), BitmapType())
    calls = tuple(
        AggregateCall(f"BITMAP_{kind}_AGG", (InputRef(types[at], at),), BitmapType())
        for kind, at in (("BUILD", 1), ("AND", 2), ("OR", 2), ("XOR", 2))
    )
    rows, changes = [], []
    for _ in range(80):
        if retracts and rows and chance.random() < 0.4:
            changes.append(("-D", rows.pop(chance.randrange(len(rows)))))
            continue
        number = chance.choice([None, *range(5)])
        bitmap = chance.choice([None, written(BitMap(chance.sample(range(5), 3)))])
        rows.append((chance.randrange(3), number, bitmap))
        changes.append(("+I", rows[-1]))
    driver = ColumnDriver(
        GroupAggregateSpec(types, (0,), calls, retracts=retracts), types, backend=backend
    )
    for at, part in enumerate(cut(changes, 4)):
        driver.feed(part)
        if at % 4 == 3:
            driver = driver.restarted()
    expected = []
    for key in {row[0] for row in rows}:
        numbers = [frozenset([row[1]]) for row in rows if row[0] == key and row[1] is not None]
        bitmaps = [frozenset(read(row[2])) for row in rows if row[0] == key and row[2] is not None]
        sets = [wanted("BUILD", numbers), *(wanted(kind, bitmaps) for kind in ("AND", "OR", "XOR"))]
        expected.append((key, *(None if each is None else written(BitMap(each)) for each in sets)))
    assert table_of(driver.changes) == Counter(tuple(map(repr, row)) for row in expected)
