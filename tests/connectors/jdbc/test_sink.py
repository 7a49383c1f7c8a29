"""Writing to PostgreSQL at least once, in both modes, and the errors of rejected records."""

from __future__ import annotations

import datetime as dt
import threading
import time
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from penstock.common import Row, Types, WatermarkStrategy
from penstock.connectors import (
    Boundedness,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.connectors.base.sink import CheckpointContext, WriterContext
from penstock.connectors.jdbc.writers import BatchWriter
from penstock.datastream.connectors.jdbc import JdbcSink
from penstock.errors import JobExecutionError, RecordError
from penstock.testing import MiniCluster
from tests.builders.environments import restarts
from tests.builders.modes import MODES, PIPELINED
from tests.builders.waiting import wait_until
from tests.connectors.conftest import serving
from tests.connectors.jdbc.tables import (
    INSERT,
    PAIR,
    TIMEOUT_S,
    UPSERT,
    environment,
    execution,
    numbers,
    options,
    run,
)
from tools.servers.postgres import PostgresServer

# Slots are threads: what the functions of a job do is noted in this process.
happened: dict[str, Any] = {}
HERE = WriterContext("job", "operator", 0, 1, "/nowhere")


@pytest.fixture
def table(database):
    run(database, "CREATE TABLE t (id bigint PRIMARY KEY, name text)")
    return database


def writer(sink):
    created = sink.create_writer(HERE)
    created.begin(CheckpointContext(1, "a"))
    return created


@pytest.mark.parametrize("mode", MODES)
def test_job_upserts_its_counts(mode, table):
    with MiniCluster():
        env = environment(mode)
        rows = numbers(env, 3000).map(lambda n: Row(n % 700, f"n{n}"), output_type=PAIR)
        rows.key_by(lambda row: row[0]).map(lambda row: row, output_type=PAIR).add_sink(
            JdbcSink.sink(UPSERT, PAIR, options(table), execution(100))
        )
        env.execute()
    found = run(table, "SELECT id, substr(name, 2)::int % 700 FROM t ORDER BY id")
    assert found == [(n, n) for n in range(700)]


def fail_once(n):
    if n == 2500 and not happened["failed"]:
        happened["failed"] = True
        raise RuntimeError("once")
    return Row(n, f"n{n}")


@pytest.mark.parametrize("mode", MODES)
def test_after_a_failure_an_upsert_leaves_the_table_as_if_nothing_had_failed(mode, table):
    happened["failed"] = False
    with MiniCluster():
        env = environment(mode, **restarts(3))
        numbers(env, 3000).map(fail_once, output_type=PAIR).sink_to(
            JdbcSink.sink(UPSERT, PAIR, options(table), execution(50))
        )
        env.execute()
    assert happened["failed"]
    assert run(table, "SELECT count(*), count(DISTINCT id), min(name) FROM t") == [
        (3000, 3000, "n0")
    ]


def test_a_batch_goes_when_it_is_full_and_the_rest_at_the_barrier(table):
    sink = writer(JdbcSink.sink(INSERT, PAIR, options(table), execution(10)))
    sink.write([(n, "x") for n in range(25)], None, 0)
    assert run(table, "SELECT count(*) FROM t") == [(20,)]
    assert sink.prepare_commit() == []
    assert run(table, "SELECT count(*) FROM t") == [(25,)]
    sink.close()


class Once(Source):
    """One record, and then none until it was seen."""

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism, restored=None):
        return OneSplit()

    def create_reader(self):
        return DeduplicatingReader()


class OneSplit(SplitEnumerator):
    found = False

    def discover(self):
        new = [] if self.found else [SourceSplit("only", None, 0)]
        self.found = True
        return new

    def no_more_splits(self):
        return self.found


class DeduplicatingReader(SourceReader):
    def read(self, split, position, limits):
        if position == 0:
            yield SourceBatch([Row(0, "x")], 1)
        elif not happened["seen"].is_set():
            yield SourceBatch([], 1)


