"""Enriching a stream from a database: batches of keys, the cache, connections that break."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid

import pytest

from penstock.common import Time
from penstock.connectors.base.lookup_cache import LookupCache
from penstock.connectors.jdbc.lookup import LookupClient
from penstock.datastream import AsyncDataStream
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcLookup
from penstock.errors import ArgumentError, ArgumentTypeError, PenstockError
from penstock.testing import MiniCluster
from tests.builders.modes import MODES
from tests.builders.scripted import collect
from tests.connectors.jdbc.tables import environment, numbers, options, run


@pytest.fixture
def customers(database):
    run(database, "CREATE TABLE customers (id bigint PRIMARY KEY, name text, region int)")
    run(database, "INSERT INTO customers SELECT n, 'c' || n, n % 3 FROM generate_series(0, 49) n")
    return database


def finds(url, keys, query="customers", columns=("id",), **settings):
    """Ask for keys, each in a call of its own, all at once; return names of the rows, and how many statements that took."""
    asked = []

    async def main():
        client = LookupClient(
            options(url), query, columns, 2, 3, lambda: asked.append(1), **settings
        )
        found = await asyncio.gather(*(client.find([key]) for key in keys))
        await client.close()
        return {key: rows for each in found for key, rows in each.items()}

    return asyncio.run(main()), len(asked)


def customer_of(n):
    return n % 60


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_a_stream_is_enriched_and_a_key_without_a_row_has_none(mode, customers):
    with MiniCluster():
        env = environment(mode)
        lookup = JdbcLookup("customers", ["id"], customer_of, options(customers), max_batch_size=50)
        pairs = AsyncDataStream.unordered_wait(
            numbers(env, 1200), lookup, Time.seconds(120), capacity=200
        )
        found = collect(pairs)
    assert sorted(n for n, _ in found) == list(range(1200))
    for n, row in found:
        assert (None if row is None else row.name) == (f"c{n % 60}" if n % 60 < 50 else None)


def test_keys_that_wait_together_are_one_statement_and_the_cache_knows_them_afterwards(customers):
    async def main():
        lookup = JdbcLookup(
            "SELECT id, name FROM customers", ["id"], lambda n: n, options(customers)
        )
        metrics = Metrics()
        await lookup.open(metrics)
        first = await lookup.async_invoke_batch(list(range(40, 60)))
        assert metrics.counts == {
            "numLookupQueries": 1,
            "numLookupRetries": 0,
            "hitCount": 0,
            "missCount": 20,
        }
        assert await lookup.async_invoke_batch(list(range(40, 60))) == first
        assert (metrics.counts["numLookupQueries"], metrics.counts["hitCount"]) == (1, 20)
        await lookup.close()
        return first

    results = asyncio.run(main())
    assert [pair[1].name for (pair,) in results[:10]] == [f"c{n}" for n in range(40, 50)]
    assert [pair[1] for (pair,) in results[10:]] == [None] * 10


class Metrics:
    """A metric group and its context in one."""

    def __init__(self):
        self.counts = {}

    def get_metrics_group(self):
        return self

    def add_group(self, name, extra=None):
        return self

    def gauge(self, name, obj):
        pass

    def counter(self, name):
        self.counts[name] = 0
        return Count(self.counts, name)


class Count:
    def __init__(self, counts, name):
        self.counts, self.name = counts, name

    def inc(self, n=1):
        self.counts[self.name] += n


def test_a_key_that_is_being_asked_for_is_not_asked_for_again(customers):
    found, asked = finds(customers, [7] * 20)
    assert [row.name for row in found[7]] == ["c7"]
    assert asked == 1


def test_several_rows_of_a_key_are_all_found(customers):
    found, _ = finds(customers, [1], columns=("region",))
    assert sorted(row.id for row in found[1]) == list(range(1, 50, 3))


def test_keys_of_several_columns(customers):
    found, _ = finds(customers, [(4, 1), (4, 2)], columns=("id", "region"))
    assert [[row.name for row in found[key]] for key in ((4, 1), (4, 2))] == [["c4"], []]


def test_text_finds_uuids(database):
    one = uuid.uuid4()
    run(database, "CREATE TABLE things (id uuid PRIMARY KEY, name text)")
    run(database, "INSERT INTO things VALUES (%s, 'one')", one)
    found, _ = finds(database, [str(one), str(uuid.uuid4())], "things")
    assert [row.name for row in found[str(one)]] == ["one"]


@pytest.mark.ci
def test_a_connection_that_was_cut_is_made_again(customers):
    retried = []

    async def main():
        client = LookupClient(
            options(customers), "customers", ["id"], 1, 3, on_retry=lambda: retried.append(1)
        )
        await client.find([1])
        run(
            customers,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'penstock'",
        )
        found = await client.find([2])
        await client.close()
        return found

    assert [row.name for row in asyncio.run(main())[2]] == ["c2"]
    assert retried


def test_missing_table_is_named_in_the_error(customers):
    with pytest.raises(PenstockError, match='relation "nobody" does not exist'):
        finds(customers, [1, 1], "nobody")


@pytest.mark.ci
def test_no_more_connections_are_made_than_allowed(customers):
    run(
        customers,
        "CREATE VIEW connected AS SELECT id, (SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'penstock') AS n FROM customers",
    )
    found, asked = finds(customers, list(range(30)), "connected")
    assert (len(found), asked) == (30, 30)
    assert {row.n for rows in found.values() for row in rows} <= {1, 2}


def test_other_databases_are_asked_in_threads(tmp_path):
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customers (id integer, name text)")
        connection.executemany(
            "INSERT INTO customers VALUES (?, ?)", [(1, "a"), (1, "b"), (2, "c")]
        )
    found, _ = finds(f"sqlite:///{path}", [1, 3])
    assert sorted(row.name for row in found[1]) == ["a", "b"]
    assert found[3] == []


@pytest.mark.parametrize(
    ("arguments", "settings", "error"),
    [
        (("select * from t where id = ?", ["id"], len), {}, ArgumentError),
        (("", ["id"], len), {}, ArgumentError),
        (("t", "id", len), {}, ArgumentTypeError),
        (("t", [], len), {}, ArgumentTypeError),
        (("t", ["id"], 3), {}, ArgumentTypeError),
        (("t", ["id"], len), {"join": 3}, ArgumentTypeError),
        (("t", ["id"], len), {"cache": {}}, ArgumentTypeError),
        (("t", ["id"], len), {"connections": 0}, ArgumentError),
        (("t", ["id"], len), {"max_batch_size": "x"}, ArgumentTypeError),
    ],
)
def test_arguments_are_checked_when_they_are_given(arguments, settings, error):
    with pytest.raises(error):
        JdbcLookup(*arguments, JdbcConnectionOptions("jdbc:postgresql://db/x"), **settings)


def test_a_lookup_may_have_a_cache_of_its_own_and_its_own_way_to_join(customers):
    async def main():
        cache = LookupCache(max_rows=0)
        lookup = JdbcLookup(
            "customers",
            ["id"],
            lambda n: n,
            options(customers),
            cache=cache,
            join=lambda n, rows: [row.name for row in rows],
        )
        await lookup.open(Metrics())
        found = await lookup.async_invoke_batch([1, None, 99])
        await lookup.close()
        return found, len(cache)

    assert asyncio.run(main()) == ([["c1"], [], []], 0)
