"""Row patterns are found in the rows of each key, in the order of time, wherever batches and stops cut them."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest

from penstock.columnar.specs.changes import MatchRecognizeSpec
from penstock.columnar.specs.common import SortKey
from penstock.runtime.records import MAX_WATERMARK
from penstock.table.data_types import DataTypes
from penstock.table.expressions.nodes import Call, InputRef, Literal, Rex, Symbol
from penstock.table.plan.nodes import PatternNode
from penstock.table.types import BigIntType, BooleanType, IntType, NullType
from tests.unit.columnar.changes import cut
from tests.unit.columnar.join_cases import Stopped

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


def _variable(name: str, least: int = 1, most: int | None = 1) -> PatternNode:
    return PatternNode("VARIABLE", name, least=least, most=most)


# A is even; B* are larger than A; C is not, and what B has is not too much.
PATTERN = PatternNode("CONCAT", parts=(_variable("A"), _variable("B", 0, None), _variable("C")))
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
        pattern=PatternNode("CONCAT", parts=(_variable("A"), _variable("B"))),
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
