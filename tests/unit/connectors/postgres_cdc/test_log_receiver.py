"""The thread that receives the log, over a connection that is a list: what the server hears, and what the task gets."""

from __future__ import annotations

import queue
import socket
import struct
import threading
from collections import deque
from contextlib import nullcontext
from types import SimpleNamespace

import psycopg
import pytest

from penstock.connectors.postgres_cdc import log_receiver as log_receiver_module
from penstock.connectors.postgres_cdc.catalog import ServerUnavailableError
from penstock.connectors.postgres_cdc.log_receiver import (
    LogReceiver,
    ReachedPosition,
    ReceivedMessage,
)
from penstock.connectors.postgres_cdc.options import CdcOptions
from penstock.connectors.postgres_cdc.positions import StreamPosition
from penstock.connectors.postgres_cdc.slots import Slot
from penstock.errors import RestoreRefusedError
from tests.builders.waiting import wait_until
from tests.unit.connectors.postgres_cdc.log_messages import (
    begin,
    insert,
    keepalive,
    wal_data,
)

TIMEOUT_S = 60
STATUS = struct.Struct(">cQQQqB")


class Server:
    """A replication connection of libpq. `silence_ms` is how long the server bears to hear nothing."""

    def __init__(self, silence_ms=3_600_000):
        self.silence_ms = silence_ms
        self.slots = deque([self.slot(0)])  # what is found, one after another; the last one stays
        self.statements = []
        self.statuses = queue.Queue()
        self.finished = threading.Event()
        self._messages = deque()
        self._near, self._far = socket.socketpair()

    def slot(self, confirmed):
        return Slot("pgoutput", "d", confirmed, "reserved", None, None)

    def send(self, *messages):
        """Let messages come. None is the end of the connection."""
        self._messages.extend(messages)
        self._far.send(b"!")

    def status(self):
        """Return what the server hears next: (written, flushed, applied, whether an answer is wanted)."""
        kind, written, flushed, applied, _, reply = STATUS.unpack(
            self.statuses.get(timeout=TIMEOUT_S)
        )
        assert kind == b"r"
        return written, flushed, applied, bool(reply)

    # libpq

    error_message = b"the connection was cut"
    nonblocking = 0

    @property
    def socket(self):
        return self._near.fileno()

    def exec_(self, statement):
        self.statements.append(statement.decode())
        return SimpleNamespace(status=psycopg.pq.ExecStatus.COPY_BOTH)

    def get_copy_data(self, _):
        if not self._messages:
            return 0, b""
        message = self._messages.popleft()
        return (-1, b"") if message is None else (len(message), message)

    def get_result(self):
        return None

    def consume_input(self):
        self._near.recv(4096)

    def put_copy_data(self, data):
        self.statuses.put(data)

    def flush(self):
        return 0

    def finish(self):
        self.finished.set()


@pytest.fixture
def server(monkeypatch):
    made = Server()

    def connect(options, name, *, replication=False):
        if replication:
            return SimpleNamespace(pgconn=made)
        answer = SimpleNamespace(fetchone=lambda: (made.silence_ms,))
        return nullcontext(SimpleNamespace(execute=lambda _: answer))

    def find_slot(connection, name):
        return made.slots.popleft() if len(made.slots) > 1 else made.slots[0]

    # What the server hears it hears for a reason, and not because it is time to tell it something.
    monkeypatch.setattr(log_receiver_module, "_LONGEST_SILENCE_S", 3600.0)
    monkeypatch.setattr(log_receiver_module, "connect", connect)
    monkeypatch.setattr(log_receiver_module, "find_slot", find_slot)
    monkeypatch.setattr(log_receiver_module, "free_slot", lambda *_: None)
    return made


@pytest.fixture
def start(server):
    started = []

    def start(position=10, confirmed=0, **options):
        settings = CdcOptions("h", 1, "d", "u", "p", slot="s", heartbeat_s=3600.0, **options)
        started.append(
            LogReceiver(settings, "me", StreamPosition(position), confirmed, lambda: None)
        )
        return started[-1]

    yield start
    for each in started:
        each.stop(TIMEOUT_S)


