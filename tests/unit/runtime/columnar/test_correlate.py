"""UNNEST and table functions: each row with the rows that are made of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common.types import Row
from penstock.errors import PenstockError
from penstock.graph.operator_specs.columnar.stateless import CorrelateSpec
from penstock.sql.expr.nodes import Call, InputRef, Literal
from penstock.table.types import DataTypes
from tests.unit.runtime.columnar.join_cases import Stopped

INT, TEXT = DataTypes.INT(), DataTypes.STRING()
PAIR = DataTypes.ROW([DataTypes.FIELD("a", INT), DataTypes.FIELD("b", TEXT)])

UNNESTED = [
    (DataTypes.ARRAY(INT), (INT,), [[1, 2], [], None, [None]], [(1, 1), (1, 2), (4, None)]),
    (
        DataTypes.ARRAY(PAIR),
        (INT, TEXT),
        [[{"a": 1, "b": "x"}, {"a": 2, "b": None}], [None]],
        [(1, 1, "x"), (1, 2, None), (2, None, None)],
    ),
    (
        DataTypes.MAP(TEXT, INT),
        (TEXT, INT),
        [[{"key": "x", "value": 1}, {"key": "y", "value": 2}], None],
        [(1, "x", 1), (1, "y", 2)],
    ),
    (
        DataTypes.MULTISET(TEXT),
        (TEXT,),
        [[{"key": "x", "value": 2}, {"key": "y", "value": 1}], [{"key": "z", "value": 1}]],
        [(1, "x"), (1, "x"), (1, "y"), (2, "z")],
    ),
]


def _unnest(kind: Any, output: Any, function: str = "UNNEST", **more: Any) -> CorrelateSpec:
    return CorrelateSpec((INT, kind), function, (InputRef(kind, 1),), output, **more)


def _without_collection(changes: Any) -> list[Any]:
    return [(row[0], *row[2:]) for _, row in changes]


@pytest.mark.parametrize(("kind", "output", "values", "expected"), UNNESTED, ids=str)
def test_a_collection_gives_a_row_for_each_element(
    kind: Any, output: Any, values: Any, expected: Any
) -> None:
    running = Stopped(_unnest(kind, output), "hashmap")
    running.send(list(enumerate(values, 1)), (INT, kind))
    assert _without_collection(running.changes()) == expected


@pytest.mark.parametrize(("kind", "output", "values", "expected"), UNNESTED, ids=str)
def test_elements_are_counted_from_one_if_that_is_wanted(
    kind: Any, output: Any, values: Any, expected: Any
) -> None:
    running = Stopped(_unnest(kind, (*output, INT), "UNNEST WITH ORDINALITY"), "hashmap")
    running.send(list(enumerate(values, 1)), (INT, kind))
    counted = [
        (*row, sum(other[0] == row[0] for other in expected[: at + 1]))
        for at, row in enumerate(expected)
    ]
    assert _without_collection(running.changes()) == counted


def test_a_row_without_elements_gets_nulls_where_it_is_kept_and_changes_keep_their_kinds() -> None:
    kind = DataTypes.ARRAY(INT)
    running = Stopped(_unnest(kind, (INT,), outer=True), "hashmap")
    running.send([("+I", (1, [])), ("-U", (2, [7, 8])), ("+U", (3, None))], (INT, kind))
    assert [(change, row[0], row[2]) for change, row in running.changes()] == [
        ("+I", 1, None),
        ("-U", 2, 7),
        ("-U", 2, 8),
        ("+U", 3, None),
    ]


def test_a_condition_decides_which_elements_count() -> None:
    kind = DataTypes.ARRAY(INT)
    more = Call(DataTypes.BOOLEAN(), ">", (InputRef(INT, 2), Literal(INT, 1)))
    running = Stopped(_unnest(kind, (INT,), outer=True, condition=more), "hashmap")
    running.send([(1, [1, 2]), (2, [1])], (INT, kind))
    assert _without_collection(running.changes()) == [(1, 2), (2, None)]


def test_a_row_is_there_as_often_as_a_number_says() -> None:
    spec = CorrelateSpec((INT, TEXT), "REPLICATE ROWS", (InputRef(INT, 0),), (INT,))
    running = Stopped(spec, "hashmap")
    running.send([(2, "a"), (0, "b"), (-3, "c"), (None, "d"), (1, "e")], (INT, TEXT))
    assert [row[1:] for _, row in running.changes()] == [("a", 0), ("a", 1), ("e", 0)]


class Split:
    """A table function; it says when it is opened and closed."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, context: Any) -> None:
        self.calls.append("open")

    def close(self) -> None:
        self.calls.append("close")

    def eval(self, text: str | None) -> Iterator[Any]:
        if text == "bad":
            raise ValueError("no such text")
        for word in (text or "").split():
            yield word, len(word)


def test_a_function_gives_rows() -> None:
    function = Split()
    spec = CorrelateSpec((TEXT,), "split", (InputRef(TEXT, 0),), (TEXT, INT), user=function)
    running = Stopped(spec, "hashmap")
    running.send([("a bb",), (None,), ("c",)], (TEXT,))
    running.harness.close()
    assert [row for _, row in running.changes()] == [
        ("a bb", "a", 1),
        ("a bb", "bb", 2),
        ("c", "c", 1),
    ]
    assert function.calls == ["open", "close"]


@pytest.mark.parametrize(
    ("result", "expected"),
    [([1, 2], [1, 2]), (7, [7]), (None, [None]), ([Row(5)], [5]), ((6,), [6])],
    ids=str,
)
def test_a_function_returns_rows_in_any_form(result: Any, expected: Any) -> None:
    spec = CorrelateSpec((INT,), "f", (), (INT,), user=lambda: result, outer=True)
    running = Stopped(spec, "hashmap")
    running.send([(1,)], (INT,))
    assert [row[1] for _, row in running.changes()] == expected


def test_an_error_of_the_function_shows_what_it_was_called_with() -> None:
    spec = CorrelateSpec((TEXT,), "split", (InputRef(TEXT, 0),), (TEXT, INT), user=Split())
    running = Stopped(spec, "hashmap")
    with pytest.raises(PenstockError, match="no such text") as raised:
        running.send([("bad",)], (TEXT,))
    assert "bad" in str(raised.value.detail)
