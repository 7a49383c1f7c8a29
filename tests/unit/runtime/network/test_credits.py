"""Windows as numbers, and slots that all send to each other in schedules that hypothesis makes up."""

from __future__ import annotations

import pickle
import random
from collections import defaultdict, deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.network import frames
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.channels import ChannelId, Inputs, OutputChannel, Outputs
from penstock.runtime.network.credits import ITEM_OVERHEAD, ReceiveWindow, SendWindow, windows
from penstock.runtime.network.messages import DATA, END, WATERMARK
from penstock.runtime.network.peers import Peer, RemoteInput, RemoteOutput
from penstock.runtime.records import RowBatch
from tests.builders.examples import examples


@given(
    window=st.integers(1, 2000),
    sizes=st.lists(st.integers(1, 900), max_size=60),
    schedule=st.lists(st.booleans(), max_size=400),
)
def test_at_most_a_window_and_one_item_are_in_flight_and_all_gets_through(
    window: int, sizes: list[int], schedule: list[bool]
) -> None:
    sender, receiver = SendWindow(), ReceiveWindow(window)
    sender.allow(receiver.announce())
    waiting, in_flight = deque(sizes), deque[int]()

    def step(send: bool) -> bool:
        if send and waiting and sender.is_open:
            sender.send(waiting[0])
            in_flight.append(waiting.popleft())
        elif not send and in_flight:
            if receiver.take(in_flight.popleft()):
                sender.allow(receiver.announce())
        else:
            return False
        assert sum(in_flight) < window + max(sizes)
        return True

    for send in schedule:
        step(send)
    while step(True) or step(False):
        pass
    assert not waiting
    assert not in_flight


@given(
    sizes=st.lists(st.integers(1, 900), max_size=60),
    schedule=st.lists(st.booleans() | st.integers(1, 2000), max_size=400),
    window=st.integers(1, 2000),
)
def test_a_sender_never_waits_forever_although_windows_change_and_credits_are_delayed(
    sizes: list[int], schedule: list[bool | int], window: int
) -> None:
    sender, receiver = SendWindow(), ReceiveWindow(window)
    waiting, in_flight, credits = deque(sizes), deque[int](), deque([receiver.announce()])

    def step(what: bool | int) -> bool:
        """Send or take an item, or change the window; a credit arrives before anything is sent."""
        if type(what) is int:
            receiver.window = what
            credits.append(receiver.announce())
        elif what and credits:
            sender.allow(credits.popleft())
        elif what and waiting and sender.is_open:
            sender.send(waiting[0])
            in_flight.append(waiting.popleft())
        elif not what and in_flight:
            if receiver.take(in_flight.popleft()):
                credits.append(receiver.announce())
        else:
            return False
        return True

    for what in schedule:
        step(what)
    while step(True) or step(False):
        pass
    assert not waiting
    assert not in_flight


def test_limit_is_announced_after_half_a_window() -> None:
    receiver = ReceiveWindow(1000)
    assert receiver.announce() == 1000
    announced = [receiver.announce() for _ in range(100) if receiver.take(100)]
    assert announced[0] == 1500
    assert len(announced) == 100 * 100 // 500


def test_a_window_that_shrinks_takes_back_unused_credit() -> None:
    sender, receiver = SendWindow(), ReceiveWindow(1000)
    sender.allow(receiver.announce())
    sender.send(300)
    receiver.window = 100
    sender.allow(receiver.announce())
    assert not sender.is_open
    assert sender.usage == 1.0
    assert not receiver.take(40)
    assert receiver.take(260)
    sender.allow(receiver.announce())
    assert (sender.limit, sender.is_open) == (400, True)


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        ([], []),
        ([1], [180]),
        ([2, 4], [140, 120]),
        ([8, 8], [55, 55]),
        ([2000], [1]),
    ],
    ids=["none", "alone", "shared by gate", "limited by the slot", "an item at a time"],
)
def test_windows_share_the_limits_of_gate_and_slot(gates, expected) -> None:
    assert windows(gates, channel=100, gate=80, slot=880) == expected


class Wire:
    """Stands for a socket: what was sent waits until the schedule delivers it."""

    def __init__(self) -> None:
        self.messages: deque[list[bytes]] = deque()

    def send_multipart(self, message: list[bytes], _flags: int) -> None:
        self.messages.append(message)


class Subtask:
    """Passes every number on, as a batch of copies and with a watermark, to all subtasks of the next vertex; or keeps it if it is the last."""

    def __init__(self, copies: int) -> None:
        self.inputs, self.outputs = Inputs(), Outputs()
        self.channels: list[OutputChannel] = []
        self.copies = copies
        self.got: dict[int, list[Any]] = defaultdict(list)  # by sending subtask
        self.watermarks: dict[int, list[int]] = defaultdict(list)
        self.ended = 0

    def step(self) -> bool:
        """Take one record or message, if what it makes has somewhere to go."""
        if not self.outputs.has_room or (channel := self.inputs.next()) is None:
            return False
        item = channel.take()
        if item.kind == DATA:
            records = decode(item.content) if type(item.content) is bytes else item.content
            if len(records) > 1:
                channel.put_back(records.slice(1), item)
            self.process(channel.id.source, records.values[0])
            channel.processed(item, 1)
        elif item.kind == WATERMARK:
            self.watermarks[channel.id.source].append(pickle.loads(item.content))
        else:
            self.ended += 1
            if self.ended == len(self.inputs.channels):
                self.emit(END, None)
        channel.offer()
        return True

    def process(self, source: int, number: Any) -> None:
        self.got[source].append(number)
        if self.copies:
            self.emit(DATA, RowBatch([(number, copy) for copy in range(self.copies)]))
            self.emit(WATERMARK, number)

    def emit(self, kind: int, content: Any) -> None:
        for output in self.channels:
            output.send(kind, content)


