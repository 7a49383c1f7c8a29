"""Connectors with real servers on Spark, where their readers, writers and committers live in different processes.

What each connector promises is tried one by one in tests/connectors, without Spark; Kafka on Spark is in tests/faults.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from penstock.common import Configuration, Row, RowKind, Types, WatermarkStrategy
from penstock.connectors.delta.sink import DeltaSink
from penstock.connectors.delta.source import DeltaSource
from penstock.connectors.iceberg.sink import IcebergSink
from penstock.connectors.iceberg.source import IcebergSource
from penstock.connectors.postgres_cdc import PostgresCdcSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcSink,
    JdbcSource,
)
from penstock.datastream.connectors.redis import RedisSink
from tests.builders.modes import MODES, runs_in
from tests.builders.waiting import wait_until
from tests.connectors.conftest import serving
from tools.servers.postgres import PostgresServer
from tools.servers.redis import RedisServer

ITEM = Types.ROW_NAMED(["id", "v"], [Types.LONG(), Types.STRING()])
ROWS = 500


@pytest.fixture(scope="module")
def postgres():
    with serving(PostgresServer) as server:
        yield server


@pytest.fixture
def database(postgres):
    return postgres.new_database()


@pytest.fixture
def sql(database):
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection.execute


@pytest.fixture
def redis_url():
    with serving(RedisServer) as server:
        yield server.url(0)


@pytest.fixture(params=MODES)
def env(request):
    options = {**runs_in(request.param), "execution.checkpointing.interval": "200 ms"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(2)
    return env


def connection_to(database):
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    return builder.with_url(database).build()


def make_items(sql):
    sql("CREATE TABLE items (id bigint PRIMARY KEY, v text)")
    sql("ALTER TABLE items REPLICA IDENTITY FULL")
    sql(f"INSERT INTO items SELECT i, 'v' || i FROM generate_series(1, {ROWS}) i")


def is_new(row):
    return row.get_row_kind() in {RowKind.INSERT, RowKind.UPDATE_AFTER}


def test_changes_of_a_table_reach_another_one_exactly_once(env, sql, database):
    make_items(sql)
    sql("CREATE TABLE copied (id bigint, v text)")
    place = urlsplit(database)
    source = (
        PostgresCdcSource.builder()
        .hostname(place.hostname)
        .port(place.port)
        .database(place.path.strip("/"))
        .table_list("public.items")
        .username(place.username)
        .password(place.password)
        .slot_name(f"copy_{place.path.strip('/')}")
        .split_size(100)
        .build()
    )
    changes = env.from_source(source, WatermarkStrategy.no_watermarks(), "items")
    copies = changes.filter(is_new).map(lambda row: Row(row["id"], row["v"]), ITEM)
    copies.sink_to(
        JdbcSink.exactly_once_sink(
            "INSERT INTO copied (id, v) VALUES (?, ?)",
            ITEM,
            connection_to(database),
            jdbc_exactly_once_options=JdbcExactlyOnceOptions(transaction_prefix="copies"),
        )
    )
    client = env.execute_async("copy")

    def copied():
        return sorted(sql("SELECT id, v FROM copied").fetchall())

    there = [(number, f"v{number}") for number in range(1, ROWS + 1)]
    wait_until(lambda: len(copied()) >= ROWS)
    sql("UPDATE items SET v = 'new' WHERE id <= 10")
    sql("DELETE FROM items WHERE id = 11")
    changed = [(number, "new") for number in range(1, 11)]
    wait_until(lambda: len(copied()) >= ROWS + 10)
    client.cancel().result(60)
    assert copied() == sorted(there + changed)


def test_rows_go_from_a_database_through_two_lakes_to_redis(
    env, sql, database, redis_url, tmp_path
):
    make_items(sql)
    lake = str(tmp_path / "delta")
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/c.db",
        "warehouse": f"file://{tmp_path}",
    }
    table = (
        JdbcSource.builder()
        .set_connection_options(connection_to(database))
        .set_table("items")
        .set_partition_column("id", partitions=4)
        .build()
    )
    count = RedisSink(
        redis_url,
        lambda row: ("HINCRBY", "seen", f"{row['id']} {row['v']}", 1),
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
    )

    def copy(source, sink):
        env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").sink_to(sink)
        env.execute("copy")

    copy(table, DeltaSink(lake, ITEM))
    copy(DeltaSource(lake), IcebergSink(catalog, "shop.items", ITEM))
    copy(IcebergSource(catalog, "shop.items"), count)
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        assert client.hgetall("seen") == {f"{n} v{n}": "1" for n in range(1, ROWS + 1)}
