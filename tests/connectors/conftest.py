"""Real servers, one of each kind for all tests that need it. What is not installed fails in CI and skips elsewhere, by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, TypeVar

import psycopg
import pytest
from xdist.scheduler import LoadScopeScheduling

from penstock.testing import SinkSetup, SourceSetup
from tools.servers.kafka import KafkaBroker
from tools.servers.postgres import PostgresServer
from tools.servers.process import MissingServerError, ServerProcess

# A machine that is very busy may take minutes for what takes seconds.
SinkSetup.wait_s = SourceSetup.wait_s = 240.0

S = TypeVar("S", bound=ServerProcess)


class BySystem(LoadScopeScheduling):
    """Gives all tests of one system to one worker, where its server is.

    The marker `xdist_group` would say the same, but with pytest 9.2 xdist reads it and then loses it.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = PurePath(nodeid.partition("::")[0])
        if path.parent.name == "table":
            return path.stem.split("_")[1]  # of test_kafka_tables
        return path.parent.name


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Take part in `--dist loadgroup`."""
    return BySystem(config, log) if config.getvalue("dist") == "loadgroup" else None


@contextmanager
def serving(kind: type[S]) -> Iterator[S]:
    """Start a server; a test that needs one which is not installed says so."""
    try:
        server = kind()
        server.start()
    except MissingServerError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """PostgreSQL, for all tests. A test that kills or reconfigures a server starts its own."""
    with serving(PostgresServer) as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    url = postgres.new_database()
    yield url
    if postgres.running:
        _end_transactions(url)


def _end_transactions(url: str) -> None:
    """End what a test has left open or prepared: who makes a replication slot, in any database, waits for it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
        )
        prepared = connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
        ).fetchall()
        for (name,) in prepared:
            connection.execute(f"ROLLBACK PREPARED '{name}'")


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A Kafka broker, for all tests. A test that kills or reconfigures a broker starts its own."""
    with serving(KafkaBroker) as broker:
        yield broker