@pytest.mark.ci
def test_in_pipelined_mode_a_batch_goes_when_its_time_is_over(table):
    seen = happened["seen"] = threading.Event()
    found = []

    def look():
        try:
            wait_until(lambda: run(table, "SELECT count(*) FROM t") == [(1,)], seconds=120)
            found.append("while the job runs")
        finally:
            seen.set()

    watcher = threading.Thread(target=look)
    watcher.start()
    with MiniCluster():
        env = environment(PIPELINED, 1, **{"execution.checkpointing.interval": "1 h"})
        env.from_source(Once(), WatermarkStrategy.no_watermarks(), "once").sink_to(
            JdbcSink.sink(INSERT, PAIR, options(table), execution(5000, 50))
        )
        env.execute()
    watcher.join()
    assert found == ["while the job runs"]  # and not only because it has ended
    assert run(table, "SELECT id FROM t") == [(0,)]


def test_the_time_of_a_batch_begins_with_its_first_record(table):
    sink = writer(JdbcSink.sink(INSERT, PAIR, options(table), execution(10, 200)))
    assert sink.next_wakeup() is None
    before = int(time.time() * 1000)
    sink.write([(1, "x")], None, 0)
    after = int(time.time() * 1000)
    assert before + 200 <= sink.next_wakeup() <= after + 201
    sink.wake_up()
    assert sink.next_wakeup() is None
    assert run(table, "SELECT id FROM t") == [(1,)]
    sink.close()


@pytest.mark.parametrize("count", [3, 40], ids=["row by row", "together"])
@pytest.mark.parametrize("statement", [INSERT, UPSERT], ids=["insert", "upsert"])
def test_a_record_that_is_refused_is_named(statement, count, table):
    run(table, "ALTER TABLE t ADD CHECK (id <> 2)")
    sink = writer(JdbcSink.sink(statement, PAIR, options(table)))
    sink.write([(n, f"name {n}") for n in range(count)], None, 0)
    with pytest.raises(RecordError) as caught:
        sink.prepare_commit()
    sink.close()
    text = str(caught.value)
    assert f"record: (2, 'name 2') (number 3 of a batch of {count})" in text
    assert "INSERT INTO t" in text
    assert "CheckViolation" in text
    assert "check constraint" in caught.value.hint
    assert run(table, "SELECT count(*) FROM t") == [(0,)]


@pytest.mark.parametrize("mode", MODES)
def test_a_job_fails_with_the_record_that_the_database_refuses(mode, table):
    with MiniCluster():
        env = environment(mode, **restarts(0))
        numbers(env, 100).map(lambda n: Row(n, None), output_type=PAIR).sink_to(
            JdbcSink.sink("INSERT INTO t (id, name) VALUES (?, ?::int)", PAIR, options(table))
        )
        run(table, "ALTER TABLE t ALTER name SET NOT NULL")
        with pytest.raises(JobExecutionError, match="a NOT NULL column"):
            env.execute()


def test_a_record_with_too_few_fields_is_named(table):
    sink = writer(JdbcSink.sink(INSERT, PAIR, options(table)))
    with pytest.raises(RecordError, match=r"\(1,\) has 1 fields, the statement has 2 parameters"):
        sink.write([(1,)], None, 0)


def test_missing_table_error_names_database_and_statement(database):
    sink = writer(JdbcSink.sink(UPSERT, PAIR, options(database)))
    sink.write([(1, "x")], None, 0)
    with pytest.raises(RuntimeError) as caught:
        sink.prepare_commit()
    assert 'relation "t" does not exist' in str(caught.value)
    assert "postgresql://127.0.0.1:" in str(caught.value)
    assert "create the table" in str(caught.value)
    assert "wehr" not in str(caught.value)


def test_a_key_that_comes_twice_in_a_batch_has_its_last_value(table):
    sink = writer(JdbcSink.sink(UPSERT, PAIR, options(table)))
    sink.write([(n % 10, f"{n}") for n in range(95)], None, 0)
    sink.prepare_commit()
    found = run(table, "SELECT id, name::int FROM t ORDER BY id")
    assert found == [(n, 90 + n if n < 5 else 80 + n) for n in range(10)]


