"""Failures while tables are read, at the handover and in the log: no change is lost or duplicated."""

from __future__ import annotations

import threading

import psycopg
import pytest

from penstock.connectors.postgres_cdc import chunk_fetch, enumerator, log_reader
from penstock.errors import PenstockError
from penstock.testing import MiniCluster
from tests.builders.changelog import (
    TIMEOUT_S,
    apply,
    cdc_environment,
    cdc_source,
    committed,
    count,
    start,
    until,
)
from tests.builders.modes import MODES
from tests.connectors.conftest import serving
from tests.connectors.postgres_cdc.tables import (
    Writer,
    confirmed_lsn,
    make_table,
    reader_of_slot,
    rows_of,
)
from tools.servers.postgres import PostgresServer

failed: dict[str, int] = {}
lock = threading.Lock()


def fail(what, times):
    """Raise the first so many times."""
    with lock:
        failed[what] = failed.get(what, 0) + 1
        if failed[what] <= times:
            raise RuntimeError(f"{what}, failure {failed[what]}")


@pytest.fixture(autouse=True)
def _nothing_failed():
    failed.clear()


def fail_in_snapshot(row):
    if str(row.get_row_kind()) == "+I" and row.id % 50 == 17:
        fail("snapshot", 4)
    return row


def fail_in_log(row):
    if str(row.get_row_kind()) == "+U" and row.id % 10 == 3:
        fail("log", 4)
    return row


def has_failed(what):
    """Return what waits until all failures have struck: which rows come is chance."""
    return lambda: until(lambda: failed.get(what, 0) > 4)


def settled(sql, name):
    return lambda: apply(committed(name)) == rows_of(sql)


def run_busy(database, sql, mode, directory, name, through=None, on_log=lambda: None):
    """Run a job while rows are changed, until it has read the log for a while; then until it has come to the state of the table."""
    make_table(sql, 300)
    writers = [Writer(database, (name, n)) for n in range(2)]
    source = cdc_source(database, "fault", split_size=20, fetch_size=3).build()
    with MiniCluster():
        client = start(cdc_environment(mode, directory), source, name, through)
        until(lambda: sum(kind == "-U" for kind, _ in committed(name)) > 20)
        on_log()
        for writer in writers:
            writer.stop()
        until(settled(sql, name))
        client.cancel().result()


@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_fails_while_tables_are_read(database, sql, mode, tmp_path):
    name = f"in snapshot {mode}"
    run_busy(database, sql, mode, tmp_path, name, fail_in_snapshot, has_failed("snapshot"))


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_fails_in_the_log(database, sql, mode, tmp_path):
    run_busy(database, sql, mode, tmp_path, f"in log {mode}", fail_in_log, has_failed("log"))


@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_fails_when_the_log_takes_over(database, sql, mode, tmp_path, monkeypatch):
    find_log, read_log = enumerator.CdcEnumerator._log, log_reader.LogReader.read

    def finding(self, state):
        found = find_log(self, state)
        fail("finding the log", 2)
        return found

    def reading(self, position, limits):
        if position.snapshots:
            fail("reading the log", 2)
        return read_log(self, position, limits)

    monkeypatch.setattr(enumerator.CdcEnumerator, "_log", finding)
    monkeypatch.setattr(log_reader.LogReader, "read", reading)
    run_busy(database, sql, mode, tmp_path, f"handover {mode}")
    assert min(failed["finding the log"], failed["reading the log"]) > 2


@pytest.mark.parametrize("mode", MODES)
def test_connections_that_break_while_tables_are_read_and_in_the_log(
    database, sql, mode, tmp_path, monkeypatch
):
    raw_rows = chunk_fetch._raw_rows

    def breaking(result):
        with lock:
            failed["fetch"] = failed.get("fetch", 0) + 1
            if failed["fetch"] in {5, 17, 40}:
                raise psycopg.OperationalError("the cable was pulled")
        return raw_rows(result)

    def break_log():
        for _ in range(3):
            before = len(committed(name))
            sql("SELECT pg_terminate_backend(%s)", [until(lambda: reader_of_slot(sql))])
            until(lambda: len(committed(name)) > before + 50)

    name = f"connections {mode}"
    monkeypatch.setattr(chunk_fetch, "_raw_rows", breaking)
    run_busy(database, sql, mode, tmp_path, name, on_log=break_log)
    assert failed["fetch"] > 40


