"""Windows of a time zone end as Flink's do where clocks are put back or forward: a local hour may be there twice, or not at all."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from penstock.graph.operator_specs.columnar.aggregates import WindowAggregateSpec
from penstock.graph.operator_specs.columnar.common import SortKey, WindowDefinition
from penstock.graph.operator_specs.columnar.joins import WindowJoinSpec
from penstock.graph.operator_specs.columnar.ranks import WindowRankSpec
from penstock.graph.operator_specs.columnar.sessions import SessionTableFunctionSpec
from penstock.sql.expr.nodes import AggregateCall
from penstock.sql.types import BigIntType, LocalZonedTimestampType, TimestampType
from tests.unit.runtime.columnar.changes import ColumnDriver
from tests.unit.runtime.columnar.join_cases import Stopped

BERLIN = "Europe/Berlin"
HOUR = 3_600_000
POINT = (LocalZonedTimestampType(3),)
BOUNDS = (TimestampType(3), TimestampType(3))
COUNT = AggregateCall("COUNT", (), BigIntType())


def instant(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def millis(text: str) -> int:
    return (instant(text) - instant("1970-01-01")) // dt.timedelta(milliseconds=1)


def counting(window: WindowDefinition) -> ColumnDriver:
    spec = WindowAggregateSpec(POINT, (), (COUNT,), window, None, ("start", "end"))
    return ColumnDriver(spec, POINT)


def test_a_window_of_the_hour_that_is_there_twice_waits_for_the_rows_of_both() -> None:
    driver = counting(WindowDefinition("TUMBLE", HOUR, time=0, zone=BERLIN))
    driver.feed([(instant("2024-10-27 00:30"),)])
    driver.harness.process_watermark(millis("2024-10-27 01:00"))
    driver.feed([(instant("2024-10-27 01:10"),)])
    driver.harness.process_watermark(millis("2024-10-27 02:00") - 2)
    assert driver.changes == []
    driver.feed([(instant("2024-10-27 01:59"),)])
    driver.harness.process_watermark(millis("2024-10-27 02:00") - 1)
    start = dt.datetime(2024, 10, 27, 2)
    assert driver.changes == [("+I", (3, start, start + dt.timedelta(hours=1)))]
    driver.feed([(instant("2024-10-27 01:59"),)])
    report = driver.harness.metrics.report()
    assert report["numLateRecordsDropped"] == ("counter", 1)
    assert report["lateRecordsLatenessMs"][1]["max"] == 0


# The local end of a window, and the instant after its last moment; 02:00 to 03:00 is there twice in October, and is left out in March.
ENDS = {
    "before the hour that is there twice": ("2024-10-27 02:00", "2024-10-27 00:00"),
    "within the hour that is there twice": ("2024-10-27 02:30", "2024-10-27 01:30"),
    "after the hour that is there twice": ("2024-10-27 03:00", "2024-10-27 02:00"),
    "before the hour that is left out": ("2024-03-31 02:00", "2024-03-31 01:00"),
    "within the hour that is left out": ("2024-03-31 02:30", "2024-03-31 01:00:00.001"),
    "after the hour that is left out": ("2024-03-31 04:00", "2024-03-31 02:00"),
}


@pytest.mark.parametrize(("end", "over"), ENDS.values(), ids=ENDS)
def test_windows_that_rows_bring_along_end_at_the_same_moment_everywhere(
    end: str, over: str
) -> None:
    local = dt.datetime.fromisoformat(end)
    row = (local - dt.timedelta(minutes=30), local)
    zone = WindowDefinition("TUMBLE", HOUR, time=0, zone=BERLIN)
    specs: dict[str, Any] = {
        "aggregate": WindowAggregateSpec(BOUNDS, (), (COUNT,), zone, (0, 1), ("end",)),
        "join": WindowJoinSpec("LEFT", BOUNDS, BOUNDS, (), (), (0, 1), (0, 1), zone=BERLIN),
        "Top-N": WindowRankSpec(BOUNDS, (), (0, 1), (SortKey(0),), zone=BERLIN),
    }
    for name, spec in specs.items():
        running = Stopped(spec, "hashmap")
        running.send([row], BOUNDS)
        running.watermark(millis(over) - 2)
        assert running.changes() == [], name
        running.watermark(millis(over) - 1)
        assert len(running.changes()) == 1, name
        running.send([row], BOUNDS)
        assert running.harness.metrics.counter("numLateRecordsDropped").get_count() == 1, name


@pytest.mark.parametrize("kind", ["TUMBLE", "SESSION", "SESSION as a table"])
def test_windows_by_the_clock_wake_up_after_the_second_of_two_hours(kind: str) -> None:
    """The row comes when it is 02:10 for the first time; its window ends when it is 02:30 for the second time."""
    window = WindowDefinition(kind.split(maxsplit=1)[0], 30 * 60_000, gap=20 * 60_000, zone=BERLIN)
    spec: Any = WindowAggregateSpec(POINT, (), (COUNT,), window, None, ("start", "end"))
    if kind.endswith("table"):
        spec = SessionTableFunctionSpec(POINT, window)
    running = Stopped(spec, "hashmap")
    running.clock.set(millis("2024-10-27 00:10"))
    running.send([(None,)], POINT)
    end = millis("2024-10-27 01:30")
    assert running.harness.operator.next_wakeup() == end
    running.harness.operator.advance_processing_time(end - 1)
    assert running.changes() == []
    running.harness.operator.advance_processing_time(end)
    assert len(running.changes()) == 1
