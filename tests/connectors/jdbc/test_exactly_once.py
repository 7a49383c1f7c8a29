"""Writing to PostgreSQL exactly once: what holds rows, what is lost, what is in doubt, and a server that dies in between."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from penstock.common import Row
from penstock.connectors.base.sink import CheckpointContext, CommitRequest, WriterContext
from penstock.connectors.jdbc.transactions import PreparedTransaction, StagedRows
from penstock.datastream.connectors.jdbc import JdbcExactlyOnceOptions, JdbcSink
from penstock.errors import InvalidProgramError, PenstockError
from penstock.testing import MiniCluster
from tests.builders.environments import restarts
from tests.builders.modes import MODES, PIPELINED
from tests.connectors import noticing
from tests.connectors.conftest import serving
from tests.connectors.jdbc.tables import (
    INSERT,
    PAIR,
    TIMEOUT_S,
    UPSERT,
    environment,
    execution,
    in_doubt,
    numbers,
    options,
    run,
)
from tools.servers.postgres import PostgresServer

happened: dict[str, Any] = {}
SOON = JdbcExactlyOnceOptions(lock_timeout_ms=50)


@pytest.fixture
def table(database):
    run(database, "CREATE TABLE t (id bigint PRIMARY KEY, name text)")
    return database


@pytest.fixture
def sink(table):
    return JdbcSink.exactly_once_sink(UPSERT, PAIR, options(table), execution(3), SOON)


def open_writer(sink, tmp_path, subtask=0, job="job"):
    return sink.create_writer(WriterContext(job, "operator", subtask, 2, str(tmp_path)))


def checkpoint_id(writer, number, rows, attempt="a"):
    writer.begin(CheckpointContext(number, f"{attempt}{number}"))
    writer.write(rows, None, 0)
    return writer.prepare_commit()


def rows_of(url):
    return run(url, "SELECT id, name FROM t ORDER BY id")


def kinds(committables):
    return [type(each) for each in committables]


@pytest.mark.ci
def test_lost_transaction_is_an_error(sink, table, tmp_path):
    committer = sink.create_committer()
    (prepared,) = checkpoint_id(open_writer(sink, tmp_path), 1, [(1, "a")])
    run(table, f"ROLLBACK PREPARED '{prepared.name}'")
    with pytest.raises(PenstockError) as caught:
        committer.commit(CommitRequest(1, [prepared]))
    assert "a transaction of the checkpoint no longer exists" in str(caught.value)
    assert prepared.name in str(caught.value)
    assert "rolled back manually" in caught.value.hint


@pytest.mark.ci
def test_a_committed_transaction_is_known_for_as_long_as_the_ledger_is_kept(sink, table, tmp_path):
    committer = sink.create_committer()
    request = CommitRequest(1, checkpoint_id(open_writer(sink, tmp_path), 1, [(1, "a")]))
    committer.commit(request)
    committer.clean_up([], "job")
    committer.commit(request)
    run(table, "UPDATE penstock_commits SET committed_at = now() - interval '31 days'")
    committer.clean_up([], "another job")
    committer.commit(request)
    committer.clean_up([], "job")
    assert run(table, "SELECT count(*) FROM penstock_commits") == [(0,)]
    with pytest.raises(PenstockError, match="no longer exists"):
        committer.commit(request)


@pytest.mark.ci
def test_rows_that_the_checkpoint_before_holds_are_written_when_both_are_committed(
    sink, table, tmp_path
):
    """Two checkpoints are pending: to wait for the first one's rows would be to wait for ever."""
    committer = sink.create_committer()
    writer = open_writer(sink, tmp_path)
    one = checkpoint_id(writer, 1, [(n, "first") for n in range(5)])
    two = checkpoint_id(writer, 2, [(n, "second") for n in range(5)])
    three = checkpoint_id(writer, 3, [(n, "third") for n in range(7)])
    assert [kinds(each) for each in (one, two, three)] == [
        [PreparedTransaction],
        [StagedRows],
        [StagedRows],
    ]
    committer.commit(CommitRequest(1, one))
    assert rows_of(table) == [(n, "first") for n in range(5)]
    for _ in range(2):
        committer.commit(CommitRequest(3, [*two, *three]))
        assert rows_of(table) == [(n, "third") for n in range(7)]
    writer.on_committed(3)
    assert kinds(checkpoint_id(writer, 4, [(0, "fourth")])) == [PreparedTransaction]


@pytest.mark.ci
def test_rows_that_wait_are_not_overtaken_by_later_ones_that_could_be_written(
    sink, table, tmp_path
):
    committer = sink.create_committer()
    writer = open_writer(sink, tmp_path)
    one = checkpoint_id(writer, 1, [(1, "first")])
    two = checkpoint_id(writer, 2, [(1, "second"), (9, "second")])  # waits for row 1
    three = checkpoint_id(writer, 3, [(9, "third")])  # row 9 is not locked
    committer.commit(CommitRequest(3, [*one, *two, *three]))
    assert rows_of(table) == [(1, "second"), (9, "third")]


