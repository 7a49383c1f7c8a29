"""Whole queries: the final table is what SQLite says it is."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter

import pytest

from penstock.common import RowKind
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster

PEOPLE = [(n, random.Random(n).choice(["ann", "bob", "cid", None]), n % 4) for n in range(1, 13)]
ORDERS = [
    (n, random.Random(n).randrange(1, 16), random.Random(-n).choice([5, 7, 7, 20, None]))
    for n in range(1, 31)
]
QUERIES = [
    "SELECT id, price * 2 + 1 FROM orders WHERE price > 5 OR id < 3",
    "SELECT CASE WHEN price IS NULL THEN 'none' WHEN price > 6 THEN 'dear' ELSE 'cheap' END FROM orders",
    "SELECT DISTINCT price FROM orders",
    "SELECT person, COUNT(*), SUM(price), MIN(price), MAX(price), COUNT(price) FROM orders GROUP BY person",
    "SELECT COUNT(*), SUM(price) FROM orders",
    "SELECT person, COUNT(DISTINCT price), SUM(DISTINCT price) FROM orders GROUP BY person",
    "SELECT person, COUNT(*) FILTER (WHERE price > 6) FROM orders GROUP BY person",
    "SELECT person, SUM(price) AS s FROM orders GROUP BY person HAVING SUM(price) > 20",
    "SELECT n, COUNT(*) FROM (SELECT person, COUNT(*) AS n FROM orders GROUP BY person) AS t GROUP BY n",
    "SELECT MAX(n) FROM (SELECT person, COUNT(*) AS n FROM orders GROUP BY person) AS t",
    "SELECT o.id, p.name FROM orders o JOIN people p ON o.person = p.id",
    "SELECT o.id, p.name FROM orders o JOIN people p ON o.person = p.id AND o.price > p.age * 3",
    "SELECT o.id, p.name FROM orders o LEFT JOIN people p ON o.person = p.id WHERE o.price = 7",
    "SELECT o.id, p.name FROM orders o LEFT JOIN people p ON o.person = p.id WHERE p.name IS NULL",
    "SELECT o.id, p.id FROM orders o FULL JOIN people p ON o.person = p.id AND p.age = 2",
    "SELECT p.name, SUM(o.price) FROM orders o RIGHT JOIN people p ON o.person = p.id GROUP BY p.name",
    "SELECT p.id, o.id FROM people p LEFT JOIN orders o ON p.id = o.person AND p.id IS NULL",
    "SELECT p.id, o.id FROM people p FULL JOIN orders o ON p.id = o.person AND 1 = 2",
    "SELECT a.id, b.id FROM people a, people b WHERE a.age = b.age AND a.id < b.id",
    "SELECT a.id, b.id FROM people a CROSS JOIN people b WHERE a.id + b.id = 9",
    "SELECT t.s, p.name FROM (SELECT person, SUM(price) AS s FROM orders GROUP BY person) t JOIN people p ON t.person = p.id",
    "SELECT name FROM people WHERE id IN (SELECT person FROM orders WHERE price = 20)",
    "SELECT name FROM people WHERE id NOT IN (SELECT person FROM orders WHERE price = 20)",
    "SELECT id FROM orders WHERE price NOT IN (SELECT price FROM orders WHERE id < 9)",
    "SELECT name FROM people p WHERE EXISTS (SELECT 1 FROM orders o WHERE o.person = p.id AND o.price > 6)",
    "SELECT name FROM people p WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.person = p.id)",
    "SELECT id FROM orders WHERE price > (SELECT AVG(price) FROM orders)",
    "SELECT person FROM orders UNION SELECT id FROM people",
    "SELECT person FROM orders UNION ALL SELECT id FROM people",
    "SELECT person FROM orders INTERSECT SELECT id FROM people",
    "SELECT person FROM orders EXCEPT SELECT id FROM people",
    "SELECT price FROM orders EXCEPT SELECT price FROM orders WHERE id > 20",
    "SELECT id, price FROM orders ORDER BY price DESC, id LIMIT 5",
    "SELECT id FROM orders ORDER BY id LIMIT 4 OFFSET 3",
    "SELECT person, s FROM (SELECT person, SUM(price) AS s FROM orders GROUP BY person) AS t WHERE s IS NOT NULL ORDER BY s DESC, person LIMIT 3",
    "SELECT id, person, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY price DESC, id) AS rn FROM orders) AS t WHERE rn <= 2",
    "SELECT id, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY id) AS rn FROM orders) AS t WHERE rn BETWEEN 2 AND 3",
    "SELECT person, n FROM (SELECT person, n, ROW_NUMBER() OVER (ORDER BY n DESC, person) AS rn FROM (SELECT person, COUNT(*) AS n FROM orders GROUP BY person) AS u) AS t WHERE rn <= 3",
    "WITH big AS (SELECT * FROM orders WHERE price > 6) SELECT a.id, b.id FROM big a JOIN big b ON a.person = b.person AND a.id < b.id",
    "SELECT p.age, COUNT(DISTINCT o.price), MAX(o.price) FROM people p LEFT JOIN orders o ON o.person = p.id GROUP BY p.age",
]  # fmt: skip
FLINK_ONLY = [
    (
        "SELECT price FROM (VALUES (1),(1),(1),(2)) AS t(price) EXCEPT ALL SELECT p FROM (VALUES (1),(3)) AS u(p)",
        [(1,), (1,), (2,)],
    ),
    (
        "SELECT price FROM (VALUES (1),(1),(1),(2)) AS t(price) INTERSECT ALL SELECT p FROM (VALUES (1),(1),(3)) AS u(p)",
        [(1,), (1,)],
    ),
    (
        "SELECT a, b, COUNT(*), GROUPING(a) FROM (VALUES (1,2),(1,3)) AS t(a, b) GROUP BY ROLLUP(a, b)",
        [(1, 2, 1, 0), (1, 3, 1, 0), (1, None, 2, 0), (None, None, 2, 1)],
    ),
    (
        "SELECT a, x FROM (VALUES (1, ARRAY[1, 2]), (2, ARRAY[3])) AS t(a, xs) CROSS JOIN UNNEST(xs) AS u(x)",
        [(1, 1), (1, 2), (2, 3)],
    ),
]


def rows_text(rows, kinds):
    shown = ", ".join(
        "(" + ", ".join(_literal(v, k) for v, k in zip(r, kinds, strict=True)) + ")" for r in rows
    )
    return f"VALUES {shown}"


def _literal(value, kind):
    if value is None:
        return f"CAST(NULL AS {kind})"
    return f"'{value}'" if isinstance(value, str) else str(value)


TABLES = {
    "people": (PEOPLE, "id, name, age", ("INT", "VARCHAR(9)", "INT")),
    "orders": (ORDERS, "id, person, price", ("INT", "INT", "INT")),
}


@pytest.fixture(scope="module")
def sqlite():
    connection = sqlite3.connect(":memory:")
    for name, (rows, columns, _) in TABLES.items():
        connection.execute(f"CREATE TABLE {name} ({columns})")
        marks = ", ".join("?" for _ in rows[0])
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    return connection


def environment(settings):
    tables = TableEnvironment.create(settings)
    tables.get_config().set("parallelism.default", "2")
    for name, (rows, columns, kinds) in TABLES.items():
        text = rows_text(rows, kinds)
        tables.execute_sql(
            f"CREATE TEMPORARY VIEW {name} AS SELECT * FROM ({text}) AS t({columns})"
        )
    return tables


@pytest.fixture(scope="module")
def streaming():
    return environment(EnvironmentSettings.in_streaming_mode())


@pytest.fixture(scope="module")
def batch():
    return environment(EnvironmentSettings.in_batch_mode())


def table_of(result):
    """The final table of a changelog; nothing is taken away that was not there."""
    found: Counter[tuple] = Counter()
    with result.collect() as rows:
        for row in rows:
            adds = row.get_row_kind() in {RowKind.INSERT, RowKind.UPDATE_AFTER}
            found[tuple(row)] += 1 if adds else -1
    return Counter({row: count for row, count in found.items() if count})


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with MiniCluster():
        yield


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_the_table_that_sqlite_gives(query, streaming, sqlite):
    assert table_of(streaming.execute_sql(query)) == Counter(sqlite.execute(query).fetchall())


@pytest.mark.parametrize("query", QUERIES[::6])
def test_a_query_in_batch_mode_gives_the_final_table_at_once(query, batch, sqlite):
    with batch.execute_sql(query).collect() as rows:
        found = list(rows)
    assert {row.get_row_kind() for row in found} <= {RowKind.INSERT}
    assert Counter(map(tuple, found)) == Counter(sqlite.execute(query).fetchall())


@pytest.mark.parametrize(("query", "expected"), FLINK_ONLY)
def test_a_query_that_sqlite_does_not_know(query, expected, streaming):
    assert table_of(streaming.execute_sql(query)) == Counter(expected)


def test_an_aggregate_of_nothing_is_a_row_in_batch_mode(batch):
    query = "SELECT COUNT(*), SUM(price), SUM(id) FROM orders WHERE id > 1000"
    assert table_of(batch.execute_sql(query)) == Counter([(0, None, None)])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT person, COUNT(DISTINCT price), SUM(price), COUNT(*) FROM orders GROUP BY person",
        "SELECT COUNT(DISTINCT price), COUNT(DISTINCT person), SUM(id) FROM orders",
        "SELECT person % 2, COUNT(DISTINCT price) FILTER (WHERE id > 5), COUNT(DISTINCT id), SUM(price) FROM orders GROUP BY person % 2",
    ],
)
def test_distinct_values_are_counted_in_two_levels(query, streaming, sqlite):
    streaming.get_config().set("table.optimizer.distinct-agg.split.enabled", "true")
    try:
        assert "$bucket" in streaming.explain_sql(query)
        with_most = query.replace(" FROM", ", MAX(id) FROM")
        assert "$bucket" not in streaming.explain_sql(with_most)
        assert table_of(streaming.execute_sql(query)) == Counter(sqlite.execute(query).fetchall())
    finally:
        streaming.get_config().set("table.optimizer.distinct-agg.split.enabled", "false")