def test_an_upsert_that_adds_up_counts_every_row_of_a_batch(database):
    run(database, "CREATE TABLE c (word text PRIMARY KEY, n int)")
    add = "INSERT INTO c VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET n = c.n + excluded.n"
    named = add.replace("INTO c VALUES", "INTO c (word, n) VALUES")
    for statement in (add, named):
        sink = writer(
            JdbcSink.sink(statement, Types.TUPLE([Types.STRING(), Types.INT()]), options(database))
        )
        sink.write([(word, 1) for word in "abab" * 10], None, 0)
        sink.prepare_commit()
        sink.close()
    assert run(database, "SELECT word, n FROM c ORDER BY word") == [("a", 40), ("b", 40)]


VALUES = (
    7,
    "text with 'quotes', \\ and \t",
    True,
    1.5,
    Decimal("12.50"),
    b"\x00\xff",
    dt.date(2026, 1, 2),
    dt.time(3, 4, 5),
    dt.datetime(2026, 1, 2, 3, 4, 5, 678),
    dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    [1, 2],
    {"a": [1, None]},
)


@pytest.mark.parametrize("count", [1, 20], ids=["row by row", "together"])
@pytest.mark.parametrize("tail", ["", " ON CONFLICT (i) DO NOTHING"], ids=["insert", "upsert"])
@pytest.mark.parametrize("lists", [True, False], ids=["with lists", "without"])
def test_values_of_all_types_arrive(lists, tail, count, database):
    run(
        database,
        "CREATE TABLE v (i int PRIMARY KEY, s text, b boolean, d float8, n numeric, y bytea, day date, "
        "clock time, moment timestamp, zoned timestamptz, many int[], doc jsonb)",
    )
    columns = [
        name
        for name in ["i", "s", "b", "d", "n", "y", "day", "clock", "moment", "zoned", "many", "doc"]
        if lists or name != "many"
    ]
    values = [value for value in VALUES if lists or not isinstance(value, list)]
    marks = ", ".join("?" for _ in columns)
    sink = writer(
        JdbcSink.sink(
            f"INSERT INTO v ({', '.join(columns)}) VALUES ({marks}){tail}", None, options(database)
        )
    )
    rows = [(number, *values[1:]) for number in range(count)]
    rows.append((count, *[None] * (len(values) - 1)))
    sink.write(rows, None, 0)
    sink.prepare_commit()
    sink.close()
    assert run(database, f"SELECT {', '.join(columns)} FROM v ORDER BY i") == rows


@pytest.mark.parametrize("count", [1, 20], ids=["row by row", "together"])
@pytest.mark.parametrize("tail", ["", " ON CONFLICT (i) DO NOTHING"], ids=["insert", "upsert"])
def test_text_is_converted_to_the_column_type(tail, count, database):
    run(database, "CREATE TYPE mood AS ENUM ('sad', 'happy')")
    run(database, "CREATE TABLE v (i int PRIMARY KEY, m mood, u uuid, a inet, j jsonb)")
    sink = writer(
        JdbcSink.sink(
            f"INSERT INTO v (i, m, u, a, j) VALUES (?, ?, ?, ?, ?){tail}", None, options(database)
        )
    )
    text = ("happy", "00000000-0000-0000-0000-000000000001", "10.0.0.1", '{"a": 1}')
    sink.write([(n, *text) for n in range(count)], None, 0)
    sink.prepare_commit()
    sink.close()
    found = run(database, "SELECT DISTINCT m::text, u::text, host(a), j::text FROM v")
    assert found == [text]
    assert run(database, "SELECT count(*) FROM v") == [(count,)]


def test_a_parameter_setter_makes_the_parameters(table):
    sink = writer(
        JdbcSink.sink(
            INSERT, None, options(table), parameter_setter=lambda d: (d["id"], d["name"].upper())
        )
    )
    sink.write([{"id": 1, "name": "a"}], None, 0)
    sink.prepare_commit()
    assert run(table, "SELECT * FROM t") == [(1, "A")]


def test_deletes_and_other_statements_are_run_row_by_row(table):
    run(table, "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 50) n")
    sink = writer(
        JdbcSink.sink(
            "DELETE FROM t WHERE id = ? AND name LIKE '%x' -- ?", Types.LONG(), options(table)
        )
    )
    sink.write(list(range(1, 41)), None, 0)
    sink.prepare_commit()
    assert run(table, "SELECT count(*), min(id) FROM t") == [(10, 41)]


