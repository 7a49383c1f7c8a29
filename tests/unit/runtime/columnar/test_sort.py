"""ORDER BY, and Top-N of windows: rows wait for their time, and leave in order."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from typing import Any

import pytest

from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.graph.operator_specs.columnar.ranks import SortSpec, WindowRankSpec
from penstock.runtime.columnar.operators import window_rank
from penstock.runtime.records import MAX_WATERMARK
from penstock.table.types import DataTypes
from tests.unit.runtime.columnar.changes import cut, table_of
from tests.unit.runtime.columnar.join_cases import Change, Stopped, shown

MOMENT = DataTypes.TIMESTAMP(3)
TYPES = (MOMENT, DataTypes.STRING(), DataTypes.INT())
WINDOWED = (DataTypes.STRING(), DataTypes.INT(), MOMENT, MOMENT)
EPOCH = dt.datetime(1970, 1, 1)


def _moment(second: int) -> dt.datetime:
    return EPOCH + dt.timedelta(seconds=second)


def _rows(count: int, seed: int) -> list[Any]:
    """Rows whose times go forward, up to five seconds out of order."""
    rng = random.Random(seed)
    return [
        (_moment(number // 5 + rng.randrange(5)), rng.choice("abc"), rng.randrange(4))
        for number in range(count)
    ]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_rows_leave_in_the_order_of_time(backend: str) -> None:
    rows = _rows(200, 1)
    order = (SortKey(0), SortKey(2, ascending=False))
    running = Stopped(SortSpec(TYPES, order, 0), backend, seed=1, stops=0.2)
    sent, last = 0, _moment(-1)
    expected: list[Any] = []
    for part in cut(rows, 1):
        running.send(part, TYPES)
        expected += [row for row in part if row[0] > last]
        sent += len(part)
        mark = sent // 5 + 1  # some rows are late
        running.watermark(mark * 1000)
        last = max((row[0] for row in expected if row[0] <= _moment(mark)), default=last)
    running.watermark(MAX_WATERMARK)
    expected.sort(key=lambda row: (row[0], -row[2]))
    assert len(expected) < len(rows)
    assert running.changes() == [("+I", row) for row in expected]
    assert running.output.watermarks[-1] == MAX_WATERMARK


@pytest.mark.parametrize("stops", [0.0, 1.0])
def test_a_row_behind_the_watermark_is_late_only_if_a_newer_one_has_left(stops: float) -> None:
    running = Stopped(SortSpec(TYPES, (SortKey(0),), 0), "hashmap", seed=4, stops=stops)
    highest = -1
    for second, mark in ((1, 0), (2, 1), (7, 6), (7, 6), (6, 6), (2, 6), (9, 8), (7, 8), (8, 8)):
        running.send([(_moment(second), "a", 1)], TYPES)
        if mark > highest:
            highest = mark
            running.watermark(mark * 1000)
    running.watermark(MAX_WATERMARK)
    # As in Flink: 6 is behind the watermark, and nothing after 2 had left; 2 and the third 7 came too late.
    assert [row[0].second for _, row in running.changes()] == [1, 2, 6, 7, 7, 8, 9]
    if not stops:
        metrics = running.harness.metrics.report()
        assert metrics["numLateRecordsDropped"] == ("counter", 2)
        assert metrics["lateRecordsLatenessMs"][1]["max"] == 4000


@pytest.mark.parametrize("changing", [False, True])
def test_without_time_all_rows_leave_at_the_end(changing: bool) -> None:
    rng = random.Random(3)
    there: list[Any] = []
    changes: list[Change] = []
    for row in _rows(150, 3):
        if changing and there and rng.random() < 0.3:
            changes.append((rng.choice(["-U", "-D"]), there.pop(rng.randrange(len(there)))))
        there.append(row)
        changes.append(("+I", row))
    order = (SortKey(1, ascending=False, nulls_first=False), SortKey(2))
    running = Stopped(SortSpec(TYPES, order, None), "hashmap", seed=3, stops=0.1)
    for part in cut(changes, 3):
        running.send(part, TYPES)
    running.watermark(MAX_WATERMARK)
    assert not running.changes()
    running.harness.operator.finish(ends_for_good=False)
    found = running.changes()
    assert table_of(found) == shown(Counter(there))
    assert [(row[1], row[2]) for _, row in found] == sorted(
        ((row[1], row[2]) for row in there), key=lambda pair: (-ord(pair[0]), pair[1])
    )


def _windowed(count: int, seed: int) -> list[Any]:
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        start = (number // 20 + rng.randrange(2)) * 10
        rows.append((rng.choice("abc"), rng.randrange(5), _moment(start), _moment(start + 10)))
    return rows


@pytest.mark.parametrize(
    ("backend", "keys", "bounds", "with_rank"),
    [
        ("hashmap", (0,), (1, 1), False),
        ("hashmap", (0,), (2, 3), True),
        ("hashmap", (), (1, 2), True),
        ("rocksdb", (0,), (1, 3), True),
    ],
)
def test_the_first_rows_of_each_window_leave_when_it_ends(
    backend: str,
    keys: tuple[int, ...],
    bounds: tuple[int, int],
    with_rank: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(window_rank, "_ENOUGH", 30)
    rows = _windowed(200, 5)
    order = (SortKey(1, ascending=False),)
    spec = WindowRankSpec(WINDOWED, keys, (2, 3), order, *bounds, with_rank)
    running = Stopped(spec, backend, seed=5, stops=0.2)
    groups: dict[Any, list[Any]] = {}
    mark = sent = late = 0
    for part in cut(rows, 5):
        running.send(part, WINDOWED)
        for row in part:
            if row[3] <= _moment(mark):
                late += 1
            else:
                name = (row[3], *(row[at] for at in keys))
                groups.setdefault(name, []).append(row)
        sent += len(part)
        mark = (sent // 20 + 1) * 10
        running.watermark(mark * 1000 - 1)
    running.watermark(MAX_WATERMARK)
    expected: list[Any] = []
    for found in groups.values():
        placed = sorted(found, key=lambda row: -row[1])
        for number, row in enumerate(placed, 1):
            if bounds[0] <= number <= bounds[1]:
                expected.append((*row, number) if with_rank else row)
    assert late
    assert table_of(running.changes()) == shown(Counter(expected))
    ends = [row[3] for _, row in running.changes()]
    assert ends == sorted(ends)


def test_windows_of_local_time_end_when_their_zone_says() -> None:
    spec = WindowRankSpec(WINDOWED, (0,), (2, 3), (SortKey(1),), zone="Europe/Berlin")
    running = Stopped(spec, "hashmap")
    running.send([("a", 1, _moment(0), _moment(7200))], WINDOWED)
    running.watermark(3_599_998)
    assert not running.changes()
    running.watermark(3_599_999)
    assert len(running.changes()) == 1
