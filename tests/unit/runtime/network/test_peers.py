"""The two ends of a channel between slots, without sockets."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.graph.deployment import ResultEdge
from penstock.runtime.network import frames
from penstock.runtime.network.channels import RESTORED, BufferOrEvent, ChannelId, Inputs, Outputs
from penstock.runtime.network.credits import ITEM_OVERHEAD
from penstock.runtime.network.debloating import UNLIMITED
from penstock.runtime.network.edges import BufferedEdge
from penstock.runtime.network.messages import BARRIER, DATA, WATERMARK, BarrierMessage
from penstock.runtime.network.peers import FULL_MESSAGE, Peer, RemoteInput, RemoteOutput
from penstock.runtime.network.writers import ChannelWriter
from penstock.runtime.records import RowBatch

CHANNEL = ChannelId(1, 1, 0, 0)
MESSAGE = BarrierMessage(1, "a", False)


class Socket:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[list[bytes]] = []

    def send_multipart(self, message: list[bytes], flags: int) -> None:
        self.sent.append(message)

    def entries(self) -> list[frames.FrameEntry]:
        found = [entry for message in self.sent for entry in frames.read_entries(message)]
        self.sent.clear()
        return found


@pytest.fixture
def socket() -> Socket:
    return Socket()


@pytest.fixture
def peer(socket: Any) -> Peer:
    made = Peer(0, 1)
    made.connected(socket)
    return made


def credit(limit: int, records: int = UNLIMITED, window: int = UNLIMITED) -> frames.FrameEntry:
    key = frames.channel_key(CHANNEL)
    return frames.FrameEntry(key, frames.CREDIT, False, b"", records, limit, window)


def test_a_message_that_is_large_enough_does_not_wait_for_the_next_pump(
    peer: Peer, socket: Socket
) -> None:
    output = RemoteOutput(CHANNEL, peer, Outputs())
    output.arrived(credit(10 * FULL_MESSAGE))
    socket.sent.clear()
    output.send(DATA, RowBatch(["x"]))
    assert socket.sent == []
    output.send(DATA, RowBatch(["x" * FULL_MESSAGE]))
    assert [entry.kind for entry in socket.entries()] == [DATA, DATA]


def test_only_records_are_captured_at_the_sender(peer: Peer) -> None:
    output = RemoteOutput(CHANNEL, peer, Outputs())
    output.send(DATA, RowBatch([1]))  # this one goes
    output.send(DATA, RowBatch([2]))
    output.send(WATERMARK, 5)
    output.send(DATA, RowBatch([3]))
    overtaken = output.overtake(BARRIER, MESSAGE)
    assert [RowBatch.decode(item.content).values for item in overtaken] == [[2], [3]]


def test_a_message_that_overtakes_uses_the_window_as_others_do(peer: Peer, socket: Socket) -> None:
    outputs = Outputs()
    output = RemoteOutput(CHANNEL, peer, outputs)
    output.arrived(credit(1 + ITEM_OVERHEAD))
    assert outputs.has_room
    output.overtake(BARRIER, MESSAGE)
    assert not outputs.has_room
    output.send(DATA, RowBatch([1]))
    peer.flush()
    assert [(each.kind, each.overtakes) for each in socket.entries()] == [(BARRIER, True)]


def test_a_record_that_was_restored_gives_no_room_to_the_sender(peer: Peer, socket: Socket) -> None:
    source = RemoteInput(CHANNEL, peer, Inputs())
    source.resize(100)
    source.open()
    peer.flush()
    assert [entry.limit for entry in socket.entries()] == [100]
    source.receiver.restore([b"a", b"b"])
    for _ in range(2):
        source.receiver.take()
    peer.flush()
    assert socket.entries() == []
    source.receiver.put(BufferOrEvent(DATA, b"x" * 36, 36))
    source.receiver.take()
    peer.flush()
    assert [entry.limit for entry in socket.entries()] == [200]


def test_a_slow_receiver_allows_less_than_its_window_and_smaller_buffers(
    peer: Peer, socket: Socket
) -> None:
    source = RemoteInput(CHANNEL, peer, Inputs())
    source.receiver.fit(28)
    source.resize(100_000)
    source.open()
    peer.flush()
    (credit,) = socket.entries()
    assert (credit.limit, credit.records, credit.window) == (100_000, 28, 28)
    sender = RemoteOutput(CHANNEL, peer, Outputs())
    sender.arrived(credit)
    assert (sender.window, sender.most_records) == (28, 7)
    source.receiver.fit(9000)
    peer.flush()
    assert [(each.records, each.window) for each in socket.entries()] == [(9000, 9000)]


def test_processed_records_free_capacity_at_the_sender(peer: Peer, socket: Socket) -> None:
    source = RemoteInput(CHANNEL, peer, Inputs())
    source.receiver.fit(4)
    source.resize(100_000)
    source.open()
    outputs = Outputs()
    sender = RemoteOutput(CHANNEL, peer, outputs)
    peer.flush()
    sender.arrived(*socket.entries())
    sender.send(DATA, RowBatch([1, 2, 3]))
    assert outputs.has_room
    sender.send(DATA, RowBatch([4, 5, 6]))  # one more item than the window
    assert not outputs.has_room
    sender.send(DATA, RowBatch([7]))
    peer.flush()
    sent = socket.entries()
    assert [entry.records for entry in sent] == [3, 3]
    for entry in sent:
        source.arrived(entry)
    assert source.receiver.usage() == 1.0
    item = source.receiver.take()
    source.receiver.put_back(RowBatch([2, 3]), item)
    source.receiver.processed(item, 1)
    peer.flush()
    assert socket.entries() == []  # less than half a window
    source.receiver.processed(source.receiver.take(), 2)
    peer.flush()
    (credit,) = socket.entries()
    assert (credit.records, credit.window) == (7, 4)
    sender.arrived(credit)
    peer.flush()
    assert [entry.records for entry in socket.entries()] == [1]
    assert not outputs.has_room


def test_a_receiver_that_became_slow_takes_back_what_was_not_used(
    peer: Peer, socket: Socket
) -> None:
    source = RemoteInput(CHANNEL, peer, Inputs())
    source.receiver.fit(1000)
    source.resize(100_000)
    source.open()
    outputs = Outputs()
    sender = RemoteOutput(CHANNEL, peer, outputs)
    peer.flush()
    sender.arrived(*socket.entries())
    sender.send(DATA, RowBatch([*range(10)]))
    source.receiver.fit(8)
    peer.flush()
    for entry in socket.entries():
        (sender if entry.kind == frames.CREDIT else source).arrived(entry)
    assert not outputs.has_room
    assert sender.usage() == 1.0


def test_records_that_were_restored_come_first_in_their_order(peer: Peer) -> None:
    receiver = RemoteInput(CHANNEL, peer, Inputs()).receiver
    receiver.put(BufferOrEvent(DATA, b"c", 1))
    receiver.restore([b"a", b"b"])
    assert [(item.content, item.size) for item in receiver.items] == [
        (b"a", RESTORED),
        (b"b", RESTORED),
        (b"c", 1),
    ]


def test_an_edge_holds_a_barrier_while_any_of_its_channels_does(peer: Peer) -> None:
    free = RemoteOutput(CHANNEL, peer, Outputs())
    full = RemoteOutput(ChannelId(1, 2, 0, 0), peer, Outputs())
    full.send(DATA, RowBatch([1]))
    description = ResultEdge(0, 0, None, 1, 0, 2, 128, "REBALANCE", False, "v1")
    edge = BufferedEdge(description, None, 0, 1, 1 << 16)
    edge.bind(ChannelWriter({0: free, 1: full}, frozenset()))
    edge.barrier(MESSAGE)
    assert edge.holds(MESSAGE)
    full.arrived(credit(10_000))
    assert not edge.holds(MESSAGE)
