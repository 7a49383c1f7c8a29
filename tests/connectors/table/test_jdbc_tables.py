"""Tables of a real PostgreSQL: SQL writes, SQL reads, SQL looks up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
import pytest

from penstock.common import RowKind
from penstock.errors import ConfigurationError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster

ADDS = (RowKind.INSERT, RowKind.UPDATE_AFTER)


@pytest.fixture
def tables() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def final(tables: TableEnvironment, query: str) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    with tables.execute_sql(query).collect() as rows:
        for row in rows:
            found[tuple(row)] += 1 if row.get_row_kind() in ADDS else -1
    return +found


@pytest.mark.ci
def test_inserts_are_written_and_read(tables: TableEnvironment, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id BIGINT, price NUMERIC(10, 2), name TEXT)")
        given = f"'connector' = 'jdbc', 'url' = '{database}', 'table-name' = 'orders'"
        tables.execute_sql(
            f"CREATE TABLE orders (id BIGINT, price DECIMAL(10, 2), name STRING) WITH ({given})"
        )
        with MiniCluster():
            tables.execute_sql("INSERT INTO orders VALUES (1, 1.5, 'a'), (2, 2.25, NULL)").wait()
            assert connection.execute("SELECT COUNT(*) FROM orders").fetchone() == (2,)
            rows = final(tables, "SELECT name, id + 1, CAST(price AS STRING) FROM orders")
    assert rows == {("a", 2, "1.50"): 1, (None, 3, "2.25"): 1}


@pytest.mark.ci
def test_a_changing_table_is_upserts_and_deletes(tables: TableEnvironment, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE counts (word TEXT PRIMARY KEY, n BIGINT)")
        connection.execute("INSERT INTO counts VALUES ('a', 70), ('z', 9)")
        given = f"'connector' = 'jdbc', 'url' = '{database}', 'table-name' = 'counts'"
        tables.execute_sql(
            f"CREATE TABLE counts (word STRING, n BIGINT, PRIMARY KEY (word) NOT ENFORCED) WITH ({given})"
        )
        with MiniCluster():
            tables.execute_sql(
                "INSERT INTO counts SELECT word, COUNT(*) FROM (VALUES ('a'), ('b'), ('a')) AS t (word) GROUP BY word"
            ).wait()
        assert sorted(connection.execute("SELECT * FROM counts")) == [("a", 2), ("b", 1), ("z", 9)]


@pytest.mark.ci
@pytest.mark.parametrize(
    "cache", ["", ", 'lookup.cache' = 'partial', 'lookup.partial-cache.max-rows' = '10'"]
)
def test_rows_are_looked_up(tables: TableEnvironment, database: str, cache: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE names (k INT, name TEXT)")
        connection.execute("INSERT INTO names VALUES (1, 'one'), (2, 'two'), (2, 'deux')")
    given = f"'connector' = 'jdbc', 'url' = '{database}', 'table-name' = 'names'{cache}"
    tables.execute_sql(f"CREATE TABLE names (k INT, name STRING) WITH ({given})")
    tables.execute_sql(
        "CREATE TABLE numbers (k INT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'fields.k.kind' = 'sequence', "
        "'fields.k.start' = '1', 'fields.k.end' = '3')"
    )
    with MiniCluster():
        rows = final(
            tables,
            "SELECT n.k, d.name FROM numbers AS n LEFT JOIN names FOR SYSTEM_TIME AS OF n.p AS d ON n.k = d.k",
        )
    assert rows == {(1, "one"): 1, (2, "two"): 1, (2, "deux"): 1, (3, None): 1}


def test_half_a_partitioning_is_refused(tables: TableEnvironment) -> None:
    tables.execute_sql(
        "CREATE TABLE t (a INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://h/d', 'table-name' = 't', "
        "'scan.partition.column' = 'a')"
    )
    with pytest.raises(ConfigurationError, match=r"scan\.partition\.num"):
        tables.execute_sql("SELECT * FROM t")