LARGEST_FIT = 10


class Stage:
    """Slots with a subtask of each of three vertices, every exchange all-to-all, and no thread but the schedule.

    Receivers change their windows in records at any time.
    """

    def __init__(self, slots: int, window: int, copies: int) -> None:
        self.wires = {(a, b): Wire() for a in range(slots) for b in range(slots) if a != b}
        self.peers = {ends: Peer(*ends) for ends in self.wires}
        for ends, peer in self.peers.items():
            peer.connected(self.wires[ends])  # type: ignore[arg-type]
        self.subtasks = {
            (vertex, slot): Subtask(copies if vertex == 1 else 0)
            for vertex in range(3)
            for slot in range(slots)
        }
        self.outputs: dict[bytes, RemoteOutput] = {}
        self.inputs: dict[bytes, RemoteInput] = {}
        self.window = window
        for vertex in (0, 1):
            for a, b in self.wires:
                self.connect(vertex, a, b)
        self.budget = dict.fromkeys(range(slots), 0)

    def connect(self, vertex: int, source: int, target: int) -> None:
        channel = ChannelId(vertex + 1, target, 0, source)
        key = frames.channel_key(channel)
        sender, receiver = self.subtasks[vertex, source], self.subtasks[vertex + 1, target]
        output = RemoteOutput(channel, self.peers[source, target], sender.outputs)
        sender.channels.append(output)
        self.outputs[key] = output
        end = self.inputs[key] = RemoteInput(channel, self.peers[target, source], receiver.inputs)
        end.resize(self.window)
        end.receiver.fit(LARGEST_FIT)
        end.open()

    def deliver(self, ends: tuple[int, int]) -> bool:
        """Deliver one message, as a network's `pump` does, and send what that allows."""
        if not self.wires[ends].messages:
            return False
        message = self.wires[ends].messages.popleft()
        frames.read_origin(message[0])
        for entry in frames.read_entries(message):
            if entry.kind == frames.CREDIT:
                self.outputs[entry.channel].arrived(entry)
            else:
                self.inputs[entry.channel].arrived(entry)
        self.flush(ends[1])
        return True

    def flush(self, slot: int) -> None:
        for (a, _), peer in self.peers.items():
            if a == slot:
                peer.flush()

    def act(self, vertex: int, slot: int, numbers: dict[int, deque[int]]) -> bool:
        """Let a subtask do one thing."""
        subtask = self.subtasks[vertex, slot]
        if vertex:
            done = subtask.step()
        elif done := bool(numbers[slot]) and subtask.outputs.has_room:
            number = numbers[slot].popleft()
            subtask.emit(*((END, None) if number < 0 else (DATA, RowBatch([number]))))
        self.flush(slot)
        return done

    def fit(self, key: bytes, records: int) -> None:
        """Change the window of a channel."""
        self.inputs[key].receiver.fit(records)
        self.flush(self.inputs[key].receiver.id.subtask)

    def check(self) -> None:
        """No channel holds more than its windows and one item."""
        for end in self.inputs.values():
            before_last = list(end.receiver.items)[:-1]
            held = sum(item.size + ITEM_OVERHEAD for item in before_last if item.size >= 0)
            assert held < self.window
            assert sum(item.records for item in before_last) < LARGEST_FIT


@settings(max_examples=examples(40), deadline=None)
@given(
    slots=st.integers(2, 3),
    window=st.integers(1, 400),
    copies=st.integers(1, 12),
    count=st.integers(0, 8),
    seed=st.integers(0, 2**32),
    steps=st.integers(0, 300),
)
def test_slots_that_all_send_to_each_other_lose_nothing_and_never_stop(
    slots: int, window: int, copies: int, count: int, seed: int, steps: int
) -> None:
    stage = Stage(slots, window, copies)
    numbers = {slot: deque([*range(count), -1]) for slot in range(slots)}
    actions: list[Any] = [("deliver", ends) for ends in stage.wires]
    actions += [("act", each) for each in stage.subtasks]
    fits = [("fit", key) for key in stage.inputs]
    chance = random.Random(seed)

    def do(action: Any) -> bool:
        kind, what = action
        if kind == "fit":
            stage.fit(what, chance.randint(1, LARGEST_FIT))
            return False
        done = stage.deliver(what) if kind == "deliver" else stage.act(*what, numbers)
        stage.check()
        return done

    for _ in range(steps):
        do(chance.choice(actions + fits))
    while sum(do(action) for action in chance.sample(actions, len(actions))):
        pass
    others = slots - 1
    expected = [(number, copy) for number in range(count) for copy in range(copies)]
    for slot in range(slots):
        passed, kept = stage.subtasks[1, slot], stage.subtasks[2, slot]
        assert passed.ended == kept.ended == others
        assert dict(passed.got) == {s: [*range(count)] for s in range(slots) if s != slot and count}
        for source, got in kept.got.items():
            # Each number came from all others to the subtask that passed it on; those orders are mixed, copies are not.
            assert source != slot
            assert sorted(got) == sorted(expected * others)
            assert [copy for _, copy in got] == [*range(copies)] * (count * others)
            assert sorted(kept.watermarks[source]) == sorted([*range(count)] * others)


def test_of_a_window_as_much_is_used_as_the_receiver_cannot_have_taken_without_saying_so():
    window = SendWindow()
    assert window.usage == 0.0
    window.allow(1000)
    window.send(500)
    assert window.usage == 0.0  # all of it may have been taken
    window.send(250)
    assert window.usage == 0.5
    window.send(400)
    assert window.usage == 1.0
    window.allow(2150)
    assert window.usage == 0.0
