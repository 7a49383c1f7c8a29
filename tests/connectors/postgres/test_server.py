"""The server that other tests rely on: killed and started again, it has what was committed and what was prepared."""

from __future__ import annotations

import psycopg

from tests.connectors.conftest import serving
from tools.servers.postgres import PostgresServer


def test_killed_server_keeps_committed_and_prepared_transactions() -> None:
    with serving(PostgresServer) as server:
        url = server.new_database()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (a int)")
            connection.execute("BEGIN")
            connection.execute("INSERT INTO t VALUES (1)")
            connection.execute("PREPARE TRANSACTION 'in doubt'")
        server.kill()
        assert not server.running
        server.start()
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == [
                ("in doubt",)
            ]
            connection.execute("COMMIT PREPARED 'in doubt'")
            assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_logical_replication_and_prepared_transactions_are_on(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.dsn) as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
        assert connection.execute("SHOW max_prepared_transactions").fetchone() == ("64",)


def test_every_test_has_a_database_of_its_own(postgres: PostgresServer, database: str) -> None:
    assert postgres.new_database() != database
