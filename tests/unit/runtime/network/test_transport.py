"""The network of a slot, with real sockets."""

from __future__ import annotations

import gc
import os
import pickle
import threading
import time
from collections.abc import Iterator

import pytest
import zmq

from penstock.graph.stage import NetworkSettings
from penstock.runtime.network import frames
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.channels import ChannelId, Inputs, Outputs
from penstock.runtime.network.credits import ITEM_OVERHEAD
from penstock.runtime.network.frames import ChannelError
from penstock.runtime.network.keys import identify, make_keys
from penstock.runtime.network.messages import BARRIER, DATA, WATERMARK, BarrierMessage
from penstock.runtime.network.transport import Network
from penstock.runtime.records import RowBatch
from tests.unit.runtime.network.slots import HOST, Slots

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
        slots.settle(0.05)
        sender = slots.networks[0].open_output(channel, 1, outputs)
        sender.send(WATERMARK, 1)
    else:
        sender = slots.networks[0].open_output(channel, 1, outputs)
        sender.send(WATERMARK, 1)
        assert not outputs.has_room, "one item may go before the receiver has told its window"
        slots.settle(0.05)
        slots.networks[1].open_input(channel, 0, inputs)
    slots.until(lambda: outputs.has_room and inputs.next())


def test_a_slow_receiver_closes_the_sender_and_holds_no_more_than_its_window(small: Slots) -> None:
    sender, receiver = small.channel()
    outputs = small.outputs[0]
    small.settle(0.05)
    sent = 0
    while outputs.has_room:
        sender.send(DATA, batch(100))
        sent += 1
    for _ in range(5):  # what a call emits although there is no room
        sender.send(DATA, batch(100))
    small.settle()
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
        many.settle(0.05)
        for sender, _ in channels:
            for _ in range(20):
                sender.send(DATA, batch(10))
        many.settle()
        items = [item for _, receiver in channels for item in receiver.items]
        largest = max(item.size for item in items) + ITEM_OVERHEAD
        held = sum(item.size + ITEM_OVERHEAD for item in items)
        assert 2000 <= held < 2000 + 10 * largest
        for _, receiver in channels:
            assert len(many.take(receiver, 20)) == 20
    finally:
        many.close()


# Barriers that overtake


def test_a_barrier_overtakes_what_waits_at_both_ends(small: Slots) -> None:
    sender, receiver = small.channel()
    for number in range(20):
        sender.send(DATA, RowBatch([number, "x" * 150]))
    small.until(lambda: len(receiver.items) > 2)
    small.settle(0.05)
    arrived = len(receiver.items)
    here = sender.overtake(BARRIER, BARRIER_1)
    small.until(lambda: receiver.items[0].kind == BARRIER)
    assert pickle.loads(receiver.take().content) == BARRIER_1
    there = receiver.overtaken()
    assert len(there) == arrived
    everything = [decode(item.content).values[0] for item in [*there, *here]]  # type: ignore[attr-defined]
    assert everything == [*range(20)], "all is in flight, once"
    after = small.take(receiver, 20)
    assert [decode(item.content).values[0] for item in after] == [*range(20)]  # type: ignore[attr-defined]


def test_a_barrier_that_waits_can_be_hastened(small: Slots) -> None:
    sender, receiver = small.channel()
    for number in range(20):
        sender.send(DATA, RowBatch([number, "x" * 150]))
    sender.send(BARRIER, BARRIER_1)
    sender.send(DATA, RowBatch([20, "x" * 150]))
    small.settle(0.05)
    arrived = len(receiver.items)
    assert sender.hasten(BARRIER, BarrierMessage(2, "a", False)) == []
    here = sender.hasten(BARRIER, BARRIER_1)
    assert len(here) == 20 - arrived, "what was sent after the barrier is not in flight"
    small.until(lambda: receiver.items[0].kind == BARRIER)
    assert len(small.take(receiver, 22)) == 22
    assert sender.hasten(BARRIER, BARRIER_1) == [], "it is gone"
    small.settle(0.05)
    assert not receiver.items


# Waiting


def test_waiting_ends_when_something_arrives_or_somebody_wakes(slots: Slots) -> None:
    sender, receiver = slots.channel()
    slots.settle(0.05)
    sender.send(WATERMARK, 1)
    slots.networks[0].pump()
    started = time.monotonic()
    slots.networks[1].wait(10)
    slots.until(lambda: receiver.items, 1)
    timer = threading.Timer(0.05, slots.networks[1].wake)
    timer.start()
    slots.networks[1].wait(10)
    assert time.monotonic() - started < 5
    timer.join()
    slots.networks[1].wait(0.01)  # awake no more
    assert not slots.networks[1].pump()


def test_what_was_sent_is_gone_before_a_slot_waits(slots: Slots) -> None:
    sender, receiver = slots.channel()
    slots.settle(0.05)
    sender.send(WATERMARK, 1)
    slots.networks[0].wait(0)
    slots.until(lambda: receiver.items, 1)


