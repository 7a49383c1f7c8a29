"""GROUP BY in columns against a plain reference: cut anywhere, stopped and restored, with rows that come and go."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from penstock.errors import RecordError
from penstock.graph.operator_specs.columnar.aggregates import (
    ColumnarLocalAggregateSpec,
    GroupAggregateSpec,
)
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
)
from penstock.sql.types import (
    ArrayType,
    BigIntType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntType,
    MultisetType,
    VarCharType,
)
from tests.unit.runtime.columnar.changes import ColumnDriver, cut, table_of
from tests.unit.runtime.columnar.join_cases import Stopped

TYPES = (IntType(), VarCharType(10), BigIntType())
TEXT = VarCharType(100)
LARGE = Call(BooleanType(), ">", (InputRef(TYPES[2], 2), Literal(BigIntType(), 3)))


def call(function: str, *columns: int, type: DataType | None = None, **more: Any) -> AggregateCall:
    operands = tuple(InputRef(TYPES[at], at) for at in columns)
    return AggregateCall(function, operands, type or BigIntType(), **more)


CALLS = (
    call("COUNT"),
    call("COUNT", 2),
    call("SUM", 2),
    call("AVG", 2),
    call("MIN", 2),
    call("MAX", 1, type=TEXT),
    call("SUM", 2, filter=LARGE),
    call("COUNT", 2, distinct=True),
    call("SUM", 2, distinct=True, filter=LARGE),
    call("COUNT", filter=LARGE),
    call("COLLECT", 2, type=MultisetType(BigIntType())),
)


def results(rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """What the calls give for the rows of a key."""
    values = [row[2] for row in rows if row[2] is not None]
    large = [value for value in values if value > 3]
    total = sum(values)
    average = abs(total) // len(values) * (1 if total >= 0 else -1) if values else None
    return (
        len(rows),
        len(values),
        total if values else None,
        average,
        min(values, default=None),
        max((row[1] for row in rows if row[1] is not None), default=None),
        sum(large) if large else None,
        len(set(values)),
        sum(set(large)) if large else None,
        len(large),
        sorted(Counter(values).items()),
    )


def random_changes(seed: int, *, retracts: bool) -> tuple[list[Any], list[Any]]:
    """Changes, and the rows that they leave."""
    rng = random.Random(seed)
    rows: list[Any] = []
    changes: list[Any] = []
    for _ in range(80):
        if retracts and rows and rng.random() < 0.4:
            changes.append((rng.choice(["-U", "-D"]), rows.pop(rng.randrange(len(rows)))))
            continue
        row = (
            rng.choice([None, 1, 2, 3]),
            rng.choice([None, "a", "b", "cc"]),
            rng.choice([None, *range(-5, 8)]),
        )
        rows.append(row)
        changes.append((rng.choice(["+I", "+U"]) if retracts else "+I", row))
    return changes, rows


def shown(changes: list[Any]) -> list[Any]:
    """Changes whose multisets are sorted."""
    return [
        (kind, (*row[:-1], sorted((each["key"], each["value"]) for each in row[-1])))
        for kind, row in changes
    ]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("retracts", [False, True], ids=["append", "retract"])
@pytest.mark.parametrize("update_before", [False, True], ids=["upserts", "all-changes"])
def test_groups_are_right_however_the_rows_are_cut(
    backend: str, retracts: bool, update_before: bool
) -> None:
    for seed in range(2):
        changes, rows = random_changes(seed, retracts=retracts)
        spec = GroupAggregateSpec(
            TYPES, (0,), CALLS, retracts=retracts, update_before=update_before
        )
        driver = ColumnDriver(spec, TYPES, backend=backend)
        for number, part in enumerate(cut(changes, seed)):
            driver.feed(part)
            if number % 5 == 4:
                driver = driver.restarted()
        groups: dict[Any, list[Any]] = {}
        for row in rows:
            groups.setdefault(row[0], []).append(row)
        expected = Counter(
            tuple(map(repr, (key, *results(found)))) for key, found in groups.items()
        )
        found = shown(driver.changes)
        assert table_of(found, keys=[0]) == expected
        if update_before:
            assert table_of(found) == expected
        else:
            assert "-U" not in {kind for kind, _ in found}


def test_rows_may_be_taken_back_before_they_come() -> None:
    """From different subtasks the changes of a row may come in any order."""
    rng = random.Random(8)
    always = [(1, "b", None)] * 9
    for seed in range(10):
        left, gone = (
            [(1, rng.choice("abc"), rng.choice([None, 2, 4, 5])) for _ in range(count)]
            for count in (5, 8)
        )
        changes = [("+I", row) for row in left + gone] + [("-D", row) for row in gone]
        rng.shuffle(changes)
        driver = ColumnDriver(GroupAggregateSpec(TYPES, (0,), CALLS, retracts=True), TYPES)
        driver.feed(always)
        for number, part in enumerate(cut(changes, seed)):
            driver.feed(part)
            if number % 5 == 4:
                driver = driver.restarted()
        assert shown(driver.changes)[-1][1] == (1, *results(always + left))


def test_one_change_per_key_and_batch_and_none_if_nothing_is_new() -> None:
    spec = GroupAggregateSpec(TYPES, (0,), (call("MAX", 2),))
    driver = ColumnDriver(spec, TYPES)
    driver.feed([(1, "a", 5), (1, "a", 7), (2, "a", 1)])
    assert sorted(driver.changes) == [("+I", (1, 7)), ("+I", (2, 1))]
    driver.out.frames.clear()
    driver.feed([(1, "a", 6), (2, "a", 3), (2, "a", 4)])
    assert driver.changes == [("-U", (2, 1)), ("+U", (2, 4))]


@pytest.mark.parametrize("retracts", [False, True])
def test_two_phases_give_what_one_gives(retracts: bool) -> None:
    changes, _ = random_changes(7, retracts=retracts)
    calls = (*CALLS[:4], CALLS[6], call("STDDEV_POP", 2, type=DoubleType()))
    one = ColumnDriver(GroupAggregateSpec(TYPES, (0,), calls, retracts=retracts), TYPES)
    local = ColumnDriver(ColumnarLocalAggregateSpec(TYPES, (0,), calls, retracts=retracts), TYPES)
    spec = GroupAggregateSpec(TYPES, (0,), calls, retracts=retracts, merges=True)
    two = ColumnDriver(spec, TYPES)
    for part in cut(changes, 3):
        one.feed(part)
        local.feed(part)
    for frame in local.out.frames:
        two.harness.process_batch(ColumnBatch(frame))
    assert table_of(one.changes) == table_of(two.changes)


def test_without_keys_there_is_one_group() -> None:
    calls = (call("COUNT"), call("COUNT", 2, distinct=True), call("LISTAGG", 1, type=TEXT))
    driver = ColumnDriver(GroupAggregateSpec(TYPES, (), calls), TYPES)
    driver.feed([(1, "a", 5), (2, None, None)])
    driver = driver.restarted()
    driver.feed([(2, "b", 5), (2, "c", 6)])
    assert driver.changes == [("+I", (2, 1, "a")), ("-U", (2, 1, "a")), ("+U", (4, 2, "a,b,c"))]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("filtered", [False, True])
def test_a_distinct_value_that_has_gone_is_new_again_after_a_restart(
    backend: str, filtered: bool
) -> None:
    count = call("COUNT", 2, distinct=True, filter=LARGE if filtered else None)
    running = Stopped(GroupAggregateSpec(TYPES, (0,), (count,), True), backend)
    found = []
    for kind, number in (("+I", 5), ("+I", 6), ("+I", 5), ("-D", 5), ("-D", 5), ("+I", 5)):
        running.send([(kind, (1, "a", number))], TYPES)
        running.restart()
        found += [row[1] for each, row in running.changes() if each in {"+I", "+U"}]
        running.output.frames.clear()
    assert found == [1, 2, 1, 2]


def test_a_batch_job_emits_results_at_the_end_and_one_for_nothing() -> None:
    spec = GroupAggregateSpec(TYPES, (0,), (call("COUNT"), call("SUM", 2)))
    driver = ColumnDriver(spec, TYPES, batch_mode=True)
    driver.feed([(1, "a", 5), (2, "b", 6)])
    driver.feed([(1, "a", 7)])
    assert driver.changes == []
    driver.harness.finish()
    assert sorted(driver.changes) == [("+I", (1, 2, 12)), ("+I", (2, 1, 6))]
    nothing = ColumnDriver(
        GroupAggregateSpec(TYPES, (), (call("COUNT"), call("SUM", 2))), TYPES, batch_mode=True
    )
    nothing.harness.finish()
    assert nothing.changes == [("+I", (0, None))]
    others = ColumnDriver(
        GroupAggregateSpec(TYPES, (), (call("COUNT"),)),
        TYPES,
        batch_mode=True,
        subtask=1,
        parallelism=2,
    )
    others.harness.finish()
    assert others.changes == []


def test_distinct_rows_are_groups_without_aggregates() -> None:
    driver = ColumnDriver(GroupAggregateSpec(TYPES, (0, 1), ()), TYPES)
    driver.feed([(1, "a", 5), (1, "a", 6), (1, None, 6)])
    driver.feed([(1, "a", 5), (2, "a", 6)])
    assert sorted(driver.changes, key=repr) == [
        ("+I", (1, "a")),
        ("+I", (1, None)),
        ("+I", (2, "a")),
    ]


def test_expired_group_starts_again() -> None:
    calls = (call("COUNT"), call("COUNT", 2, distinct=True))
    driver = ColumnDriver(GroupAggregateSpec(TYPES, (0,), calls, ttl_ms=100), TYPES)
    driver.feed([(1, "a", 5)])
    driver.harness.clock.advance(99)
    driver.feed([(1, "a", 5)])
    driver.harness.clock.advance(100)
    driver.feed([(1, "a", 5)])
    assert driver.changes == [
        ("+I", (1, 1, 1)),
        ("-U", (1, 1, 1)),
        ("+U", (1, 2, 1)),
        ("+I", (1, 1, 1)),
    ]
    assert driver.harness.state_entries()["groups"] == 1
    driver.harness.clock.advance(200)
    assert "groups" not in driver.harness.state_entries()


CASES: list[tuple[AggregateCall, list[Any], Any, Any]] = [
    # a call, values, the result, and the result without the first two values
    (call("LISTAGG", 1, type=TEXT), ["b", None, "a", "b"], "b,a,b", "a,b"),
    (call("LISTAGG", 1, type=TEXT, distinct=True), ["b", None, "a", "b"], "b,a", "b,a"),
    (call("FIRST_VALUE", 2), [None, 4, 2, 9], 4, 2),
    (call("LAST_VALUE", 2), [None, 4, 2, 9], 9, 9),
    (call("MIN", 2), [1, 2, 5, 3], 1, 3),
    (call("MAX", 2), [9, 8, 5, 3], 9, 5),
    (call("ARRAY_AGG", 2, type=ArrayType(BigIntType())), [1, None, 1, 2], [1, None, 1, 2], [1, 2]),
    (
        call("ARRAY_AGG", 2, type=ArrayType(BigIntType()), ignore_nulls=True),
        [1, None, 1, 2],
        [1, 1, 2],
        [1, 2],
    ),
    (call("VAR_POP", 2, type=DoubleType()), [1, 2, 3, 5], 2.1875, 1.0),
    (call("VAR_SAMP", 2, type=DoubleType()), [1, 2, 3, 6], 14 / 3, 4.5),
    (call("STDDEV_SAMP", 2, type=DoubleType()), [None, 2, 3, 5], 2.3333333333333335**0.5, 2**0.5),
    (call("BIT_AND", 2), [1, 3, 7, 15], 1, 7),
    (call("BIT_OR", 2), [1, 2, 4, 8], 15, 12),
    (call("BIT_XOR", 2), [1, 3, 3, 8], 9, 11),
    (call("APPROX_COUNT_DISTINCT", 2), [1, 1, 3, 3], 2, 1),
    (call("JSON_ARRAYAGG", 2, type=TEXT), [1, None, 2, 3], "[1,2,3]", "[2,3]"),
    (
        call("JSON_OBJECTAGG", 1, 2, type=TEXT),
        ["d", "b", "c", "a"],
        '{"a":0,"b":0,"c":0,"d":0}',
        '{"a":0,"c":0}',
    ),
    (
        AggregateCall(
            "PERCENTILE", (InputRef(TYPES[2], 2), Literal(DoubleType(), 0.25)), DoubleType()
        ),
        [1, 2, 3, 5],
        1.75,
        3.5,
    ),
]


@pytest.mark.parametrize(
    ("aggregate", "values", "expected", "rest"), CASES, ids=[str(case[0]) for case in CASES]
)
def test_each_function_takes_rows_and_takes_them_back(
    aggregate: AggregateCall, values: list[Any], expected: Any, rest: Any
) -> None:
    place = aggregate.operands[0]
    assert isinstance(place, InputRef)
    rows = [(1, value, 0) if place.index == 1 else (1, "x", value) for value in values]
    for retracts, batches in itertools.product((False, True), ([[row] for row in rows], [rows])):
        spec = GroupAggregateSpec(TYPES, (0,), (aggregate,), retracts=retracts)
        driver = ColumnDriver(spec, TYPES)
        for batch in batches:
            driver.feed(batch)
        assert driver.changes[-1][1][1] == pytest.approx(expected)
        if retracts:
            driver = driver.restarted()
            driver.feed([("-D", row) for row in rows[:2]])
            assert driver.changes[-1][1][1] == pytest.approx(rest)
            driver.feed([("-D", row) for row in rows[2:]])
            assert driver.changes[-1][0] == "-D"
            assert driver.harness.state_entries() == {}


FEW: list[tuple[AggregateCall, list[Any], Any]] = [
    # a call, values, and the result: of one value, or of none that the call wants
    (call("VAR_SAMP", 2, type=DoubleType()), [4], None),
    (call("STDDEV_SAMP", 2, type=DoubleType()), [4, None], None),
    (call("VAR_POP", 2, type=DoubleType()), [4], 0.0),
    (call("VAR_POP", 2, type=DoubleType()), [None], None),
    (call("COLLECT", 2, type=MultisetType(BigIntType()), filter=LARGE), [1], []),
    (call("ARRAY_AGG", 2, type=ArrayType(BigIntType()), filter=LARGE), [1], None),
    (call("LISTAGG", 1, type=TEXT, filter=LARGE), [1], None),
    (call("JSON_ARRAYAGG", 2, type=TEXT, filter=LARGE), [1], "[]"),
    (call("BIT_OR", 2, filter=LARGE), [1], None),
    (call("FIRST_VALUE", 2, filter=LARGE), [1], None),
]


@pytest.mark.parametrize(("aggregate", "values", "expected"), FEW, ids=str)
def test_a_new_group_may_have_too_few_values_for_a_function(
    aggregate: AggregateCall, values: list[Any], expected: Any
) -> None:
    for retracts in (False, True):
        spec = GroupAggregateSpec(TYPES, (0,), (aggregate, call("COUNT")), retracts=retracts)
        driver = ColumnDriver(spec, TYPES)
        driver.feed([(1, "x", value) for value in values])
        assert driver.changes == [("+I", (1, expected, len(values)))]


def test_a_sum_of_no_rows_is_null_though_its_column_is_not() -> None:
    types = (IntType(False), BigIntType(False), BooleanType(False))
    total = AggregateCall(
        "SUM", (InputRef(types[1], 1),), BigIntType(False), filter=InputRef(types[2], 2)
    )
    driver = ColumnDriver(GroupAggregateSpec(types, (0,), (total,)), types)
    driver.feed([(1, 5, False)])
    driver.feed([(1, 7, True)])
    assert [row for _, row in driver.changes] == [(1, None), (1, None), (1, 7)]


def test_a_row_may_be_taken_back_before_it_comes() -> None:
    """The rows of a key may arrive over several channels: as in Flink the retraction is remembered."""
    calls = (
        call("COUNT"),
        call("MIN", 2),
        call("MAX", 2),
        call("COUNT", 2, distinct=True),
        call("COLLECT", 2, type=MultisetType(BigIntType())),
    )
    driver = ColumnDriver(GroupAggregateSpec(TYPES, (0,), calls, retracts=True), TYPES)
    driver.feed([(1, "a", 3), (1, "a", 4)])
    for value in (5, 1):
        driver.feed([("-U", (1, "a", value))])
        assert driver.changes[-1][1][2:4] == (3, 4)
        driver.feed([("+U", (1, "a", value))])
    assert shown(driver.changes)[-1] == ("+U", (1, 2, 3, 4, 2, [(3, 1), (4, 1)]))


def test_the_first_value_is_that_of_the_first_part() -> None:
    calls = tuple(call(f"{name}_VALUE", 2) for name in ("FIRST", "LAST"))
    local = ColumnDriver(ColumnarLocalAggregateSpec(TYPES, (0,), calls), TYPES)
    for rows in ([(1, "a", None)], [(1, "a", 4), (1, "a", 5)], [(1, "a", 6)], [(1, "a", None)]):
        local.feed(rows)
    for frames in (local.out.frames, [pl.concat(local.out.frames)]):
        merged = ColumnDriver(GroupAggregateSpec(TYPES, (0,), calls, merges=True), TYPES)
        for frame in frames:
            merged.harness.process_batch(ColumnBatch(frame))
        assert merged.changes[-1][1] == (1, 4, 6)


def test_a_value_that_was_taken_back_before_it_came_is_not_an_extreme() -> None:
    calls = (call("MIN", 2), call("MAX", 2))
    driver = ColumnDriver(GroupAggregateSpec(TYPES, (0,), calls, retracts=True), TYPES)
    driver.feed([(1, "a", None), (1, "b", None)])
    driver.feed([("-D", (1, "c", 5))])
    driver.feed([(1, "c", 5)])
    assert driver.changes == [("+I", (1, None, None))]


def test_values_of_a_percentile_count_as_often_as_they_say() -> None:
    types = (IntType(), BigIntType(), IntType())
    operands = (InputRef(types[1], 1), Literal(DoubleType(), 0.5), InputRef(types[2], 2))
    calls = (AggregateCall("PERCENTILE", operands, DoubleType()),)
    driver = ColumnDriver(GroupAggregateSpec(types, (0,), calls, retracts=True), types)
    driver.feed([(1, 10, 3), (1, 20, None), (1, 30, 0), (1, 40, 1)])
    assert driver.changes[-1][1] == (1, 10.0)
    driver.feed([("-D", (1, 10, 3)), (1, 50, 1)])
    assert driver.changes[-1][1] == (1, 45.0)


def test_a_scalar_subquery_has_one_row() -> None:
    for retracts in (False, True):
        spec = GroupAggregateSpec(TYPES, (0,), (call("SINGLE_VALUE", 2),), retracts=retracts)
        driver = ColumnDriver(spec, TYPES)
        driver.feed([(1, "a", None), (2, "a", 5)])
        assert sorted(driver.changes, key=repr) == [("+I", (1, None)), ("+I", (2, 5))]
        with pytest.raises(RecordError, match="scalar subquery returned more than one row"):
            driver.feed([(1, "a", None)])


@pytest.mark.parametrize("more", [{}, {"filter": LARGE}], ids=["all", "filtered"])
@pytest.mark.parametrize("retracts", [False, True])
def test_distinct_values_are_listed_in_the_order_in_which_they_came(
    retracts: bool, more: dict[str, Any]
) -> None:
    listed = call("LISTAGG", 1, type=TEXT, distinct=True, **more)
    names = [f"n{number}" for number in range(40)]
    random.Random(1).shuffle(names)
    driver = ColumnDriver(GroupAggregateSpec(TYPES, (0,), (listed,), retracts=retracts), TYPES)
    for start in range(0, 40, 20):
        driver.feed([(1, name, 7) for name in names[: start + 20]])
    assert driver.changes[-1][1] == (1, ",".join(names))


def test_averages_of_decimals_are_rounded_half_up() -> None:
    types = (IntType(), DecimalType(10, 2))
    operand = InputRef(types[1], 1)
    calls = (
        AggregateCall("AVG", (operand,), DecimalType(38, 6)),
        AggregateCall("SUM", (operand,), DecimalType(38, 2)),
    )
    driver = ColumnDriver(GroupAggregateSpec(types, (0,), calls), types)
    driver.feed([(1, Decimal("0.01")), (1, Decimal("0.01")), (1, None)])
    driver.feed([(1, Decimal("0.00"))])
    kind, row = driver.changes[-1]
    assert kind == "+U"
    assert [str(each) for each in row[1:]] == ["0.006667", "0.02"]
    average = AggregateCall("AVG", (operand,), DecimalType(38, 2))
    driver = ColumnDriver(GroupAggregateSpec(types, (0,), (average,)), types)
    driver.feed(
        [(sign, Decimal(sign) * Decimal(each) / 100) for sign in (1, -1) for each in (0, 1)]
    )
    assert sorted(str(row[1]) for _, row in driver.changes) == ["-0.01", "0.01"]


def test_sums_wrap_around_as_in_java() -> None:
    types = (IntType(), IntType())
    total = AggregateCall("SUM", (InputRef(types[1], 1),), IntType())
    driver = ColumnDriver(GroupAggregateSpec(types, (0,), (total,)), types)
    driver.feed([(1, 2**31 - 1), (1, 1)])
    assert driver.changes == [("+I", (1, -(2**31)))]


class Product:
    """A user's function."""

    def create_accumulator(self) -> list[int]:
        return [1]

    def accumulate(self, accumulator: list[int], value: int) -> None:
        accumulator[0] *= value

    def retract(self, accumulator: list[int], value: int) -> None:
        accumulator[0] //= value

    def get_value(self, accumulator: list[int]) -> int:
        return accumulator[0]


def test_a_users_function_is_called_row_by_row() -> None:
    product = call("product", 2, user=Product())
    driver = ColumnDriver(GroupAggregateSpec(TYPES, (0,), (product,), retracts=True), TYPES)
    driver.feed([(1, "a", 2), (1, "a", 3)])
    driver = driver.restarted()
    driver.feed([("+I", (1, "a", 5)), ("-D", (1, "a", 2))])
    assert [row for _, row in driver.changes] == [(1, 6), (1, 6), (1, 15)]
