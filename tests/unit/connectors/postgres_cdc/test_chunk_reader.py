"""The reader of a chunk, over fetches that are lists of rows: each row once, with the snapshot it was read with."""

from __future__ import annotations

from types import SimpleNamespace

import psycopg
import pytest

from penstock.connectors.base.source import NonBlockingReadLimits, SourceSplit
from penstock.connectors.postgres_cdc import chunk_reader as chunk_reader_module
from penstock.connectors.postgres_cdc.bounded_queue import BoundedQueue
from penstock.connectors.postgres_cdc.catalog import CdcTable, KeyColumn
from penstock.connectors.postgres_cdc.chunk_fetch import Fetched
from penstock.connectors.postgres_cdc.chunk_reader import ChunkReader
from penstock.connectors.postgres_cdc.chunks import SnapshotChunk
from penstock.connectors.postgres_cdc.options import CdcOptions
from penstock.connectors.postgres_cdc.positions import Segment
from penstock.connectors.postgres_cdc.values import PostgresTypes
from penstock.errors import RecordError

OPTIONS = CdcOptions("h", 1, "d", "u", "p", connect_timeout_s=60.0)
KEY = (KeyColumn("id", "integer", "int4", native=True),)
CHUNK = SnapshotChunk(
    CdcTable("public", "items", "f", ("id", "v"), (23, 25), KEY), None, None, 1_000
)
SPLIT = SourceSplit("public.items:0", CHUNK, None, bounded=True)


class Fetch:
    """What the reader takes for the thread that fetches."""

    def __init__(self, start):
        self.start = start
        self.mailbox = BoundedQueue(100, lambda: None, lambda: None)
        self.types = PostgresTypes()
        self.stopped = False

    def send(self, snapshot, *keys, last=False):
        """Let rows come, read with a snapshot."""
        segment = Segment(snapshot, 90, None if last else (str(keys[-1]),))
        rows = [(str(key), f"v{key}") for key in keys]
        self.mailbox.put(Fetched(rows, (*self.start, segment)))

    def stop(self):
        self.stopped = True


class Reading:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        self.fetches = []
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(chunk_reader_module, "time", clock)
        monkeypatch.setattr(chunk_reader_module, "ChunkFetch", self._fetch)
        self.reader = ChunkReader(OPTIONS, lambda: None)

    def _fetch(self, options, chunk, position, wake):
        self.fetches.append(Fetch(position))
        return self.fetches[-1]

    def look(self, position):
        """Read until nothing is there; return the ids, the position after them, and whether the chunk is at its end."""
        ids = []
        for batch in self.reader.read(SPLIT, position, NonBlockingReadLimits()):
            ids += [record.id for record in batch.records]
            position = batch.position
            if not batch.records:
                return ids, position, False
        return ids, position, True


@pytest.fixture
def reading(monkeypatch):
    return Reading(monkeypatch)


def test_rows_come_as_insertions_with_the_time_of_the_snapshot(reading):
    reading.look(None)
    reading.fetches[0].send("1:1:", 1, 2, last=True)
    (batch,) = reading.reader.read(SPLIT, None, NonBlockingReadLimits())
    assert [(str(row.get_row_kind()), row.id, row.v) for row in batch.records] == [
        ("+I", 1, "v1"),
        ("+I", 2, "v2"),
    ]
    assert batch.timestamps == [1_000, 1_000]


def test_a_chunk_ends_with_the_last_rows_and_not_before(reading):
    assert reading.look(None) == ([], None, False)
    reading.fetches[0].send("1:1:", 1, 2)
    ids, position, ended = reading.look(None)
    assert (ids, position, ended) == ([1, 2], (Segment("1:1:", 90, ("2",)),), False)
    reading.fetches[0].send("1:1:", 3, last=True)
    ids, position, ended = reading.look(position)
    assert (ids, position, ended) == ([3], (Segment("1:1:", 90, None),), True)
    assert reading.fetches[0].stopped


def test_a_chunk_that_is_at_its_end_is_not_fetched_again(reading):
    assert reading.look((Segment("1:1:", 90, None),)) == ([], (Segment("1:1:", 90, None),), True)
    assert reading.fetches == []


def test_a_position_that_the_task_went_back_to_is_fetched_from_there(reading):
    reading.look(None)
    reading.fetches[0].send("1:1:", 1, 2)
    _, position, _ = reading.look(None)
    reading.look(position)
    reading.look(None)
    assert [each.start for each in reading.fetches] == [(), ()]
    assert reading.fetches[0].stopped


def test_interrupted_fetch_resumes_after_the_last_key_with_another_snapshot(reading):
    reading.look(None)
    reading.fetches[0].send("1:1:", 1, 2)
    reading.fetches[0].mailbox.put(psycopg.OperationalError("cut"))
    ids, position, _ = reading.look(None)
    assert ids == [1, 2]
    assert reading.look(position) == ([], position, False)
    assert len(reading.fetches) == 1  # after a pause
    reading.now += 1
    reading.look(position)
    assert reading.fetches[1].start == position
    reading.fetches[1].send("2:2:", 3, last=True)
    ids, position, ended = reading.look(position)
    assert (ids, ended) == ([3], True)
    assert [each.snapshot for each in position] == ["1:1:", "2:2:"]


def test_a_server_that_stays_away_for_longer_than_the_timeout_is_an_error(reading):
    reading.look(None)
    for _ in range(6):
        reading.fetches[-1].mailbox.put(psycopg.OperationalError("cut"))
        reading.look(None)
        reading.now += 11
        reading.look(None)
    reading.fetches[-1].mailbox.put(psycopg.OperationalError("cut"))
    with pytest.raises(psycopg.OperationalError):
        reading.look(None)


def test_an_error_that_stays_is_raised_at_once(reading):
    reading.look(None)
    reading.fetches[0].mailbox.put(RecordError("bad"))
    with pytest.raises(RecordError):
        reading.look(None)


def test_a_row_that_cannot_be_read_is_malformed_and_the_others_come(reading):
    reading.look(None)
    position = (Segment("1:1:", 90, None),)
    reading.fetches[0].mailbox.put(Fetched([("one", "a"), ("2", "b")], position))
    (batch,) = reading.reader.read(SPLIT, None, NonBlockingReadLimits())
    assert [row.id for row in batch.records] == [2]
    (bad,) = batch.malformed
    assert bad.origin["column"] == "id"
