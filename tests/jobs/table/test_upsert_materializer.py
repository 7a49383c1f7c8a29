"""Sinks whose primary key is not the key of the query get the latest row of each primary key, independent of their changelog mode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from penstock.common import Row, RowKind
from penstock.datastream import StreamExecutionEnvironment
from penstock.sql.errors import ValidationError
from penstock.table import ChangelogMode, DataTypes, Schema, StreamTableEnvironment
from penstock.testing import MiniCluster

INSERT, BEFORE, AFTER, DELETE = "+I", "-U", "+U", "-D"
#: Two orders of one customer. The second one goes, and the first one is the customer's latest again.
CHANGES = [(INSERT, 1, "ann", 10), (INSERT, 2, "ann", 20), (DELETE, 2, "ann", 20)]
#: The customer's first order moves to another customer.
MOVED = [(INSERT, 1, "ann", 10), (BEFORE, 1, "ann", 10), (AFTER, 1, "bob", 10)]
KINDS = {
    INSERT: RowKind.INSERT,
    BEFORE: RowKind.UPDATE_BEFORE,
    AFTER: RowKind.UPDATE_AFTER,
    DELETE: RowKind.DELETE,
}
BY_CUSTOMER = (
    Schema.new_builder()
    .column("customer", DataTypes.STRING().not_null())
    .column("price", DataTypes.BIGINT())
    .primary_key("customer")
    .build()
)


@pytest.fixture(scope="module", autouse=True)
def in_this_process() -> Iterator[None]:
    with MiniCluster():
        yield


def with_orders(changes: Iterable[tuple[Any, ...]], strategy: str) -> StreamTableEnvironment:
    """Return an environment with the table `orders` of these changes, known by their id."""
    streams = StreamExecutionEnvironment.get_execution_environment()
    streams.set_parallelism(1)
    env = StreamTableEnvironment.create(streams)
    env.get_config().set("table.exec.sink.upsert-materialize", strategy)
    records = []
    for kind, *values in changes:
        row = Row(*values)
        row.set_row_kind(KINDS[kind])
        records.append(row)
    schema = (
        Schema.new_builder()
        .column("id", DataTypes.BIGINT().not_null())
        .column("customer", DataTypes.STRING())
        .column("price", DataTypes.BIGINT())
        .primary_key("id")
        .build()
    )
    stream = streams.from_collection(records)
    env.create_temporary_view("orders", env.from_changelog_stream(stream, schema))
    return env


def table_of(changes: Iterable[tuple[str, str, int]]) -> dict[str, int]:
    """Return what a reader has who knows rows by the customer."""
    found: dict[str, int] = {}
    for kind, customer, price in changes:
        if kind in (INSERT, AFTER):
            found[customer] = price
        else:
            found.pop(customer, None)
    return found


def printed(env: StreamTableEnvironment, shown: pytest.CaptureFixture[str]) -> dict[str, int]:
    env.execute_sql(
        "CREATE TABLE latest (customer STRING, price BIGINT, PRIMARY KEY (customer) NOT ENFORCED) WITH ('connector' = 'print')"
    )
    shown.readouterr()
    env.execute_sql("INSERT INTO latest SELECT customer, price FROM orders").wait()
    lines = re.findall(r"([+-][IUD])\[(\w+), (\d+)\]", shown.readouterr().out)
    return table_of((kind, customer, int(price)) for kind, customer, price in lines)


def streamed(env: StreamTableEnvironment, mode: ChangelogMode) -> dict[str, int]:
    table = env.sql_query("SELECT customer, price FROM orders")
    stream = env.to_changelog_stream(table, BY_CUSTOMER, mode)
    with stream.execute_and_collect() as rows:
        return table_of((str(row.get_row_kind()), *row) for row in rows)


@pytest.mark.parametrize(
    ("strategy", "changes", "latest"),
    [
        ("AUTO", CHANGES, {"ann": 10}),
        ("FORCE", CHANGES, {"ann": 10}),
        ("NONE", CHANGES, {}),
        ("AUTO", MOVED, {"bob": 10}),
    ],
)
def test_print_has_the_latest_row_of_each_primary_key(
    strategy: str,
    changes: list[tuple[Any, ...]],
    latest: dict[str, int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert printed(with_orders(changes, strategy), capsys) == latest


@pytest.mark.parametrize("mode", [ChangelogMode.all(), ChangelogMode.upsert()], ids=str)
def test_a_stream_of_changes_has_the_latest_row_of_each_primary_key(mode: ChangelogMode) -> None:
    assert streamed(with_orders(CHANGES, "AUTO"), mode) == {"ann": 10}
    assert streamed(with_orders(MOVED, "AUTO"), mode) == {"bob": 10}


def test_without_the_materializer_changes_are_passed_on_as_they_are() -> None:
    assert streamed(with_orders(CHANGES, "NONE"), ChangelogMode.all()) == {}


@pytest.mark.parametrize(
    ("strategy", "query", "materialized"),
    [
        ("AUTO", "SELECT customer, price FROM orders", True),
        ("AUTO", "SELECT customer, SUM(price) FROM orders GROUP BY customer", False),
        ("FORCE", "SELECT customer, SUM(price) FROM orders GROUP BY customer", True),
        ("AUTO", "SELECT 'ann', CAST(1 AS BIGINT)", False),
        ("FORCE", "SELECT 'ann', CAST(1 AS BIGINT)", True),
        ("NONE", "SELECT customer, price FROM orders", False),
    ],
)
def test_the_plan_has_the_materializer_where_the_keys_differ(
    strategy: str, query: str, materialized: bool
) -> None:
    env = with_orders(CHANGES, strategy)
    env.execute_sql(
        "CREATE TABLE latest (customer STRING, price BIGINT, PRIMARY KEY (customer) NOT ENFORCED) WITH ('connector' = 'print')"
    )
    env.execute_sql("CREATE TABLE log (customer STRING, price BIGINT) WITH ('connector' = 'print')")
    assert ("SinkMaterializer" in env.explain_sql(f"INSERT INTO latest {query}")) == materialized
    assert "SinkMaterializer" not in env.explain_sql(f"INSERT INTO log {query}")


def test_a_primary_key_of_unknown_columns_is_refused() -> None:
    env = with_orders(CHANGES, "AUTO")
    schema = Schema.new_builder().primary_key("custmer").build()
    with pytest.raises(ValidationError, match="custmer"):
        env.to_changelog_stream(env.from_path("orders"), schema)
