"""Reading tables of PostgreSQL and SQLite, split, in both modes, each row once."""

from __future__ import annotations

import datetime as dt
import sqlite3
import uuid
from decimal import Decimal

import psycopg
import pytest

from penstock.common import Row, Types, WatermarkStrategy
from penstock.connectors.base.source import ReadLimits
from penstock.datastream import OutputTag
from penstock.datastream.connectors.jdbc import JdbcSource
from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster, SourceConformance, SourceSetup
from penstock.testing.conformance import source_rules
from tests.builders.environments import restarts
from tests.builders.modes import MODES, SOAKS
from tests.builders.scripted import collect
from tests.connectors.jdbc.tables import environment, options, run


def build(url, table="t", column="id", *bounds, partitions=None, key=()):
    builder = JdbcSource.builder().set_connection_options(options(url)).set_table(table)
    if column is not None:
        builder.set_partition_column(column, *bounds, partitions=partitions)
    return builder.set_key_columns(*key).build()


def splits_of(source, parallelism=2):
    enumerator = source.create_enumerator(parallelism)
    found = []
    while not enumerator.no_more_splits():
        enumerator.observe([])
        found += enumerator.discover()
    return found


def read(source, split, position=None, size=7):
    """Read a split from a position: the rows as tuples, and the positions after each batch."""
    reader = source.create_reader()
    rows, positions = [], []
    for batch in reader.read(split, position, ReadLimits(batch_size=size)):
        rows.append([tuple(row) for row in batch.records])
        positions.append(batch.position)
    reader.close()
    return rows, positions


def flat(parts):
    return [row for rows in parts for row in rows]


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_a_job_reads_every_row_once_with_names_and_types(mode, database):
    run(database, "CREATE TABLE t (id bigint PRIMARY KEY, price numeric, at timestamp)")
    run(
        database,
        "INSERT INTO t SELECT n, n / 4.0, timestamp '2026-01-01' + n * interval '1 hour' FROM generate_series(1, 5000) n",
    )
    with MiniCluster():
        env = environment(mode)
        stream = env.from_source(build(database), WatermarkStrategy.no_watermarks(), "t")
        rows = collect(stream)
    assert sorted(row.id for row in rows) == list(range(1, 5001))
    first = min(rows, key=lambda row: row.id)
    assert first == Row(id=1, price=Decimal("0.25"), at=dt.datetime(2026, 1, 1, 1))


TABLES = [
    ("bigint", "n * 3", "integers"),
    ("numeric", "n / 7.0", "decimals"),
    ("float8", "n / 7.0", "floats"),
    ("date", "date '2026-01-01' + n", "dates"),
    ("timestamptz", "timestamptz '2026-01-01 00:00+0' + n * interval '7 minutes'", "times"),
    ("bigint", "n * n * n * n", "skewed"),
    ("bigint", "n % 3", "few values"),
    ("bigint", "CASE WHEN n % 2 = 0 THEN n END", "nulls"),
    ("bigint", "NULL::bigint", "nothing but nulls"),
]


@pytest.mark.parametrize(("kind", "value"), [t[:2] for t in TABLES], ids=[t[2] for t in TABLES])
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""], ids=["with a key", "without"])
def test_splits_have_every_row_once_from_any_position(key, kind, value, database):
    run(database, f"CREATE TABLE t (id bigint {key}, c {kind})")
    run(database, f"INSERT INTO t SELECT n, {value} FROM generate_series(1, 100) n")
    source = build(database, column="c", partitions=5)
    seen = []
    for split in splits_of(source):
        parts, positions = read(source, split)
        for number, position in enumerate(positions):
            assert flat(read(source, split, position)[0]) == flat(parts[number + 1 :])
        seen += flat(parts)
    assert sorted(row[0] for row in seen) == list(range(1, 101))


def test_a_table_without_a_key_may_have_the_same_row_twice(database):
    run(database, "CREATE TABLE t (id bigint, doc json)")
    run(
        database,
        "INSERT INTO t SELECT n % 2, json_build_object('a', n % 5) FROM generate_series(1, 60) n",
    )
    source = build(database, partitions=1)
    rows = []
    for split in splits_of(source):
        parts, positions = read(source, split)
        run(database, "UPDATE t SET id = id WHERE doc->>'a' = '3'")  # they lie elsewhere now
        for number, position in enumerate(positions):
            assert flat(read(source, split, position)[0]) == flat(parts[number + 1 :])
        rows += flat(parts)
    assert sorted(row[0] for row in rows) == [0] * 30 + [1] * 30


