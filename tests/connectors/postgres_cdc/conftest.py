from __future__ import annotations

import psycopg
import pytest

from tests.builders.changelog import cancel_all


@pytest.fixture
def sql(database):
    """Runs statements in the test's database."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection.execute
        # A slot keeps the log of the whole server.
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = current_database() AND NOT active"
        )


@pytest.fixture(autouse=True)
def _no_job_stays():
    yield
    cancel_all()
