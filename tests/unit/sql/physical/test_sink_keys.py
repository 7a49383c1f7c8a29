"""Tables with a primary key, and queries that know their rows by more, less or other columns than that key."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from penstock.graph.operator_specs.columnar.changes import UpsertMaterializeSpec
from penstock.sql.physical.nodes import PhysicalOperator
from penstock.sql.physical.operators.table_sink import PhysicalTableSink
from penstock.sql.physical.planner import PhysicalPlan
from tests.builders.changing_tables import Recomputed, happenings, together
from tests.builders.plan_runs import PlanRun, upserted_table
from tests.unit.sql.logical.plans import Catalog
from tests.unit.sql.sql_plans import catalog, planned

Key = tuple[int, ...]
RANKED = "SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY id) AS rn FROM orders"
#: Queries of three numbers, and the places of the columns that each of them knows its rows by.
QUERIES: dict[str, tuple[Key, ...]] = {
    "SELECT id, person, price FROM orders": ((0,),),
    "SELECT person, id, id FROM orders": ((1,), (2,)),
    "SELECT person, price, CAST(COUNT(*) AS INT) FROM orders GROUP BY person, price": ((0, 1),),
    "SELECT person, price, price FROM (SELECT DISTINCT person, price FROM orders)": (
        (0, 1),
        (0, 2),
    ),
    "SELECT CAST(COUNT(*) AS INT), MAX(person), MIN(price) FROM orders": ((),),
    "SELECT person, price, person FROM orders": (),
    "SELECT o.id, o.person, p.age FROM orders o JOIN people p ON o.person = p.id": ((0, 1),),
    "SELECT o.id, p.id, p.age FROM orders o FULL JOIN people p ON o.id = p.id": ((0, 1),),
    f"SELECT id, price, person FROM ({RANKED}) WHERE rn <= 2": ((0, 2),),
    f"SELECT id, price, person FROM ({RANKED}) WHERE rn = 1": ((2,),),
    "SELECT id, person, price FROM orders UNION ALL SELECT id + 100, age, age FROM people": (),
}
SINK_KEYS: list[Key] = [key for size in (1, 2, 3) for key in itertools.combinations(range(3), size)]


def written(query: str, key: Key, mode: str) -> PhysicalPlan:
    """The plan of a query into a table with this key; `mode`: the kinds of changes that the table takes."""
    names = ", ".join("abc"[at] for at in key)
    tables = Catalog(
        f"CREATE TABLE target (a INT, b INT, c INT, PRIMARY KEY ({names}) NOT ENFORCED) WITH ('connector' = 'toy', 'mode' = '{mode}')"
    )
    tables.tables |= catalog("all").tables
    return planned(f"INSERT INTO target {query}", tables=tables)


def kept_by(plan: PhysicalPlan) -> list[Any]:
    """By which columns rows of a primary key are told apart, where all of them are kept."""
    return [
        node.spec.upsert
        for node in plan.nodes
        if isinstance(node, PhysicalOperator) and isinstance(node.spec, UpsertMaterializeSpec)
    ]


@pytest.mark.parametrize("query", QUERIES)
def test_all_rows_of_a_primary_key_are_kept_unless_the_query_knows_rows_by_a_part_of_it(
    query: str,
) -> None:
    keys = QUERIES[query]
    shortest = min(keys, key=lambda each: (len(each), each), default=None)
    for mode, key in itertools.product(("all", "upsert"), SINK_KEYS):
        plan = written(query, key, mode)
        inside = any(set(each) <= set(key) for each in keys)
        assert kept_by(plan) == ([] if inside else [shortest]), (mode, key)
        # An update may have another primary key than its former row if that says more than the key of the query.
        (sink,) = plan.roots
        assert isinstance(sink, PhysicalTableSink)
        # Rows of DISTINCT come and go, and are never updated.
        assert sink.takes_before == (mode == "all" or "DISTINCT" in query)
        deletes = inside and not sink.takes_before and key not in keys
        assert sink.deletes_by == (key if deletes else None), (mode, key)


@pytest.mark.parametrize("query", QUERIES)
def test_a_table_has_one_of_the_rows_of_each_key_whatever_the_query_knows_them_by(
    query: str,
) -> None:
    for number, key in enumerate(SINK_KEYS):
        mode = ("upsert", "all")[number % 2]
        run = PlanRun(written(query, key, mode), parallelism=2, seed=number)
        tables, rng = Recomputed(), random.Random(number)
        for table, changes in together(rng, happenings(number, 20)):
            run.feed(table, *changes)
            run.steps(rng.randrange(8))
            tables.apply(table, changes)
        run.drain()
        expected = tables.ask(query)
        there = upserted_table(run.out, key)
        assert there <= expected, (mode, key)
        assert {named(row, key) for row in there} == {named(row, key) for row in expected}
        if mode == "upsert":
            assert "-U" not in {kind for kind, _ in run.out}


def named(row: tuple[Any, ...], key: Key) -> tuple[Any, ...]:
    return tuple(row[at] for at in key)


def test_rows_that_are_never_taken_back_are_not_kept() -> None:
    for query in ("SELECT id, person, id FROM visits", "SELECT person, id, person FROM visits"):
        for key in SINK_KEYS:
            assert kept_by(written(query, key, "upsert")) == []
