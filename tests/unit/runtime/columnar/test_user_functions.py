"""Users' functions are opened before they are called and closed at the end, once each, wherever a query calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.graph.operator_specs.columnar.aggregates import (
    GroupAggregateSpec,
    OverAggregateSpec,
    WindowAggregateSpec,
)
from penstock.graph.operator_specs.columnar.changes import MatchRecognizeSpec
from penstock.graph.operator_specs.columnar.common import SortKey, WindowDefinition
from penstock.graph.operator_specs.columnar.joins import (
    ColumnarIntervalJoinSpec,
    JoinSpec,
    LookupJoinSpec,
    TemporalJoinSpec,
    WindowJoinSpec,
)
from penstock.graph.operator_specs.columnar.stateless import CalcSpec, CorrelateSpec, ExpandSpec
from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Symbol,
    UserCall,
)
from penstock.sql.logical.nodes import RowPattern
from penstock.sql.types import (
    BooleanType,
    IntType,
    NullType,
    TimestampType,
)
from penstock.testing.harness import OperatorHarness

INT, TIME, TRUTH = IntType(), TimestampType(3), BooleanType()
TYPES = (INT, TIME, TIME)
ORDER = (SortKey(1),)
WINDOW = WindowDefinition("TUMBLE", 10, time=1)
ROW = Call(INT, "PATTERN REF", (Symbol(NullType(), "A"), InputRef(INT, 0)))


class Noted:
    """A function of any kind that notes when it is opened and closed."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, context: Any) -> None:
        self.calls.append("open")

    def close(self) -> None:
        self.calls.append("close")

    def __call__(self, *operands: Any) -> Any:
        return True

    def create_accumulator(self) -> list[Any]:
        return []

    def accumulate(self, accumulator: list[Any], *operands: Any) -> None:
        """Take nothing."""

    def get_value(self, accumulator: list[Any]) -> int:
        return 0


class Nothing:
    """A table to look up that has no rows."""

    def open(self, context: Any) -> None:
        """Have nothing to open."""

    def close(self) -> None:
        """Have nothing to close."""


def _call(function: Noted) -> UserCall:
    return UserCall(TRUTH, "noted", function, (InputRef(INT, 0),))


def _aggregates(function: Noted) -> tuple[AggregateCall, ...]:
    return (AggregateCall("noted", (InputRef(INT, 0),), INT, user=function),)


def _over(function: Noted, **more: Any) -> OverAggregateSpec:
    return OverAggregateSpec(TYPES, (0,), ORDER, _aggregates(function), **more)


def _lookup(function: Noted, **more: Any) -> LookupJoinSpec:
    return LookupJoinSpec("INNER", TYPES, TYPES, Nothing(), ((InputRef(INT, 0), 0),), **more)


SPECS: dict[str, Callable[[Noted], Any]] = {
    "SELECT": lambda f: CalcSpec(TYPES, projection=(_call(f), _call(f))),
    "WHERE": lambda f: CalcSpec(TYPES, condition=_call(f)),
    "GROUPING SETS": lambda f: ExpandSpec(TYPES, ((_call(f),), (_call(f),))),
    "join": lambda f: JoinSpec("FULL", TYPES, TYPES, (0,), (0,), _call(f)),
    "interval join": lambda f: ColumnarIntervalJoinSpec(
        "FULL", TYPES, TYPES, (0,), (0,), 1, 1, -5, 5, _call(f)
    ),
    "window join": lambda f: WindowJoinSpec(
        "FULL", TYPES, TYPES, (0,), (0,), (1, 2), (1, 2), _call(f)
    ),
    "temporal join": lambda f: TemporalJoinSpec("LEFT", TYPES, TYPES, (0,), (0,), 1, 1, _call(f)),
    "temporal join by the clock": lambda f: TemporalJoinSpec(
        "LEFT", TYPES, TYPES, (0,), (0,), None, None, _call(f)
    ),
    "condition of a lookup": lambda f: _lookup(f, condition=_call(f)),
    "condition of an asynchronous lookup": lambda f: _lookup(
        f, condition=_call(f), asynchronous=True
    ),
    "key of a lookup": lambda f: LookupJoinSpec("INNER", TYPES, TYPES, Nothing(), ((_call(f), 0),)),
    "table function": lambda f: CorrelateSpec(TYPES, "noted", (), (INT,), user=f),
    "operand of a table function": lambda f: CorrelateSpec(
        TYPES, "other", (_call(f),), (INT,), user=lambda value: value
    ),
    "condition of a table function": lambda f: CorrelateSpec(
        TYPES, "other", (), (INT,), user=lambda: 1, condition=_call(f)
    ),
    "GROUP BY": lambda f: GroupAggregateSpec(TYPES, (0,), _aggregates(f)),
    "window": lambda f: WindowAggregateSpec(TYPES, (0,), _aggregates(f), WINDOW),
    "session": lambda f: WindowAggregateSpec(
        TYPES, (0,), _aggregates(f), WindowDefinition("SESSION", gap=5, time=1)
    ),
    "OVER": lambda f: _over(f, rowtime=True, rows=True),
    "OVER some rows": lambda f: _over(f, rowtime=True, rows=True, preceding=2),
    "OVER rows that change": lambda f: _over(f, rowtime=False, rows=True, mode="CHANGES"),
    "OVER all rows": lambda f: _over(f, rowtime=False, rows=True, mode="END"),
    "MATCH_RECOGNIZE": lambda f: MatchRecognizeSpec(
        TYPES,
        (0,),
        ORDER,
        rowtime=True,
        pattern=RowPattern("VARIABLE", "A"),
        definitions=(("A", UserCall(TRUTH, "noted", f, (ROW,))),),
        measures=(),
        after_match=("PAST LAST ROW", None),
    ),
}


@pytest.mark.parametrize("made", SPECS.values(), ids=SPECS)
def test_a_function_is_opened_and_closed_once(made: Callable[[Noted], Any]) -> None:
    function = Noted()
    harness = OperatorHarness(made(function))
    assert function.calls == ["open"]
    harness.close()
    assert function.calls == ["open", "close"]
