"""The network of a slot, with real sockets."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import select
import socket as sockets
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import zmq

from penstock.graph.stage import DebloatSettings, NetworkSettings
from penstock.runtime.network import frames, transport
from penstock.runtime.network.authentication import identify, make_keys
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.channels import ChannelId, Inputs, Outputs
from penstock.runtime.network.credits import ITEM_OVERHEAD
from penstock.runtime.network.debloating import FIRST_RECORDS, UNLIMITED
from penstock.runtime.network.frames import TransportError
from penstock.runtime.network.messages import BARRIER, DATA, WATERMARK, BarrierMessage
from penstock.runtime.network.transport import Network
from penstock.runtime.records import RowBatch
from tests.builders.waiting import wait_until
from tests.unit.runtime.network.slots import FOREVER_S, HOST, TIMEOUT_S, Handshakes, Slots

SMALL = NetworkSettings(channel_bytes=1000, gate_bytes=0)
BARRIER_1 = BarrierMessage(1, "a", False)


@pytest.fixture
def slots() -> Iterator[Slots]:
    made = Slots()
    yield made
    made.close()


@pytest.fixture
def small() -> Iterator[Slots]:
    made = Slots(settings=SMALL)
    yield made
    made.close()


def batch(size: int) -> RowBatch:
    """A batch that is encoded as so many bytes, or a few more."""
    return RowBatch(["x" * size])


def test_records_arrive_as_bytes_that_decode_to_them_and_messages_as_pickles(slots: Slots) -> None:
    sender, receiver = slots.channel()
    sender.send(DATA, RowBatch([1, "b"], [10, 20]))
    sender.send(WATERMARK, 5)
    records, watermark = slots.take(receiver, 2)
    assert type(records.content) is bytes
    assert decode(records.content).values == [1, "b"]  # type: ignore[attr-defined]
    assert records.size == len(records.content)
    assert (watermark.kind, pickle.loads(watermark.content)) == (WATERMARK, 5)


def test_everything_between_two_slots_keeps_its_order(slots: Slots) -> None:
    sender, receiver = slots.channel()
    for number in range(2000):
        sender.send(WATERMARK, number)
    taken = slots.take(receiver, 2000)
    assert [pickle.loads(item.content) for item in taken] == [*range(2000)]


def test_a_channel_within_a_slot_carries_objects_whichever_end_is_opened_first(
    slots: Slots,
) -> None:
    for gate, output_first in enumerate([True, False]):
        network, inputs, outputs = slots.networks[0], Inputs(), Outputs()
        channel = ChannelId(1, 0, gate, 0)
        if output_first:
            sender = network.open_output(channel, 0, outputs)
            receiver = network.open_input(channel, 0, inputs)
        else:
            receiver = network.open_input(channel, 0, inputs)
            sender = network.open_output(channel, 0, outputs)
        content = RowBatch([1])
        sender.send(DATA, content)
        assert inputs.next() is receiver
        assert receiver.take().content is content


@pytest.mark.parametrize("receiver_first", [True, False])
def test_either_end_may_open_a_channel_first(slots: Slots, receiver_first: bool) -> None:
    channel, inputs, outputs = ChannelId(1, 1, 0, 0), Inputs(), Outputs()
    if receiver_first:
        slots.networks[1].open_input(channel, 0, inputs)
        slots.rest()
        sender = slots.networks[0].open_output(channel, 1, outputs)
        sender.send(WATERMARK, 1)
    else:
        sender = slots.networks[0].open_output(channel, 1, outputs)
        sender.send(WATERMARK, 1)
        assert not outputs.has_room, "one item may go before the receiver has announced its window"
        slots.rest()
        slots.networks[1].open_input(channel, 0, inputs)
    slots.until(lambda: outputs.has_room and inputs.next())


def test_a_slow_receiver_closes_the_sender_and_holds_no_more_than_its_window(small: Slots) -> None:
    sender, receiver = small.channel()
    outputs = small.outputs[0]
    small.rest()
    sent = 0
    while outputs.has_room:
        sender.send(DATA, batch(100))
        sent += 1
    for _ in range(5):  # what a call emits although there is no room
        sender.send(DATA, batch(100))
    small.rest()
    held = sum(item.size + ITEM_OVERHEAD for item in receiver.items)
    one = receiver.items[0].size + ITEM_OVERHEAD
    assert 1000 <= held < 1000 + one
    assert len(receiver.items) == sent
    small.take(receiver, sent + 5)
    small.until(lambda: outputs.has_room)


def test_an_item_larger_than_any_window_gets_through(small: Slots) -> None:
    sender, receiver = small.channel()
    for size in (5_000_000, 10, 3_000_000):
        sender.send(DATA, batch(size))
    taken = small.take(receiver, 3)
    assert [len(decode(item.content).values[0]) for item in taken] == [5_000_000, 10, 3_000_000]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("enabled", "window"), [(True, FIRST_RECORDS), (False, UNLIMITED)])
def test_senders_begin_with_few_records_only_if_buffers_are_debloated(
    enabled: bool, window: int
) -> None:
    slots = Slots(2, NetworkSettings(debloat=DebloatSettings(enabled=enabled)))
    sender, _ = slots.channel()
    assert sender.window == window
    slots.close()


def test_records_larger_than_the_first_window_get_through_one_after_another(slots: Slots) -> None:
    sender, receiver = slots.channel()
    receiver.fit(1)
    for number in range(5):
        sender.send(DATA, RowBatch([bytes([number]) * 100_000]))
    taken = []
    for _ in range(5):
        slots.until(lambda: receiver.items)
        assert len(receiver.items) == 1
        item = receiver.take()
        receiver.processed(item, item.records)
        taken.append(decode(item.content).values[0][0])
    assert taken == list(range(5))


def test_a_full_channel_does_not_hold_up_another_between_the_same_slots(small: Slots) -> None:
    blocked, stuck = small.channel(gate=0)
    free, receiver = small.channel(gate=1)
    for _ in range(50):
        blocked.send(DATA, batch(100))
        free.send(WATERMARK, 7)
    assert len(small.take(receiver, 50)) == 50
    assert len(stuck.items) < 10


def test_the_channels_of_a_slot_share_its_memory() -> None:
    many = Slots(2, NetworkSettings(channel_bytes=1000, gate_bytes=0, slot_bytes=2000))
    try:
        channels = [many.channel(gate=gate) for gate in range(10)]
        many.rest()
        for sender, _ in channels:
            for _ in range(20):
                sender.send(DATA, batch(10))
        many.rest()
        items = [item for _, receiver in channels for item in receiver.items]
        largest = max(item.size for item in items) + ITEM_OVERHEAD
        held = sum(item.size + ITEM_OVERHEAD for item in items)
        assert 2000 <= held < 2000 + 10 * largest
        for _, receiver in channels:
            assert len(many.take(receiver, 20)) == 20
    finally:
        many.close()


def test_channels_that_are_opened_later_take_their_share_from_the_others() -> None:
    many = Slots(2, NetworkSettings(channel_bytes=1000, gate_bytes=0, slot_bytes=1000))
    try:
        first, receiver = many.channel(gate=0)
        many.rest()
        many.channel(gate=1)
        many.rest()
        first.send(DATA, batch(900))  # it uses what it was promised before
        many.take(receiver, 1)
        for _ in range(20):
            first.send(DATA, batch(10))
        many.rest()
        held = sum(item.size + ITEM_OVERHEAD for item in receiver.items)
        assert 500 <= held < 500 + receiver.items[0].size + ITEM_OVERHEAD
    finally:
        many.close()


# Barriers that overtake


def test_barrier_overtakes_queued_items_at_both_ends(small: Slots) -> None:
    sender, receiver = small.channel()
    for number in range(20):
        sender.send(DATA, RowBatch([number, "x" * 150]))
    small.rest()
    arrived = len(receiver.items)
    assert 2 < arrived < 20
    here = sender.overtake(BARRIER, BARRIER_1)
    small.until(lambda: receiver.items[0].kind == BARRIER)
    assert pickle.loads(receiver.take().content) == BARRIER_1
    there = receiver.overtaken()
    assert len(there) == arrived
    everything = [decode(item.content).values[0] for item in [*there, *here]]  # type: ignore[attr-defined]
    assert everything == [*range(20)], "all is in flight, once"
    after = small.take(receiver, 20)
    assert [decode(item.content).values[0] for item in after] == [*range(20)]  # type: ignore[attr-defined]


def test_a_barrier_that_waits_can_be_expedited(small: Slots) -> None:
    sender, receiver = small.channel()
    for number in range(20):
        sender.send(DATA, RowBatch([number, "x" * 150]))
    sender.send(BARRIER, BARRIER_1)
    sender.send(DATA, RowBatch([20, "x" * 150]))
    small.rest()
    arrived = len(receiver.items)
    assert sender.expedite(BARRIER, BarrierMessage(2, "a", False)) == []
    here = sender.expedite(BARRIER, BARRIER_1)
    assert len(here) == 20 - arrived, "what was sent after the barrier is not in flight"
    small.until(lambda: receiver.items[0].kind == BARRIER)
    assert len(small.take(receiver, 22)) == 22
    assert sender.expedite(BARRIER, BARRIER_1) == [], "it is gone"
    small.rest()
    assert not receiver.items


# Waiting


def test_wait_ends_on_arrival_or_wake(slots: Slots) -> None:
    sender, receiver = slots.channel()
    slots.rest()
    sender.send(WATERMARK, 1)
    slots.networks[0].pump()
    slots.networks[1].wait(FOREVER_S)
    slots.until(lambda: receiver.items, 1)
    timer = threading.Timer(0.05, slots.networks[1].wake)
    timer.start()
    slots.networks[1].wait(FOREVER_S)
    timer.join()


def test_a_wake_before_the_wait_ends_that_wait_and_no_other(slots: Slots) -> None:
    network = slots.networks[1]
    slots.rest()
    wakeup = network._wakeup.fd
    network.wake()
    network.wake()
    assert select.select([wakeup], [], [], 0)[0]
    network.wait(FOREVER_S)
    assert not select.select([wakeup], [], [], 0)[0]


def test_pending_data_is_sent_before_waiting(slots: Slots) -> None:
    sender, receiver = slots.channel()
    slots.rest()
    sender.send(WATERMARK, 1)
    slots.networks[0].wait(0)
    slots.until(lambda: receiver.items, 1)


class Poller:
    """Records for how long a slot would have waited."""

    def __init__(self) -> None:
        self.waits: list[int] = []

    def poll(self, milliseconds: int) -> list[tuple[int, int]]:
        self.waits.append(milliseconds)
        return []


def test_a_wait_lasts_no_less_than_it_should(slots: Slots) -> None:
    poller: Any = Poller()
    network = slots.networks[0]
    network._sockets_and_wakeup = poller
    for seconds in (0.0102, 0.0001, 0.0, -1.0):
        network.wait(seconds)
    assert poller.waits == [11, 1, 0, 0]


# Damage


def intruder(slots: Slots) -> zmq.Socket[bytes]:
    """A socket that has the keys, and so is heard by slot 1."""
    made: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUSH)
    made.setsockopt(zmq.LINGER, 0)
    identify(made, slots.keys)
    made.connect(slots.addresses[1])
    return made


def genuine(number: int = 1, content: bytes = b"content", slot: int = 0) -> list[bytes]:
    """The second message of slot 0: the first says that it is there."""
    header = frames.item_header(frames.channel_key(ChannelId(1, 1, 0, 0)), DATA, content)
    return frames.message(slot, number, [header], [content])


def damaged(position: int) -> list[bytes]:
    message = genuine()
    headers = bytearray(message[0])
    headers[position] ^= 1
    return [bytes(headers), message[1]]


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ([genuine()[0], b"cOntent"], "checksum of a content"),
        ([genuine()[0], b"conten"], "wrong length of a content"),
        ([genuine()[0]], "wrong length of a content"),
        ([*genuine(), b"more"], "content without a header"),
        (damaged(0), "invalid magic number"),
        (damaged(20), "checksum of the headers"),
        (damaged(40), "checksum of the headers"),
        ([genuine()[0][:-1], b"content"], "invalid length"),
        ([b""], "invalid length"),
        (genuine(number=2), "received message 2, expected 1"),
        (genuine(number=0), "received message 0, expected 1"),
        (genuine(slot=7), "lost messages from slot 7"),
        (genuine(slot=2, number=1), "from slot 2 for a channel of slot 0"),
    ],
    ids=[
        "content",
        "short",
        "missing",
        "too much",
        "magic",
        "header",
        "channel",
        "headers cut",
        "empty",
        "lost",
        "twice",
        "unknown slot",
        "other slot",
    ],
)
def test_a_damaged_or_lost_message_fails_the_task(message: list[bytes], complaint: str) -> None:
    slots = Slots(3)
    socket = intruder(slots)
    try:
        slots.channel()
        slots.rest()
        socket.send_multipart(message)
        with pytest.raises(TransportError, match=complaint):
            slots.until(lambda: False, 1)
    finally:
        socket.close()
        slots.close()


def test_a_genuine_message_of_the_same_making_is_taken(slots: Slots) -> None:
    socket = intruder(slots)
    try:
        _, receiver = slots.channel()
        slots.rest()
        socket.send_multipart(genuine())
        slots.until(lambda: receiver.items, 1)
    finally:
        socket.close()


def test_a_slot_that_is_gone_fails_the_others_after_a_while(
    slots: Slots, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=1000.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(transport, "time", clock)
    slots.channel()
    slots.rest()
    slots.networks[0].close()
    slots.until(lambda: slots.networks[1]._gone, 1)
    clock.now += 2.0
    slots.pump(1)  # it may be that all are to end
    clock.now += 0.1
    with pytest.raises(TransportError, match="lost the connection from slot 0"):
        slots.pump(1)


# Strangers


def plain(socket: zmq.Socket[bytes]) -> None:
    """No security at all."""


def other_keys(socket: zmq.Socket[bytes]) -> None:
    identify(socket, make_keys())


STRANGERS = [plain, other_keys, "knows the public key"]


@pytest.mark.parametrize("stranger", STRANGERS, ids=["plain", "other keys", "public key only"])
def test_a_stranger_is_refused_and_does_no_harm(stranger, slots: Slots) -> None:
    sender, receiver = slots.channel()
    with zmq.Context() as context:
        socket = context.socket(zmq.PUSH)
        socket.setsockopt(zmq.LINGER, 0)
        if callable(stranger):
            stranger(socket)
        else:
            identify(socket, make_keys())
            socket.setsockopt(zmq.CURVE_SERVERKEY, slots.keys.public)
        handshakes = Handshakes(socket)
        socket.connect(slots.addresses[1])
        socket.send_multipart(genuine())
        slots.until(handshakes.look)
        assert (handshakes.accepted, handshakes.refused > 0) == (0, True)
        assert not receiver.items
        sender.send(WATERMARK, 1)
        slots.take(receiver, 1)
        context.destroy()
    slots.rest()
    assert not receiver.items


def test_bytes_of_no_protocol_do_no_harm(slots: Slots) -> None:
    sender, receiver = slots.channel()
    host, port = slots.addresses[1].removeprefix("tcp://").split(":")
    with sockets.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(1000):
                """Until the slot hangs up."""
        slots.rest()
    sender.send(WATERMARK, 1)
    slots.take(receiver, 1)
    slots.rest()
    assert not receiver.items


def test_a_slot_listens_on_the_given_address_only(slots: Slots) -> None:
    port = int(slots.addresses[0].rsplit(":", 1)[1])
    assert slots.addresses[0] == f"tcp://{HOST}:{port}"
    with pytest.raises(ConnectionRefusedError):
        sockets.create_connection(("127.0.0.2", port), timeout=TIMEOUT_S)
    sockets.create_connection((HOST, port), timeout=TIMEOUT_S).close()


@pytest.mark.parametrize("host", ["localhost", "::1"])
def test_a_host_may_be_a_name_or_an_address_of_the_other_kind(host: str) -> None:
    keys = make_keys()
    networks = [Network(slot, 2, keys, NetworkSettings(), host) for slot in range(2)]
    try:
        for network in networks:
            network.connect([each.address for each in networks])
        channel, inputs = ChannelId(1, 1, 0, 0), Inputs()
        networks[0].open_output(channel, 1, Outputs()).send(WATERMARK, 1)
        networks[1].open_input(channel, 0, inputs)
        wait_until(lambda: [network.pump() for network in networks] and inputs.next() is not None)
    finally:
        for network in networks:
            network.close()


def test_keys_are_unique_and_the_secret_key_is_hidden() -> None:
    keys, others = make_keys(), make_keys()
    assert keys != others
    assert str(keys.secret) not in repr(keys)


# The end


def open_files() -> set[tuple[str, str]]:
    found = set()
    for file in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add((file, os.readlink(f"/proc/self/fd/{file}")))
    return found


def zmq_threads() -> set[str]:
    found = set()
    for task in os.listdir("/proc/self/task"):
        with (
            contextlib.suppress(FileNotFoundError, ProcessLookupError),
            open(f"/proc/self/task/{task}/comm") as file,
        ):
            if file.read().startswith("ZMQ"):
                found.add(task)
    return found


def test_a_closed_network_leaves_neither_files_nor_threads() -> None:
    gc.collect()
    files, zmqs, threads = open_files(), zmq_threads(), set(threading.enumerate())
    for _ in range(3):
        slots = Slots(3)
        sender, receiver = slots.channel()
        sender.send(DATA, batch(100_000))
        slots.take(receiver, 1)
        for _ in range(10):
            sender.send(DATA, batch(100_000))
        slots.close()
        slots.close()
    assert open_files() - files == set()
    assert set(threading.enumerate()) - threads == set()
    # A thread that has been joined may be listed for another moment.
    wait_until(lambda: zmq_threads() - zmqs == set())


def test_a_network_whose_peers_are_gone_does_not_wait_for_them_when_it_closes() -> None:
    slots = Slots(2)
    sender, _ = slots.channel()
    slots.rest()
    slots.networks[1].close()
    sender.send(DATA, batch(1_000_000))
    slots.networks[0].pump()
    (peer,) = slots.networks[0]._peers.values()
    assert peer._socket is not None
    assert peer._socket.getsockopt(zmq.LINGER) == 0
    slots.close()
    assert peer._socket.closed


def test_a_network_can_be_closed_before_it_is_connected() -> None:
    network = Network(0, 2, make_keys(), NetworkSettings(), HOST)
    network.open_output(ChannelId(1, 1, 0, 0), 1, Outputs()).send(WATERMARK, 1)
    network.pump()
    network.close()
    network.wake()