def test_without_rows_in_common_every_pending_checkpoint_is_a_transaction(sink, table, tmp_path):
    committer = sink.create_committer()
    writer = open_writer(sink, tmp_path)
    handed = [each for n in (1, 2, 3) for each in checkpoint_id(writer, n, [(n, "x")])]
    assert kinds(handed) == [PreparedTransaction] * 3
    committer.commit(CommitRequest(3, handed))
    assert rows_of(table) == [(n, "x") for n in (1, 2, 3)]


def test_while_the_checkpoint_before_is_under_way_records_wait_and_are_written_afterwards(
    sink, table, tmp_path
):
    committer = sink.create_committer()
    writer = open_writer(sink, tmp_path)
    one = checkpoint_id(writer, 1, [(1, "first")])
    writer.begin(CheckpointContext(2, "a2"))
    writer.write([(1, "second")] * 20, None, 0)  # many batches: none may wait for the row
    committer.commit(CommitRequest(1, one))
    writer.on_committed(1)
    two = writer.prepare_commit()
    assert kinds(two) == [PreparedTransaction]
    committer.commit(CommitRequest(2, two))
    assert rows_of(table) == [(1, "second")]


@pytest.mark.ci
def test_two_subtasks_that_write_the_same_row_do_not_wait_for_each_other(sink, table, tmp_path):
    committer = sink.create_committer()
    writers = [open_writer(sink, tmp_path, subtask) for subtask in (0, 1)]
    handed = [
        checkpoint_id(writer, 1, [(1, f"of {n}"), (10 + n, "own")])
        for n, writer in enumerate(writers)
    ]
    assert [kinds(each) for each in handed] == [[PreparedTransaction], [StagedRows]]
    committer.commit(CommitRequest(1, [*handed[1], *handed[0]]))  # in whichever order
    assert rows_of(table) == [(1, "of 1"), (10, "own"), (11, "own")]


def test_transaction_keeps_rows_written_before_a_lock_conflict(sink, table, tmp_path):
    committer = sink.create_committer()
    with psycopg.connect(table) as other:
        other.execute("INSERT INTO t VALUES (4, 'other')")
        handed = checkpoint_id(open_writer(sink, tmp_path), 1, [(n, "x") for n in range(8)])
        assert kinds(handed) == [PreparedTransaction, StagedRows]
        other.commit()
    committer.commit(CommitRequest(1, handed))
    committer.commit(CommitRequest(1, handed))
    assert rows_of(table) == [(n, "x") for n in range(8)]


def test_rows_locked_by_another_session_are_an_error(sink, table, tmp_path):
    committer = sink.create_committer()
    with psycopg.connect(table) as other:
        other.execute("INSERT INTO t VALUES (4, 'other')")
        handed = checkpoint_id(open_writer(sink, tmp_path), 1, [(4, "x")])
        with pytest.raises(PenstockError, match="rows of the table are locked"):
            committer.commit(CommitRequest(1, handed))
    committer.commit(CommitRequest(1, handed))
    assert rows_of(table) == [(4, "x")]


@pytest.mark.ci
def test_commit_rolls_back_transactions_of_other_attempts(sink, table, tmp_path):
    committer = sink.create_committer()
    checkpoint_id(open_writer(sink, tmp_path, 0), 1, [(1, "given up")], attempt="x")
    kept = checkpoint_id(open_writer(sink, tmp_path, 1), 2, [(2, "later")])
    good = checkpoint_id(open_writer(sink, tmp_path, 1), 1, [(3, "good")])
    committer.commit(CommitRequest(1, good))
    assert in_doubt(table) == [kept[0].name]
    committer.commit(CommitRequest(2, kept))
    assert rows_of(table) == [(2, "later"), (3, "good")]


@pytest.mark.ci
def test_abandon_ends_transactions_of_restarted_subtasks_only(sink, table, tmp_path):
    committer = sink.create_committer()
    failed, other = (open_writer(sink, tmp_path, subtask) for subtask in (1, 11))
    checkpoint_id(failed, 1, [(1, "given up")])
    (kept,) = checkpoint_id(other, 1, [(2, "kept")])
    for writer, key in ((failed, 3), (other, 4)):
        writer.on_committed(1)
        writer.begin(CheckpointContext(2, "a2"))
        writer.write(
            [(key + 10 * n, "open") for n in range(3)], None, 0
        )  # a batch: the transaction is open
    committer.abandon([1], "job")
    assert in_doubt(table) == [kept.name]
    with pytest.raises(PenstockError):
        failed.prepare_commit()
    committer.commit(CommitRequest(2, [kept, *other.prepare_commit()]))
    assert [key for key, _ in rows_of(table)] == [2, 4, 14, 24]


def test_in_doubt_transactions_of_a_deleted_job_can_be_rolled_back(sink, table, tmp_path):
    checkpoint_id(open_writer(sink, tmp_path, job="gone"), 1, [(1, "x")])
    (other,) = checkpoint_id(open_writer(sink, tmp_path, job="other"), 1, [(2, "x")])
    ended = JdbcSink.roll_back_in_doubt(options(table), "gone")
    assert [name.split(":")[1] for name in ended] == ["gone"]
    assert in_doubt(table) == [other.name]


