"""Queries over tables whose rows are inserted, updated and deleted: the changelog is one, and what it leaves is what SQLite says."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from penstock.graph.operator_specs.columnar.joins import JoinSpec
from penstock.graph.operator_specs.columnar.stateless import CalcSpec
from penstock.sql.physical.nodes import PhysicalOperator
from penstock.sql.physical.planner import PhysicalPlan
from tests.builders.cases import by_name, check_all, part
from tests.builders.changing_tables import Recomputed, as_given, happenings
from tests.builders.plan_runs import PlanRun, check_kinds, upserted_table, valid_table
from tests.unit.sql.physical.plans import kinds
from tests.unit.sql.sql_plans import planned

#: The queries run in so many tests, so that workers can share them.
PARTS = 4


QUERIES = [
    "SELECT id, price FROM orders WHERE price > 4",
    "SELECT id, person FROM orders WHERE id < 5 AND person > 1",
    "SELECT DISTINCT price FROM orders",
    "SELECT person, COUNT(*), SUM(price), MIN(price), MAX(price), COUNT(price), AVG(price) FROM orders GROUP BY person",
    "SELECT person, n FROM (SELECT person, COUNT(*) AS n FROM orders GROUP BY person) WHERE n > 1",
    "SELECT person, n FROM (SELECT person, COUNT(*) AS n FROM orders GROUP BY person) WHERE person > 1 AND n < 3",
    "SELECT person, price, n FROM (SELECT person, price, COUNT(*) AS n FROM orders GROUP BY person, price) WHERE price > 4",
    "SELECT n, COUNT(*) FROM (SELECT person, COUNT(*) AS n FROM orders GROUP BY person) GROUP BY n",
    "SELECT person, COUNT(DISTINCT price), SUM(DISTINCT price) FROM orders GROUP BY person",
    "SELECT person, COUNT(DISTINCT price) FILTER (WHERE id > 4), COUNT(DISTINCT id), SUM(price) FILTER (WHERE id < 6) FROM orders GROUP BY person",
    "SELECT person, COUNT(*) FILTER (WHERE price > 4), MAX(price) FILTER (WHERE id > 3) FROM orders GROUP BY person",
    "SELECT o.id, p.id, p.name FROM orders o JOIN people p ON o.person = p.id",
    "SELECT o.id, p.id, p.name FROM orders o LEFT JOIN people p ON o.person = p.id",
    "SELECT o.id, p.id, p.name FROM orders o RIGHT JOIN people p ON o.person = p.id",
    "SELECT o.id, p.id, p.name FROM orders o FULL JOIN people p ON o.person = p.id",
    "SELECT p.id, o.id FROM people p LEFT JOIN orders o ON p.id = o.person",
    "SELECT p.id, o.id FROM people p RIGHT JOIN orders o ON p.id = o.person AND p.age > 1",
    "SELECT o.id, p.name FROM orders o LEFT JOIN people p ON o.person = p.id AND o.price > p.age",
    "SELECT o.id, p.name FROM orders o LEFT JOIN people p ON o.person = p.id WHERE o.price > 4",
    "SELECT o.id, p.name FROM orders o LEFT JOIN people p ON o.person = p.id WHERE p.age > 1",
    "SELECT o.id, p.name FROM orders o FULL JOIN people p ON o.person = p.id WHERE p.age > 1",
    "SELECT o.id, p.name FROM orders o RIGHT JOIN people p ON o.person = p.id WHERE o.price > 4 OR p.age > 1",
    "SELECT o.id, p.name FROM orders o LEFT JOIN people p ON o.person = p.id AND o.price > 4",
    "SELECT p.id, o.id FROM people p RIGHT JOIN orders o ON p.id = o.person AND o.price > 4",
    "SELECT o.id, p.name FROM orders o FULL JOIN people p ON o.person = p.id WHERE o.price > 4",
    "SELECT o.id, p.id FROM orders o LEFT JOIN people p ON o.person = p.id WHERE p.age IS NULL",
    "SELECT o.id, p.id, p.age FROM orders o JOIN people p ON o.id = p.id",
    "SELECT o.id, p.id, p.age FROM orders o LEFT JOIN people p ON o.id = p.id AND o.person = p.id",
    "SELECT o.id, p.id, p.age FROM orders o LEFT JOIN people p ON o.id = p.id",
    "SELECT o.id, p.id, p.age FROM orders o RIGHT JOIN people p ON o.id = p.id",
    "SELECT o.id, p.id, p.age FROM orders o FULL JOIN people p ON o.id = p.id",
    "SELECT o.id, p.id, p.age FROM orders o JOIN people p ON o.id = p.id AND o.price > p.age",
    "SELECT o.id, p.id, p.age FROM orders o LEFT JOIN people p ON o.id = p.id AND o.price > p.age",
    "SELECT o.id, o.person, p.age, n.n FROM orders o LEFT JOIN people p ON o.person = p.id LEFT JOIN (SELECT id, COUNT(*) AS n FROM people GROUP BY id) n ON p.id = n.id",
    "SELECT o.id, o.person, t.price, t.n FROM orders o JOIN (SELECT person, price, COUNT(*) AS n FROM orders GROUP BY person, price) t ON o.person = t.person",
    "SELECT p.id, t.price, t.n FROM people p LEFT JOIN (SELECT person, price, COUNT(*) AS n FROM orders GROUP BY person, price) t ON p.id = t.person",
    "SELECT p.id, COUNT(*), SUM(o.price) FROM orders o FULL JOIN people p ON o.person = p.id GROUP BY p.id",
    "SELECT p.id, COUNT(*) FROM orders o LEFT JOIN people p ON o.person = p.id GROUP BY p.id",
    "SELECT o.person, COUNT(*) FROM orders o FULL JOIN people p ON o.person = p.id GROUP BY o.person",
    "SELECT o.person, COUNT(*) FROM orders o RIGHT JOIN people p ON o.person = p.id GROUP BY o.person",
    "SELECT a.id, b.id FROM orders a JOIN orders b ON a.price = b.price AND a.id < b.id",
    "SELECT p.id, t.s FROM people p LEFT JOIN (SELECT person, SUM(price) AS s FROM orders GROUP BY person) t ON p.id = t.person",
    "SELECT t.person, t.s, p.name FROM (SELECT person, SUM(price) AS s FROM orders GROUP BY person) t RIGHT JOIN people p ON t.s = p.age",
    "SELECT p.age, COUNT(o.id), MAX(o.price) FROM people p LEFT JOIN orders o ON o.person = p.id GROUP BY p.age",
    "SELECT p.id, o.id, q.id FROM people p JOIN orders o ON p.id = o.person LEFT JOIN people q ON o.price = q.id",
    "SELECT id, name FROM people WHERE id IN (SELECT person FROM orders WHERE price > 3)",
    "SELECT id, name FROM people p WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.person = p.id AND o.price > p.age)",
    "SELECT id, name FROM people p WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.person = p.id AND p.age > 1)",
    "SELECT id, name FROM people WHERE age NOT IN (SELECT price FROM orders WHERE id > 4)",
    "SELECT id, name FROM people WHERE age IN (SELECT price FROM orders)",
    "SELECT id, price FROM orders WHERE price > (SELECT AVG(age) FROM people)",
    "SELECT person FROM orders UNION SELECT age FROM people",
    "SELECT person, price FROM orders WHERE price > 2 UNION ALL SELECT id, age FROM people",
    "SELECT person FROM orders INTERSECT SELECT id FROM people",
    "SELECT person FROM orders INTERSECT SELECT price FROM orders",
    "SELECT person FROM orders EXCEPT SELECT id FROM people",
    "SELECT price FROM orders EXCEPT SELECT price FROM orders WHERE id > 4",
    "SELECT id, price FROM orders WHERE price IS NOT NULL ORDER BY price DESC, id LIMIT 3",
    "SELECT id FROM orders ORDER BY id LIMIT 3 OFFSET 2",
    "SELECT id, person, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY id DESC) AS rn FROM orders) WHERE rn <= 2",
    "SELECT id, person, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY id) AS rn FROM orders) WHERE rn <= 3",
    "SELECT id, person, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY id) AS rn FROM orders) WHERE rn = 2",
    "SELECT id, person FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY id) AS rn FROM orders) WHERE rn = 1 AND person > 1",
    "SELECT id, person FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY id) AS rn FROM orders) WHERE rn <= 2 AND id > 3",
    "SELECT person, n, rn FROM (SELECT person, n, ROW_NUMBER() OVER (ORDER BY n DESC, person) AS rn FROM (SELECT person, COUNT(*) AS n FROM orders WHERE person IS NOT NULL GROUP BY person)) WHERE rn <= 2",
    "SELECT id, person, rk FROM (SELECT *, RANK() OVER (PARTITION BY person ORDER BY price DESC) AS rk FROM orders WHERE price IS NOT NULL) WHERE rk <= 2",
    "SELECT price, k FROM (SELECT DISTINCT price, DENSE_RANK() OVER (ORDER BY price) AS k FROM (SELECT DISTINCT price FROM orders WHERE price IS NOT NULL)) WHERE k <= 2",
    "SELECT id, person FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY id) AS rn FROM orders) WHERE rn <= 1 AND id + person > 5",
    "SELECT id, rn FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY id) AS rn FROM orders) WHERE 3 > rn",
    "SELECT id, rn FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY id) AS rn FROM orders) WHERE rn > 1 AND rn < 4",
    "SELECT id, rn FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY id) AS rn FROM orders) WHERE 2 <= rn AND 4 >= rn AND rn <= 3",
    "SELECT id, rn FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY id) AS rn FROM orders) WHERE rn >= 2 AND rn <= 3 AND rn >= 1 AND rn < 6",
    "SELECT id, person, rk FROM (SELECT *, RANK() OVER (PARTITION BY person ORDER BY price) AS rk FROM orders WHERE price IS NOT NULL) WHERE rk = 1",
    "SELECT id, age FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY age ORDER BY id) AS rn FROM people) WHERE rn <= age",
    "SELECT id, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY price ORDER BY id) AS rn FROM orders) WHERE rn <= price AND rn <= 2",
    "SELECT id, price, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY price ORDER BY id) AS rn FROM orders) WHERE rn <= price - 3",
    "SELECT id, price, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY price ORDER BY id) AS rn FROM orders) WHERE rn <= price AND rn >= 2",
    "SELECT id, price FROM (SELECT * FROM orders ORDER BY id LIMIT 4) WHERE price > 4",
    "SELECT id, SUM(price) OVER (PARTITION BY person ORDER BY id) FROM orders",
    "SELECT id, person, c FROM (SELECT id, person, price, COUNT(*) OVER (PARTITION BY person ORDER BY id) AS c FROM orders) WHERE person > 1 AND price > 4",
    "SELECT o.id, p.id, p.name FROM orders o LEFT JOIN people p ON o.person = p.id AND 1 = 2",
    "SELECT o.id, p.id, p.age FROM orders o RIGHT JOIN people p ON o.person = p.id AND 1 = 2",
    "SELECT o.id, p.id, p.age FROM orders o FULL JOIN people p ON o.person = p.id AND 1 > 2",
    "SELECT id, name FROM people p WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.person = p.id AND 1 = 2)",
    "SELECT id, price FROM orders WHERE price > 2 AND CAST(NULL AS INT) = 1",
    "SELECT person, n FROM (SELECT person, COUNT(*) AS n FROM orders GROUP BY person) WHERE person + n > 3",
    "SELECT n FROM (SELECT COUNT(*) AS n FROM orders) WHERE n > 2",
    "SELECT person, name, COUNT(*) FROM (SELECT o.person, p.name, o.id FROM orders o LEFT JOIN people p ON o.person = p.id) WHERE person < 3 GROUP BY person, name",
]  # fmt: skip
MORE_QUERIES = [
    # Conditions that must stay behind what they are about
    "SELECT id, c FROM (SELECT id, COUNT(*) OVER (PARTITION BY person ORDER BY id) AS c FROM orders) WHERE id > 3",
    "SELECT o.id, p.id FROM orders o LEFT JOIN people p ON o.person = p.id WHERE o.price IS NOT DISTINCT FROM p.age",
    "SELECT o.id, p.id FROM orders o FULL JOIN people p ON o.person = p.id WHERE o.price IS NOT DISTINCT FROM p.age",
    "SELECT id, age FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY age ORDER BY id) AS rn FROM people) WHERE rn < age",
    "SELECT id, age FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY age ORDER BY id) AS rn FROM people) WHERE rn <= 2 AND rn < age",
    "SELECT id, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY price ORDER BY id) AS rn FROM orders) WHERE rn <= 2 AND rn <= price - 4",
    "SELECT id, rk FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY person ORDER BY price, id) AS rn, RANK() OVER (PARTITION BY person ORDER BY price, id) AS rk FROM orders) WHERE rn <= 2",
    "SELECT id, name FROM people p WHERE EXISTS (SELECT 1 FROM orders o WHERE o.person = p.id AND 1 = 2)",
    "SELECT id FROM orders WHERE price NOT IN (SELECT age FROM people WHERE id > 2)",
    # Parts that are nearly the same, and rows that are nearly in their place
    "SELECT id FROM (SELECT id FROM orders ORDER BY id LIMIT 2) UNION ALL SELECT id FROM (SELECT id FROM orders ORDER BY id LIMIT 4)",
    "SELECT price, person, COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person, price ORDER BY id) AS rn FROM orders) WHERE rn <= 2 GROUP BY price, person",
    "SELECT o.id, t.n FROM orders o JOIN (SELECT person, COUNT(*) AS n FROM orders GROUP BY person) t ON o.price = t.n + 1",
    # NULLs where a column has none
    "SELECT p.id FROM orders o RIGHT JOIN people p ON o.person = p.id WHERE o.id IS NULL",
    "SELECT o.id FROM orders o LEFT JOIN people p ON o.person = p.id WHERE p.id IS NULL",
    "SELECT o.id IS NULL, p.id IS NULL, COUNT(*) FROM orders o FULL JOIN people p ON o.person = p.id GROUP BY o.id IS NULL, p.id IS NULL",
    "SELECT person, SUM(id) FILTER (WHERE price > 4) IS NULL, COALESCE(MAX(id) FILTER (WHERE price > 4), 0) FROM orders GROUP BY person",
    "SELECT id, SUM(id) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) IS NULL FROM orders",
    "SELECT id, MAX(id) OVER (PARTITION BY person ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) FROM orders",
    "SELECT id FROM people UNION ALL SELECT person FROM orders",
    # Frames and orders
    "SELECT id, SUM(price) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING), COUNT(*) OVER (ORDER BY id ROWS BETWEEN 3 FOLLOWING AND 4 FOLLOWING) FROM orders",
    "SELECT id, COUNT(*) OVER (PARTITION BY person), SUM(price) OVER (PARTITION BY person) FROM orders",
    "SELECT id, SUM(price) OVER (PARTITION BY person ORDER BY id ROWS 1 PRECEDING) FROM orders",
    "SELECT id, SUM(price) OVER w FROM orders WINDOW w AS (PARTITION BY person ORDER BY id ROWS 1 PRECEDING)",
    "SELECT id, rn FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY price DESC, id) AS rn FROM orders) WHERE rn <= 3",
    "SELECT id FROM orders ORDER BY id LIMIT 2, 3",
    # Subqueries
    "SELECT id, (SELECT COUNT(*) FROM people p WHERE p.age < o.price OR o.price IS NULL) FROM orders o",
    "SELECT id, (SELECT o.price FROM orders o WHERE o.person = p.id ORDER BY o.id LIMIT 1 OFFSET 1) FROM people p",
    "SELECT id FROM people p WHERE 2 IN (SELECT ROW_NUMBER() OVER (PARTITION BY o.price ORDER BY o.id) FROM orders o WHERE o.person = p.id)",
    "SELECT id, person IN (SELECT age FROM people), price NOT IN (SELECT person FROM orders) FROM orders",
    "SELECT id FROM people p WHERE EXISTS (SELECT 1 FROM orders o WHERE o.person = p.id LIMIT 5 OFFSET 1)",
    # How a query is read
    "SELECT person FROM orders UNION SELECT id FROM people UNION ALL SELECT price FROM orders",
    "SELECT id, price, age FROM orders RIGHT JOIN people USING (id)",
    "SELECT id, price, age FROM orders FULL JOIN people USING (id) WHERE id > 1",
    "SELECT id FROM orders WHERE NOT price IS NULL AND NOT person = 1 OR id = 2",
    "SELECT ALL price FROM orders",
    "SELECT id, price FROM (SELECT id, price FROM orders ORDER BY id OFFSET 2 ROWS) WHERE price > 4",
    "SELECT id, person, age, n FROM orders JOIN people USING (id) LEFT JOIN (SELECT person, COUNT(*) AS n FROM orders GROUP BY person) g USING (person)",
    "SELECT id, age, name FROM orders FULL JOIN people USING (id) JOIN (SELECT DISTINCT price AS age FROM orders) g USING (age)",
]  # fmt: skip
# The same in the words of SQLite, which knows neither arrays nor LATERAL nor ALL, and reads INTERSECT and a comma otherwise.
TRANSLATED = {
    "SELECT person FROM orders UNION ALL SELECT id FROM people INTERSECT SELECT price FROM orders": (
        "SELECT person FROM orders UNION ALL SELECT * FROM (SELECT id FROM people INTERSECT SELECT price FROM orders)"
    ),
    "(SELECT id FROM orders ORDER BY id LIMIT 3) ORDER BY id DESC LIMIT 2": (
        "SELECT * FROM (SELECT id FROM orders ORDER BY id LIMIT 3) ORDER BY id DESC LIMIT 2"
    ),
    "SELECT p.id, o.id, q.id FROM people p, orders o RIGHT JOIN people q ON o.person = q.id": (
        "SELECT p.id, t.a, t.b FROM people p CROSS JOIN (SELECT o.id AS a, q.id AS b FROM orders o RIGHT JOIN people q ON o.person = q.id) t"
    ),
    "SELECT p.id, t.n FROM people p LEFT JOIN LATERAL (SELECT COUNT(*) AS n FROM orders o WHERE o.person = p.id) t ON t.n > 1": (
        "SELECT id, CASE WHEN n > 1 THEN n END FROM (SELECT p.id, (SELECT COUNT(*) FROM orders o WHERE o.person = p.id) AS n FROM people p)"
    ),
    "SELECT id FROM people p WHERE EXISTS (SELECT 1 FROM orders o CROSS JOIN LATERAL (SELECT q.price FROM orders q WHERE q.person = p.id AND q.id = o.id) AS x CROSS JOIN LATERAL (SELECT q.id FROM orders q WHERE q.person > p.age AND q.price = o.price) AS y)": (
        "SELECT id FROM people p WHERE EXISTS (SELECT 1 FROM orders o JOIN orders x ON x.person = p.id AND x.id = o.id JOIN orders y ON y.person > p.age AND y.price = o.price)"
    ),
    "SELECT id FROM people WHERE age < ALL (SELECT price FROM orders WHERE id > 2)": (
        "SELECT id FROM people p WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.id > 2 AND (p.age >= o.price OR o.price IS NULL))"
    ),
    "SELECT id FROM people WHERE age >= ANY (SELECT price FROM orders WHERE id > 2)": (
        "SELECT id FROM people p WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id > 2 AND p.age >= o.price)"
    ),
    "SELECT id, x IS NULL FROM orders LEFT JOIN UNNEST(CASE WHEN price > 4 THEN ARRAY[id] ELSE CAST(NULL AS ARRAY<INT NOT NULL>) END) AS t(x) ON TRUE": (
        "SELECT id, COALESCE(price <= 4, 1) FROM orders"
    ),
    "SELECT id, x FROM orders LEFT JOIN UNNEST(ARRAY[1, 5]) AS t(x) ON x < price": (
        "SELECT o.id, t.x FROM orders o LEFT JOIN (SELECT 1 AS x UNION ALL SELECT 5) t ON t.x < o.price"
    ),
}  # fmt: skip
ALL_QUERIES = [*QUERIES, *MORE_QUERIES, *TRANSLATED]


def answer(tables: Recomputed, query: str) -> Counter[tuple[Any, ...]]:
    """What SQLite computes of a query."""
    return tables.ask(TRANSLATED.get(query, query))


@pytest.mark.parametrize("number", range(PARTS))
def test_after_each_change_the_changelog_leaves_what_sqlite_computes(number: int) -> None:
    def check(query: str) -> None:
        run, tables = PlanRun(planned(query)), Recomputed()
        for table, changes in happenings(1, 22):
            for change in changes:
                run.feed(table, change)
                run.drain()
            tables.apply(table, changes)
            assert valid_table(run.out) == answer(tables, query), (table, changes)

    check_all(part(by_name(ALL_QUERIES, str), number, PARTS), check)


RESTARTED = [
    "SELECT person, COUNT(*), SUM(price), AVG(price) FROM orders GROUP BY person",
    "SELECT person, COUNT(DISTINCT price), SUM(DISTINCT price) FILTER (WHERE id > 1) FROM orders GROUP BY person",
    "SELECT person, MIN(price), MAX(id) FROM orders GROUP BY person",
    "SELECT o.id, p.name FROM orders o JOIN people p ON o.person = p.id",
    "SELECT o.id, p.id FROM orders o FULL JOIN people p ON o.person = p.id AND o.price > p.age",
    "SELECT id FROM people p WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.person = p.id)",
    "SELECT id, person FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY id) AS rn FROM orders) WHERE rn = 1",
    "SELECT id, SUM(price) OVER (PARTITION BY person ORDER BY id) FROM orders",
    "SELECT person FROM orders UNION SELECT age FROM people",
]  # fmt: skip


@pytest.mark.parametrize("mode", ["all", "upsert"])
@pytest.mark.parametrize("query", RESTARTED)
def test_what_has_gone_does_not_come_back_with_a_restart(query: str, mode: str) -> None:
    """There are so few rows that groups and keys end, and begin again after another restart."""
    run, tables = PlanRun(planned(query, mode)), Recomputed()
    for table, changes in happenings(9, 40, orders=2):
        run.feed(table, *as_given(changes, mode))
        run.drain()
        tables.apply(table, changes)
        assert valid_table(run.out) == tables.ask(query), (table, changes)
        run.restart()


@pytest.mark.parametrize("number", range(PARTS))
def test_in_several_subtasks_every_key_of_the_result_identifies_its_rows(number: int) -> None:
    def check(query: str) -> None:
        plan = planned(query, update_before=False)
        run, expected = ran(plan, query, "all", 5)
        assert "-U" not in {kind for kind, _ in run.out}
        for key in plan.result.traits.keys:
            assert upserted_table(run.out, key) == expected, sorted(key)

    check_all(part(by_name(ALL_QUERIES, str), number, PARTS), check)


def loses_half(spec: Any) -> bool:
    if isinstance(spec, JoinSpec):
        return spec.condition is not None and None in (spec.left_unique, spec.right_unique)
    return isinstance(spec, CalcSpec) and spec.condition is not None


@pytest.mark.parametrize("before", [True, False])
def test_rows_are_inserted_if_their_key_is_new_and_updated_if_it_is_not(before: bool) -> None:
    """A condition may leave out one half of an update, as in Flink: plans with one are not looked at, unless a join knows which rows are replaced."""

    def check(query: str) -> None:
        plan = planned(query, update_before=before)
        if any(isinstance(node, PhysicalOperator) and loses_half(node.spec) for node in plan.nodes):
            return
        run = PlanRun(plan)
        for table, changes in happenings(4, 60, orders=4):
            run.feed(table, *changes)
            run.drain()
        for key in plan.result.traits.keys:
            check_kinds(run.out, key, before=before)

    check_all(by_name(QUERIES, str), check)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20, 24))
@pytest.mark.parametrize("mode", ["all", "upsert"])
@pytest.mark.parametrize("number", range(PARTS))
def test_in_several_subtasks_the_changelog_leaves_what_sqlite_computes(
    number: int, mode: str, seed: int
) -> None:
    def check(query: str) -> None:
        plan = planned(query, mode)
        run, expected = ran(plan, query, mode, seed, count=60)
        assert valid_table(run.out) == expected
        for key in plan.result.traits.keys:
            assert upserted_table(run.out, key) == expected, sorted(key)

    check_all(part(by_name(ALL_QUERIES, str), number, PARTS), check)


def ran(
    plan: PhysicalPlan, query: str, mode: str, seed: int, count: int = 30
) -> tuple[PlanRun, Counter[tuple[Any, ...]]]:
    """A run in two subtasks, and in three from the middle on; and what SQLite computes of its input."""
    run, tables, rng = PlanRun(plan, parallelism=2, seed=seed), Recomputed(), random.Random(seed)
    for number, (table, changes) in enumerate(happenings(seed, count)):
        run.feed(table, *as_given(changes, mode))
        run.steps(rng.randrange(8))
        tables.apply(table, changes)
        if number == count // 2:
            run.restart(parallelism=3)
    run.drain()
    return run, answer(tables, query)


TWO_PHASE = {"table_optimizer_agg__phase__strategy": "TWO_PHASE"}
SPLIT = {"table_optimizer_distinct__agg_split_enabled": "true"}
AGGREGATES = [
    "SELECT person, COUNT(*), SUM(price), COUNT(price), AVG(price) FROM orders GROUP BY person",
    "SELECT person, MIN(price), MAX(id), COUNT(*) FROM orders GROUP BY person",
    "SELECT person, COUNT(DISTINCT price), SUM(price), COUNT(*) FROM orders GROUP BY person",
    "SELECT person, COUNT(DISTINCT price) FILTER (WHERE id > 4), COUNT(DISTINCT id), SUM(price) FILTER (WHERE id < 6) FROM orders GROUP BY person",
    "SELECT person, COUNT(DISTINCT price), COUNT(DISTINCT id) FILTER (WHERE price > 4), MIN(price) FROM orders GROUP BY person",
    "SELECT person, COUNT(DISTINCT id), COUNT(DISTINCT price), SUM(DISTINCT price) FILTER (WHERE id > 2), SUM(id), COUNT(*) FROM orders GROUP BY person",
    "SELECT COUNT(DISTINCT price), COUNT(DISTINCT id), SUM(price), COUNT(*) FROM orders HAVING COUNT(*) > 0",
    "SELECT COUNT(DISTINCT person), COUNT(*) FROM orders WHERE id < 4 HAVING COUNT(*) > 0",
]  # fmt: skip


@pytest.mark.parametrize("query", AGGREGATES)
def test_phases_and_levels_of_an_aggregation_do_not_change_its_result(query: str) -> None:
    for mode, options in (("upsert", TWO_PHASE), ("all", SPLIT), ("all", {**TWO_PHASE, **SPLIT})):
        run, expected = ran(planned(query, mode, **options), query, mode, 8)
        assert valid_table(run.out) == expected, options


@pytest.mark.parametrize("word", ["INTERSECT ALL", "EXCEPT ALL"])
def test_set_operations_of_all_rows_count_how_often_a_row_is_there(word: str) -> None:
    left, right = (
        "SELECT price FROM orders",
        "SELECT age FROM people UNION ALL SELECT 5 FROM people",
    )
    run, tables = PlanRun(planned(f"{left} {word} ({right})")), Recomputed()
    for table, changes in happenings(11, 30):
        run.feed(table, *changes)
        run.drain()
        tables.apply(table, changes)
        ours, theirs = tables.ask(left), tables.ask(right)
        expected = ours & theirs if word == "INTERSECT ALL" else ours - theirs
        assert valid_table(run.out) == expected, changes


def sets(*columns: str) -> str:
    """One SELECT for each grouping set: what it groups by or NULL, then what more there is in it."""
    parts = []
    for each in columns:
        chosen, more = each.split("|")
        keys = [key for key in chosen.split(", ") if key != "NULL"]
        groups = f"GROUP BY {', '.join(keys)}" if keys else "HAVING COUNT(*) > 0"
        parts.append(f"SELECT {chosen}, COUNT(*), SUM(price), {more} FROM orders {groups}")
    return " UNION ALL ".join(parts)


GROUPING_SETS = {
    "SELECT person, price, COUNT(*), SUM(price), GROUPING_ID(person, price) FROM orders GROUP BY CUBE(person, price)": sets(
        "person, price|0", "person, NULL|1", "NULL, price|2", "NULL, NULL|3"
    ),
    "SELECT person, price, COUNT(*), SUM(price), GROUPING(price) FROM orders GROUP BY ROLLUP(person, price)": sets(
        "person, price|0", "person, NULL|1", "NULL, NULL|1"
    ),
    "SELECT person, price, COUNT(*), SUM(price), GROUP_ID() FROM orders GROUP BY GROUPING SETS ((person), (price), (person))": sets(
        "person, NULL|0", "NULL, price|0", "person, NULL|1"
    ),
    "SELECT person, price, COUNT(*), SUM(price), GROUP_ID() FROM orders GROUP BY GROUPING SETS ((person, price), (price, person))": sets(
        "person, price|0", "person, price|1"
    ),
    "SELECT id, person, COUNT(*), SUM(price), id IS NULL FROM orders GROUP BY GROUPING SETS ((id), (person))": sets(
        "id, NULL|0", "NULL, person|1"
    ),
}


@pytest.mark.parametrize("query", GROUPING_SETS)
def test_grouping_sets_give_what_one_group_by_for_each_of_them_gives(query: str) -> None:
    run, expected = ran(planned(query), GROUPING_SETS[query], "all", 12)
    assert valid_table(run.out) == expected


WRITES = [
    "SELECT id, person, price FROM orders",
    "SELECT id, person, price FROM orders WHERE price > 4",
    "SELECT person, n, 0 FROM (SELECT person, CAST(COUNT(*) AS INT) AS n FROM orders GROUP BY person) WHERE n = 2",
    "SELECT id, price, person FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY price, id) AS rn FROM orders) WHERE rn <= 2",
    "SELECT id, CAST(rn AS INT), person FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY id) AS rn FROM orders) WHERE rn <= 2",
    "SELECT CAST(rn AS INT), id, 0 FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY id DESC) AS rn FROM orders) WHERE rn <= 3",
    "SELECT o.id, p.id, p.age FROM orders o LEFT JOIN people p ON o.person = p.id",
    "SELECT p.id, o.id, o.price FROM orders o RIGHT JOIN people p ON o.id = p.id",
    "SELECT o.id, p.age, 0 FROM orders o JOIN people p ON o.person = p.id WHERE p.age > 1",
    "SELECT MIN(id), person, 0 FROM orders GROUP BY person",
    "SELECT a, b, b FROM (SELECT person AS a, n * 2 AS b FROM (SELECT person, CAST(COUNT(*) AS INT) AS n FROM orders GROUP BY person) WHERE n = 2)",
]  # fmt: skip


@pytest.mark.parametrize("query", WRITES)
def test_a_table_with_a_primary_key_ends_with_the_rows_that_sqlite_computes(query: str) -> None:
    for mode, seed in (("all", 6), ("upsert", 7)):
        run, expected = ran(planned(f"INSERT INTO sink {query}", mode), query, mode, seed, count=50)
        assert upserted_table(run.out, (0,)) == expected, mode
        assert "-U" not in {kind for kind, _ in run.out}


@pytest.mark.parametrize("query", [each for each in WRITES if each.startswith("SELECT person, n")])
def test_rows_without_a_key_are_left_out_and_others_are_deleted_when_they_go(query: str) -> None:
    """A condition leaves an update out, and the check of its columns is behind it."""
    drop = {"table_exec_sink_not__null__enforcer": "DROP"}
    run, expected = ran(planned(f"INSERT INTO strict {query}", **drop), query, "all", 6, count=50)
    there = Counter({row: count for row, count in expected.items() if row[0] is not None})
    assert upserted_table(run.out, (0,)) == there


PAIRS = [
    "SELECT person, CAST(COUNT(*) AS INT), MAX(price) FROM orders GROUP BY person",
    "SELECT id, person, price FROM orders",
    "SELECT o.id, p.age, p.id FROM orders o JOIN people p ON o.id = p.id",
    "SELECT person, n, 0 FROM (SELECT person, CAST(COUNT(*) AS INT) AS n FROM orders GROUP BY person) WHERE n < 3",
    "SELECT CAST(COUNT(*) AS INT), MAX(id), 0 FROM orders HAVING COUNT(*) > 0",
]  # fmt: skip


@pytest.mark.parametrize("query", PAIRS)
def test_an_update_of_the_primary_key_deletes_the_row_that_had_the_former_one(query: str) -> None:
    """The key of the query is part of the primary key, so there is no need to keep rows to know what is left."""
    plan = planned(f"INSERT INTO pairs {query}")
    assert "SinkMaterializer" not in kinds(plan)
    run, expected = ran(plan, query, "all", 13, count=60)
    assert upserted_table(run.out, (0, 1)) == expected
    assert "-U" not in {kind for kind, _ in run.out}
