"""A socket source's reader, with a server that does what the test says."""

from __future__ import annotations

import select
import socket
import threading

import pytest

from penstock.common.serialization import DeserializationSchema
from penstock.connectors.base.source import NonBlockingReadLimits, ReadLimits
from penstock.connectors.socket import source as socket_source
from penstock.connectors.socket.source import SocketSource
from penstock.errors import ArgumentError, ArgumentTypeError, ConnectionFailedError, RecordError
from tests.builders.feeding import feeding, sends
from tests.builders.ports import reserved_port


def read_all(source, seconds=600.0):
    """Return all records until the split ends."""
    (split,) = source.create_enumerator(1).discover()
    reader = source.create_reader()
    reader.open(None)
    try:
        batches = list(reader.read(split, split.start, ReadLimits.lasting(seconds)))
        return [record for batch in batches for record in batch.records], batches
    finally:
        reader.close()


def first_records(batches):
    """Return the first records of a reader, whose batches are empty while the server is slow."""
    return next(batch.records for batch in batches if batch.records)


@pytest.mark.parametrize(
    ("data", "delimiter", "expected"),
    [
        (b"a\nb\n", "\n", ["a", "b"]),
        (b"a\nb", "\n", ["a", "b"]),
        (b"a\r\nb\r\n", "\n", ["a", "b"]),
        (b"a\r\nb\r", "\n", ["a", "b"]),
        (b"a\n\nb\n", "\n", ["a", "", "b"]),
        (b"a--b-c--", "--", ["a", "b-c"]),
        (b"a\r;b;", b";", ["a\r", "b"]),
        ("é\n€\n".encode(), "\n", ["é", "€"]),
        (b"", "\n", []),
    ],
)
def test_records_are_split_at_delimiters(data, delimiter, expected):
    with feeding(sends(data)) as address:
        assert read_all(SocketSource(*address, delimiter))[0] == expected


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 7])
def test_it_does_not_matter_how_bytes_come_in(cut):
    data = "".join(f"{n}§é--" for n in range(20)).encode()

    def serve(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data), cut):
            connection.sendall(data[at : at + cut])

    with feeding(serve) as address:
        found, _ = read_all(SocketSource(*address, "--"))
    assert found == [f"{n}§é" for n in range(20)]


def test_after_a_hang_up_it_connects_again_as_often_as_it_may():
    with feeding(sends(b"a\nb"), sends(b"c\n"), sends(b"d\n")) as address:
        found, _ = read_all(SocketSource(*address, max_retries=2, retry_delay_ms=10))
    assert found == ["a", "b", "c", "d"]


def test_missing_server_is_named_when_no_retry_is_left():
    with (
        reserved_port() as port,
        pytest.raises(ConnectionFailedError, match=f"127.0.0.1:{port}") as caught,
    ):
        read_all(SocketSource("127.0.0.1", port, max_retries=2, retry_delay_ms=1))
    assert "2 retries" in caught.value.detail


def test_a_server_that_comes_late_is_waited_for(monkeypatch):
    refused, connect = threading.Event(), socket.create_connection

    def noting(*arguments):
        try:
            return connect(*arguments)
        except ConnectionRefusedError:
            refused.set()
            raise

    monkeypatch.setattr(socket, "create_connection", noting)
    with reserved_port() as port:
        source = SocketSource("127.0.0.1", port, max_retries=-1, retry_delay_ms=5)
        (split,) = source.create_enumerator(1).discover()
        reader = source.create_reader()
        assert next(reader.read(split, 0, NonBlockingReadLimits())).records == []
        assert refused.wait(60)
        with socket.create_server(("127.0.0.1", port)) as late:
            connection, _ = late.accept()
            with connection:
                connection.sendall(b"late\n")
                batches = reader.read(split, 0, ReadLimits.lasting(60))
                assert first_records(batches) == ["late"]
            reader.close()


def test_partial_record_of_a_broken_connection_is_dropped():
    def serve(connection):
        connection.sendall(b"whole\nhal")
        broken.wait(60)
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    broken = threading.Event()
    with feeding(serve) as address:
        source = SocketSource(*address)
        (split,) = source.create_enumerator(1).discover()
        reader = source.create_reader()
        batches = reader.read(split, 0, ReadLimits.lasting(600))
        assert first_records(batches) == ["whole"]
        broken.set()
        with pytest.raises(ConnectionFailedError, match="reset"):
            list(batches)
        reader.close()