@pytest.mark.parametrize("killed", ["before the commit", "before clean_up"])
def test_prepared_transactions_survive_a_server_crash(killed, tmp_path):
    with serving(PostgresServer) as server:
        url = server.new_database()
        run(url, "CREATE TABLE t (id bigint PRIMARY KEY, name text)")
        sink = JdbcSink.exactly_once_sink(INSERT, PAIR, options(url))
        committer = sink.create_committer()
        writer = open_writer(sink, tmp_path)
        request = CommitRequest(1, checkpoint_id(writer, 1, [(1, "a")]))
        checkpoint_id(writer, 2, [(2, "no checkpoint")])
        server.kill()
        with (
            noticing.message("penstock.connectors.jdbc", "retrying to") as noticed,
            ThreadPoolExecutor(1) as beside,
        ):
            restart = beside.submit(lambda: noticed.wait(TIMEOUT_S) and server.start())
            if killed == "before clean_up":
                committer.clean_up([request], "job")
                assert len(in_doubt(url)) == 1
            committer.commit(request)  # waits for the server
            assert restart.result() is server
        committer.clean_up([], "job")
        assert rows_of(url) == [(1, "a")]
        assert in_doubt(url) == []


def test_a_server_that_allows_no_prepared_transactions_is_refused_before_the_job_runs(tmp_path):
    def server():
        return PostgresServer(settings={"max_prepared_transactions": 0})

    happened["ran"] = False
    with serving(server) as running, MiniCluster():
        run(running.dsn, "CREATE TABLE t (id bigint PRIMARY KEY, name text)")
        env = environment(PIPELINED, 1)
        numbers(env, 10).map(note_that_it_ran, output_type=PAIR).sink_to(
            JdbcSink.exactly_once_sink(INSERT, PAIR, options(running.dsn))
        )
        with pytest.raises(PenstockError, match="max_prepared_transactions is 0"):
            env.execute()
    assert not happened["ran"]


def note_that_it_ran(n):
    happened["ran"] = True
    return Row(n, "x")


def test_two_sinks_with_the_same_transactions_are_refused(table):
    env = environment(PIPELINED, 1)
    stream = numbers(env, 1)
    stream.sink_to(JdbcSink.exactly_once_sink(INSERT, PAIR, options(table)))
    with pytest.raises(InvalidProgramError, match="transaction_prefix"):
        stream.sink_to(JdbcSink.exactly_once_sink(INSERT, PAIR, options(table)))
    other = JdbcExactlyOnceOptions(transaction_prefix="second")
    stream.sink_to(JdbcSink.exactly_once_sink(INSERT, PAIR, options(table), None, other))


def fail_now_and_then(n):
    if n % 1000 == 999 and n not in happened["failed"]:
        happened["failed"].add(n)
        raise RuntimeError("now and then")
    return Row(n % 300, "1")


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_counts_in_a_table_are_right_although_the_job_fails_and_checkpoints_overtake(mode, table):
    """The statement adds up, and every checkpoint writes the rows of the one before."""
    happened["failed"] = set()
    add = (
        "INSERT INTO t (id, name) VALUES (?, ?) "
        "ON CONFLICT (id) DO UPDATE SET name = (t.name::int + excluded.name::int)::text"
    )
    with MiniCluster():
        env = environment(
            mode,
            2,
            **restarts(10),
            **{"execution.checkpointing.max-concurrent-checkpoints": "3"},
        )
        rows = numbers(env, 6000).map(fail_now_and_then, output_type=PAIR)
        rows.key_by(lambda row: row[0]).map(lambda row: row, output_type=PAIR).sink_to(
            JdbcSink.exactly_once_sink(add, PAIR, options(table), execution(20), SOON)
        )
        env.execute()
    assert len(happened["failed"]) == 6
    assert rows_of(table) == [(n, "20") for n in range(300)]
    assert in_doubt(table) == []


def kill_once(n):
    if n == 2000 and not happened["killed"].is_set():
        happened["server"].kill()
        happened["killed"].set()
    return Row(n, "x")


@pytest.mark.parametrize("mode", MODES)
def test_a_job_whose_server_dies_writes_every_record_once(mode):
    with serving(PostgresServer) as server, MiniCluster():
        url = server.new_database()
        run(url, "CREATE TABLE t (id bigint, name text)")
        happened.update(server=server, killed=threading.Event())
        env = environment(mode, 2, **restarts(100_000, "100 ms"))
        numbers(env, 4000).map(kill_once, output_type=PAIR).sink_to(
            JdbcSink.exactly_once_sink(INSERT, PAIR, options(url), execution(50))
        )
        client = env.execute_async()
        assert happened["killed"].wait(TIMEOUT_S)
        server.start()
        client.get_job_execution_result().result(TIMEOUT_S)
        assert run(url, "SELECT count(*), count(DISTINCT id) FROM t") == [(4000, 4000)]
        assert in_doubt(url) == []
