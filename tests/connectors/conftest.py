"""Real servers, one of each kind for all tests that need it. What is not installed fails in CI and skips elsewhere, by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tools.servers.kafka import KafkaBroker
from tools.servers.postgres import PostgresServer
from tools.servers.process import MissingServerError, ServerProcess

S = TypeVar("S", bound=ServerProcess)
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let all tests of one system run in one process, where its server is."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.parent != HERE:
            system = item.path.relative_to(HERE).parts[0]
            item.add_marker(pytest.mark.xdist_group(system))


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
def database(postgres: PostgresServer) -> str:
    """The URL of an empty database of the test's own."""
    return postgres.new_database()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A Kafka broker, for all tests. A test that kills or reconfigures a broker starts its own."""
    with serving(KafkaBroker) as broker:
        yield broker