def next_item(receiver):
    found = []

    def taken():
        found.append(receiver.mailbox.take())
        return found[-1] is not None

    wait_until(taken)
    return found[-1]


def test_the_log_is_asked_for_from_the_position_on(server, start):
    start(position=2**32 + 160)
    server.status()
    assert "LOGICAL 1/A0 " in server.statements[0]


def test_messages_and_keepalives_come_in_order(server, start):
    receiver = start()
    server.send(wal_data(90, begin(100)), keepalive(95), wal_data(96, insert(1, 1)))
    found = [next_item(receiver) for _ in range(3)]
    assert [each.data for each in found if isinstance(each, ReceivedMessage)] == [
        begin(100),
        insert(1, 1),
    ]
    assert found[1] == ReachedPosition(95)


def test_received_positions_are_not_confirmed(server, start):
    receiver = start(confirmed=7)
    assert server.status() == (7, 7, 7, False)
    server.send(wal_data(90, begin(100)), keepalive(95, reply=True))
    assert server.status() == (95, 7, 7, False)
    assert isinstance(next_item(receiver), ReceivedMessage)


def test_confirmed_position_is_sent_at_once(server, start):
    receiver = start()
    server.status()
    receiver.confirm(80)
    assert server.status() == (80, 80, 80, False)


def test_an_earlier_position_does_not_take_a_confirmation_back(server, start):
    receiver = start(confirmed=80)
    server.status()
    receiver.confirm(40)
    server.send(keepalive(95, reply=True))
    assert server.status() == (95, 80, 80, False)


def test_a_keepalive_that_wants_an_answer_gets_one(server, start):
    start()
    server.status()
    server.send(keepalive(20, reply=True))
    assert server.status() == (20, 0, 0, False)


def test_older_keepalive_does_not_reset_the_received_position(server, start):
    start()
    server.status()
    server.send(keepalive(95), keepalive(20, reply=True))
    assert server.status()[0] == 95


def test_a_server_that_must_hear_often_hears_without_any_message(server, start):
    server.silence_ms = 30
    start(confirmed=7)
    assert {server.status() for _ in range(5)} == {(7, 7, 7, False)}


def test_lost_connection_is_an_error_after_the_received_messages(server, start):
    receiver = start()
    server.send(keepalive(95), None)
    assert next_item(receiver) == ReachedPosition(95)
    error = next_item(receiver)
    assert isinstance(error, ServerUnavailableError)
    assert "the connection was cut" in error.detail
    assert server.finished.wait(TIMEOUT_S)


def test_a_slot_that_its_last_reader_moved_past_the_position_is_refused(server, start):
    server.slots = deque([server.slot(5), server.slot(11)])
    error = next_item(start(position=10))
    assert isinstance(error, RestoreRefusedError)
    assert server.statements == []


def test_a_receiver_that_is_stopped_gives_the_connection_free_and_says_nothing(server, start):
    receiver = start()
    server.status()
    receiver.stop(TIMEOUT_S)
    assert server.finished.is_set()
    assert receiver.mailbox.take() is None
    receiver.confirm(90)  # it comes too late, and does no harm


def test_nothing_more_is_taken_while_the_mailbox_is_full(server, start, monkeypatch):
    monkeypatch.setattr(log_receiver_module, "QUEUE_BYTES", 300)
    receiver = start()
    server.send(*(keepalive(number) for number in range(100, 150)))
    wait_until(lambda: receiver.mailbox.full)
    server.send(keepalive(150, reply=True))
    receiver.confirm(80)
    while server.status()[1] != 80:  # it continues to receive and to send status updates
        pass
    assert len(receiver.mailbox._items) == 3
    assert [next_item(receiver) for _ in range(51)] == [
        ReachedPosition(each) for each in range(100, 151)
    ]
