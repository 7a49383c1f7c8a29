"""Changes that come seldom: rows that are late for some windows only, rows that go twice, limits of keys that have moved."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from penstock.graph.operator_specs.columnar.aggregates import (
    GroupAggregateSpec,
    OverAggregateSpec,
    WindowAggregateSpec,
)
from penstock.graph.operator_specs.columnar.changes import UpsertMaterializeSpec
from penstock.graph.operator_specs.columnar.common import SortKey, WindowDefinition
from penstock.graph.operator_specs.columnar.joins import ColumnarIntervalJoinSpec, JoinSpec
from penstock.graph.operator_specs.columnar.ranks import RankSpec
from penstock.runtime.columnar.joins import memory
from penstock.sql.expr.nodes import AggregateCall, Call, InputRef
from penstock.sql.types import (
    BigIntType,
    BooleanType,
    DataType,
    DecimalType,
    IntType,
    TimestampType,
    VarCharType,
)
from tests.unit.runtime.columnar.changes import ColumnDriver, table_of
from tests.unit.runtime.columnar.join_cases import Stopped
from tests.unit.runtime.columnar.test_window_aggregate import at, millis

COUNT = AggregateCall("COUNT", (), BigIntType(False))
TIME, TEXT, INT = TimestampType(3), VarCharType(10), IntType()
MAX = 2**63 - 1


class Windows:
    """Counts the rows of windows; rows are times."""

    def __init__(self, window: WindowDefinition) -> None:
        spec = WindowAggregateSpec((TIME,), (), (COUNT,), window, None, ("start", "end"))
        self.driver = ColumnDriver(spec, (TIME,))

    def feed(self, *times: int) -> None:
        self.driver.feed([(at(time),) for time in times])

    def watermark(self, time: int) -> None:
        self.driver.harness.process_watermark(time)

    def counts(self) -> list[tuple[int, int, int]]:
        """(start, end, rows) of the windows that have ended, in their order."""
        return [(millis(row[1]), millis(row[2]), row[0]) for _, row in self.driver.changes]

    @property
    def late(self) -> int:
        counter = self.driver.harness.metrics.counter("numLateRecordsDropped")
        return int(counter.get_count())


def test_a_row_that_is_late_for_one_hopping_window_counts_in_the_other() -> None:
    windows = Windows(WindowDefinition("HOP", 10, 5, time=0))
    windows.feed(12)
    windows.watermark(11)
    windows.feed(7)  # [0, 10) has ended, [5, 15) has not
    windows.feed(4)  # all of its windows have ended
    windows.feed(6, 3)
    windows.watermark(MAX)
    assert windows.counts() == [(5, 15, 3), (10, 20, 1)]
    assert windows.late == 2


def test_a_row_that_is_late_for_the_first_cumulated_windows_counts_in_the_others() -> None:
    windows = Windows(WindowDefinition("CUMULATE", 12, 3, time=0))
    windows.feed(4)
    windows.watermark(5)
    windows.feed(1)
    windows.watermark(8)
    windows.feed(2, 7)
    windows.watermark(MAX)
    assert windows.counts() == [(0, 6, 1), (0, 9, 2), (0, 12, 4)]
    assert windows.late == 0


def test_windows_that_rows_bring_along_are_late_one_by_one() -> None:
    spec = WindowAggregateSpec((TIME, TIME), (), (COUNT,), None, (0, 1), ("start", "end"))
    driver = ColumnDriver(spec, (TIME, TIME))
    driver.harness.process_watermark(11)
    driver.feed([(at(0), at(10)), (at(5), at(15)), (at(2), at(12))])
    driver.harness.process_watermark(MAX)
    assert [(row[0], millis(row[2])) for _, row in driver.changes] == [(1, 15)]
    assert driver.harness.metrics.counter("numLateRecordsDropped").get_count() == 2


def test_a_window_whose_rows_were_all_taken_back_gives_nothing() -> None:
    window = WindowDefinition("TUMBLE", 10, time=1)
    spec = WindowAggregateSpec(
        (TEXT, TIME), (0,), (COUNT,), window, None, ("start",), retracts=True
    )
    driver = ColumnDriver(spec, (TEXT, TIME))
    driver.feed([("a", at(1)), ("b", at(1)), ("-D", ("a", at(1))), ("-D", ("b", at(1)))])
    driver.feed([("b", at(2))])
    driver.harness.process_watermark(MAX)
    assert driver.changes == [("+I", ("b", 1, at(0)))]


# Aggregates


def grouped(types: tuple[DataType, ...], *calls: AggregateCall, **more: Any) -> ColumnDriver:
    return ColumnDriver(GroupAggregateSpec(types, (0,), calls, **more), types)


def test_sums_of_decimals_have_more_digits_than_their_values() -> None:
    types = (TEXT, DecimalType(4, 2))
    total = AggregateCall("SUM", (InputRef(types[1], 1),), DecimalType(38, 2))
    for retracts in (False, True):
        driver = grouped(types, total, retracts=retracts)
        for _ in range(3):
            driver.feed([("a", Decimal("99.99"))] * 150)
        assert driver.changes[-1][1] == ("a", Decimal("44995.50"))
    window = WindowDefinition("TUMBLE", 10, time=2)
    timed = (*types, TIME)
    windows = ColumnDriver(
        WindowAggregateSpec(timed, (0,), (total,), window, None, ("start",)), timed
    )
    windows.feed([("a", Decimal("99.99"), at(1))] * 200)
    windows.feed([("a", Decimal("99.99"), at(2))] * 200)
    windows.harness.process_watermark(MAX)
    assert windows.changes == [("+I", ("a", Decimal("39996.00"), at(0)))]


def test_with_a_ttl_an_unchanged_result_is_emitted_again() -> None:
    """The receiver forgets it, too, if no change arrives for long."""
    types = (TEXT, INT)
    largest = AggregateCall("MAX", (InputRef(INT, 1),), INT)
    for ttl, kinds in ((0, ["+I"]), (1000, ["+I", "-U", "+U"])):
        driver = grouped(types, largest, ttl_ms=ttl)
        driver.feed([("a", 2)])
        driver.feed([("a", 1)])
        assert [kind for kind, _ in driver.changes] == kinds


def test_averages_of_whole_numbers_are_cut_toward_zero() -> None:
    types = (TEXT, INT)
    driver = grouped(types, AggregateCall("AVG", (InputRef(INT, 1),), INT))
    driver.feed([("a", -1), ("a", -2), ("b", 1), ("b", 2)])
    assert sorted(row for _, row in driver.changes) == [("a", -1), ("b", 1)]
    # Of distinct values, OVER adds up row by row.
    average = AggregateCall("AVG", (InputRef(INT, 1),), INT, distinct=True)
    order = (SortKey(1, ascending=False),)
    over = OverAggregateSpec(
        types, (0,), order, (average,), rowtime=False, rows=False, preceding=None, mode="CHANGES"
    )
    driver = ColumnDriver(over, types)
    driver.feed([("a", -1), ("a", -2), ("a", -2)])
    assert {row for _, row in driver.changes} == {("a", -1, -1), ("a", -2, -1)}


@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("distinct", [False, True])
def test_averages_of_decimals_are_rounded_half_up(retracts: bool, distinct: bool) -> None:
    """Away from zero, where the last digit that is left is even or odd."""
    types = (TEXT, DecimalType(10, 2))
    call = AggregateCall("AVG", (InputRef(types[1], 1),), DecimalType(38, 6), distinct=distinct)
    # 32 different numbers whose sums are 0.01, 0.03 and -0.01
    zeros = [Decimal(each) for number in range(1, 16) for each in (number, -number)]
    sums = {"odd": "0.03", "even": "0.01", "negative": "-0.01"}
    rows = [(key, each) for key, total in sums.items() for each in (*zeros, Decimal(total), 0)]
    averages = {"odd": "0.000938", "even": "0.000313", "negative": "-0.000313"}
    expected = {(key, Decimal(average)) for key, average in averages.items()}
    driver = grouped(types, call, retracts=retracts)
    driver.feed(rows)
    assert {row for _, row in driver.changes} == expected
    window = WindowDefinition("TUMBLE", 10, time=2)
    timed = (*types, TIME)
    spec = WindowAggregateSpec(timed, (0,), (call,), window, None, (), retracts=retracts)
    driver = ColumnDriver(spec, timed)
    driver.feed([(*row, at(1)) for row in rows])
    driver.harness.process_watermark(MAX)
    assert {row[:2] for _, row in driver.changes} == expected
    over = OverAggregateSpec(
        types,
        (0,),
        (),
        (call,),
        rowtime=False,
        rows=False,
        preceding=None,
        following=None,
        mode="CHANGES",
    )
    driver = ColumnDriver(over, types)
    driver.feed(rows)
    assert {(row[0], row[2]) for _, row in driver.changes} == expected


def test_the_last_value_is_the_last_that_is_not_null() -> None:
    types = (TEXT, INT)
    calls = [AggregateCall(f"{name}_VALUE", (InputRef(INT, 1),), INT) for name in ("FIRST", "LAST")]
    driver = grouped(types, *calls)
    driver.feed([("a", None), ("a", 1), ("a", 2), ("a", None)])
    driver.feed([("a", None)])
    assert driver.changes == [("+I", ("a", 1, 2))]


def test_a_group_does_not_begin_with_a_row_that_is_taken_back() -> None:
    """It has expired, and its rows with it."""
    types = (TEXT, INT)
    for more in ({}, {"ttl_ms": 1000}):
        driver = grouped(types, COUNT, retracts=True, **more)
        driver.feed([("-D", ("a", 1))])
        driver.feed([("-U", ("b", 1)), ("-D", ("b", 1)), ("c", 1), ("-D", ("c", 1))])
        assert not driver.changes
        driver.feed([("a", 1), ("b", 1), ("b", 1)])
        assert sorted(driver.changes) == [("+I", ("a", 1)), ("+I", ("b", 2))]


FLAG = InputRef(BooleanType(), 2)
NOT_FLAG = Call(BooleanType(), "NOT", (FLAG,))


def test_calls_that_share_distinct_values_have_each_value_once_for_their_own_filter() -> None:
    types = (TEXT, INT, BooleanType())
    values = (InputRef(INT, 1),)
    calls = [
        AggregateCall("COUNT", values, BigIntType(), distinct=True, filter=each)
        for each in (FLAG, NOT_FLAG)
    ]
    for more in ({}, {"retracts": True}, {"ttl_ms": 1000}):
        driver = grouped(types, *calls, **more)
        for flag in (True, False, True, False):
            driver.feed([("a", 7, flag)])
        driver.feed([("a", 8, False)])
        assert driver.changes[-1][1] == ("a", 1, 2), more


def test_after_a_restart_it_is_known_which_calls_have_had_a_distinct_value() -> None:
    types = (TEXT, INT, BooleanType())
    values = (InputRef(INT, 1),)
    calls = [
        AggregateCall("COUNT", values, BigIntType(), distinct=True, filter=each)
        for each in (FLAG, NOT_FLAG, None)
    ]
    for more in ({}, {"retracts": True}, {"ttl_ms": 1000}):
        driver = grouped(types, *calls, **more)
        for number, flag in ((7, True), (7, False), (8, False), (7, False), (7, True), (8, True)):
            driver.feed([("a", number, flag)])
            driver = driver.restarted()
        assert driver.changes[-1][1] == ("a", 2, 2, 2), more


def test_functions_that_go_row_by_row_see_the_rows_of_their_filter() -> None:
    types = (TEXT, INT, BooleanType())
    greatest = AggregateCall("MAX", (InputRef(INT, 1),), INT, filter=FLAG)
    driver = grouped(types, greatest, retracts=True)
    driver.feed([("a", 7, True), ("a", 9, False)])
    driver.feed([("-D", ("a", 7, True)), ("a", 3, True)])
    assert [row for _, row in driver.changes] == [("a", 7), ("a", 7), ("a", 3)]


# Materialisation


def test_a_row_that_is_updated_among_others_of_its_primary_key_is_there_once() -> None:
    types = (TEXT, INT, TEXT)
    running = Stopped(UpsertMaterializeSpec(types, (0,), (1,)), "hashmap")
    for change in (
        ("+I", ("a", 1, "x")),
        ("+I", ("a", 2, "y")),
        ("+U", ("a", 1, "z")),
        ("-D", ("a", 1, "z")),
    ):
        running.send([change], types)
    assert list(table_of(running.changes(), (0,))) == [("'a'", "2", "'y'")]
    running.send([("-D", ("a", 2, "y"))], types)
    assert not table_of(running.changes(), (0,))


def test_an_older_row_of_a_primary_key_keeps_its_place_when_it_is_updated() -> None:
    """A newer row stays the one that is seen, as in Flink."""
    types = (TEXT, INT, TEXT)
    running = Stopped(UpsertMaterializeSpec(types, (0,), (1,)), "hashmap")
    for change in (("+I", ("a", 1, "x")), ("+I", ("a", 2, "y")), ("+U", ("a", 1, "z"))):
        running.send([change], types)
    assert running.changes() == [("+I", ("a", 1, "x")), ("+U", ("a", 2, "y"))]


def test_removing_an_older_row_of_a_primary_key_emits_nothing() -> None:
    types = (TEXT, INT)
    running = Stopped(UpsertMaterializeSpec(types, (0,)), "hashmap")
    for change in (("+I", ("a", 1)), ("+I", ("a", 2)), ("-D", ("a", 1)), ("-D", ("a", 2))):
        running.send([change], types)
    assert running.changes() == [("+I", ("a", 1)), ("+U", ("a", 2)), ("-D", ("a", 2))]


# Joins


def joining(kind: str, **more: Any) -> Stopped:
    """Joins (key, number) with (key, word), by key."""
    types = (TEXT, INT)
    return Stopped(
        JoinSpec(kind, types, types, (0,), (0,), None, (), None, None, True, True, **more),
        "hashmap",
    )


def taken(running: Stopped) -> list[Any]:
    """What was emitted since the last time."""
    found = running.changes()
    running.output.frames.clear()
    return found


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
def test_a_row_that_is_taken_back_twice_in_a_batch_goes_as_often_as_it_is_there(kind: str) -> None:
    running, types = joining(kind), (TEXT, INT)
    mine, theirs = ("a", 1), ("a", 7)
    running.send([theirs], types, 1)
    running.send([mine], types)
    taken(running)
    running.send([("-D", mine), ("-D", mine)], types)
    alone = [("+I", (None, None, *theirs))] if kind in {"RIGHT", "FULL"} else []
    assert taken(running) == [("-D", (*mine, *theirs)), *alone]
    running.send([("-D", mine)], types)
    assert taken(running) == []


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
def test_rows_that_are_alike_go_one_by_one(kind: str) -> None:
    running, types = joining(kind), (TEXT, INT)
    mine, theirs = ("a", 1), ("a", 7)
    running.send([theirs], types, 1)
    running.send([mine, mine, mine], types)
    assert table_of(running.changes())[tuple(map(repr, (*mine, *theirs)))] == 3
    taken(running)
    running.send([("-D", mine), ("-U", mine)], types)
    assert taken(running) == [("-D", (*mine, *theirs)), ("-U", (*mine, *theirs))]
    alone = [("+I", (None, None, *theirs))] if kind in {"RIGHT", "FULL"} else []
    running.send([("-D", mine)], types)
    assert taken(running) == [("-D", (*mine, *theirs)), *alone]


@pytest.mark.parametrize("kind", ["LEFT", "FULL", "SEMI", "ANTI"])
def test_the_last_partner_that_goes_twice_leaves_a_row_alone_once(kind: str) -> None:
    running, types = joining(kind), (TEXT, INT)
    mine, theirs = ("a", 1), ("a", 7)
    running.send([mine], types)
    running.send([theirs, theirs], types, 1)
    taken(running)
    pair, padded = ("-D", (*mine, *theirs)), ("+I", (*mine, None, None))
    outer = kind in {"LEFT", "FULL"}
    running.send([("-D", theirs)], types, 1)
    assert taken(running) == ([pair] if outer else [])
    running.send([("-D", theirs), ("-D", theirs)], types, 1)
    expected = {"SEMI": [("-D", mine)], "ANTI": [("+I", mine)]}.get(kind, [pair, padded])
    assert taken(running) == expected
    running.send([("-D", theirs)], types, 1)
    assert taken(running) == []


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "ANTI"])
def test_a_row_without_a_key_comes_and_goes_by_itself(kind: str) -> None:
    """NULL equals nothing, so such a row is kept nowhere. Without -U rows, a former row is a delete: the next one may have a key."""
    types, side = (TEXT, INT), 1 if kind == "RIGHT" else 0
    for update_before in (True, False):
        running = joining(kind, update_before=update_before)
        changes = [("+I", (None, 1)), ("-U", (None, 1)), ("+U", (None, 2)), ("-D", (None, 2))]
        for change in changes:
            running.send([change], types, side)
        former = "-U" if update_before else "-D"
        rows = [
            ((None, None, *row) if side else row if kind == "ANTI" else (*row, None, None))
            for _, row in changes
        ]
        assert running.changes() == list(zip(("+I", former, "+U", "-D"), rows, strict=True))


def test_a_row_that_is_over_finds_no_late_partner_though_it_is_still_stored() -> None:
    """Rows of an inner join are removed many at a time; what is joined must not depend on when."""
    types = (TEXT, TIME)
    for watermark, pairs in ((109, 1), (150, 0)):
        spec = ColumnarIntervalJoinSpec("INNER", types, types, (0,), (0,), 1, 1, -10, 10)
        running = Stopped(spec, "hashmap")
        running.send([("a", at(100))], types)
        running.watermark(watermark)
        running.send([("a", at(100))], types, 1)
        assert len(running.changes()) == pairs


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "ANTI"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_row_without_a_partner_leaves_when_its_own_time_is_over(
    kind: str, restarts: bool
) -> None:
    """However late the rows are that came after it: downstream waits for it no longer."""
    types, side = (TEXT, TIME), 1 if kind == "RIGHT" else 0
    spec = ColumnarIntervalJoinSpec(kind, types, types, (0,), (0,), 1, 1, -10, 10)
    running = Stopped(spec, "hashmap")
    for time in (200, 100, 300):
        running.send([("a", at(time))], types, side)
        if restarts:
            running.restart()
    for watermark, gone in ((109, 0), (120, 1), (220, 2), (320, 3)):
        running.watermark(watermark)
        assert len(running.changes()) == gone, watermark


# Top-N


def test_the_limit_of_a_key_moves_with_it_when_others_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "RESIDENT_BYTES", 0)
    monkeypatch.setattr(memory, "LOOK_EVERY", 1)
    types = (TEXT, INT)
    spec = RankSpec(types, (0,), (SortKey(1),), 1, 1, strategy="APPEND")
    running = Stopped(spec, "rocksdb")
    for row in (("a", 1), ("b", 100), ("b", 50), ("a", 2), ("c", 30), ("b", 40), ("a", 0)):
        running.send([row], types)
    assert set(table_of(running.changes())) == {("'a'", "0"), ("'b'", "40"), ("'c'", "30")}


def test_new_rank_is_an_insert_and_replaced_rank_is_an_update() -> None:
    types = (TEXT, INT)
    spec = RankSpec(types, (0,), (SortKey(1),), 1, 2, with_rank=True, strategy="APPEND")
    running = Stopped(spec, "hashmap")
    running.send([("a", 5)], types)
    running.send([("a", 3)], types)
    running.send([("a", 4)], types)
    assert running.changes() == [
        ("+I", ("a", 5, 1)),
        ("-U", ("a", 5, 1)),
        ("+U", ("a", 3, 1)),
        ("+I", ("a", 5, 2)),
        ("-U", ("a", 5, 2)),
        ("+U", ("a", 4, 2)),
    ]


@pytest.mark.parametrize(("ascending", "value"), [(True, 5), (False, -5)])
def test_a_value_takes_the_place_of_null_where_nulls_are_last(ascending: bool, value: int) -> None:
    types = (TEXT, INT)
    order = (SortKey(1, ascending=ascending, nulls_first=False),)
    running = Stopped(RankSpec(types, (0,), order, 1, 1, strategy="APPEND"), "hashmap")
    for each in (None, value, None):
        running.send([("a", each)], types)
    assert set(table_of(running.changes())) == {("'a'", repr(value))}
