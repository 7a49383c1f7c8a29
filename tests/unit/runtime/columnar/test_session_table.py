"""SESSION as a table: rows leave with the bounds of their session, against plain Python."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter

import pytest

from penstock.graph.operator_specs.columnar.common import WindowDefinition
from penstock.graph.operator_specs.columnar.sessions import SessionTableFunctionSpec
from penstock.sql.types import IntType, TimestampType
from tests.unit.runtime.columnar.join_cases import Stopped

TYPES = (IntType(), IntType(), TimestampType(3))
EPOCH = dt.datetime(1970, 1, 1)
GAP = 10


def at(ms):
    return EPOCH + dt.timedelta(milliseconds=ms)


def sessions(rows):
    """Rows with the bounds of their sessions, by key."""
    found: Counter[tuple] = Counter()
    for key in {row[1] for row in rows}:
        mine = sorted((row for row in rows if row[1] == key), key=lambda row: row[2])
        groups: list[list] = []
        for row in mine:
            if groups and row[2] - groups[-1][-1][2] <= GAP:
                groups[-1].append(row)
            else:
                groups.append([row])
        for group in groups:
            start, end = group[0][2], group[-1][2] + GAP
            for number, _, time in group:
                found[number, key, at(time), at(start), at(end), at(end - 1)] += 1
    return found


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_rows_leave_with_the_bounds_of_their_session_when_it_has_ended(backend):
    window = WindowDefinition("SESSION", gap=GAP, time=2, partition=(1,))
    running = Stopped(SessionTableFunctionSpec(TYPES, window), backend, seed=5, stops=0.1)
    chance, rows, time = random.Random(8), [], 100
    for number in range(80):
        time += chance.choice([0, 1, 4, 9, 30])
        rows.append((number, chance.randrange(3), time - chance.randrange(5)))
        running.send([(*rows[-1][:2], at(rows[-1][2]))], TYPES)
        if number % 4 == 3:
            running.watermark(time - 6)
            ended = {row[3:] for _, row in running.changes()}
            assert all(end <= at(time - 5) for _, end, _ in ended)
    running.watermark(2**63 - 1)
    assert Counter(row for _, row in running.changes()) == sessions(rows)


def test_rows_of_sessions_that_have_ended_are_dropped_and_counted():
    window = WindowDefinition("SESSION", gap=GAP, time=2, partition=(1,))
    running = Stopped(SessionTableFunctionSpec(TYPES, window), "hashmap")
    running.watermark(100)
    running.send([(1, 1, at(50)), (2, 1, at(95))], TYPES)
    running.watermark(2**63 - 1)
    assert [row[0] for _, row in running.changes()] == [2]
    assert running.harness.metrics.counter("numLateRecordsDropped").get_count() == 1


def test_after_a_restart_sessions_end_though_no_row_has_come_since():
    window = WindowDefinition("SESSION", gap=GAP, time=2, partition=(1,))
    running = Stopped(SessionTableFunctionSpec(TYPES, window), "hashmap")
    running.send([(1, 1, at(50)), (2, 1, at(55)), (3, 2, at(90))], TYPES)
    running.restart()
    running.watermark(63)
    assert not running.changes()
    running.watermark(64)
    assert [row[0] for _, row in running.changes()] == [1, 2]
