"""Joins with time: rows near each other, rows of the same window, versions of a table."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from penstock.graph.operator_specs.columnar.joins import (
    ColumnarIntervalJoinSpec,
    TemporalJoinSpec,
    WindowJoinSpec,
)
from penstock.runtime.columnar.joins import memory
from penstock.runtime.columnar.store import key_index
from penstock.sql.expr.nodes import Call, InputRef
from penstock.table.types import DataTypes
from tests.unit.runtime.columnar.changes import table_of
from tests.unit.runtime.columnar.join_cases import Stopped, joined, shown

END = 2**63 - 1
LEFT = (DataTypes.INT(), DataTypes.INT(), DataTypes.TIMESTAMP(3))
RIGHT = (DataTypes.INT(), DataTypes.TIMESTAMP(3), DataTypes.INT())
KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
MORE = Call(DataTypes.BOOLEAN(), "<", (InputRef(LEFT[1], 1), InputRef(RIGHT[2], 5)))


def _at(millis: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=millis)


def _millis(time: dt.datetime) -> int:
    return (time - dt.datetime(1970, 1, 1)) // dt.timedelta(milliseconds=1)


def _streams(rng: random.Random, steps: int = 60) -> list[Any]:
    """Rows of both sides with times that are out of order by up to 50 ms, and watermarks that none is later than."""
    events: list[Any] = []
    now = 1000
    number = 0
    for _ in range(steps):
        now += rng.randrange(40)
        for side in rng.sample([0, 1], rng.choice([1, 1, 2])):
            rows = []
            for _ in range(rng.choice([1, 2, 5])):
                number += 1
                key, time = rng.choice([1, 2, 3, None]), _at(now + rng.randrange(50))
                rows.append((key, number % 7, time) if side == 0 else (key, time, number % 7))
            events.append((side, rows))
        events.append(("watermark", now - 1))
    return events


def _run(spec: Any, backend: str, events: list[Any], types: tuple[Any, Any]) -> Stopped:
    running = Stopped(spec, backend, seed=5, stops=0.1 if backend == "hashmap" else 0.03)
    for what, content in events:
        if what == "watermark":
            running.watermark(content)
        else:
            running.send(content, types[what], what)
    running.watermark(END)
    return running


def _rows(events: list[Any], side: int) -> Counter[Any]:
    return Counter(row for what, rows in events if what == side for row in rows)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(("lower", "upper"), [(-60, 30), (20, 90), (-90, -20), (0, 0)])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interval_join_gives_the_pairs_near_each_other(
    kind: str, lower: int, upper: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "rocksdb" and (lower != -60 or kind in {"RIGHT", "SEMI"}):
        pytest.skip("one of them is enough")
    condition = MORE if lower == 20 else None
    if condition is not None:  # with room for few pairs at once
        monkeypatch.setattr(key_index, "MOST_PAIRS", 5)
    events = _streams(random.Random(7))
    spec = ColumnarIntervalJoinSpec(kind, LEFT, RIGHT, (0,), (0,), 2, 1, lower, upper, condition)
    running = _run(spec, backend, events, (LEFT, RIGHT))
    expected = joined(
        kind,
        _rows(events, 0),
        _rows(events, 1),
        (3, 3),
        lambda mine, theirs: (
            mine[0] is not None
            and mine[0] == theirs[0]
            and lower <= _millis(mine[2]) - _millis(theirs[1]) <= upper
            and (condition is None or mine[1] < theirs[2])
        ),
    )
    assert table_of(running.changes()) == shown(expected)
    assert running.harness.state_entries() == {}


def test_an_interval_join_holds_watermarks_back_by_as_much_as_its_rows_can_be_old() -> None:
    spec = ColumnarIntervalJoinSpec("LEFT", LEFT, RIGHT, (0,), (0,), 2, 1, -60, 30)
    running = Stopped(spec, "hashmap")
    running.send([(1, 1, _at(1000))], LEFT)
    running.watermark(1059)
    assert running.changes() == []
    running.watermark(1060)
    assert running.changes() == [("+I", (1, 1, _at(1000), None, None, None))]
    assert running.output.watermarks == [999, 1000]


def test_an_interval_join_by_the_clock_forgets_rows_by_the_clock() -> None:
    spec = ColumnarIntervalJoinSpec("LEFT", LEFT, RIGHT, (0,), (0,), None, None, -60, 0)
    running = Stopped(spec, "hashmap")
    running.send([(1, 1, None), (2, 2, None)], LEFT)
    running.clock.advance(60)
    running.send([(1, None, 5)], RIGHT, 1)
    assert running.changes() == [("+I", (1, 1, None, 1, None, 5))]
    wakeup = running.harness.operator.next_wakeup()
    assert wakeup == 1_000_061
    running.harness.advance_processing_time(1)
    assert running.changes()[1:] == [("+I", (2, 2, None, None, None, None))]
    running.send([(1, None, 6)], RIGHT, 1)
    assert len(running.changes()) == 2


def test_an_interval_join_by_the_clock_gives_up_waiting_at_the_end_of_its_inputs() -> None:
    spec = ColumnarIntervalJoinSpec("FULL", LEFT, RIGHT, (0,), (0,), None, None, -60, 60)
    running = Stopped(spec, "hashmap")
    running.send([(1, 1, None), (2, 2, None)], LEFT)
    running.send([(1, None, 5), (3, None, 6)], RIGHT, 1)
    running.output.frames.clear()
    running.harness.operator.finish(ends_for_good=False)
    assert running.changes() == [
        ("+I", (2, 2, None, None, None, None)),
        ("+I", (None, None, None, 3, None, 6)),
    ]


@pytest.mark.parametrize(
    ("lower", "upper", "delay"), [(-60, 30, 60), (-30, 60, 60), (20, 90, 90), (-90, -20, 90)]
)
def test_watermarks_of_an_interval_join_are_behind_all_rows_to_come(
    lower: int, upper: int, delay: int
) -> None:
    running = Stopped(
        ColumnarIntervalJoinSpec("INNER", LEFT, RIGHT, (0,), (0,), 2, 1, lower, upper), "hashmap"
    )
    running.watermark(1000)
    running.watermark(END)
    assert running.output.watermarks == [1000 - delay, END]


def test_a_row_without_a_time_is_near_no_other() -> None:
    spec = ColumnarIntervalJoinSpec("FULL", LEFT, RIGHT, (0,), (0,), 2, 1, -60, 60)
    running = Stopped(spec, "hashmap")
    running.send([(1, 1, None)], LEFT)
    running.send([(1, None, 5)], RIGHT, 1)
    assert running.changes() == [
        ("+I", (1, 1, None, None, None, None)),
        ("+I", (None, None, None, 1, None, 5)),
    ]
    assert running.harness.state_entries() == {}
    inner = Stopped(replace(spec, kind="INNER"), "hashmap")
    inner.send([(1, 1, None)], LEFT)
    assert inner.changes() == []
    assert inner.harness.metrics.counter("numLateRecordsDropped").get_count() == 0


WINDOWED = (DataTypes.INT(), DataTypes.INT(), DataTypes.TIMESTAMP(3), DataTypes.TIMESTAMP(3))
FEWER = Call(DataTypes.BOOLEAN(), "<", (InputRef(WINDOWED[1], 1), InputRef(WINDOWED[1], 5)))


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_window_join_gives_the_pairs_of_each_window(kind: str, backend: str) -> None:
    condition = FEWER if backend == "hashmap" else None
    events: list[Any] = []
    for what, content in _streams(random.Random(8)):
        if what == "watermark":
            events.append((what, content))
            continue
        rows = []
        for row in content:
            time = _millis(row[2 if what == 0 else 1]) // 100 * 100
            rows.append((row[0], row[1] if what == 0 else row[2], _at(time), _at(time + 100)))
        events.append((what, rows))
    spec = WindowJoinSpec(kind, WINDOWED, WINDOWED, (0,), (0,), (2, 3), (2, 3), condition)
    running = _run(spec, backend, events, (WINDOWED, WINDOWED))
    expected = joined(
        kind,
        _rows(events, 0),
        _rows(events, 1),
        (4, 4),
        lambda mine, theirs: (
            mine[0] is not None
            and mine[0] == theirs[0]
            and mine[2:] == theirs[2:]
            and (condition is None or mine[1] < theirs[1])
        ),
    )
    assert table_of(running.changes()) == shown(expected)
    assert running.harness.state_entries() == {}


def test_windows_of_local_times_end_when_their_zone_says_so() -> None:
    spec = WindowJoinSpec(
        "INNER", WINDOWED, WINDOWED, (0,), (0,), (2, 3), (2, 3), zone="Europe/Berlin"
    )
    running = Stopped(spec, "hashmap")
    end = dt.datetime(2024, 7, 1, 12)
    for side in (0, 1):
        running.send([(1, side, dt.datetime(2024, 7, 1, 11), end)], WINDOWED, side)
    instant = _millis(dt.datetime(2024, 7, 1, 10))
    running.watermark(instant - 2)
    assert running.changes() == []
    running.watermark(instant - 1)
    assert len(running.changes()) == 1
    running.send([(1, 9, dt.datetime(2024, 7, 1, 11), end)], WINDOWED, 0)
    assert running.harness.metrics.counter("numLateRecordsDropped").get_count() == 1


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("condition", [None, MORE], ids=["equal keys", "with a condition"])
@pytest.mark.parametrize("kind", ["INNER", "LEFT"])
def test_a_temporal_join_finds_the_version_of_the_time(
    kind: str, condition: Any, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "rocksdb":
        monkeypatch.setattr(memory, "RESIDENT_BYTES", 300)
        monkeypatch.setattr(memory, "LOOK_EVERY", 3)
    rng = random.Random(11)
    events: list[Any] = []
    for what, content in _streams(rng, 80):
        if what == 1:
            content = [(rng.choice(["+I", "+U", "+U", "-D", "-U"]), row) for row in content]
        events.append((what, content))
    spec = TemporalJoinSpec(kind, LEFT, RIGHT, (0,), (0,), 2, 1, condition)
    running = _run(spec, backend, events, (LEFT, RIGHT))
    versions: dict[Any, dict[int, Any]] = {}
    for what, rows in events:
        if what == 1:
            for change, row in rows:
                if change != "-U":
                    versions.setdefault(row[0], {})[_millis(row[1])] = (change, row)
    expected: Counter[Any] = Counter()
    for row in _rows(events, 0).elements():
        begins = [time for time in versions.get(row[0], {}) if time <= _millis(row[2])]
        change, version = (
            versions[row[0]][max(begins)] if begins and row[0] is not None else ("-D", None)
        )
        if change != "-D" and (condition is None or row[1] < version[2]):
            expected[row + version] += 1
        elif kind == "LEFT":
            expected[(*row, None, None, None)] += 1
    assert table_of(running.changes()) == shown(expected)


def test_a_temporal_join_by_the_clock_takes_the_latest_version_and_keeps_the_kinds_of_left_rows() -> (
    None
):
    spec = TemporalJoinSpec("LEFT", LEFT, RIGHT, (0,), (0,), None, None)
    running = Stopped(spec, "hashmap", seed=2, stops=0.5)
    running.send([(1, 1, None)], LEFT)
    running.send([("+I", (1, None, 5)), ("+U", (1, None, 6))], RIGHT, 1)
    running.send([("+I", (1, 2, None)), ("-D", (1, 1, None))], LEFT)
    running.send([("-D", (1, None, 6))], RIGHT, 1)
    running.send([(1, 3, None)], LEFT)
    assert [(kind, row[1], row[5]) for kind, row in running.changes()] == [
        ("+I", 1, None),
        ("+I", 2, 6),
        ("-D", 1, 6),
        ("+I", 3, None),
    ]


def test_keys_with_null_are_equal_in_timed_joins_where_the_condition_says_so() -> None:
    moment = _at(1000)
    interval = ColumnarIntervalJoinSpec("INNER", LEFT, RIGHT, (0,), (0,), 2, 1, 0, 0)
    window = WindowJoinSpec("INNER", WINDOWED, WINDOWED, (0,), (0,), (2, 3), (2, 3))
    cases: list[tuple[Any, Any, Any]] = [
        (interval, (LEFT, RIGHT), ((None, 1, moment), (None, moment, 2))),
        (
            window,
            (WINDOWED, WINDOWED),
            ((None, 1, moment, _at(2000)), (None, 2, moment, _at(2000))),
        ),
    ]
    for spec, types, rows in cases:
        for null_safe, pairs in (((True,), 1), ((False,), 0), ((), 0)):
            running = Stopped(replace(spec, null_safe=null_safe), "hashmap")
            for side in (0, 1):
                running.send([rows[side]], types[side], side)
            running.watermark(END)
            assert len(running.changes()) == pairs


@pytest.mark.parametrize("together", [True, False])
def test_of_versions_with_the_same_time_the_last_one_counts(together: bool) -> None:
    running = Stopped(TemporalJoinSpec("INNER", LEFT, RIGHT, (0,), (0,), 2, 1), "hashmap")
    versions = [("+U", (1, _at(1000), number)) for number in (5, 9, 7)]
    for batch in [versions] if together else [[each] for each in versions]:
        running.send(batch, RIGHT, 1)
    running.send([(1, 1, _at(1000)), (1, 2, _at(2000))], LEFT)
    running.watermark(END)
    assert [row[5] for _, row in running.changes()] == [7, 7]


@pytest.mark.parametrize("stops", [0.0, 1.0], ids=["at once", "with restarts"])
def test_unreachable_versions_are_dropped(stops: float) -> None:
    """Also those that came before a restart, of keys that get no more versions."""
    spec = TemporalJoinSpec("INNER", LEFT, RIGHT, (0,), (0,), 2, 1)
    running = Stopped(spec, "hashmap", seed=1, stops=stops)
    running.send([("+U", (1, _at(time), time)) for time in (10, 20, 30)], RIGHT, 1)
    kept = []
    for mark in (5, 15, 25, 40):
        running.watermark(mark)
        if stops:
            running.restart()
        kept.append(running.harness.operator._right.store.live)  # type: ignore[attr-defined]
    assert kept == [3, 3, 2, 1]
    running.send([("-D", (1, _at(50), 0))], RIGHT, 1)
    running.watermark(60)
    assert running.harness.state_entries() == {}
