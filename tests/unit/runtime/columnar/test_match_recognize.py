"""Row patterns are found in the rows of each key, in the order of time, wherever batches and stops cut them."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest

from penstock.graph.operator_specs.columnar.changes import MatchRecognizeSpec
from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.runtime.records import MAX_WATERMARK
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
    Symbol,
)
from penstock.sql.logical.nodes import RowPattern
from penstock.sql.types import (
    BigIntType,
    BooleanType,
    IntType,
    NullType,
)
from penstock.table.types import DataTypes
from tests.unit.runtime.columnar.changes import cut
from tests.unit.runtime.columnar.join_cases import Stopped

TYPES = (DataTypes.STRING(), DataTypes.INT(), DataTypes.TIMESTAMP(3))
EPOCH = dt.datetime(1970, 1, 1)
TRUTH = BooleanType()


def _of(variable: str, index: int = 1) -> Rex:
    reference = InputRef(TYPES[index], index)
    return Call(TYPES[index], "PATTERN REF", (Symbol(NullType(), variable), reference))


def _call(function: str, *operands: Rex) -> Rex:
    return Call(TRUTH, function, operands)


def _number(value: int) -> Rex:
    return Literal(IntType(False), value)


def _variable(name: str, least: int = 1, most: int | None = 1) -> RowPattern:
    return RowPattern("VARIABLE", name, least=least, most=most)


# A is even; B* are larger than A; C is not, and what B has is not too much.
PATTERN = RowPattern("CONCAT", parts=(_variable("A"), _variable("B", 0, None), _variable("C")))
SUM = Call(IntType(), "SUM", (_of("B"),))
DEFINITIONS = (
    ("A", _call("=", Call(IntType(), "%", (_of("A"), _number(2))), _number(0))),
    ("B", _call(">", _of("B"), _of("A"))),
    (
        "C",
        _call(
            "AND",
            _call("<=", _of("*"), _of("A")),
            _call("OR", _call("IS NULL", SUM), _call("<", SUM, _number(25))),
        ),
    ),
)
MEASURES = (
    ("a", _of("A")),
    ("first", Call(IntType(), "FIRST", (_of("B"), _number(0)))),
    ("before", Call(IntType(), "LAST", (_of("B"), _number(1)))),
    ("total", Call(IntType(), "+", (SUM, _number(1)))),
    ("rows", Call(BigIntType(False), "COUNT", (_of("*"),))),
    ("both", Call(IntType(), "MAX", (_of("S"),))),
    ("at", Call(TYPES[2], "MATCH_ROWTIME", ())),
)


def _spec(**changes: Any) -> MatchRecognizeSpec:
    given: dict[str, Any] = {
        "input_types": TYPES,
        "keys": (0,),
        "order": (SortKey(2), SortKey(1)),
        "rowtime": True,
        "pattern": PATTERN,
        "definitions": DEFINITIONS,
        "measures": MEASURES,
        "after_match": ("PAST LAST ROW", None),
        "subsets": (("S", ("A", "C")),),
    }
    return MatchRecognizeSpec(**{**given, **changes})


def _matches(rows: list[Any], within: int | None, skip: str) -> list[Any]:
    """The matches in the rows of a key, found as one would look for them."""
    found: list[Any] = []
    start = 0
    while start < len(rows):
        first = rows[start]
        end = start + 1
        while end < len(rows) and rows[end][1] > first[1]:
            end += 1
        taken = [row[1] for row in rows[start + 1 : end]]
        if (
            first[1] % 2 == 0
            and end < len(rows)
            and sum(taken) < 25
            and (within is None or rows[end][2] - first[2] < dt.timedelta(milliseconds=within))
        ):
            found.append(
                (
                    first[0],
                    first[1],
                    taken[0] if taken else None,
                    taken[-2] if len(taken) > 1 else None,
                    sum(taken) + 1 if taken else None,
                    len(taken) + 2,
                    max(first[1], rows[end][1]),
                    rows[end][2],
                )
            )
            if skip == "PAST LAST ROW":
                start = end
        start += 1
    return found


@pytest.mark.parametrize(
    ("backend", "within", "skip"),
    [
        ("hashmap", None, "PAST LAST ROW"),
        ("hashmap", 1500, "NEXT ROW"),
        ("rocksdb", 3000, "PAST LAST ROW"),
    ],
)
def test_matches_are_found(backend: str, within: int | None, skip: str) -> None:
    rng = random.Random(11)
    rows = [
        (
            rng.choice("ab"),
            rng.randrange(12),
            EPOCH + dt.timedelta(milliseconds=500 * (n // 4 + rng.randrange(3))),
        )
        for n in range(300)
    ]
    running = Stopped(
        _spec(within_ms=within, after_match=(skip, None)), backend, seed=11, stops=0.2
    )
    mark, sent, timely = -1, 0, []
    for part in cut(rows, 11):
        timely += [row for row in part if row[2] > EPOCH + dt.timedelta(milliseconds=mark)]
        running.send(part, TYPES)
        sent += len(part)
        mark = 500 * (sent // 4) - 1
        running.watermark(mark)
    running.watermark(MAX_WATERMARK)
    expected: list[Any] = []
    for key in "ab":
        mine = sorted((row for row in timely if row[0] == key), key=lambda row: (row[2], row[1]))
        expected += _matches(mine, within, skip)
    assert len(expected) > 10
    found = running.changes()
    assert {kind for kind, _ in found} == {"+I"}
    assert sorted((row for _, row in found), key=repr) == sorted(expected, key=repr)


def test_by_processing_time_rows_are_looked_at_as_they_come() -> None:
    spec = _spec(rowtime=False, order=(SortKey(2),), measures=MEASURES[:1], within_ms=1000)
    running = Stopped(spec, "hashmap")
    for advance, value in ((0, 4), (500, 6), (0, 2), (0, 8), (2000, 1)):
        running.clock.advance(advance)
        running.harness.operator.advance_processing_time(running.clock())
        running.send([("a", value, EPOCH)], TYPES)
    assert [row for _, row in running.changes()] == [("a", 4)]
    assert running.harness.operator.next_wakeup() is None
    running.send([("a", 8, EPOCH)], TYPES)
    assert running.harness.operator.next_wakeup() == running.clock() + 1000


def test_conditions_may_be_anything_that_expressions_can_do() -> None:
    text = Call(DataTypes.STRING(), "UPPER", (_of("A", 0),))
    same = _call("=", Call(DataTypes.STRING(), "UPPER", (_of("B", 0),)), text)
    spec = _spec(
        keys=(),
        pattern=RowPattern("CONCAT", parts=(_variable("A"), _variable("B"))),
        definitions=(("B", same),),
        measures=(("a", _of("A", 0)), ("one", _number(1))),
        subsets=(),
        order=(SortKey(2),),
    )
    running = Stopped(spec, "hashmap")
    names = ["x", "X", "y", "z", "Z"]
    times = [EPOCH + dt.timedelta(seconds=n) for n in range(len(names))]
    running.send([(name, 1, time) for name, time in zip(names, times, strict=True)], TYPES)
    running.watermark(MAX_WATERMARK)
    assert running.changes() == [("+I", ("x", 1)), ("+I", ("z", 1))]


def _found(values: list[int], *measures: Rex, **changes: Any) -> list[Any]:
    """What is found in values that come one after another."""
    named = tuple((f"m{at}", each) for at, each in enumerate(measures))
    spec = _spec(
        **{"keys": (), "order": (SortKey(2),), "measures": named, "subsets": (), **changes}
    )
    running = Stopped(spec, "hashmap", seed=3, stops=0.5)
    for second, value in enumerate(values):
        running.send([("a", value, EPOCH + dt.timedelta(seconds=second))], TYPES)
        running.watermark(second * 1000)
    running.watermark(MAX_WATERMARK)
    return [row for _, row in running.changes()]


def test_a_reluctant_variable_takes_as_few_rows_as_it_can() -> None:
    definitions = (
        ("A", _call("<", _of("A"), _number(8))),
        ("B", _call(">", _of("B"), _number(5))),
    )
    for greedy, found in ((True, [(7, 8)]), (False, [(1, 7)])):
        repeated = RowPattern("VARIABLE", "A", least=1, most=None, greedy=greedy)
        pattern = RowPattern("CONCAT", parts=(repeated, _variable("B")))
        matches = _found([1, 7, 8, 2], _of("A"), _of("B"), pattern=pattern, definitions=definitions)
        assert matches == found


@pytest.mark.parametrize(
    ("after_match", "starts"),
    [
        (("PAST LAST ROW", None), [1, 5]),
        (("TO NEXT ROW", None), [1, 2, 3, 4, 5]),
        (("TO FIRST", "B"), [1, 2, 3, 4, 5]),
        (("TO LAST", "B"), [1, 3, 5]),
        (("TO LAST", "C"), [1, 4]),
    ],
    ids=str,
)
def test_the_next_match_begins_where_the_strategy_says(
    after_match: tuple[str, str | None], starts: list[int]
) -> None:
    pattern = RowPattern("CONCAT", parts=(_variable("A"), _variable("B", 2, 2), _variable("C")))
    values = list(range(1, 9))
    matches = _found(values, _of("A"), pattern=pattern, definitions=(), after_match=after_match)
    assert matches == [(start,) for start in starts]


def test_rows_of_a_subset_are_in_the_order_in_which_they_came() -> None:
    pattern = RowPattern("CONCAT", parts=tuple(map(_variable, "ABC")))
    first, last = (Call(IntType(), name, (_of("S"), _number(0))) for name in ("FIRST", "LAST"))
    for subset in (("A", "C"), ("C", "A"), ("C", "B", "A")):
        matches = _found(
            [1, 2, 3],
            first,
            last,
            pattern=pattern,
            definitions=(),
            subsets=(("S", subset),),
        )
        assert matches == [(1, 3)]


def test_a_condition_that_is_unknown_does_not_hold() -> None:
    """With one A there is none before it: what is said of that is unknown."""
    before = Call(IntType(), "LAST", (_of("A"), _number(1)))
    two = _call("=", _of("B"), _number(2))
    for condition, with_one, with_two in (
        (_call("NOT", _call("<", _of("B"), before)), [], [(3,)]),
        (_call("OR", _call("<", _of("B"), before), two), [(2,)], []),
        (_call("AND", _call("<>", _of("B"), before), two), [], []),
        (_call("IS NULL", before), [(2,)], []),
    ):
        for count, found in ((1, with_one), (2, with_two)):
            parts = (_variable("A", count, count), _variable("B"))
            pattern = RowPattern("CONCAT", parts=parts)
            matches = _found([1, 2, 3], _of("B"), pattern=pattern, definitions=(("B", condition),))
            assert matches == found, (condition, count)


def test_a_row_is_late_if_it_is_not_newer_than_the_watermark() -> None:
    pattern = RowPattern("CONCAT", parts=(_variable("A"), _variable("B")))
    spec = _spec(pattern=pattern, definitions=(), measures=(("a", _of("A")),), subsets=())
    running = Stopped(spec, "hashmap")
    running.watermark(1000)
    for value, millis in ((1, 1000), (2, 1001), (3, 1002)):
        running.send([("a", value, EPOCH + dt.timedelta(milliseconds=millis))], TYPES)
    running.watermark(MAX_WATERMARK)
    assert [row for _, row in running.changes()] == [("a", 2)]
    assert running.harness.metrics.counter("numLateRecordsDropped").get_count() == 1
