"""Sinks to databases, put through the kit: crashes at each step, kills, rescaling, duplicates, attempts that were given up."""

from __future__ import annotations

import sqlite3

import pytest

from penstock.common import Types
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from penstock.testing import Guarantee, SinkConformance, SinkSetup
from penstock.testing.conformance import sink_rules
from tests.builders.modes import MODES, SOAKS
from tests.connectors.jdbc.tables import execution, in_doubt, options, run

TEXT = Types.STRING()
# Whole jobs take their time: those of the sink that has most to lose are enough, unless everything is to be done.
WITHOUT_JOBS = [
    rule
    for rule in sink_rules()
    if SOAKS
    or (" job " not in f" {rule} " and not str(rule).endswith(tuple(f"({mode})" for mode in MODES)))
]


class PostgresTable(SinkSetup):
    """A table that takes every row, however often it comes."""

    sql = "INSERT INTO t (value) VALUES (?)"
    make = JdbcSink.exactly_once_sink

    def __init__(self, url):
        self.url = url
        run(url, "CREATE TABLE t (value text)")

    def create(self):
        return type(self).make(self.sql, TEXT, options(self.url), execution(4))

    def shown(self):
        return [value for (value,) in run(self.url, "SELECT value FROM t")]

    def left_over(self):
        return in_doubt(self.url)

    def unwritable(self):
        return "zero \0 byte"

    def wrong_arguments(self):
        return [
            lambda: type(self).make(3, TEXT, options(self.url)),
            lambda: type(self).make("INSERT INTO t VALUES (?, ?)", TEXT, options(self.url)),
            lambda: type(self).make(self.sql, TEXT, self.url),
        ]


class UpsertedExactlyOnce(PostgresTable):
    """A table with a key: transactions that are prepared hold its rows."""

    sql = "INSERT INTO t (value) VALUES (?) ON CONFLICT (value) DO UPDATE SET count = t.count + 1"

    def __init__(self, url):
        self.url = url
        run(url, "CREATE TABLE t (value text, count int NOT NULL DEFAULT 1)")
        run(url, "CREATE UNIQUE INDEX ON t (md5(value))")  # a megabyte is too long for an index
        self.sql = self.sql.replace("(value) DO", "(md5(value)) DO")

    def shown(self):
        return [
            value
            for value, count in run(self.url, "SELECT value, count FROM t")
            for _ in range(count)
        ]


class TestUpsertsExactlyOnce(SinkConformance):
    @pytest.fixture
    def connector(self, database):
        return UpsertedExactlyOnce(database)


class Upserted(PostgresTable):
    guarantee = Guarantee.IDEMPOTENT
    make = JdbcSink.sink
    sql = "INSERT INTO t (value) VALUES (?) ON CONFLICT (md5(value)) DO NOTHING"

    def __init__(self, url):
        super().__init__(url)
        run(url, "CREATE UNIQUE INDEX ON t (md5(value))")


class TestUpserts(SinkConformance):
    rules = WITHOUT_JOBS

    @pytest.fixture
    def connector(self, database):
        return Upserted(database)


class SqliteTable(SinkSetup):
    """Another database, by SQLAlchemy, where the committer writes."""

    def __init__(self, path):
        self.path = path
        self._run("CREATE TABLE t (value text)")

    def _run(self, sql):
        with sqlite3.connect(self.path) as connection:
            return connection.execute(sql).fetchall()

    def create(self):
        return JdbcSink.exactly_once_sink(
            "INSERT INTO t VALUES (?)", TEXT, JdbcConnectionOptions(f"jdbc:sqlite:{self.path}")
        )

    def shown(self):
        return [value for (value,) in self._run("SELECT value FROM t")]


class TestOtherDatabasesExactlyOnce(SinkConformance):
    rules = WITHOUT_JOBS

    @pytest.fixture
    def connector(self, tmp_path):
        return SqliteTable(tmp_path / "test.db")
