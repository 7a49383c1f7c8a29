"""What rules make of whole queries: what may move, what is shared, and what must stay where it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.columnar.specs.joins import IntervalJoinSpec
from penstock.columnar.specs.ranks import RankSpec
from penstock.table.expressions.nodes import Rex
from penstock.table.plan.nodes import Aggregate, Field, Filter, SetOperation
from tests.unit.table.physical.plans import (
    INT,
    LONG,
    call,
    count,
    kinds,
    number,
    ref,
    scan,
    shown,
    table,
)
from tests.unit.table.sql_plans import planned, spec_of

TUMBLED = "(SELECT * FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(seen), INTERVAL '1' MINUTE)))"
SESSIONS = "TABLE(SESSION(TABLE visits PARTITION BY person, DESCRIPTOR(seen), INTERVAL '1' MINUTE))"


def test_a_condition_on_rows_stays_behind_sessions() -> None:
    """A row that is left out before would not keep its session open."""
    text = shown(planned(f"SELECT id, window_start FROM {SESSIONS} WHERE page = 'home'"))
    assert text.index("page = 'home'") < text.index("WindowTableFunction(")


def test_groups_that_two_read_with_different_conditions_are_made_once() -> None:
    bids = scan(table("bids", {"auction": INT, "bidder": INT}))
    counts = Aggregate(
        schema=(bids.schema[1], Field("n", LONG)), input=bids, keys=(1,), aggregates=(count(),)
    )
    parts = tuple(
        Filter(schema=counts.schema, input=counts, condition=call(sign, ref(counts, 0), number(5)))
        for sign in "<>"
    )
    both = SetOperation(schema=counts.schema, parts=parts, kind="UNION", all=True)
    assert kinds(both).count("GroupAggregate") == 1


def test_aggregates_whose_filter_is_chance_run_apart() -> None:
    bids = scan(table("bids", {"auction": INT, "bidder": INT}))

    def counted(what: Rex) -> Aggregate:
        some = replace(count(), filter=call("<", what, number(5)))
        schema = (bids.schema[1], Field("n", LONG))
        return Aggregate(schema=schema, input=bids, keys=(1,), aggregates=(some,))

    found = []
    for what in (call("RAND", kind=INT), ref(bids, 0)):
        parts = (counted(what), counted(what))
        both = SetOperation(schema=parts[0].schema, parts=parts, kind="UNION", all=True)
        found.append(kinds(both).count("GroupAggregate"))
    assert found == [2, 1]


def test_chance_is_computed_once_before_a_condition_on_it() -> None:
    text = shown(planned("SELECT r, id FROM (SELECT RAND() AS r, id FROM orders) WHERE r > 0.5"))
    assert text.count("RAND()") == 1
    assert text.index("where=[(r > 0.5") < text.index("RAND()")


def test_the_column_that_says_how_many_rows_are_wanted_is_read() -> None:
    ranked = "SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY id) AS rn FROM orders"
    spec = spec_of(planned(f"SELECT id FROM ({ranked}) WHERE rn <= price"), RankSpec)
    assert len(spec.input_types) == 3
    assert spec.end_column not in {None, *spec.keys}


# Conditions on the number of a row, and the places that are wanted.
PLACES = {
    "rn <= 3": (1, 3),
    "rn < 3": (1, 2),
    "3 > rn": (1, 2),
    "3 >= rn": (1, 3),
    "rn = 2": (2, 2),
    "rn > 1 AND rn < 5": (2, 4),
    "2 <= rn AND rn <= 5 AND rn <= 4": (2, 4),
    "rn BETWEEN 2 AND 3": (2, 3),
}


def test_conditions_on_the_number_of_a_row_are_places() -> None:
    ranked = "SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS rn FROM orders"
    found = {}
    for condition in PLACES:
        spec = spec_of(planned(f"SELECT id FROM ({ranked}) WHERE {condition}"), RankSpec)
        found[condition] = (spec.start, spec.end)
    assert found == PLACES


@pytest.mark.parametrize(
    ("kind", "side", "expected"),
    [
        ("INNER", "l", "WindowAggregate"),
        ("LEFT", "l", "WindowAggregate"),
        ("RIGHT", "r", "WindowAggregate"),
        ("RIGHT", "l", "GroupAggregate"),
        ("LEFT", "r", "GroupAggregate"),
        ("FULL", "l", "GroupAggregate"),
        ("FULL", "r", "GroupAggregate"),
    ],
)
def test_joined_rows_carry_the_window_of_the_side_that_is_always_there(
    kind: str, side: str, expected: str
) -> None:
    join = f"{TUMBLED} l {kind} JOIN {TUMBLED} r ON l.person = r.person AND l.window_start = r.window_start AND l.window_end = r.window_end"
    group = f"{side}.window_start, {side}.window_end"
    found = kinds(planned(f"SELECT {group}, COUNT(*) AS n FROM {join} GROUP BY {group}"))
    assert next(each for each in found if each.endswith("Aggregate")) == expected


SECOND = "INTERVAL '1' SECOND"
# Conditions on the times of two rows: how far the left one may be from the right one, in milliseconds.
INTERVALS = {
    f"l.seen BETWEEN r.seen - {SECOND} AND r.seen + {SECOND}": (-1000, 1000),
    f"l.seen + {SECOND} >= r.seen AND l.seen <= r.seen": (-1000, 0),
    f"l.seen > r.seen - {SECOND} AND l.seen - {SECOND} < r.seen": (-999, 999),
    f"r.seen <= l.seen AND l.seen < r.seen + {SECOND}": (0, 999),
    f"r.seen - {SECOND} <= l.seen - {SECOND} AND r.seen + {SECOND} > l.seen": (0, 999),
}


def test_conditions_on_two_times_are_an_interval_of_the_left_one() -> None:
    found = {}
    for condition in INTERVALS:
        query = (
            f"SELECT l.id, r.id FROM visits l JOIN visits r ON l.person = r.person AND {condition}"
        )
        spec = spec_of(planned(query), IntervalJoinSpec)
        found[condition] = (spec.lower, spec.upper)
    assert found == INTERVALS


def test_a_count_of_no_rows_in_two_levels_is_zero_and_a_sum_is_null() -> None:
    calls = "COUNT(DISTINCT price) AS n, SUM(DISTINCT id) AS s FROM orders"
    split = {"table_optimizer_distinct__agg_split_enabled": "true"}
    text = shown(planned(f"SELECT {calls}", **split))
    assert text.splitlines()[0].count("COALESCE") == 1
    assert "AS n, $m1 AS s" in text.splitlines()[0]
    by_key = shown(planned(f"SELECT person, {calls} GROUP BY person", **split))
    assert "COALESCE" not in by_key
