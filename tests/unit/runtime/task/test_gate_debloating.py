"""Who may have how many records in flight to a subtask."""

from __future__ import annotations

import math

import pytest

from penstock.graph.stage import DebloatSettings
from penstock.runtime.network.channels import ChannelId, Inputs, Item, LocalLink, Outputs
from penstock.runtime.network.debloating import FIRST_RECORDS, UNLIMITED
from penstock.runtime.network.messages import DATA
from penstock.runtime.records import RowBatch
from penstock.runtime.task.gate_debloating import DownstreamRoom, GateDebloating


class Edge:
    """An edge as it is seen by the subtask that sends to it."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.records_out = 0


class Gate:
    """A subtask with one input of several channels, on a clock of its own."""

    def __init__(self, channels: int, *, enabled: bool = True) -> None:
        self.now = 50.0
        self.downstream = math.inf
        inputs = Inputs()
        self.links = [
            LocalLink(ChannelId(1, 0, 0, source), Outputs(), inputs) for source in range(channels)
        ]
        settings = DebloatSettings(enabled=enabled)
        self.debloating = GateDebloating(
            settings, inputs, lambda: self.downstream, lambda: self.now
        )
        self.debloating.open()

    def process(self, source: int, records: int, seconds: float) -> None:
        self.debloating.feed()
        self.now += seconds
        self.debloating.took((0, source), records)
        self.debloating.adapt()

    @property
    def windows(self) -> list[int]:
        return [link.window for link in self.links]


def test_few_records_may_be_in_flight_to_an_input_at_first_and_one_in_each_channel() -> None:
    assert Gate(1).windows == [FIRST_RECORDS]
    assert Gate(2).windows == [FIRST_RECORDS // 2] * 2
    assert Gate(10).windows == [1] * 10


def test_nothing_is_limited_if_it_is_switched_off() -> None:
    gate = Gate(2, enabled=False)
    gate.process(0, 100, 1.0)
    gate.now += 5
    gate.debloating.block()
    assert gate.windows == [UNLIMITED] * 2


def test_channels_that_bring_records_share_what_may_be_in_flight() -> None:
    gate = Gate(4)
    for _ in range(20):
        gate.process(1, 100, 0.25)
    # Those that bring nothing have their part of all four.
    assert gate.windows == [100, 400, 100, 100]


def test_a_channel_whose_records_wait_brings_some_too() -> None:
    gate = Gate(4)
    for link in gate.links[2:]:
        link.receiver.put(Item(DATA, RowBatch([1]), 0, 1))
    for _ in range(20):
        gate.process(1, 100, 0.25)
    assert gate.windows == [100, 133, 133, 133]


def test_time_without_input_does_not_count() -> None:
    gate = Gate(1)
    for _ in range(40):
        gate.process(0, 100, 0.1)
        gate.debloating.starve()
        gate.now += 3
    assert gate.windows == [pytest.approx(1000, rel=0.25)]


def test_time_without_room_for_output_counts_although_there_was_no_input_when_it_began() -> None:
    """A fast subtask reads all there is, and only then its output channel is full."""
    gate = Gate(1)
    for _ in range(40):
        gate.process(0, 100, 0.001)
        gate.debloating.starve()
        gate.debloating.block()
        gate.now += 1
    assert gate.windows == [pytest.approx(100, rel=0.25)]


def test_a_subtask_without_room_for_output_lets_no_more_be_in_flight_than_its_receivers() -> None:
    gate = Gate(1)
    for _ in range(20):
        gate.process(0, 10_000, 0.2)
    assert gate.windows[0] > 30_000
    gate.downstream = 300.0
    for _ in range(3):  # for a moment only, again and again
        gate.debloating.block()
        gate.now += 0.15
        gate.debloating.block()
        gate.process(0, 10_000, 0.2)
    assert gate.windows[0] > 20_000
    gate.debloating.block()
    gate.now += 0.2
    gate.debloating.block()
    assert gate.windows == [300]


def test_a_small_difference_changes_nothing() -> None:
    gate = Gate(1)
    for _ in range(30):
        gate.process(0, 200, 0.2)
    before = gate.windows
    for _ in range(30):
        gate.process(0, 220, 0.2)
    assert gate.windows == before
    for _ in range(30):
        gate.process(0, 300, 0.2)
    assert gate.windows != before


def test_each_record_is_expected_to_yield_one_before_anything_is_known() -> None:
    assert DownstreamRoom([Edge(40), Edge(8)]).look(0) == 8
    assert DownstreamRoom([]).look(0) == math.inf


def test_the_input_that_fills_what_receivers_allow_follows_from_what_was_emitted() -> None:
    often, seldom = Edge(40), Edge(10)
    room = DownstreamRoom([often, seldom])
    often.records_out = 200
    assert room.look(100) == 20
    seldom.records_out = 1
    often.records_out = 400
    assert room.look(200) == 20
    assert room.look(200) == 20, "nothing was taken since"
    seldom.records_out += 100
    often.records_out += 200
    assert 10 <= room.look(300) <= 20


def test_what_was_emitted_long_ago_counts_no_more() -> None:
    edge = Edge(10)
    room = DownstreamRoom([edge])
    edge.records_out = 1_000_000
    assert room.look(1) < 1
    for number in range(2, 80):
        edge.records_out += 1
        found = room.look(number)
    assert found == pytest.approx(10)


def test_a_subtask_that_is_held_up_for_long_forgets_nothing() -> None:
    edge = Edge(40)
    room = DownstreamRoom([edge])
    edge.records_out = 200
    assert room.look(100) == 20
    for _ in range(5000):
        found = room.look(100)
    assert found == 20


def test_a_subtask_that_emits_nothing_is_not_bounded_by_its_receivers() -> None:
    assert DownstreamRoom([Edge(4)]).look(1000) == math.inf
