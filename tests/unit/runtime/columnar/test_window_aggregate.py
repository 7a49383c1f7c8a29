"""Windows in columns against a plain reference: cut anywhere, stopped and restored, in one phase and in two."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from typing import Any

import polars as pl
import pytest

from penstock.graph.operator_specs.columnar.aggregates import (
    ColumnarLocalAggregateSpec,
    WindowAggregateSpec,
)
from penstock.graph.operator_specs.columnar.common import WindowDefinition
from penstock.graph.operator_specs.columnar.stateless import WindowTableFunctionSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
)
from penstock.sql.types import (
    BigIntType,
    BooleanType,
    DataType,
    LocalZonedTimestampType,
    MultisetType,
    TimestampType,
    VarCharType,
)
from tests.unit.runtime.columnar.changes import ColumnDriver, cut

TYPES = (VarCharType(10), BigIntType(), TimestampType(3))
LARGE = Call(BooleanType(), ">", (InputRef(TYPES[1], 1), Literal(BigIntType(), 3)))


def call(function: str, *columns: int, type: DataType | None = None, **more: Any) -> AggregateCall:
    operands = tuple(InputRef(TYPES[at], at) for at in columns)
    return AggregateCall(function, operands, type or BigIntType(), **more)


CALLS = (
    call("COUNT"),
    call("SUM", 1),
    call("AVG", 1, filter=LARGE),
    call("MAX", 1),
    call("MIN", 2, type=TimestampType(3)),
    call("COUNT", 1, distinct=True),
    call("SUM", 1, distinct=True, filter=LARGE),
    call("COLLECT", 1, type=MultisetType(BigIntType()), filter=LARGE),
)
WINDOWS = [
    WindowDefinition("TUMBLE", 10, offset=3, time=2),
    WindowDefinition("HOP", 10, 2, time=2),
    WindowDefinition("HOP", 10, 4, offset=1, time=2),
    WindowDefinition("CUMULATE", 12, 3, offset=2, time=2),
]
IDS = ["tumble", "hop", "hop-in-parts", "cumulate"]


def at(millis: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=millis)


def millis(time: dt.datetime) -> int:
    return (time - at(0)) // dt.timedelta(milliseconds=1)


def windows_of(window: WindowDefinition, time: int) -> list[tuple[int, int]]:
    size, slide, offset = window.size, window.slide or window.size, window.offset
    if window.kind == "CUMULATE":
        start = time - (time - offset) % size
        return [
            (start, start + step) for step in range(slide, size + 1, slide) if start + step > time
        ]
    last = time - (time - offset) % slide
    return [(start, start + size) for start in range(last, time - size, -slide)]


def expected_of(window: WindowDefinition, rows: list[Any], keys: bool) -> list[str]:
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        for start, end in windows_of(window, millis(row[2])):
            groups.setdefault((row[0] if keys else None, start, end), []).append(row)
    found = []
    for (key, start, end), members in groups.items():
        values = [row[1] for row in members if row[1] is not None]
        large = [value for value in values if value > 3]
        result = (
            *((key,) if keys else ()),
            len(members),
            sum(values) if values else None,
            sum(large) // len(large) if large else None,
            max(values, default=None),
            min(row[2] for row in members),
            len(set(values)),
            sum(set(large)) if large else None,
            sorted(Counter(large).items()),
            at(start),
            at(end),
            at(end - 1),
        )
        found.append(repr(result))
    return sorted(found)


def shown(changes: list[Any]) -> list[str]:
    return sorted(
        repr((*row[:-4], sorted((each["key"], each["value"]) for each in row[-4]), *row[-3:]))
        for _, row in changes
    )


def random_rows(seed: int, *, retracts: bool, keys: bool) -> tuple[list[Any], list[Any]]:
    rng = random.Random(seed)
    rows: list[Any] = []
    changes: list[Any] = []
    time = 0
    for _ in range(60):
        time += rng.choice([0, 0, 1, 3])
        recent = [row for row in rows if millis(row[2]) > time - 4]
        if retracts and recent and rng.random() < 0.3:
            gone = rng.choice(recent)
            rows.remove(gone)
            changes.append(("-D", gone))
            continue
        key = rng.choice([None, "a", "b"]) if keys else None
        row = (key, rng.choice([None, *range(-3, 8)]), at(max(time - rng.randint(0, 4), 0)))
        rows.append(row)
        changes.append(("+I", row))
    return changes, rows


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("retracts", [False, True], ids=["append", "retract"])
@pytest.mark.parametrize("window", WINDOWS, ids=IDS)
def test_windows_are_right_however_the_rows_are_cut(
    window: WindowDefinition, retracts: bool, backend: str
) -> None:
    for seed, keys in ((1, True), (2, False)):
        changes, rows = random_rows(seed, retracts=retracts, keys=keys)
        spec = WindowAggregateSpec(TYPES, (0,) if keys else (), CALLS, window, retracts=retracts)
        driver = ColumnDriver(spec, TYPES, backend=backend)
        rng = random.Random(seed)
        highest = watermark = 0
        for number, part in enumerate(cut(changes, seed)):
            driver.feed(part)
            highest = max([highest, *(millis(row[2]) for _, row in part)])
            if rng.random() < 0.5:
                watermark = max(watermark, highest - 6)
                driver.harness.process_watermark(watermark)
            if number % (2 if backend == "hashmap" else 5) == 1:
                driver = driver.restarted()
        driver.harness.finish()
        assert shown(driver.changes) == expected_of(window, rows, keys)
        assert driver.harness.state_entries() == {}


@pytest.mark.parametrize("window", WINDOWS, ids=IDS)
def test_two_phases_and_windows_as_columns_give_the_same(window: WindowDefinition) -> None:
    calls = CALLS[:5]
    changes, _ = random_rows(5, retracts=False, keys=True)
    one = ColumnDriver(WindowAggregateSpec(TYPES, (0,), calls, window), TYPES)
    local = ColumnDriver(ColumnarLocalAggregateSpec(TYPES, (0,), calls, window=window), TYPES)
    two = ColumnDriver(WindowAggregateSpec(TYPES, (0,), calls, window, merges=True), TYPES)
    together = ColumnDriver(WindowAggregateSpec(TYPES, (0,), calls, window, merges=True), TYPES)
    table = ColumnDriver(WindowTableFunctionSpec(TYPES, window), TYPES)
    with_windows = (*TYPES, *[TimestampType(3)] * 3)
    assigned = ColumnDriver(
        WindowAggregateSpec(with_windows, (0,), calls, assigned=(3, 4)), with_windows
    )
    for part in cut(changes, 3):
        for each in (one, local, table):
            each.feed(part)
    for frame in local.out.frames:
        two.harness.process_batch(ColumnBatch(frame))
    # Batches may be put together on their way.
    together.harness.process_batch(ColumnBatch(pl.concat(local.out.frames)))
    for frame in table.out.frames:
        assigned.harness.process_batch(ColumnBatch(frame))
    for each in (one, two, together, assigned):
        each.harness.finish()
    expected = sorted(map(repr, one.changes))
    assert len(expected) > 10
    assert sorted(map(repr, two.changes)) == expected
    assert sorted(map(repr, together.changes)) == expected
    assert sorted(map(repr, assigned.changes)) == expected


def test_late_rows_are_dropped_and_counted_and_others_go_to_windows_that_have_not_ended() -> None:
    window = WindowDefinition("HOP", 10, 5, time=2)
    driver = ColumnDriver(WindowAggregateSpec(TYPES, (0,), (call("COUNT"),), window), TYPES)
    driver.feed([("a", 1, at(12))])
    driver.harness.process_watermark(14)
    driver.feed([("a", 1, at(3)), ("a", 1, at(7)), ("a", 1, None)])
    driver.harness.finish()
    counts = [(row[1], millis(row[2])) for _, row in driver.changes]
    assert counts == [(1, 5), (1, 10)]
    metrics = driver.harness.metrics
    assert metrics.counter("numLateRecordsDropped").get_count() == 2
    assert metrics.counter("numNullRowTimeRecordsDropped").get_count() == 1


def test_rows_without_a_time_are_left_out_in_the_first_phase() -> None:
    window = WindowDefinition("TUMBLE", 10, time=2)
    calls = (call("COUNT"),)
    local = ColumnDriver(ColumnarLocalAggregateSpec(TYPES, (0,), calls, window=window), TYPES)
    merging = ColumnDriver(WindowAggregateSpec(TYPES, (0,), calls, window, merges=True), TYPES)
    local.feed([("a", 1, at(1)), ("a", 1, None), ("b", 1, None)])
    local.feed([("a", 1, None)])
    assert [frame.height for frame in local.out.frames] == [1]
    for frame in local.out.frames:
        merging.harness.process_batch(ColumnBatch(frame))
    merging.harness.finish()
    assert [row[:2] for _, row in merging.changes] == [("a", 1)]
    assert local.harness.metrics.counter("numNullRowTimeRecordsDropped").get_count() == 3


@pytest.mark.parametrize("window", WINDOWS, ids=IDS)
def test_a_row_counts_in_those_of_its_windows_that_have_not_ended(window: WindowDefinition) -> None:
    """Rows may be late for all of their windows, or for the first of them, also when those were computed a moment ago."""
    driver = ColumnDriver(WindowAggregateSpec(TYPES, (0,), (call("COUNT"),), window), TYPES)
    rng = random.Random(3)
    expected: Counter[Any] = Counter()
    watermark, late = -1, 0
    for number in range(150):
        key, time = rng.choice("ab"), max(watermark + rng.randint(-12, 8), 0)
        driver.feed([(key, 1, at(time))])
        still = [bounds for bounds in windows_of(window, time) if bounds[1] - 1 > watermark]
        expected.update((key, *bounds) for bounds in still)
        late += not still
        if rng.random() < 0.4:
            watermark += rng.randint(1, 5)
            driver.harness.process_watermark(watermark)
        if number % 40 == 39:
            assert driver.harness.metrics.counter("numLateRecordsDropped").get_count() == late
            driver, late = driver.restarted(), 0
    driver.harness.finish()
    found = {(row[0], millis(row[2]), millis(row[3])): row[1] for _, row in driver.changes}
    assert found == expected
    assert len(found) == len(driver.changes)


def test_windows_of_points_in_time_begin_with_the_day_of_the_session() -> None:
    types = (VarCharType(10), BigIntType(), LocalZonedTimestampType(3))
    day = 86_400_000
    window = WindowDefinition("TUMBLE", day, time=2, zone="Europe/Berlin")
    count = AggregateCall("COUNT", (), BigIntType())
    driver = ColumnDriver(WindowAggregateSpec(types, (0,), (count,), window), types)
    utc = dt.UTC
    driver.feed(
        [
            ("a", 1, dt.datetime(2024, 3, 30, 22, 59, tzinfo=utc)),
            ("a", 1, dt.datetime(2024, 3, 30, 23, 0, tzinfo=utc)),
            ("a", 1, dt.datetime(2024, 3, 31, 21, 59, tzinfo=utc)),
            ("a", 1, dt.datetime(2024, 3, 31, 22, 0, tzinfo=utc)),
        ]
    )
    # 31 March has 23 hours: it ends at 22:00 in UTC.
    end = int(dt.datetime(2024, 3, 31, 22, 0, tzinfo=utc).timestamp() * 1000)
    driver.harness.process_watermark(end - 2)
    assert len(driver.changes) == 1
    driver.harness.process_watermark(end - 1)
    assert driver.changes[1][1] == (
        "a",
        2,
        dt.datetime(2024, 3, 31),
        dt.datetime(2024, 4, 1),
        dt.datetime(2024, 3, 31, 21, 59, 59, 999000, tzinfo=utc),
    )


def test_windows_by_the_clock_end_when_it_has_come() -> None:
    window = WindowDefinition("TUMBLE", 100)
    spec = WindowAggregateSpec(TYPES, (0,), (call("COUNT"),), window, properties=("end",))
    driver = ColumnDriver(spec, TYPES)
    clock = driver.harness.clock
    clock.set(1_010)
    driver.feed([("a", 1, None), ("a", 2, None)])
    clock.set(1_099)
    driver.feed([("a", 3, None)])
    assert driver.harness.operator.next_wakeup() == 1_100
    driver.harness.set_processing_time(1_099)
    assert driver.changes == []
    driver = driver.restarted()
    driver.harness.clock.set(1_099)
    driver.harness.set_processing_time(1_100)
    assert driver.changes == [("+I", ("a", 3, at(1_100)))]
    assert driver.harness.operator.next_wakeup() is None


@pytest.mark.parametrize(
    "window",
    [WindowDefinition("TUMBLE", 100), WindowDefinition("SESSION", gap=100)],
    ids=["tumble", "session"],
)
def test_a_row_that_comes_when_the_clock_has_ended_a_window_comes_after_its_result(
    window: WindowDefinition,
) -> None:
    spec = WindowAggregateSpec(TYPES, (0,), (call("COUNT"),), window, properties=("end",))
    driver = ColumnDriver(spec, TYPES)
    for now in (1_000, 1_100, 1_200):
        driver.harness.clock.set(now)
        driver.feed([("a", 1, None)])
    assert driver.changes == [("+I", ("a", 1, at(1_100))), ("+I", ("a", 1, at(1_200)))]


@pytest.mark.parametrize("kind", ["TUMBLE", "SESSION"])
def test_distinct_values_are_listed_in_the_order_in_which_they_came(kind: str) -> None:
    window = WindowDefinition(kind, 1000, gap=1000, time=2)
    listed = call("LISTAGG", 0, type=VarCharType(1000), distinct=True)
    names = [f"n{number}" for number in range(40)]
    random.Random(1).shuffle(names)
    for stop in (False, True):
        driver = ColumnDriver(WindowAggregateSpec(TYPES, (), (listed,), window), TYPES)
        for start in range(0, 40, 8):
            driver.feed([(name, 1, at(number)) for number, name in enumerate(names[: start + 8])])
            driver = driver.restarted() if stop else driver
        driver.harness.finish()
        assert [row[0] for _, row in driver.changes] == [",".join(names)]


def test_a_window_without_aggregates_has_its_keys() -> None:
    window = WindowDefinition("TUMBLE", 10, time=2)
    driver = ColumnDriver(WindowAggregateSpec(TYPES, (0,), (), window), TYPES)
    driver.feed([("a", 1, at(1)), ("a", 1, at(2)), ("b", 1, at(12))])
    driver.harness.finish()
    assert [row[:1] for _, row in driver.changes] == [("a",), ("b",)]


def sessions_of(rows: list[Any], gap: int) -> list[Any]:
    """The sessions of rows: key, rows, start, end."""
    found: list[Any] = []
    for row in sorted(rows, key=lambda each: (repr(each[0]), each[2])):
        time = millis(row[2])
        if found and found[-1][0] == row[0] and time <= found[-1][3]:
            found[-1][1].append(row)
            found[-1][3] = max(found[-1][3], time + gap)
        else:
            found.append([row[0], [row], time, time + gap])
    return found


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("keys", [True, False], ids=["keys", "no-keys"])
def test_sessions_are_right_however_the_rows_are_cut(backend: str, keys: bool) -> None:
    gap = 4
    calls = (
        call("COUNT"),
        call("SUM", 1),
        call("COUNT", 1, distinct=True),
        call("COLLECT", 1, type=MultisetType(BigIntType())),
    )
    for seed in range(3):
        changes, rows = random_rows(seed, retracts=False, keys=keys)
        window = WindowDefinition("SESSION", gap=gap, time=2)
        spec = WindowAggregateSpec(TYPES, (0,) if keys else (), calls, window)
        driver = ColumnDriver(spec, TYPES, backend=backend)
        highest = watermark = 0
        rng = random.Random(seed)
        for number, part in enumerate(cut(changes, seed)):
            driver.feed(part)
            highest = max([highest, *(millis(row[2]) for _, row in part)])
            if rng.random() < 0.5:
                watermark = max(watermark, highest - 6)
                driver.harness.process_watermark(watermark)
            if number % (2 if backend == "hashmap" else 5) == 1:
                driver = driver.restarted()
        driver.harness.finish()
        expected = []
        for key, members, start, end in sessions_of(rows, gap):
            values = [row[1] for row in members if row[1] is not None]
            result = (
                *((key,) if keys else ()),
                len(members),
                sum(values) if values else None,
                len(set(values)),
                sorted(Counter(values).items()),
                at(start),
                at(end),
                at(end - 1),
            )
            expected.append(repr(result))
        assert shown(driver.changes) == sorted(expected)
        assert driver.harness.state_entries() == {}


def test_a_late_row_joins_a_session_that_is_still_open() -> None:
    window = WindowDefinition("SESSION", gap=10, time=2)
    driver = ColumnDriver(WindowAggregateSpec(TYPES, (0,), (call("COUNT"),), window), TYPES)
    driver.feed([("a", 1, at(20)), ("b", 1, at(1))])
    driver.harness.process_watermark(25)
    driver.feed([("a", 1, at(10)), ("b", 1, at(10))])  # the session from 20 on is just reached
    driver.harness.finish()
    found = sorted((row[0], row[1], millis(row[2])) for _, row in driver.changes)
    assert found == [("a", 2, 10), ("b", 1, 1)]
    assert driver.harness.metrics.counter("numLateRecordsDropped").get_count() == 1


@pytest.mark.parametrize(
    "batches",
    [[[0, 4]], [[0], [4]], [[0, 4, 8, 12], [2], [14]], [[14], [2], [0, 4, 8, 12]]],
    ids=str,
)
def test_rows_no_more_than_a_gap_apart_are_one_session(batches: list[list[int]]) -> None:
    window = WindowDefinition("SESSION", gap=4, time=2)
    driver = ColumnDriver(WindowAggregateSpec(TYPES, (0,), (call("COUNT"),), window), TYPES)
    for batch in batches:
        driver.feed([("a", 1, at(time)) for time in batch])
    driver.harness.process_watermark(100)
    times = [time for batch in batches for time in batch]
    end = at(max(times) + 4)
    assert [row[1:4] for _, row in driver.changes] == [(len(times), at(0), end)]


def test_sessions_by_the_clock_end_after_the_gap() -> None:
    window = WindowDefinition("SESSION", gap=100)
    spec = WindowAggregateSpec(TYPES, (0,), (call("COUNT"),), window, properties=("start", "end"))
    driver = ColumnDriver(spec, TYPES)
    driver.harness.clock.set(1_000)
    driver.feed([("a", 1, None)])
    driver.harness.clock.set(1_050)
    driver.feed([("a", 1, None)])
    driver.harness.set_processing_time(1_149)
    assert driver.changes == []
    driver.harness.set_processing_time(1_150)
    assert driver.changes == [("+I", ("a", 2, at(1_000), at(1_150)))]
