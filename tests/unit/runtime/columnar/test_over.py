"""Each row has the values of the rows around it: in the order of time, and in any order of rows that change."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pytest

from penstock.graph.operator_specs.columnar.aggregates import OverAggregateSpec
from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.runtime.columnar.joins import memory
from penstock.runtime.columnar.ordering import fresh_groups
from penstock.runtime.columnar.over.frames import frames_of
from penstock.runtime.records import MAX_WATERMARK
from penstock.sql import types as t
from penstock.sql.expr.nodes import AggregateCall, InputRef, Literal
from penstock.table.types import DataTypes
from tests.builders.tight_bounds import tight_bounds
from tests.unit.runtime.columnar.changes import cut, table_of
from tests.unit.runtime.columnar.join_cases import Change, Stopped
from tests.unit.runtime.columnar.over_reference import EPOCH, FlinkKeys, expected_rows

TYPES = (
    DataTypes.STRING(),
    DataTypes.INT(),
    DataTypes.DOUBLE(),
    DataTypes.TIMESTAMP(3),
    DataTypes.BOOLEAN(),
    DataTypes.BIGINT(),
    DataTypes.DECIMAL(10, 2),
)
INT, BIG = t.IntType(), t.BigIntType(False)


def _column(index: int) -> InputRef:
    return InputRef(TYPES[index], index)


def _call(function: str, *columns: int, result: Any = None, **more: Any) -> AggregateCall:
    operands = tuple(_column(index) for index in columns)
    return AggregateCall(function, operands, result or TYPES[columns[0]], **more)


def _lag(function: str, column: int, offset: int, default: Any = None) -> AggregateCall:
    operands: tuple[Any, ...] = (_column(column), Literal(INT, offset))
    if default is not None:
        operands += (Literal(TYPES[column], default),)
    return AggregateCall(function, operands, TYPES[column])


AGGREGATES = (
    _call("COUNT", result=BIG),
    _call("COUNT", 1, result=BIG, filter=_column(4)),
    _call("COUNT", 1, result=BIG, distinct=True),
    _call("SUM", 1),
    _call("AVG", 1),
    _call("SUM", 2),
    _call("SUM", 6, result=t.DecimalType(38, 2)),
    _call("MIN", 1),
    _call("MAX", 2),
    _call("MAX", 0),
    _call("MIN", 3),
    _call("FIRST_VALUE", 1),
    _call("LAST_VALUE", 2),
    _call("LISTAGG", 0),
)
PLACES = (
    _call("ROW_NUMBER", result=BIG),
    _call("RANK", result=BIG),
    _call("DENSE_RANK", result=BIG),
    _lag("LAG", 1, 1),
    _lag("LAG", 3, 2),
    _lag("LAG", 5, 2, -1),
)
LOOK_AHEAD = (
    _lag("LEAD", 5, 1, -7),
    AggregateCall("NTILE", (Literal(INT, 3),), BIG),
    _call("PERCENT_RANK", result=t.DoubleType(False)),
    _call("CUME_DIST", result=t.DoubleType(False)),
)


def _moment(millisecond: int) -> dt.datetime:
    return EPOCH + dt.timedelta(milliseconds=millisecond)


def _row(rng: random.Random, number: int, time: int) -> tuple[Any, ...]:
    return (
        rng.choice("abc"),
        rng.choice([None, -3, 0, 1, 5]),
        rng.choice([None, 0.5, 2.25, -4.0]),
        _moment(time),
        rng.choice([True, False, None]),
        number,
        rng.choice([None, Decimal("1.50"), Decimal("2.25")]),
    )


TIME = (SortKey(3),)
FRAMES: dict[str, tuple[bool, int | None]] = {
    "rows, all before": (True, None),
    "three rows before": (True, 3),
    "the row itself": (True, 0),
    "all before": (False, None),
    "of two seconds": (False, 2000),
    "of the same time": (False, 0),
}


def _by_time(count: int, seed: int) -> list[Any]:
    rng = random.Random(seed)
    return [_row(rng, number, 500 * (number // 4 + rng.randrange(4))) for number in range(count)]


def _run_by_time(spec: OverAggregateSpec, rows: list[Any], backend: str) -> list[Any]:
    """Run it; return the rows that were not late."""
    running = Stopped(spec, backend, seed=2, stops=0.15)
    keys, sent = FlinkKeys(spec), 0
    timely: dict[int, list[Any]] = {}  # a key that was forgotten begins again
    for part in cut(rows, 2):
        for row in part:
            if (forgotten := keys.take(row)) is not None:
                timely.setdefault(forgotten, []).append(row)
        running.send(part, TYPES)
        sent += len(part)
        mark = 500 * (sent // 4) + 100
        keys.advance(mark)
        running.watermark(mark)
    running.watermark(MAX_WATERMARK)
    expected: Counter[Any] = Counter()
    for each in timely.values():
        expected += expected_rows(each, spec)
    assert table_of(running.changes()) == expected
    return [row for each in timely.values() for row in each]


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_rows_have_the_values_of_those_before_them(frame: tuple[bool, int | None]) -> None:
    spec = OverAggregateSpec(
        TYPES, (0,), TIME, AGGREGATES, rowtime=True, rows=frame[0], preceding=frame[1]
    )
    rows = _by_time(150, 6)
    assert len(_run_by_time(spec, rows, "hashmap")) < len(rows), "some are late"


# What arrived, and what Flink 2.3 emitted with a watermark one second behind after each row: with bounded and with unbounded frames.
_ARRIVALS = {
    "behind the watermark, newer than the last": (
        "a1 a2 a7 a7 a6",
        "a1 a2 a6 a7 a7",
        "a1 a2 a7 a7",
    ),
    "of two keys": (
        "a10 b20 a15 a12 b19 a25 a24",
        "a10 a12 a15 b19 b20 a24 a25",
        "a10 b20 a25",
    ),
    "older than the last": ("a5 a9 b9 a5 a4 a9", "a5 a9 a9 b9", "a5 a9 a9 b9"),
}


@pytest.mark.parametrize("case", _ARRIVALS.values(), ids=_ARRIVALS)
def test_a_row_is_late_by_the_rule_of_its_frame(case: tuple[str, str, str]) -> None:
    """By the last row of its key that was emitted; frames that begin with the first row go by the watermark."""
    arrived, bounded, unbounded = case
    for preceding, rows, wanted in (
        (2, True, bounded),
        (0, True, bounded),
        (60_000, False, bounded),
        (None, True, unbounded),
        (None, False, unbounded),
    ):
        spec = OverAggregateSpec(
            TYPES, (0,), TIME, AGGREGATES[:1], rowtime=True, rows=rows, preceding=preceding
        )
        running = Stopped(spec, "hashmap", seed=1, stops=0.5)
        highest = 0
        for each in arrived.split():
            second = int(each[1:])
            running.send([(each[0], 1, 1.0, _moment(second * 1000), True, 1, None)], TYPES)
            if second > highest:
                highest = second
                running.watermark((highest - 1) * 1000)
        running.watermark(MAX_WATERMARK)
        found = [
            f"{row[0]}{(row[3] - EPOCH) // dt.timedelta(seconds=1)}" for _, row in running.changes()
        ]
        assert sorted(found) == sorted(wanted.split()), (preceding, rows)
        late = len(arrived.split()) - len(wanted.split())
        metrics = running.harness.metrics.report()
        assert metrics["numLateRecordsDropped"][1] <= late  # since the last restart


@pytest.mark.parametrize("frame", [(True, 2), (True, 0), (False, 60_000)], ids=str)
def test_a_row_that_is_late_is_late_in_fewer_subtasks(frame: tuple[bool, int]) -> None:
    spec = OverAggregateSpec(
        TYPES, (0,), TIME, AGGREGATES[:1], rowtime=True, rows=frame[0], preceding=frame[1]
    )
    for arrived, wanted, _ in _ARRIVALS.values():
        running = Stopped(spec, "hashmap")
        highest = 0
        for each in arrived.split():
            running.restart(Stopped(spec, "hashmap"))  # which has got no watermark
            second = int(each[1:])
            running.send([(each[0], 1, 1.0, _moment(second * 1000), True, 1, None)], TYPES)
            if second > highest:
                highest = second
                running.watermark((highest - 1) * 1000)
        running.watermark(MAX_WATERMARK)
        found = [f"{row[0]}{(row[3] - EPOCH).seconds}" for _, row in running.changes()]
        assert sorted(found) == sorted(wanted.split())


def _after_long_pauses(spec: OverAggregateSpec) -> tuple[Stopped, list[tuple[Any, ...]]]:
    """Send rows of two keys, with long pauses of "a"; return what ran, and key, second and aggregate of each result."""
    running = Stopped(spec, "hashmap")
    sent = [("a", 10, 9), ("b", 15, 14), ("a", 13, 14), ("a", 11, 14), ("a", 10, 14)]
    sent += [("b", 20, 19), ("a", 12, 19), ("b", 40, 39), ("a", 12, 39), ("a", 30, 39)]
    highest = -1
    for key, second, mark in sent:
        running.send([(key, 1, 1.0, _moment(second * 1000), True, 1, None)], TYPES)
        if mark > highest:
            highest = mark
            running.watermark(mark * 1000)
    running.watermark(MAX_WATERMARK)
    found = [(row[0], (row[3] - EPOCH).seconds, row[-1]) for _, row in running.changes()]
    return running, found


def test_a_key_is_forgotten_one_and_a_half_ranges_after_its_last_row() -> None:
    spec = OverAggregateSpec(
        TYPES, (0,), TIME, AGGREGATES[:1], rowtime=True, rows=False, preceding=4000
    )
    running, found = _after_long_pauses(spec)
    # 10 comes again and 12 comes when 13 was the last; at 39 nothing is known of "a" any more.
    assert [each for each in found if each[0] == "a"] == [
        ("a", 10, 1),
        ("a", 11, 2),
        ("a", 13, 3),
        ("a", 12, 1),
        ("a", 30, 1),
    ]
    metrics = running.harness.metrics.report()
    assert metrics["numLateRecordsDropped"] == ("counter", 2)
    assert metrics["lateRecordsLatenessMs"][1]["max"] == 7000


def test_a_frame_of_rows_reaches_back_however_long_ago_its_rows_came() -> None:
    """Only ranges of time are over at some moment; which row of a key was the last is known for good."""
    spec = OverAggregateSpec(
        TYPES, (0,), TIME, AGGREGATES[:1], rowtime=True, rows=True, preceding=2
    )
    running, found = _after_long_pauses(spec)
    expected = [("a", 10, 1), ("a", 11, 2), ("a", 13, 3), ("a", 30, 3)]
    assert [each for each in found if each[0] == "a"] == expected
    metrics = running.harness.metrics.report()
    assert metrics["numLateRecordsDropped"] == ("counter", 3)


def test_places_by_time() -> None:
    spec = OverAggregateSpec(TYPES, (), TIME, PLACES, rowtime=True, rows=True)
    _run_by_time(spec, _by_time(120, 7), "hashmap")


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_rows_are_counted_without_reading_a_column(frame: tuple[bool, int | None]) -> None:
    spec = OverAggregateSpec(
        TYPES, (), TIME, AGGREGATES[:1], rowtime=True, rows=frame[0], preceding=frame[1]
    )
    _run_by_time(spec, _by_time(60, 5), "hashmap")


@pytest.mark.parametrize("frame", [(True, None), (True, 3), (False, 2000)])
def test_rows_on_disk_count_too(
    frame: tuple[bool, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "RESIDENT_BYTES", 500)
    monkeypatch.setattr(memory, "LOOK_EVERY", 3)
    spec = OverAggregateSpec(
        TYPES, (0,), TIME, AGGREGATES, rowtime=True, rows=frame[0], preceding=frame[1]
    )
    _run_by_time(spec, _by_time(100, 8), "rocksdb")


@pytest.mark.parametrize("frame", [(True, None), (True, 3), (False, 2000)])
def test_bounds_of_memory_change_no_value(frame: tuple[bool, int | None]) -> None:
    spec = OverAggregateSpec(
        TYPES, (0,), TIME, AGGREGATES, rowtime=True, rows=frame[0], preceding=frame[1]
    )
    with tight_bounds():
        _run_by_time(spec, _by_time(60, 10), "hashmap")


@pytest.mark.parametrize("distances", [(2, 0), (1, 1), (3, -1), (-1, 3)], ids=str)
@pytest.mark.parametrize("unit", [1, 2**58], ids=["narrow", "wide"])
def test_a_range_reaches_from_row_to_row_however_far_they_are_apart(
    unit: int, distances: tuple[int, int]
) -> None:
    parts = [[0, 0, 1, 3], [2], [-4, -3, -3, 0, 5]]
    times = np.array([time for part in parts for time in part], np.int64) * unit
    fresh = np.array([at == 0 for part in parts for at in range(len(part))])
    begins = fresh | fresh_groups(times)
    preceding, following = (each * unit for each in distances)
    frames = frames_of(
        fresh, begins, rows=False, preceding=preceding, following=following, times=times
    )
    found = [times[low:high].tolist() for low, high in zip(frames.low, frames.high, strict=True)]
    assert found == [
        [other * unit for other in part if -distances[0] <= other - time <= distances[1]]
        for part in parts
        for time in part
    ]


def test_the_spread_of_whole_numbers_is_a_whole_number() -> None:
    calls = tuple(_call(name, 5) for name in ("VAR_SAMP", "VAR_POP", "STDDEV_POP"))
    spec = OverAggregateSpec(TYPES, (), TIME, calls, rowtime=False, rows=True)
    running = Stopped(spec, "hashmap")
    rng = random.Random(1)
    running.send([_row(rng, number, 0) for number in (1, 2, 4, 15)], TYPES)
    assert [row[-3:] for _, row in running.changes()] == [
        (None, 0, 0),
        (1, 0, 0),
        (2, 1, 1),
        (41, 31, 5),
    ]


@pytest.mark.parametrize("preceding", [None, 1])
def test_sums_of_decimals_are_exact(preceding: int | None) -> None:
    wide = t.DecimalType(38, 4)
    types = (*TYPES[:6], wide)
    operand = InputRef(wide, 6)
    calls = (
        AggregateCall("SUM", (operand,), wide),
        AggregateCall("AVG", (operand,), t.DecimalType(38, 6)),
    )
    spec = OverAggregateSpec(types, (), TIME, calls, rowtime=False, rows=True, preceding=preceding)
    running = Stopped(spec, "hashmap", seed=5, stops=0.5)
    texts = ["1234567890123456789012345678901.1111", "-0.0002", "0.0001", "0.0000", "0.0001"]
    for number, text in enumerate(texts):
        running.send([(*_row(random.Random(1), number, 0)[:6], Decimal(text))], types)
    exact = Context(60)
    numbers = [int(Decimal(text).scaleb(4, exact)) for text in texts]
    for at, (_, row) in enumerate(running.changes()):
        seen = numbers[0 if preceding is None else max(at - preceding, 0) : at + 1]
        total, count = sum(seen), len(seen)
        half_up = (abs(total) * 200 + count) // (2 * count) * (1 if total >= 0 else -1)
        assert [int(each.scaleb(6, exact)) for each in row[-2:]] == [total * 100, half_up]


def test_rows_outside_of_all_frames_are_dropped() -> None:
    spec = OverAggregateSpec(
        TYPES, (0,), TIME, AGGREGATES[:4], rowtime=True, rows=False, preceding=1000
    )
    running = Stopped(spec, "hashmap")
    rows = _by_time(400, 9)
    for number, row in enumerate(rows):
        running.send([row], TYPES)
        running.watermark(500 * (number // 4) - 1)
    kept = running.harness.operator._rows.store.live  # type: ignore[attr-defined]
    assert kept < 40


@pytest.mark.parametrize("preceding", [None, 2])
def test_by_processing_time_rows_are_in_the_order_of_arrival(preceding: int | None) -> None:
    spec = OverAggregateSpec(
        TYPES, (0,), TIME, AGGREGATES, rowtime=False, rows=True, preceding=preceding
    )
    rng = random.Random(3)
    rows = [_row(rng, number, rng.randrange(1000)) for number in range(100)]
    running = Stopped(spec, "hashmap", seed=3, stops=0.2)
    for part in cut(rows, 3):
        running.send(part, TYPES)
    arrival = OverAggregateSpec(
        TYPES, (0,), (SortKey(5),), AGGREGATES, rowtime=False, rows=True, preceding=preceding
    )
    assert table_of(running.changes()) == expected_rows(rows, arrival)


def test_by_processing_time_a_range_is_of_the_clock() -> None:
    calls = (_call("COUNT", result=BIG),)
    spec = OverAggregateSpec(TYPES, (0,), TIME, calls, rowtime=False, rows=False, preceding=1000)
    running = Stopped(spec, "hashmap")
    rng = random.Random(1)
    for number, advance in enumerate((0, 600, 600, 2000, 1000, 0, 1)):
        running.clock.advance(advance)
        running.send([("a", *_row(rng, number, 0)[1:])], TYPES)
    assert [row[-1] for _, row in running.changes()] == [1, 2, 2, 1, 2, 3, 3]


def test_a_null_within_a_batch_has_the_values_of_the_rows_before_it() -> None:
    calls = tuple(_call(name, 1) for name in ("MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "SUM"))
    spec = OverAggregateSpec(TYPES, (), TIME, calls, rowtime=False, rows=True)
    running = Stopped(spec, "hashmap")
    expected: list[tuple[Any, ...]] = []
    known: list[int] = []
    for values in ([None, 2, None, 1, None], [None, 4, None, 0, None]):
        running.send([("a", value, 0.0, EPOCH, True, 0, None) for value in values], TYPES)
        for value in values:
            known += [] if value is None else [value]
            found = (min(known), max(known), known[0], known[-1], sum(known)) if known else None
            expected.append(found or (None,) * len(calls))
    assert [row[-len(calls) :] for _, row in running.changes()] == expected


def test_by_processing_time_no_rows_are_equal() -> None:
    calls = (_call("COUNT", result=BIG),)
    for rows in (True, False):
        spec = OverAggregateSpec(TYPES, (), TIME, calls, rowtime=False, rows=rows)
        running = Stopped(spec, "hashmap")
        rng = random.Random(1)
        running.send([_row(rng, number, 0) for number in range(3)], TYPES)
        assert [row[len(TYPES)] for _, row in running.changes()] == [1, 2, 3]


def test_accumulators_that_were_not_used_for_long_are_new() -> None:
    calls = (_call("COUNT", result=BIG),)
    spec = OverAggregateSpec(TYPES, (0,), TIME, calls, rowtime=False, rows=True, ttl_ms=1000)
    running = Stopped(spec, "hashmap")
    rng = random.Random(1)
    for number, advance in enumerate((0, 900, 900, 1000)):
        running.clock.advance(advance)
        running.send([("a", *_row(rng, number, 0)[1:])], TYPES)
    assert [row[-1] for _, row in running.changes()] == [1, 2, 3, 1]


def _changing(count: int, seed: int) -> list[Change]:
    rng = random.Random(seed)
    there: list[Any] = []
    changes: list[Change] = []
    for number in range(count):
        choice = rng.random()
        if there and choice < 0.2:
            changes.append(("-D", there.pop(rng.randrange(len(there)))))
        elif there and choice < 0.5:
            old = there.pop(rng.randrange(len(there)))
            new = (*_row(rng, 0, 500 * rng.randrange(12))[:5], old[5], old[6])
            there.append(new)
            changes += [("-U", old), ("+U", new)]
        else:
            there.append(_row(rng, number, 500 * rng.randrange(12)))
            changes.append(("+I", there[-1]))
    return changes


def _rows_left(changes: list[Change]) -> list[Any]:
    rows: list[Any] = []
    for kind, row in changes:
        if kind in {"+I", "+U"}:
            rows.append(row)
        else:
            rows.remove(row)
    return rows


ANY: dict[str, tuple[tuple[SortKey, ...], bool, int | None, int | None]] = {
    "three rows before": (TIME, True, 3, 0),
    "rows on both sides": ((SortKey(1, ascending=False), SortKey(5)), True, 2, 1),
    "all before": ((SortKey(1), SortKey(2)), False, None, 0),
    "all": ((SortKey(5),), False, None, None),
    "of a second on both sides": (TIME, False, 1000, 500),
}


@pytest.mark.parametrize("unique", [None, (5,)], ids=["whole rows", "rows with a key"])
@pytest.mark.parametrize("frame", ANY.values(), ids=ANY)
def test_rows_whose_values_change_are_updated(frame: Any, unique: Any) -> None:
    order, rows, preceding, following = frame
    spec = OverAggregateSpec(
        TYPES,
        (0,),
        (*order, SortKey(5)) if rows else order,  # rows that are equal have no place of their own
        AGGREGATES[:11] if not rows else (*AGGREGATES, *PLACES, *LOOK_AHEAD),
        rowtime=False,
        rows=rows,
        preceding=preceding,
        following=following,
        mode="CHANGES",
        unique=unique,
    )
    changes = _changing(70, 4)
    running = Stopped(spec, "hashmap", seed=4, stops=0.15)
    for part in cut(changes, 4):
        running.send(part, TYPES)
    assert table_of(running.changes()) == expected_rows(_rows_left(changes), spec)
    assert {kind for kind, _ in running.changes()} == {"+I", "-U", "+U", "-D"}


def test_a_row_that_replaces_another_is_its_update() -> None:
    types = (DataTypes.INT(), DataTypes.INT())
    total = AggregateCall("SUM", (InputRef(types[1], 1),), types[1])
    for unique in ((0,), None):
        for update_before in (True, False):
            spec = OverAggregateSpec(
                types,
                (),
                (SortKey(1),),
                (total,),
                rowtime=False,
                rows=False,
                mode="CHANGES",
                unique=unique,
                update_before=update_before,
            )
            running = Stopped(spec, "hashmap")
            running.send([(1, 10), (2, 20)], types)
            running.output.frames.clear()
            running.send([("-U", (2, 20)), ("+U", (2, 30))], types)
            kinds = ("-U", "+U") if unique else ("-D", "+I")
            wanted = [(kinds[0], (2, 20, 30)), (kinds[1], (2, 30, 40))]
            assert running.changes() == wanted[not update_before and unique is not None :]


def test_rows_that_change_may_be_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "RESIDENT_BYTES", 500)
    monkeypatch.setattr(memory, "LOOK_EVERY", 3)
    order = (SortKey(1), SortKey(5))
    spec = OverAggregateSpec(
        TYPES,
        (0,),
        order,
        AGGREGATES,
        rowtime=False,
        rows=True,
        preceding=9,
        mode="CHANGES",
        unique=(5,),
        update_before=False,
    )
    changes = _changing(80, 5)
    running = Stopped(spec, "rocksdb", seed=5, stops=0.15)
    for part in cut(changes, 5):
        running.send(part, TYPES)
    assert table_of(running.changes(), (0, 5)) == expected_rows(_rows_left(changes), spec)
    assert "-U" not in {kind for kind, _ in running.changes()}


def test_at_the_end_of_the_input_all_rows_leave() -> None:
    spec = OverAggregateSpec(
        TYPES,
        (0,),
        (SortKey(2, ascending=False), SortKey(5)),
        (*AGGREGATES, *PLACES, *LOOK_AHEAD),
        rowtime=False,
        rows=True,
        preceding=None,
        following=None,
        mode="END",
    )
    changes = _changing(80, 6)
    running = Stopped(spec, "hashmap", seed=6, stops=0.15)
    for part in cut(changes, 6):
        running.send(part, TYPES)
    running.watermark(MAX_WATERMARK)
    assert not running.changes()
    running.harness.operator.finish(ends_for_good=False)
    assert {kind for kind, _ in running.changes()} == {"+I"}
    assert table_of(running.changes()) == expected_rows(_rows_left(changes), spec)


@pytest.mark.parametrize("nulls_first", [True, False])
@pytest.mark.parametrize("ascending", [True, False])
def test_a_range_of_numbers_has_null_only_around_null(ascending: bool, nulls_first: bool) -> None:
    types = (DataTypes.INT(),)
    values = [9, 2, None, 1, 3, None, 2]
    wanted: dict[tuple[int | None, int | None], dict[int | None, int]] = {
        (1, 1): {None: 2, 1: 3, 2: 4, 3: 3, 9: 1},
        (2, -1): {None: 0, 1: 0, 2: 1, 3: 3, 9: 0},
        (None, 0): {None: 2, 1: 1, 2: 3, 3: 4, 9: 5},
    }
    if not ascending:
        wanted[2, -1] = {None: 0, 1: 3, 2: 1, 3: 0, 9: 0}
        wanted[None, 0] = {None: 2, 9: 1, 3: 2, 2: 4, 1: 5}
    before = wanted[None, 0]
    for value in before:
        if (value is None) != nulls_first:
            before[value] += 5 if value is None else 2
    for (preceding, following), counts in wanted.items():
        spec = OverAggregateSpec(
            types,
            (),
            (SortKey(0, ascending, nulls_first),),
            (_call("COUNT", result=BIG),),
            rowtime=False,
            rows=False,
            preceding=preceding,
            following=following,
            mode="END",
        )
        running = Stopped(spec, "hashmap")
        running.send([(value,) for value in values], types)
        running.harness.operator.finish(ends_for_good=False)
        assert [row for _, row in running.changes()] == [(each, counts[each]) for each in values]
