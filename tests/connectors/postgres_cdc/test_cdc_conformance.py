"""The rules that every source keeps, for the rows of a table."""

from __future__ import annotations

from contextlib import suppress

import psycopg
import pytest

from penstock.common import Row
from penstock.connectors.postgres_cdc import PostgresCdcSource, StartupOptions
from penstock.testing import SourceConformance, SourceSetup
from tests.builders.changelog import cdc_source
from tests.builders.modes import SOAKS
from tests.builders.waiting import wait_until
from tests.connectors.postgres_cdc.tables import reader_of_slot


class Table(SourceSetup):
    """A table that is read once, in chunks."""

    def __init__(self, url):
        self.url = url
        self.sql = psycopg.connect(url, autocommit=True)
        self.sql.execute("CREATE TABLE items (id int PRIMARY KEY, v text, at timestamp)")

    def record(self, number):
        row = Row(number, "v")
        row.set_field_names(["id", "v"])
        return row

    def big_record(self):
        row = Row(10**6, "x" * 1_000_000)
        row.set_field_names(["id", "v"])
        return row

    def identity(self, record):
        return (record.id, record.v)

    def create(self):
        return cdc_source(
            self.url, "rules", split_size=7, fetch_size=3, startup_options=StartupOptions.snapshot()
        ).build()

    def add(self, records):
        with self.sql.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO items VALUES (%s, %s)", [(each.id, each.v) for each in records]
            )

    def add_malformed(self):
        self.sql.execute("INSERT INTO items VALUES (-1, 'bad', 'infinity')")
        return "date 'infinity' is out of Python's range"

    def wrong_arguments(self):
        builder = PostgresCdcSource.builder
        return [
            lambda: builder().port(0),
            lambda: builder().slot_name("A b"),
            lambda: builder().build(),
        ]

    def close(self):
        with suppress(psycopg.Error):
            self.sql.close()


class TestTable(SourceConformance):
    @pytest.fixture
    def connector(self, database):
        return Table(database)


class EndlessTable(Table):
    """A table whose changes are read too."""

    bounded = False
    appends = True

    def create(self):
        self.sql.execute("ALTER TABLE items REPLICA IDENTITY FULL")
        return cdc_source(self.url, "rules", split_size=7, fetch_size=3).build()

    def close(self):
        with suppress(psycopg.Error):
            self.sql.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
                "WHERE database = current_database() AND active"
            )
            wait_until(lambda: reader_of_slot(self.sql.execute) is None)
            self.sql.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                "WHERE database = current_database()"
            )
        super().close()


@pytest.mark.skipif(not SOAKS, reason="failures in the log are in test_faults and test_killed")
class TestEndlessTable(SourceConformance):
    @pytest.fixture
    def connector(self, database, monkeypatch):
        # In epoch mode a reader is not notified that its job has ended.
        monkeypatch.setattr("penstock.connectors.postgres_cdc.log_receiver.UNATTENDED_S", 0.5)
        made = EndlessTable(database)
        yield made
        made.close()