def test_a_view_with_a_rule_is_written_row_by_row(table):
    run(table, "CREATE VIEW w AS SELECT id, name FROM t")
    sink = writer(JdbcSink.sink("INSERT INTO w (id, name) VALUES (?, ?)", PAIR, options(table)))
    sink.write([(n, "x") for n in range(30)], None, 0)
    sink.prepare_commit()
    assert run(table, "SELECT count(*) FROM t") == [(30,)]


def test_a_batch_is_sent_again_after_its_connection_was_cut(table):
    sink = writer(JdbcSink.sink(UPSERT, PAIR, options(table)))
    sink.write([(1, "before")], None, 0)
    sink.prepare_commit()
    run(
        table,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'penstock' "
        "AND datname = current_database()",
    )
    sink.begin(CheckpointContext(2, "b"))
    sink.write([(2, "after")], None, 0)
    sink.prepare_commit()
    sink.close()
    assert run(table, "SELECT id FROM t ORDER BY id") == [(1,), (2,)]


def test_lost_connection_without_retries_is_an_error_with_a_hint(table):
    sink = writer(JdbcSink.sink(UPSERT, PAIR, options(table), execution(retries=0)))
    sink.write([(1, "before")], None, 0)
    sink.prepare_commit()
    run(
        table,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'penstock' "
        "AND datname = current_database()",
    )
    sink.write([(2, "after")], None, 0)
    with pytest.raises(RuntimeError, match="check that the server is up"):
        sink.prepare_commit()


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.mark.ci
def test_a_deadlock_is_tried_again(table):
    run(table, "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    update = "UPDATE t SET name = ? WHERE id = ?"
    sink = writer(JdbcSink.sink(update, None, options(table)))
    sink.write([("sink", 1), ("sink", 3), ("sink", 2)], None, 0)

    def take_first_row() -> None:
        other.execute("UPDATE t SET name = 'other' WHERE id = 1")
        other.commit()

    # A session looks for a deadlock once, some time after it began to wait. The sink is the last one to wait, so it is the one that finds it.
    with psycopg.connect(table) as other, psycopg.connect(table) as gate:
        other.execute("SET deadlock_timeout = '1h'")
        other.execute("UPDATE t SET name = 'other' WHERE id = 2")
        gate.execute("UPDATE t SET name = 'gate' WHERE id = 3")
        threads = [threading.Thread(target=each) for each in (sink.prepare_commit, take_first_row)]
        for waiting, thread in enumerate(threads, 1):
            thread.start()
            wait_until(lambda: run(table, WAITING) == [(waiting,)])
        gate.commit()
        for thread in threads:
            thread.join()
    assert run(table, "SELECT DISTINCT name FROM t") == [("sink",)]


def kill_once(n):
    if n == 1500 and not happened["killed"].is_set():
        happened["server"].kill()
        happened["killed"].set()
    return Row(n, "x")


@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_is_killed_and_started_again_is_waited_for(mode, monkeypatch):
    noticed, begin_again = threading.Event(), BatchWriter._begin_again

    def noting(writer, error):
        noticed.set()
        begin_again(writer, error)

    monkeypatch.setattr(BatchWriter, "_begin_again", noting)
    with serving(PostgresServer) as server:
        url = server.new_database()
        run(url, "CREATE TABLE t (id bigint PRIMARY KEY, name text)")
        happened.update(server=server, killed=threading.Event())
        with MiniCluster():
            env = environment(mode, 1)
            # The pauses between so many attempts are longer than a server takes on any machine.
            numbers(env, 3000).map(kill_once, output_type=PAIR).sink_to(
                JdbcSink.sink(UPSERT, PAIR, options(url), execution(100, retries=20))
            )
            client = env.execute_async()
            assert happened["killed"].wait(TIMEOUT_S)
            assert noticed.wait(TIMEOUT_S)
            server.start()
            client.get_job_execution_result().result(TIMEOUT_S)
        assert run(url, "SELECT count(*) FROM t") == [(3000,)]