@pytest.mark.ci
def test_rows_that_come_and_go_before_the_position_do_not_matter(database):
    run(database, "CREATE TABLE t (id bigint PRIMARY KEY)")
    run(database, "INSERT INTO t SELECT n * 2 FROM generate_series(1, 50) n")
    source = build(database, partitions=1)
    split = splits_of(source)[0]
    parts, positions = read(source, split, size=20)
    run(database, "DELETE FROM t WHERE id < 10")
    run(database, "INSERT INTO t VALUES (1), (3)")
    assert flat(read(source, split, positions[0])[0]) == flat(parts[1:])


def test_given_bounds_leave_nothing_out(database):
    run(database, "CREATE TABLE t (id bigint PRIMARY KEY)")
    run(database, "INSERT INTO t SELECT generate_series(-50, 150)")
    source = build(database, "t", "id", 0, 100, partitions=4)
    found = splits_of(source)
    assert [split.split_id for split in found] == [*(f"{n} of 4" for n in (1, 2, 3, 4)), "nulls"]
    counts = [len(flat(read(source, split)[0])) for split in found]
    # 101 numbers in 4 ranges: as in Flink, the first ones are longer. What is below 0 or above 100 is in the outer ones.
    assert counts == [76, 25, 25, 75, 0]


def test_memory_does_not_grow_with_the_split(database):
    """Rows stay with the server until they are asked for."""
    run(database, "CREATE TABLE t (id bigint PRIMARY KEY)")
    run(database, "INSERT INTO t SELECT generate_series(1, 100000)")
    source = build(database, column=None)
    reader = source.create_reader()
    batches = reader.read(splits_of(source)[0], None, ReadLimits(batch_size=10))
    assert len(next(batches).records) == 10
    state = run(
        database,
        "SELECT state, query FROM pg_stat_activity WHERE application_name = 'penstock' "
        "AND datname = current_database()",
    )
    assert [(each[0], "penstock_scan" in each[1]) for each in state] == [
        ("idle in transaction", True)
    ]
    reader.close()


def test_types_of_the_databases_own_are_read_as_text(database):
    run(database, "CREATE TYPE mood AS ENUM ('sad', 'happy')")
    run(database, "CREATE TABLE t (id int PRIMARY KEY, m mood, n uuid, s int[], d jsonb)")
    run(
        database,
        "INSERT INTO t VALUES (1, 'happy', '00000000-0000-0000-0000-000000000001', '{1,2}', '{\"a\": 1}')",
    )
    source = build(database, column=None)
    ((row,),) = read(source, splits_of(source)[0])[0]
    assert row == (1, "happy", uuid.UUID(int=1), [1, 2], {"a": 1})


def test_few_splits_are_read_at_a_time(database):
    run(database, "CREATE TABLE t (id bigint PRIMARY KEY)")
    run(database, "INSERT INTO t SELECT generate_series(1, 1000)")
    enumerator = build(database, partitions=50).create_enumerator(2)
    first = enumerator.discover()
    assert len(first) == 4
    enumerator.observe(first)
    assert enumerator.discover() == []
    enumerator.observe(first[1:])
    assert len(enumerator.discover()) == 1
    again = build(database, partitions=50).create_enumerator(2, enumerator.snapshot())
    assert [s.split_id for s in again.discover()] == ["6 of 50", "7 of 50", "8 of 50", "9 of 50"]


def test_a_query_is_read_like_a_table(database):
    run(database, "CREATE TABLE t (id bigint PRIMARY KEY, name text)")
    run(database, "INSERT INTO t SELECT n, 'x%?' FROM generate_series(1, 20) n")
    source = (
        JdbcSource.builder()
        .set_connection_options(options(database))
        .set_query("SELECT id, name FROM t WHERE name LIKE 'x%' AND id > 10;")
        .set_partition_column("id", partitions=3)
        .set_type_info(Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()]))
        .build()
    )
    rows = [row for split in splits_of(source) for row in flat(read(source, split, size=3)[0])]
    assert rows == [(n, "x%?") for n in range(11, 21)]


