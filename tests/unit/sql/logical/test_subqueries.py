"""Subqueries become joins that mean the same: against SQLite, over random rows with NULLs."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from typing import Any

import pytest

from penstock.sql.errors import SqlError
from penstock.sql.logical.nodes import LogicalAggregate, LogicalJoin
from tests.unit.sql.logical.interpreter import run
from tests.unit.sql.logical.plans import find, outline, plan


def rows_of(seed: int) -> dict[str, list[tuple[Any, ...]]]:
    """Few values, many NULLs, doubles."""
    dice = random.Random(seed)
    choices = [None, 0, 1, 2, 3]
    return {
        name: [
            (dice.choice(choices), dice.choice(choices)) for _ in range(dice.choice([0, 1, 4, 8]))
        ]
        for name in ("s", "t")
    }


def expected(query: str, tables: dict[str, list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE s (k INT, v INT)")
        connection.execute("CREATE TABLE t (k INT, w INT)")
        for name, rows in tables.items():
            connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)
        return connection.execute(query).fetchall()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM s WHERE k IN (SELECT k FROM t)",
        "SELECT * FROM s WHERE k NOT IN (SELECT k FROM t)",
        "SELECT * FROM s WHERE NOT (k IN (SELECT w FROM t WHERE t.k = 1))",
        "SELECT * FROM s WHERE k NOT IN (SELECT w FROM t WHERE t.k = s.v)",
        "SELECT * FROM s WHERE k IN (SELECT w FROM t WHERE t.k > s.v)",
        "SELECT * FROM s WHERE EXISTS (SELECT * FROM t)",
        "SELECT * FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE w > 2)",
        "SELECT * FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.k = s.k AND t.w < s.v)",
        "SELECT * FROM s WHERE NOT EXISTS (SELECT k FROM t WHERE t.k = s.k ORDER BY w)",
        "SELECT * FROM s WHERE v > 1 AND EXISTS (SELECT 1 FROM t WHERE t.k = s.k) AND k IN (SELECT w FROM t)",
        "SELECT * FROM s WHERE EXISTS (SELECT max(w) FROM t WHERE t.k = s.k GROUP BY t.w HAVING count(*) > 1)",
        "SELECT * FROM s WHERE v IN (SELECT w FROM t WHERE t.k = s.k GROUP BY w HAVING count(*) > 0)",
        "SELECT * FROM s WHERE EXISTS (SELECT 1 FROM t JOIN s AS u ON t.w = u.k WHERE t.k = s.k AND u.v = s.v)",
        "SELECT * FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.k = s.k AND EXISTS (SELECT 1 FROM s AS u WHERE u.k = t.w))",
        "SELECT * FROM s WHERE k = (SELECT max(k) FROM t)",
        "SELECT k, (SELECT max(w) FROM t) AS m FROM s",
        "SELECT k, (SELECT count(*) FROM t) + 1 AS m FROM s",
        "SELECT k, (SELECT count(*) FROM t WHERE t.k = s.k) AS m FROM s",
        "SELECT k, (SELECT count(w) + 1 FROM t WHERE t.k = s.k) AS m FROM s",
        "SELECT k, (SELECT coalesce(sum(w), 7) FROM t WHERE t.k = s.k) AS m FROM s",
        "SELECT k, (SELECT sum(w) FROM t WHERE t.k = s.k AND t.w = s.v) AS m FROM s",
        "SELECT k, (SELECT max(w) FROM t WHERE t.k + 1 = s.k + s.v) AS m FROM s",
        "SELECT k, (SELECT w FROM t WHERE t.k = s.k ORDER BY w DESC LIMIT 1) AS m FROM s",
        "SELECT k, (SELECT w FROM t WHERE t.k = s.k ORDER BY w LIMIT 1 OFFSET 1) AS m FROM s",
        "SELECT k, (SELECT max(w) FROM t WHERE t.k > s.k) AS m FROM s",
        "SELECT k, (SELECT count(*) FROM t WHERE t.k > s.k AND t.w = s.v) AS m FROM s",
        "SELECT k, (SELECT w FROM t WHERE t.k < s.k ORDER BY w LIMIT 1) AS m FROM s",
        "SELECT k, EXISTS (SELECT 1 FROM t WHERE t.k > s.k OR t.w = s.v) AS e FROM s",
        "SELECT k, v IN (SELECT w FROM t WHERE t.k <= s.k) AS e FROM s",
        "SELECT k FROM s WHERE v > (SELECT min(w) FROM t WHERE t.k = s.k) OR v = 0",
        "SELECT k, EXISTS (SELECT 1 FROM t WHERE t.k = s.k) AS e FROM s",
        "SELECT k, EXISTS (SELECT 1 FROM t) AS e FROM s",
        "SELECT k, k IN (SELECT w FROM t) AS e FROM s",
        "SELECT k, k NOT IN (SELECT w FROM t) AS e FROM s",
        "SELECT k, v IN (SELECT w FROM t WHERE t.k = s.k) AS e FROM s",
        "SELECT * FROM s WHERE v = 1 OR k IN (SELECT w FROM t)",
        "SELECT * FROM s WHERE (k, v) IN (SELECT k, w FROM t)",
        "SELECT v, count(*) AS n FROM s GROUP BY v HAVING count(*) > (SELECT count(*) FROM t WHERE t.k = s.v)",
        "SELECT v, (SELECT max(w) FROM t WHERE t.k = s.v) AS m, count(*) AS n FROM s GROUP BY v",
        "SELECT sum((SELECT max(w) FROM t WHERE t.k = s.k)) AS m FROM s",
        "SELECT * FROM (SELECT k FROM s UNION ALL SELECT w FROM t) AS u WHERE EXISTS (SELECT 1 FROM t WHERE t.k = u.k)",
        "SELECT k FROM s INTERSECT SELECT w FROM t",
        "SELECT k FROM s EXCEPT SELECT w FROM t",
        "SELECT s.k, u.n FROM s LEFT JOIN (SELECT k, count(*) AS n FROM t GROUP BY k) AS u ON s.k = u.k",
        "WITH u AS (SELECT k, max(w) AS w FROM t GROUP BY k) SELECT s.v, u.w FROM s JOIN u ON s.k = u.k WHERE u.w IN (SELECT k FROM u)",
        "SELECT s.k AS a, t.k AS b FROM s FULL JOIN t ON s.k = t.k",
        "SELECT k FROM s FULL JOIN t USING (k)",
        "SELECT * FROM s NATURAL JOIN t",
        "SELECT s.k, t.w FROM s JOIN t ON s.k = t.k AND s.v IN (SELECT w FROM t) WHERE s.v > 0",
        "SELECT k, ((SELECT max(w) FROM t) + v) * 2 AS m FROM s",
        "SELECT k FROM s WHERE k IN (SELECT k FROM t UNION SELECT w FROM t)",
        "SELECT DISTINCT v FROM s ORDER BY v DESC LIMIT 2",
        "SELECT v FROM s ORDER BY k, v LIMIT 3 OFFSET 1",
        "SELECT v, 0 - k AS k FROM s ORDER BY k, v LIMIT 3",
    ],
)
def test_a_subquery_means_what_it_means_elsewhere(query: str) -> None:
    node = plan(query)
    assert "Outer" not in repr(node)
    for seed in range(25):
        tables = rows_of(seed)
        assert Counter(run(node, tables)) == Counter(expected(query, tables)), (seed, tables)


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("SELECT k FROM s WHERE k > ALL (SELECT w FROM t)", "NOT EXISTS (SELECT 1 FROM t WHERE (s.k > w) IS NOT TRUE)"),
        ("SELECT k FROM s WHERE k > ANY (SELECT w FROM t)", "EXISTS (SELECT 1 FROM t WHERE s.k > w)"),
        ("SELECT k FROM s WHERE k <> ALL (SELECT w FROM t)", "k NOT IN (SELECT w FROM t)"),
        ("SELECT k FROM s WHERE k = SOME (SELECT w FROM t)", "k IN (SELECT w FROM t)"),
    ],
)  # fmt: skip
def test_any_and_all_compare_with_every_row(query: str, same: str) -> None:
    node = plan(query)
    for seed in range(25):
        tables = rows_of(seed)
        wanted = expected(f"SELECT k FROM s WHERE {same}", tables)
        assert Counter(run(node, tables)) == Counter(wanted), (seed, tables)


def test_lateral_queries_see_the_row_to_their_left() -> None:
    node = plan(
        "SELECT s.k, u.w FROM s, LATERAL (SELECT w FROM t WHERE t.k = s.k ORDER BY w DESC LIMIT 2) AS u"
    )
    for seed in range(25):
        tables = rows_of(seed)
        wanted = [
            (k, w)
            for k, _ in tables["s"]
            for w in sorted(
                (w for key, w in tables["t"] if key == k and k is not None),
                key=lambda w: -1 if w is None else w,
                reverse=True,
            )[:2]
        ]
        assert Counter(run(node, tables)) == Counter(wanted)


def test_exists_and_in_of_where_are_semi_and_anti_joins() -> None:
    assert outline(plan("SELECT * FROM s WHERE k IN (SELECT k FROM t)")) == "SEMI(s, Project(t))"
    assert (
        outline(plan("SELECT * FROM s WHERE NOT EXISTS (SELECT * FROM t WHERE t.k = s.k)"))
        == "ANTI(s, t)"
    )


def test_a_subquery_that_may_give_more_rows_is_guarded() -> None:
    node = plan("SELECT (SELECT w FROM t) AS m FROM s")
    assert [call.function for call in find(node, LogicalAggregate).aggregates] == ["SINGLE_VALUE"]
    node = plan("SELECT (SELECT w FROM t WHERE t.k = s.k) AS m FROM s")
    guard = find(node, LogicalAggregate)
    assert [call.function for call in guard.aggregates] == ["SINGLE_VALUE"]
    assert len(guard.keys) == 1
    assert find(plan("SELECT (SELECT w FROM t LIMIT 1) AS m FROM s"), LogicalAggregate) is None
    two = find(plan("SELECT (SELECT w FROM t LIMIT 2) AS m FROM s"), LogicalAggregate)
    assert [call.function for call in two.aggregates] == ["SINGLE_VALUE"]
    first = "SELECT (SELECT w FROM t WHERE t.k = s.k ORDER BY w LIMIT 1) AS m FROM s"
    assert find(plan(first), LogicalAggregate) is None
    for groups in (
        "SELECT w FROM t GROUP BY w",
        "SELECT MAX(w) FROM t GROUP BY k HAVING MAX(w) > 1",
        "SELECT MAX(w) FROM t GROUP BY ROLLUP (k)",
        "SELECT MAX(w) FROM t WHERE t.k = s.k GROUP BY w",
    ):
        guard = find(plan(f"SELECT ({groups}) AS m FROM s"), LogicalAggregate)
        assert [call.function for call in guard.aggregates] == ["SINGLE_VALUE"], groups


def test_not_in_of_columns_without_null_is_an_equality() -> None:
    node = find(plan("SELECT * FROM auction WHERE id NOT IN (SELECT id FROM auction)"), LogicalJoin)
    assert node.kind == "ANTI"
    assert str(node.condition) == "=($0, $5)"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT (SELECT k, w FROM t) FROM s", "a scalar subquery must return one column, got 2"),
        ("SELECT * FROM s WHERE k IN (SELECT k, w FROM t)", "the subquery returns 2 columns, but is compared with 1"),
        ("SELECT * FROM s WHERE EXISTS (SELECT nothing FROM t)", "column 'nothing' not found"),
        ("SELECT * FROM s LEFT JOIN t ON s.k IN (SELECT k FROM t)", "a subquery is not allowed here"),
        ("SELECT (SELECT s.k + max(w) FROM t) FROM s", "SELECT of the subquery uses columns"),
        (
            "SELECT * FROM s WHERE EXISTS (SELECT 1 FROM t LEFT JOIN (t AS a JOIN t AS b ON a.k = b.k AND b.w > s.v) ON t.k = a.k WHERE a.k IS NULL)",
            "the right side of a LEFT JOIN depends on the outer query",
        ),
    ],
)  # fmt: skip
def test_unsupported_correlated_subquery_is_rejected_with_the_reason(
    query: str, message: str
) -> None:
    with pytest.raises(SqlError) as caught:
        plan(query)
    assert message in caught.value.message
    assert caught.value.position is not None
