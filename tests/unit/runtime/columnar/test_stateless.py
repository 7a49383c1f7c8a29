"""Projection, watermarks, and conversion between rows and columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from penstock.common.types import Row, RowKind
from penstock.errors import RecordError
from penstock.errors.user_errors import FunctionFailedError
from penstock.graph.operator_specs.columnar.stateless import (
    CalcSpec,
    ColumnsToRowsSpec,
    RowsToColumnsSpec,
    WatermarkSpec,
)
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.records import MAX_WATERMARK, RowBatch
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    UserCall,
)
from penstock.sql.types import (
    ArrayType,
    BigIntType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    RowField,
    RowType,
    TimestampType,
    VarCharType,
)
from penstock.testing.harness import OperatorHarness
from tests.unit.runtime.columnar.changes import ColumnDriver, FrameOutput

TYPES = (BigIntType(), VarCharType(10))


def test_rows_are_filtered_and_computed_and_keep_their_kinds() -> None:
    first = InputRef(TYPES[0], 0)
    spec = CalcSpec(
        TYPES,
        projection=(InputRef(TYPES[1], 1), Call(BigIntType(), "+", (first, first))),
        condition=Call(BooleanType(), ">", (first, Literal(BigIntType(), 1))),
    )
    driver = ColumnDriver(spec, TYPES)
    driver.feed([("-U", (1, "a")), ("+U", (2, "b")), ("+I", (None, "c")), ("-D", (3, None))])
    driver.feed([(1, "d")])
    assert driver.changes == [("+U", ("b", 4)), ("-D", (None, 6))]


def test_an_error_of_a_users_function_names_its_row_among_those_that_it_was_called_for() -> None:
    def picky(number: int) -> int:
        if not number:
            raise ValueError("not zero")
        return number

    first = InputRef(TYPES[0], 0)
    small = Call(BooleanType(), "<", (first, Literal(BigIntType(), 5)))
    call = UserCall(TYPES[0], "picky", picky, (first,))
    chosen = Call(TYPES[0], "CASE", (small, call, Literal(BigIntType(), 9)))
    driver = ColumnDriver(CalcSpec(TYPES, projection=(chosen,)), TYPES)
    driver.feed([(7, "a"), (3, "b"), (6, "c"), (4, "d")])
    assert [row for _, row in driver.changes] == [(9,), (3,), (9,), (4,)]
    with pytest.raises(FunctionFailedError, match="not zero") as caught:
        driver.feed([(7, "a"), (3, "b"), (6, "c"), (0, "d")])
    assert "of row (0, 'd')" in str(caught.value.detail)


def test_constants_are_there_once_per_row() -> None:
    driver = ColumnDriver(CalcSpec(TYPES, projection=(Literal(IntType(), 7),)), TYPES)
    driver.feed([(1, "a"), (2, "b")])
    assert driver.changes == [("+I", (7,)), ("+I", (7,))]


def watermarks(out: FrameOutput | None = None, **more: Any) -> ColumnDriver:
    types = (TimestampType(3),)
    wait = Literal(DayTimeIntervalType(), dt.timedelta(milliseconds=10))
    expression = Call(types[0], "-", (InputRef(types[0], 0), wait))
    return ColumnDriver(WatermarkSpec(types, 0, expression, **more), types, out=out)


def at(millis: int) -> tuple[dt.datetime]:
    return (dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=millis),)


def test_watermarks_follow_the_rows_and_are_restored() -> None:
    driver = watermarks()
    driver.feed([at(100), at(50)])
    driver.feed([at(90)])
    driver = driver.restarted()
    driver.feed([at(95)])
    driver.feed([at(120)])
    driver.harness.process_watermark(500)
    driver.harness.process_watermark(MAX_WATERMARK)
    assert driver.out.watermarks == [90, 110, MAX_WATERMARK]


class Statuses(FrameOutput):
    """Keeps the idleness statuses, too."""

    def __init__(self) -> None:
        super().__init__()
        self.idle: list[bool] = []

    def emit_status(self, idle: bool) -> None:
        self.idle.append(idle)


def test_an_input_that_was_idle_at_a_restart_is_active_with_its_next_row() -> None:
    reported = Statuses()
    driver = watermarks(reported, idle_timeout_ms=100)
    driver.feed([at(100)])
    driver = driver.restarted()
    assert reported.idle == []
    driver.harness.clock.advance(100)
    driver = driver.restarted()
    assert reported.idle == [True]
    driver.feed([at(110)])
    assert reported.idle == [True, False]


def test_an_idle_input_is_active_for_its_last_watermark() -> None:
    reported = Statuses()
    driver = watermarks(reported, idle_timeout_ms=100)
    driver.feed([at(100)])
    driver.harness.clock.advance(100)
    driver.harness.snapshot()
    driver.harness.process_watermark(MAX_WATERMARK)
    assert reported.idle == [True, False]
    assert reported.watermarks == [90, MAX_WATERMARK]


def test_an_input_is_idle_in_time_though_the_clock_was_set_back() -> None:
    reported = Statuses()
    driver = watermarks(reported, idle_timeout_ms=100)
    clock = driver.harness.clock
    clock.set(5_000)
    driver.feed([at(100)])
    for now, idle in ((1_000, []), (1_099, []), (1_100, [True])):
        clock.now = now
        driver.harness.snapshot()
        assert reported.idle == idle


def test_a_row_without_a_time_is_refused() -> None:
    with pytest.raises(RecordError, match="NULL in the rowtime attribute"):
        watermarks().feed([at(1), (None,)])


NESTED: list[tuple[DataType, Any]] = [
    (BigIntType(), 5),
    (DoubleType(), 1.0),
    (DecimalType(10, 2), Decimal("1.50")),
    (TimestampType(3), dt.datetime(2024, 1, 2, 3, 4, 5, 6000)),
    (LocalZonedTimestampType(3), dt.datetime(2024, 1, 2, tzinfo=dt.UTC)),
    (ArrayType(VarCharType(5)), ["a", None]),
    (MapType(VarCharType(5), IntType()), {"a": 1, "b": None}),
    (
        RowType([RowField("x", IntType()), RowField("y", ArrayType(IntType()))]),
        Row(x=1, y=[2, 3]),
    ),
]


@pytest.mark.parametrize(("kind", "value"), NESTED, ids=[str(kind) for kind, _ in NESTED])
def test_values_come_back_from_columns_as_they_were(kind: DataType, value: Any) -> None:
    types, names = (kind, IntType()), ("value", "number")
    there = OperatorHarness(RowsToColumnsSpec(types, names, kinds=True))
    back = OperatorHarness(ColumnsToRowsSpec(types, names))
    frames: list[Any] = []
    there.operator.output.emit = frames.append  # type: ignore[method-assign]
    gone = Row.of_kind(RowKind.DELETE, None, 2)
    there.process_batch(RowBatch([Row(number=1, value=value), gone]))
    for batch in frames:
        back.process_batch(ColumnBatch(batch.frame))
    first, second = back.values()
    assert first == Row(value=value, number=1)
    assert second.get_row_kind() is RowKind.DELETE
    assert list(second) == [None, 2]


def test_a_value_that_does_not_fit_its_column_is_named() -> None:
    harness = OperatorHarness(RowsToColumnsSpec((IntType(),), ("age",)))
    with pytest.raises(RecordError, match="column 'age' of type INT got a value") as caught:
        harness.process_batch(RowBatch([Row(1), Row("x")]))
    assert caught.value.detail == "the value is 'x' (str)"


def test_timestamps_of_records_become_a_column_and_back() -> None:
    types, names = (IntType(), LocalZonedTimestampType(3)), ("id", "ts")
    there = OperatorHarness(RowsToColumnsSpec(types, names, timestamp=1))
    frames: list[Any] = []
    there.operator.output.emit = frames.append  # type: ignore[method-assign]
    there.process_batch(RowBatch([Row(1), Row(2)], [1_000, None]))
    back = OperatorHarness(ColumnsToRowsSpec(types, names, timestamp=1))
    back.process_batch(frames[0])
    assert [time for _, time in back.output()] == [1_000, None]