@pytest.mark.ci
def test_a_reader_connects_again_after_its_connection_was_cut(database):
    run(database, "CREATE TABLE t (id bigint PRIMARY KEY)")
    run(database, "INSERT INTO t SELECT generate_series(1, 1000)")
    source = build(database, column=None)
    reader = source.create_reader()
    batches = reader.read(splits_of(source)[0], None, ReadLimits(batch_size=100))
    rows = [row.id for row in next(batches).records]
    run(
        database,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'penstock'",
    )
    rows += [row.id for batch in batches for row in batch.records]
    assert rows == list(range(1, 1001))


def odd_is_bad(row):
    if row.id == 7:
        raise ValueError("seven")
    return row.id


@pytest.mark.parametrize("mode", MODES)
def test_a_row_that_the_extractor_refuses_is_a_dead_letter_or_fails_the_job(mode, database):
    run(database, "CREATE TABLE t (id bigint PRIMARY KEY)")
    run(database, "INSERT INTO t SELECT generate_series(1, 20)")
    source = (
        JdbcSource.builder()
        .set_connection_options(options(database))
        .set_table("t")
        .set_result_extractor(odd_is_bad)
        .build()
    )
    dead = OutputTag("dead")
    with MiniCluster():
        env = environment(mode)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "t").on_error(dead)
        (letter,) = collect(stream.get_side_output(dead))
        assert (letter.message, letter.origin["relation"]) == ("seven", "t")
        env = environment(mode, **restarts(0))
        env.from_source(source, WatermarkStrategy.no_watermarks(), "t").print()
        with pytest.raises(JobExecutionError, match="seven"):
            env.execute()


class Table(SourceSetup):
    def __init__(self, url):
        self.url = url
        run(url, "CREATE TABLE t (id bigserial PRIMARY KEY, value text)")

    def add(self, records):
        with psycopg.connect(self.url) as connection:
            connection.cursor().executemany(
                "INSERT INTO t (value) VALUES (%s)", [(record,) for record in records]
            )

    def create(self):
        return (
            JdbcSource.builder()
            .set_connection_options(options(self.url))
            .set_table("t")
            .set_partition_column("id", partitions=3)
            .set_result_extractor(value_of)
            .build()
        )

    def wrong_arguments(self):
        start = JdbcSource.builder
        good = lambda: start().set_connection_options(options(self.url))  # noqa: E731
        return [
            lambda: start().set_table("t").build(),
            lambda: good().build(),
            lambda: good().set_table("t").set_query("select 1").build(),
            lambda: good().set_query("select ?"),
            lambda: good().set_table(""),
            lambda: start().set_connection_options(self.url),
            lambda: good().set_partition_column("id", 1),
            lambda: good().set_partition_column("id", 2, 1),
            lambda: good().set_partition_column("id", "a", "b"),
            lambda: good().set_partition_column("id", partitions=0),
            lambda: good().set_result_extractor(3),
            lambda: good().set_type_info(int),
        ]


def value_of(row):
    return row.value


class TestTable(SourceConformance):
    rules = [rule for rule in source_rules() if SOAKS or "killed" not in str(rule)]

    @pytest.fixture
    def connector(self, database):
        return Table(database)


class SqliteTable(Table):
    def __init__(self, path):
        self.path = path
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE t (id integer, value text)")

    def add(self, records):
        with sqlite3.connect(self.path) as connection:
            start = connection.execute("SELECT count(*) FROM t").fetchone()[0]
            rows = [(start + number, record) for number, record in enumerate(records)]
            connection.executemany("INSERT INTO t VALUES (?, ?)", rows)

    @property
    def url(self):
        return f"sqlite:///{self.path}"


class TestSqliteTable(SourceConformance):
    rules = [
        rule for rule in source_rules() if not str(rule).endswith(tuple(f"({m})" for m in MODES))
    ]

    @pytest.fixture
    def connector(self, tmp_path):
        return SqliteTable(tmp_path / "test.db")