def test_a_wait_lasts_no_less_than_it_should(slots: Slots) -> None:
    slots.settle(0.1)
    started = time.monotonic()
    for _ in range(5):
        slots.networks[0].wait(0.0102)
    assert time.monotonic() - started >= 0.05


# Damage


def intruder(slots: Slots) -> zmq.Socket[bytes]:
    """A socket that has the keys, and so is heard by slot 1."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUSH)
    socket.setsockopt(zmq.LINGER, 0)
    identify(socket, slots.keys)
    socket.connect(slots.addresses[1])
    return socket


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
        ([genuine()[0], b"conten"], "does not have its length"),
        ([genuine()[0]], "does not have its length"),
        ([*genuine(), b"more"], "a content without a header"),
        (damaged(0), "does not begin"),
        (damaged(20), "checksum of the headers"),
        (damaged(40), "checksum of the headers"),
        ([genuine()[0][:-1], b"content"], "impossible length"),
        ([b""], "impossible length"),
        (genuine(number=2), "number 2 arrived, 1 was expected"),
        (genuine(number=0), "number 0 arrived, 1 was expected"),
        (genuine(slot=7), "messages of slot 7 were lost"),
        (genuine(slot=2, number=1), "slot 2 sent to a channel of slot 0"),
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
        slots.settle(0.1)
        socket.send_multipart(message)
        with pytest.raises(ChannelError, match=complaint):
            slots.until(lambda: False, 1)
    finally:
        socket.close()
        slots.close()


def test_a_genuine_message_of_the_same_making_is_taken(slots: Slots) -> None:
    socket = intruder(slots)
    try:
        _, receiver = slots.channel()
        slots.until(lambda: slots.networks[1]._heard_of)
        socket.send_multipart(genuine())
        slots.until(lambda: receiver.items, 1)
    finally:
        socket.close()


def test_a_slot_that_is_gone_fails_the_others_after_a_while() -> None:
    slots = Slots(2)
    try:
        slots.channel()
        slots.settle(0.1)
        slots.networks[0].close()
        started = time.monotonic()
        with pytest.raises(ChannelError, match="the connection from slot 0 was lost"):
            slots.until(lambda: False, 1)
        assert time.monotonic() - started > 1, "it may be that all are to end"
    finally:
        slots.close()


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
        socket.connect(slots.addresses[1])
        socket.send_multipart(genuine())
        slots.settle(0.5)
        assert not receiver.items
        sender.send(WATERMARK, 1)
        slots.take(receiver, 1)
        socket.close()
    slots.settle(0.1)


def test_bytes_of_no_protocol_do_no_harm(slots: Slots) -> None:
    import socket as sockets

    sender, receiver = slots.channel()
    host, port = slots.addresses[1].removeprefix("tcp://").split(":")
    with sockets.create_connection((host, int(port))) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
        slots.settle(0.3)
    sender.send(WATERMARK, 1)
    slots.take(receiver, 1)


def test_a_slot_listens_on_the_given_address_only(slots: Slots) -> None:
    import socket as sockets

    port = int(slots.addresses[0].rsplit(":", 1)[1])
    assert slots.addresses[0] == f"tcp://{HOST}:{port}"
    with pytest.raises(ConnectionRefusedError):
        sockets.create_connection(("127.0.0.2", port), timeout=1)
    sockets.create_connection((HOST, port), timeout=1).close()


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
        deadline = time.monotonic() + 10
        while inputs.next() is None:
            assert time.monotonic() < deadline
            for network in networks:
                network.pump()
    finally:
        for network in networks:
            network.close()


def test_keys_are_made_anew_and_the_secret_one_is_not_shown() -> None:
    keys, others = make_keys(), make_keys()
    assert keys != others
    assert str(keys.secret) not in repr(keys)


# The end


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def zmq_threads() -> int:
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as file:
                names.append(file.read())
        except FileNotFoundError:
            continue
    return sum(name.startswith("ZMQ") for name in names)


def test_a_closed_network_leaves_neither_files_nor_threads() -> None:
    gc.collect()
    before = open_files(), zmq_threads(), threading.active_count()
    for _ in range(3):
        slots = Slots(3)
        sender, receiver = slots.channel()
        sender.send(DATA, batch(100_000))
        slots.take(receiver, 1)
        for _ in range(10):
            sender.send(DATA, batch(100_000))
        slots.close()
        slots.close()
    assert (open_files(), zmq_threads(), threading.active_count()) == before


def test_a_network_whose_peers_are_gone_closes_at_once() -> None:
    slots = Slots(2)
    sender, _ = slots.channel()
    slots.settle(0.1)
    slots.networks[1].close()
    sender.send(DATA, batch(1_000_000))
    slots.networks[0].pump()
    started = time.monotonic()
    slots.close()
    assert time.monotonic() - started < 1.9  # nobody lingers, as it would for the driver


def test_a_network_can_be_closed_before_it_is_connected() -> None:
    network = Network(0, 2, make_keys(), NetworkSettings(), HOST)
    network.open_output(ChannelId(1, 1, 0, 0), 1, Outputs()).send(WATERMARK, 1)
    network.pump()
    network.close()
    network.wake()
