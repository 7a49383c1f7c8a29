"""Which rows are late does not depend on how the input is cut into batches."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.graph.operator_specs import OperatorSpec
from penstock.graph.operator_specs.columnar.aggregates import OverAggregateSpec, WindowAggregateSpec
from penstock.graph.operator_specs.columnar.common import SortKey, WindowDefinition
from penstock.graph.operator_specs.columnar.joins import ColumnarIntervalJoinSpec
from penstock.graph.operator_specs.columnar.ranks import SortSpec
from penstock.graph.operator_specs.columnar.sessions import SessionTableFunctionSpec
from penstock.graph.operator_specs.columnar.stateless import WatermarkSpec
from penstock.runtime.records import MAX_WATERMARK
from penstock.sql.expr.nodes import AggregateCall, InputRef
from penstock.sql.types import BigIntType, TimestampType, VarCharType
from tests.unit.runtime.columnar.changes import ColumnDriver
from tests.unit.runtime.columnar.join_cases import Stopped

TYPES = (VarCharType(10), TimestampType(3))
COUNT = AggregateCall("COUNT", (), BigIntType(False))
EPOCH = dt.datetime(1970, 1, 1)
ORDER = (SortKey(1),)


def at(second: int) -> dt.datetime:
    return EPOCH + dt.timedelta(seconds=second)


def _over(**frame: Any) -> OverAggregateSpec:
    return OverAggregateSpec(TYPES, (0,), ORDER, (COUNT,), rowtime=True, **frame)


OPERATORS: dict[str, OperatorSpec] = {
    "ORDER BY": SortSpec(TYPES, ORDER, 1),
    "ROWS": _over(rows=True, preceding=2),
    "RANGE": _over(rows=False, preceding=4000),
    "unbounded ROWS": _over(rows=True),
    "TUMBLE": WindowAggregateSpec(TYPES, (0,), (COUNT,), WindowDefinition("TUMBLE", 5000, time=1)),
    "HOP": WindowAggregateSpec(TYPES, (0,), (COUNT,), WindowDefinition("HOP", 6000, 2000, time=1)),
    "SESSION": WindowAggregateSpec(
        TYPES, (0,), (COUNT,), WindowDefinition("SESSION", gap=5000, time=1)
    ),
    "SESSION as a table": SessionTableFunctionSpec(
        TYPES, WindowDefinition("SESSION", gap=5000, time=1, partition=(0,))
    ),
}
# Batches between watermarks; a late row before and after one that its session would reach.
INPUTS = {
    "late, then a row that its session reaches": ["b12", 11, "a2 a7 a9", 40],
    "a row that reaches a session first": ["b12", 11, "a7 a2 a9", 40],
    "a chain of late rows back from an open session": ["a9 b12", 11, "a1 a5 a2 a1", 40],
    "two keys": ["b12 c3", 11, "a2 b2 a7 b8 a3 b3 c4 c7", 40, "a12 a39", 45],
}


def _outcome(spec: OperatorSpec, steps: list[str | int], *, by_row: bool) -> tuple[Any, Any]:
    running = Stopped(spec, "hashmap")
    for step in steps:
        if isinstance(step, int):
            running.watermark(step * 1000)
            continue
        rows = [(each[0], at(int(each[1:]))) for each in step.split()]
        for batch in [[row] for row in rows] if by_row else [rows]:
            running.send(batch, TYPES)
    running.watermark(MAX_WATERMARK)
    metrics = running.harness.metrics.report()
    late = metrics["numLateRecordsDropped"][1], metrics.get("lateRecordsLatenessMs")
    return sorted(map(repr, running.changes())), late


@pytest.mark.parametrize("steps", INPUTS.values(), ids=INPUTS)
def test_rows_of_a_batch_are_as_late_as_rows_that_come_alone(steps: list[str | int]) -> None:
    found = {name: _outcome(spec, steps, by_row=False) for name, spec in OPERATORS.items()}
    wanted = {name: _outcome(spec, steps, by_row=True) for name, spec in OPERATORS.items()}
    assert found == wanted
    assert any(late for _, (late, _) in wanted.values())


def test_a_row_that_finds_no_partner_and_is_too_late_to_wait_counts_as_late() -> None:
    join = ColumnarIntervalJoinSpec("INNER", TYPES, TYPES, (0,), (0,), 1, 1, -3000, 3000)
    running = Stopped(join, "hashmap")
    running.send([("a", at(10))], TYPES)
    running.watermark(12_000)
    running.send([("a", at(8)), ("b", at(8)), ("b", at(11)), ("c", at(9)), ("c", at(10))], TYPES, 1)
    metrics = running.harness.metrics.report()
    # a@8 has its partner, b@11 and c@10 can wait for one; partners of c@9 are not newer than the watermark.
    assert len(running.changes()) == 1
    assert metrics["numLateRecordsDropped"] == ("counter", 2)
    assert metrics["lateRecordsLatenessMs"][1]["max"] == 4000
    preserving = ColumnarIntervalJoinSpec("FULL", TYPES, TYPES, (0,), (0,), 1, 1, -3000, 3000)
    kept = Stopped(preserving, "hashmap")
    kept.watermark(12_000)
    kept.send([("b", at(8))], TYPES, 1)
    assert [row[2] for _, row in kept.changes()] == ["b"]
    assert kept.harness.metrics.report()["numLateRecordsDropped"] == ("counter", 0)


class _Log:
    """Writes down rows and watermarks in the order in which they come."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def emit(self, batch: Any) -> None:
        self.events += [row[1].second for row in batch.frame.rows()]

    def emit_watermark(self, watermark: int) -> None:
        self.events.append(f"<{watermark // 1000}>")

    def emit_status(self, idle: bool) -> None:
        raise AssertionError(idle)


def _events(interval: int, batches: list[list[int]]) -> Iterator[Any]:
    spec = WatermarkSpec(TYPES, 1, InputRef(TYPES[1], 1))
    log = _Log()
    driver = ColumnDriver(spec, TYPES, out=log, auto_watermark_interval=interval)  # type: ignore[arg-type]
    for batch in batches:
        driver.feed([("a", at(second)) for second in batch])
    yield from log.events


def test_with_an_interval_of_0_a_watermark_follows_each_row_that_raises_it() -> None:
    batches = [[1, 2, 7, 7, 6], [3, 8, 8, 5]]
    assert list(_events(0, batches)) == [
        *(1, "<1>", 2, "<2>", 7, "<7>", 7, 6),
        *(3, 8, "<8>", 8, 5),
    ]
    assert list(_events(200, batches)) == [1, 2, 7, 7, 6, "<7>", 3, 8, 8, 5, "<8>"]