@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_is_killed_and_started_again(mode, tmp_path, monkeypatch):
    name = f"server {mode}"
    noticed, on_error = threading.Event(), log_reader.LogReader._on_error

    def noting(self, error):
        noticed.set()
        on_error(self, error)

    monkeypatch.setattr(log_reader.LogReader, "_on_error", noting)
    with serving(PostgresServer) as server:
        database = server.new_database()
        with psycopg.connect(database, autocommit=True) as connection:
            make_table(connection.execute, 100)
        source = cdc_source(database, "killed", split_size=20).build()
        with MiniCluster():
            client = start(cdc_environment(mode, tmp_path), source, name)
            until(lambda: len(committed(name)) == 100)
            for number in range(2):
                with psycopg.connect(database, autocommit=True) as connection:
                    connection.execute("UPDATE items SET v = v || 'x'")
                noticed.clear()
                (server.kill if number else server.stop)()
                assert noticed.wait(TIMEOUT_S)
                server.start()
                with psycopg.connect(database, autocommit=True) as connection:
                    connection.execute("DELETE FROM items WHERE id = %s", [number + 1])
                    # What the server had not written to disk when it was killed is gone for all.
                    until(settled(connection.execute, name))
            client.cancel().result()
    assert {kind for kind, _ in committed(name)} == {"+I", "-U", "+U", "-D"}


@pytest.mark.parametrize("mode", MODES)
def test_large_transaction_is_read_in_parts_and_resumed_within(
    database, sql, mode, tmp_path, monkeypatch
):
    monkeypatch.setattr("penstock.connectors.postgres_cdc.log_receiver.QUEUE_BYTES", 200_000)
    most, filled = [], []
    take = log_reader.LogReader._next_batch

    def noting(self, size):
        if self._receiver is not None:
            box = self._receiver.mailbox
            if not filled and not box.empty:
                # A reader that is faster than the server never sees the buffer fill up.
                filled.append(until(lambda: box.full))
            most.append(box._put_weight - box._taken_weight)
        return take(self, size)

    def failing(row):
        if row.id == 60_000:
            fail(f"row {row.id}", 1)
        return row

    monkeypatch.setattr(log_reader.LogReader, "_next_batch", noting)
    sql("CREATE TABLE items (id int PRIMARY KEY, v text, n numeric)")
    sql("ALTER TABLE items REPLICA IDENTITY FULL")
    name = f"big {mode}"
    source = cdc_source(database, "big").build()
    with MiniCluster():
        client = start(cdc_environment(mode, tmp_path), source, name, failing)
        until(lambda: reader_of_slot(sql))
        sql("INSERT INTO items SELECT i, 'v' || i, i FROM generate_series(1, 100000) i")
        until(lambda: count(name) >= 100_000)
        assert committed(name) == [
            ("+I", {"id": i, "v": f"v{i}", "n": i}) for i in range(1, 100_001)
        ]
        client.cancel().result()
    assert failed == {"row 60000": 2}
    # One message may be on top of what fits.
    assert 100_000 < max(most) < 201_000


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_slot_is_never_ahead_of_the_last_checkpoint(database, sql, mode, tmp_path):
    """Every retained checkpoint that is not reported as behind the slot resumes without a gap."""
    make_table(sql, 20)
    name = f"ahead {mode}"
    with MiniCluster():
        source = cdc_source(database, "ahead").build()
        client = start(cdc_environment(mode, tmp_path), source, name)
        until(lambda: len(committed(name)) == 20)
        sql("UPDATE items SET v = 'a'")
        until(lambda: len(committed(name)) == 60)
        client.cancel().result()
        # The slot, and the job, stand still; others write.
        sql("UPDATE items SET v = 'b'")
        last = max(
            (tmp_path / "checkpoints").rglob("_metadata"), key=lambda each: each.stat().st_mtime_ns
        )
        again = {"execution.state-recovery.path": str(last.parent)}
        client = start(cdc_environment(mode, tmp_path / "again", **again), source, name)
        until(lambda: len(committed(name)) == 100)
        client.cancel().result()
    assert apply(committed(name)) == rows_of(sql)


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_a_checkpoint_that_the_slot_has_left_behind_is_refused(database, sql, mode, tmp_path):
    make_table(sql, 20)
    name = f"behind {mode}"
    options = {"restart-strategy.type": "none"}
    with MiniCluster():
        source = cdc_source(database, "behind").build()
        client = start(cdc_environment(mode, tmp_path), source, name)
        until(lambda: len(committed(name)) == 20)
        old = client.trigger_savepoint(str(tmp_path / "savepoints")).result()
        for n in range(3):
            before = confirmed_lsn(sql)
            sql(f"UPDATE items SET v = '{n}'")
            until(lambda: len(committed(name)) == 60 + 40 * n)
            until(lambda: confirmed_lsn(sql) != before)
        client.cancel().result()
        env = cdc_environment(
            mode, tmp_path / "again", **{"execution.state-recovery.path": old}, **options
        )
        with pytest.raises(PenstockError, match="has advanced past the checkpoint"):
            start(env, source, name).get_job_execution_result().result()
