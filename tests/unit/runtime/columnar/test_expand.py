"""Each row once per projection."""

from __future__ import annotations

from penstock.graph.operator_specs.columnar.stateless import ExpandSpec
from penstock.sql.expr.nodes import InputRef, Literal
from penstock.sql.types import BigIntType, IntType
from tests.unit.runtime.columnar.join_cases import Stopped

INT, LONG = IntType(), BigIntType(False)


def test_a_row_is_given_once_per_projection_with_its_kind():
    first = (InputRef(INT, 0), Literal(LONG, 0))
    second = (Literal(INT, None), Literal(LONG, 1))
    running = Stopped(ExpandSpec((INT,), (first, second)), "hashmap")
    running.send([("+I", (7,)), ("-D", (8,))], (INT,))
    assert running.changes() == [
        ("+I", (7, 0)),
        ("-D", (8, 0)),
        ("+I", (None, 1)),
        ("-D", (None, 1)),
    ]


def test_constants_only_are_given_for_each_row():
    running = Stopped(ExpandSpec((INT,), ((Literal(INT, 1),), (Literal(INT, 2),))), "hashmap")
    running.send([(7,), (8,)], (INT,))
    assert [row for _, row in running.changes()] == [(1,), (1,), (2,), (2,)]