def test_server_is_backpressured_when_the_source_is_not_read():
    sent, held_back = [], threading.Event()

    def serve(connection):
        connection.setblocking(False)
        for _ in range(400):
            left = b"x" * 99_999 + b"\n"
            while left:
                if select.select([], [connection], [], 0.02)[1]:
                    left = left[connection.send(left) :]
                elif reader._receiver._size >= 200_000:  # the kernel's buffers are full, too
                    held_back.set()
            sent.append(100_000)

    with feeding(serve) as address:
        source = SocketSource(*address, max_buffered_bytes=200_000)
        (split,) = source.create_enumerator(1).discover()
        reader = source.create_reader()
        batches = reader.read(split, 0, ReadLimits.lasting(600))
        read = len(first_records(batches))
        assert held_back.wait(60)
        assert reader._receiver._size <= 200_000 + (1 << 16)
        assert len(sent) < 200  # the rest of 40 MB waits on the other side
        read += sum(len(batch.records) for batch in batches)
        reader.close()
    assert read == len(sent) == 400


def test_one_look_does_not_wait_and_a_wake_up_tells_of_more(monkeypatch):
    go = threading.Event()
    waited = []

    class Watched(socket_source._Receiver):
        """Notes for how long its reader waits."""

        def __init__(self, *arguments):
            super().__init__(*arguments)
            wait = self._changed.wait
            self._changed.wait = lambda seconds=None: waited.append(seconds) or wait(seconds)

    monkeypatch.setattr(socket_source, "_Receiver", Watched)

    def serve(connection):
        go.wait(60)
        connection.sendall(b"a\n")

    woken = threading.Event()
    with feeding(serve) as address:
        source = SocketSource(*address)
        (split,) = source.create_enumerator(1).discover()
        reader = source.create_reader()
        reader.use_wake(woken.set)
        assert next(reader.read(split, 0, NonBlockingReadLimits())).records == []
        assert not any(waited)
        assert reader.next_ready(split, 0) == float("inf")
        go.set()
        assert woken.wait(60)
        assert reader.next_ready(split, 0) == 0.0
        assert next(reader.read(split, 0, NonBlockingReadLimits())).records == ["a"]
        reader.close()


def test_invalid_text_is_malformed_with_its_number():
    with feeding(sends(b"a\n\xff\nb\n")) as address:
        found, batches = read_all(SocketSource(*address))
    assert found == ["a", "b"]
    (bad,) = [each for batch in batches for each in batch.malformed]
    assert bad.data == b"\xff"
    assert bad.origin == {"host": address[0], "port": address[1], "record": 2}


def test_a_schema_of_the_users_makes_the_records():
    class Numbers(DeserializationSchema):
        def deserialize(self, message):
            return int(message)

    with feeding(sends(b"1\n2\nx\n")) as address:
        found, batches = read_all(SocketSource(*address, deserializer=Numbers()))
    assert found == [1, 2]
    assert [bad.data for batch in batches for bad in batch.malformed] == [b"x"]


def test_a_record_without_an_end_is_refused():
    with feeding(sends(b"x" * 5000)) as address, pytest.raises(RecordError, match="too long"):
        read_all(SocketSource(*address, max_record_bytes=1000))


def test_received_but_unread_bytes_are_logged(caplog):
    closed = threading.Event()

    def serve(connection):
        connection.sendall(b"a\nbcd\n")
        assert closed.wait(60)

    with feeding(serve) as address:
        source = SocketSource(*address)
        (split,) = source.create_enumerator(1).discover()
        reader = source.create_reader()
        batches = reader.read(split, 0, ReadLimits(batch_size=1))
        found = first_records(batches)
        reader.close()
        closed.set()
    assert found == ["a"]
    assert "3 bytes" in caplog.text
    assert "were not read and are lost" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("", 1), ArgumentError),
        ((7, 1), ArgumentTypeError),
        (("h", 0), ArgumentError),
        (("h", 70000), ArgumentError),
        (("h", "1"), ArgumentTypeError),
        (("h", 1, ""), ArgumentError),
        (("h", 1, None), ArgumentError),
        (("h", 1, "\n", -2), ArgumentError),
        (("h", 1, "\n", 1.5), ArgumentTypeError),
    ],
)
def test_arguments_are_checked_at_once(arguments, error):
    with pytest.raises(error):
        SocketSource(*arguments)
