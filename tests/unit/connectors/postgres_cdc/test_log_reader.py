"""The reader of the log, over a receiver that is a list of messages: which changes come, and which position is after them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from penstock.connectors.base.source import NonBlockingReadLimits
from penstock.connectors.postgres_cdc import log_reader as log_reader_module
from penstock.connectors.postgres_cdc.bounded_queue import BoundedQueue
from penstock.connectors.postgres_cdc.catalog import ServerUnavailableError
from penstock.connectors.postgres_cdc.log_reader import LogReader
from penstock.connectors.postgres_cdc.log_receiver import ReachedPosition, ReceivedMessage
from penstock.connectors.postgres_cdc.options import CdcOptions
from penstock.connectors.postgres_cdc.positions import StreamPosition, TableSnapshot
from penstock.connectors.postgres_cdc.values import PostgresTypes
from penstock.errors import RecordError
from tests.unit.connectors.postgres_cdc.log_messages import (
    ITEMS,
    begin,
    commit,
    insert,
    relation,
    truncate,
)

OPTIONS = CdcOptions(
    "h", 1, "d", "u", "p", before_images=False, confirm_delay=0, connect_timeout_s=60.0
)


class Receiver:
    """What the reader takes for the thread of a connection."""

    def __init__(self, position, confirmed):
        self.position, self.confirmed = position, confirmed
        self.mailbox = BoundedQueue(10**9, lambda: None, lambda: None)
        self.types, self.primary_keys = PostgresTypes(), {}
        self.stopped = False

    def confirm(self, lsn):
        self.confirmed = lsn

    def stop(self):
        self.stopped = True

    def send(self, *items):
        """Let messages come; a number is a keepalive with that position."""
        for item in items:
            if isinstance(item, int):
                item = ReachedPosition(item)
            self.mailbox.put(ReceivedMessage(item, 0) if isinstance(item, bytes) else item)


class Reading:
    """A reader, its connections, and a clock that is moved by hand."""

    def __init__(self, monkeypatch, options=OPTIONS):
        self.receivers = []
        self.now = 1000.0
        clock = SimpleNamespace(
            monotonic=lambda: self.now, time=lambda: self.now, sleep=self._sleep
        )
        monkeypatch.setattr(log_reader_module, "time", clock)
        monkeypatch.setattr(log_reader_module, "LogReceiver", self._connect)
        self.reader = LogReader(options, "me", lambda: None)

    def _sleep(self, seconds):
        self.now += seconds

    def _connect(self, options, owner, position, confirmed, wake):
        self.receivers.append(Receiver(position, confirmed))
        return self.receivers[-1]

    @property
    def receiver(self):
        return self.receivers[-1]

    def look(self, position, size=1024):
        """Read what is there; return the batches."""
        return list(self.reader.read(position, NonBlockingReadLimits(size)))

    def start(self, position=None):
        """Connect; return the position that was given."""
        position = position or StreamPosition(10)
        assert self.look(position) == []
        return position


@pytest.fixture
def reading(monkeypatch):
    return Reading(monkeypatch)


def ids(batches):
    return [record.id for batch in batches for record in batch.records]


def places(batches):
    return [(each.position.lsn, each.position.event) for each in batches]


TWO = (begin(100), relation(), insert(1, 1), insert(2, 2), commit(100, 110))


def test_changes_of_a_transaction_come_in_order_and_the_position_is_after_its_commit(reading):
    position = reading.start()
    reading.receiver.send(*TWO)
    batches = reading.look(position)
    assert ids(batches) == [1, 2]
    assert places(batches)[-1] == (110, 0)


def test_the_position_within_a_transaction_is_its_commit_and_the_number_of_the_change(reading):
    position = reading.start()
    reading.receiver.send(*TWO[:-1])
    assert places(reading.look(position, size=1)) == [(100, 1), (100, 2)]


def test_position_within_a_transaction_skips_earlier_changes(reading):
    position = reading.start(StreamPosition(100, 1))
    reading.receiver.send(*TWO)  # the server sends all of the transaction
    batches = reading.look(position)
    assert ids(batches) == [2]
    assert places(batches)[-1] == (110, 0)


def test_a_transaction_before_the_position_does_not_come_again(reading):
    position = reading.start(StreamPosition(110))
    reading.receiver.send(*TWO)
    assert reading.look(position) == []


def test_changes_of_the_next_transaction_are_counted_from_one(reading):
    position = reading.start()
    reading.receiver.send(*TWO, begin(200), insert(3, 3), insert(4, 4))
    assert places(reading.look(position))[-1] == (200, 2)


def test_a_keepalive_between_transactions_moves_the_position(reading):
    position = reading.start()
    reading.receiver.send(500)
    assert places(reading.look(position)) == [(500, 0)]


def test_a_keepalive_within_a_transaction_does_not_move_the_position(reading):
    position = reading.start()
    reading.receiver.send(*TWO[:3], 500)
    batches = reading.look(position)
    assert places(batches)[-1] == (100, 1)
    reading.receiver.send(*TWO[3:])
    batches = reading.look(batches[-1].position)
    assert ids(batches) == [2]
    assert places(batches)[-1] == (110, 0)


def test_a_checkpoint_within_a_transaction_confirms_nothing_after_its_commit_record(reading):
    # The server sends a transaction again if its commit record is not before what was confirmed.
    position = reading.start()
    reading.receiver.send(*TWO[:3], 500)
    (batch,) = reading.look(position)
    reading.reader.confirm(batch.position)
    assert reading.receiver.confirmed == 100


def test_an_older_keepalive_does_not_set_the_position_back(reading):
    position = reading.start(StreamPosition(300))
    reading.receiver.send(200)
    assert reading.look(position) == []


def test_the_commit_of_an_older_transaction_does_not_set_the_position_back(reading):
    position = reading.start(StreamPosition(300))
    reading.receiver.send(*TWO)
    assert reading.look(position) == []
    assert reading.reader._position == StreamPosition(300)


def test_a_position_that_the_task_went_back_to_is_read_over_a_new_connection(reading):
    position = reading.start()
    reading.receiver.send(*TWO)
    reading.look(position)
    first = reading.receiver
    assert reading.look(position) == []
    assert first.stopped
    assert reading.receiver.position == position
    reading.receiver.send(*TWO)
    assert ids(reading.look(position)) == [1, 2]


def test_a_position_that_was_reached_is_read_over_the_same_connection(reading):
    position = reading.start()
    reading.receiver.send(*TWO)
    position = reading.look(position)[-1].position
    reading.look(position)
    assert len(reading.receivers) == 1


def test_interrupted_transaction_resumes_after_its_last_change(reading):
    position = reading.start()
    reading.receiver.send(*TWO[:3], ServerUnavailableError("it broke"))
    batches = reading.look(position)
    assert ids(batches) == [1]
    reading.now += 1
    position = batches[-1].position
    assert reading.look(position) == []  # connects
    assert reading.receiver.position == StreamPosition(100, 1)
    reading.receiver.send(50, *TWO)  # the connection has begun no transaction yet
    assert ids(reading.look(position)) == [2]


def test_a_keepalive_after_a_broken_connection_moves_the_position(reading):
    position = reading.start()
    reading.receiver.send(begin(100), ServerUnavailableError("it broke"))
    reading.look(position)
    reading.now += 1
    reading.look(position)
    reading.receiver.send(500)
    assert places(reading.look(position)) == [(500, 0)]


def test_a_server_that_is_away_is_tried_again_after_a_pause(reading):
    position = reading.start()
    reading.receiver.send(ServerUnavailableError("it broke"))
    assert reading.look(position) == []
    assert reading.look(position) == []
    assert len(reading.receivers) == 1
    assert 0 < reading.reader.next_ready() < 1
    reading.now += 1
    reading.look(position)
    assert len(reading.receivers) == 2


def break_after(reading, position, seconds):
    reading.now += seconds
    reading.look(position)
    reading.receiver.send(ServerUnavailableError("it broke"))
    return reading.look(position)


def test_a_server_that_stays_away_for_longer_than_the_timeout_is_an_error(reading):
    position = reading.start()
    for _ in range(6):
        break_after(reading, position, 11)
    with pytest.raises(ServerUnavailableError):
        break_after(reading, position, 11)


def test_a_server_that_comes_back_in_between_is_waited_for_as_long_again(reading):
    position = reading.start()
    for lsn in range(100, 200):
        break_after(reading, position, 40)
        reading.now += 1
        reading.look(position)
        reading.receiver.send(lsn)
        (batch,) = reading.look(position)
        position = batch.position


def test_an_error_that_stays_is_raised_at_once(reading):
    position = reading.start()
    reading.receiver.send(RecordError("bad"))
    with pytest.raises(RecordError, match="bad"):
        reading.look(position)
    assert reading.receiver.stopped


def test_the_slot_is_confirmed_some_checkpoints_later(monkeypatch):
    reading = Reading(monkeypatch, replace(OPTIONS, confirm_delay=2))
    reading.start()
    confirmed = []
    for lsn in (20, 30, 40, 50):
        reading.reader.confirm(StreamPosition(lsn))
        confirmed.append(reading.receiver.confirmed)
    assert confirmed == [0, 0, 20, 30]


def test_new_connection_keeps_the_confirmed_position(reading):
    reading.start()
    reading.reader.confirm(StreamPosition(20))
    reading.look(StreamPosition(15))
    assert len(reading.receivers) == 2
    assert reading.receiver.confirmed == 20


def test_a_checkpoint_of_an_earlier_position_does_not_take_the_confirmation_back(reading):
    reading.start()
    reading.reader.confirm(StreamPosition(40))
    reading.reader.confirm(StreamPosition(20))
    assert reading.receiver.confirmed == 40


def test_tables_that_are_truncated_together_are_one_change(reading):
    position = reading.start(StreamPosition(100, 1))
    both = truncate(ITEMS, 2)
    reading.receiver.send(begin(100), relation(), relation(2, "other"), both, insert(1, 1))
    batches = reading.look(position)
    assert ids(batches) == [1]
    assert places(batches)[-1] == (100, 2)


class Kinds:
    """Makes a record of every change: its kind and its table."""

    def deserialize(self, change):
        return [SimpleNamespace(op=change.op, table=change.table)]


def test_a_truncation_comes_once_for_each_table_and_not_again(monkeypatch):
    reading = Reading(monkeypatch, replace(OPTIONS, deserializer=Kinds()))
    position = reading.start()
    reading.receiver.send(
        begin(100), relation(), relation(2, "other"), truncate(ITEMS, 2), commit(100, 110)
    )
    batches = reading.look(position, size=2)
    assert [each.table for batch in batches for each in batch.records] == ["items", "other"]
    assert places(batches)[0] == (100, 1)


def snapshot(text):
    return (TableSnapshot("public", "items", ("id",), ("int4",), ((None, text),)),)


def test_changes_that_the_snapshot_has_are_left_out_until_it_is_caught_up(reading):
    # The snapshot sees transactions before 50. Numbers of transactions say nothing from position 200 on.
    position = reading.start(StreamPosition(10, 0, 200, snapshot("50:50:")))
    reading.receiver.send(begin(100, 40), relation(), insert(1, 1), commit(100, 110))
    reading.receiver.send(begin(120, 60), insert(2, 2), commit(120, 130))
    reading.receiver.send(begin(200, 40), insert(3, 3), commit(200, 210))
    assert ids(reading.look(position)) == [2, 3]


def test_a_new_connection_still_knows_the_snapshot(reading):
    position = reading.start(StreamPosition(10, 0, 200, snapshot("50:50:")))
    reading.receiver.send(20, ServerUnavailableError("it broke"))
    (batch,) = reading.look(position)
    reading.now += 1
    reading.look(batch.position)
    reading.receiver.send(begin(100, 40), relation(), insert(1, 1), commit(100, 110))
    assert ids(reading.look(batch.position)) == []


def test_a_change_outside_of_a_transaction_is_an_error(reading):
    position = reading.start()
    reading.receiver.send(relation(), insert(1, 1))
    with pytest.raises(RecordError, match="outside of a transaction"):
        reading.look(position)


def test_a_change_of_a_table_that_was_not_described_is_an_error(reading):
    position = reading.start()
    reading.receiver.send(begin(100), insert(1, 1))
    with pytest.raises(RecordError, match="an unknown table"):
        reading.look(position)


def test_a_change_that_cannot_be_read_is_malformed_and_does_not_come_again(reading):
    position = reading.start()
    bad = insert(1, 1).replace(b"1", b"x", 1)
    reading.receiver.send(begin(100), relation(), bad, insert(2, 2))
    batches = reading.look(position)
    assert ids(batches) == [2]
    assert [each.origin["change"] for batch in batches for each in batch.malformed] == [1]
    assert places(batches)[-1] == (100, 2)
