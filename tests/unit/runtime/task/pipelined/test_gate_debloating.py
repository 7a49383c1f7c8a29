"""Buffer debloating of input gates: windows of channels, and the effect of downstream windows."""

from __future__ import annotations

import math

import pytest

from penstock.graph.stage import DebloatSettings
from penstock.runtime.network.channels import BufferOrEvent, ChannelId, Inputs, LocalLink, Outputs
from penstock.runtime.network.debloating import FIRST_RECORDS, UNLIMITED
from penstock.runtime.network.messages import DATA
from penstock.runtime.records import RowBatch
from penstock.runtime.task.pipelined.gate_debloating import DownstreamWindow, GateDebloating


class Edge:
    """An edge as seen by its sending subtask."""

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


def test_the_first_window_is_small_and_at_least_one_record_per_channel() -> None:
    assert Gate(1).windows == [FIRST_RECORDS]
    assert Gate(2).windows == [FIRST_RECORDS // 2] * 2
    assert Gate(10).windows == [1] * 10


def test_windows_are_unlimited_if_debloating_is_disabled() -> None:
    gate = Gate(2, enabled=False)
    gate.process(0, 100, 1.0)
    gate.now += 5
    gate.debloating.block()
    assert gate.windows == [UNLIMITED] * 2


def test_channels_with_records_share_the_window() -> None:
    gate = Gate(4)
    for _ in range(20):
        gate.process(1, 100, 0.25)
    # Idle channels get their part of all four.
    assert gate.windows == [100, 400, 100, 100]


def test_a_channel_with_queued_records_is_not_idle() -> None:
    gate = Gate(4)
    for link in gate.links[2:]:
        link.receiver.put(BufferOrEvent(DATA, RowBatch([1]), 0, 1))
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


def test_backpressured_time_counts_even_if_it_began_without_input() -> None:
    """A fast subtask reads all of its input, and only then its output channel is full."""
    gate = Gate(1)
    for _ in range(40):
        gate.process(0, 100, 0.001)
        gate.debloating.starve()
        gate.debloating.block()
        gate.now += 1
    assert gate.windows == [pytest.approx(100, rel=0.25)]


def test_the_window_of_a_backpressured_subtask_shrinks_to_that_of_its_receivers() -> None:
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


def test_a_pause_without_input_ends_backpressured_time() -> None:
    gate = Gate(1)
    for _ in range(20):
        gate.process(0, 10_000, 0.2)
    gate.downstream = 300.0
    gate.debloating.block()
    gate.debloating.starve()  # the outputs had capacity again, and there was no input
    gate.now += 10
    gate.debloating.block()
    assert gate.windows[0] > 30_000


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


def test_a_ratio_of_one_is_assumed_before_the_first_record() -> None:
    assert DownstreamWindow([Edge(40), Edge(8)]).measure(0) == 8
    assert DownstreamWindow([]).measure(0) == math.inf


def test_input_that_fills_downstream_windows_follows_from_the_records_emitted() -> None:
    often, seldom = Edge(40), Edge(10)
    downstream = DownstreamWindow([often, seldom])
    often.records_out = 200
    assert downstream.measure(100) == 20
    seldom.records_out = 1
    often.records_out = 400
    assert downstream.measure(200) == 20
    assert downstream.measure(200) == 20, "nothing was taken since"
    seldom.records_out += 100
    often.records_out += 200
    assert 10 <= downstream.measure(300) <= 20


def test_records_emitted_long_ago_have_no_effect() -> None:
    edge = Edge(10)
    downstream = DownstreamWindow([edge])
    edge.records_out = 1_000_000
    assert downstream.measure(1) < 1
    for number in range(2, 80):
        edge.records_out += 1
        found = downstream.measure(number)
    assert found == pytest.approx(10)


def test_a_subtask_that_is_backpressured_for_long_keeps_its_ratio() -> None:
    edge = Edge(40)
    downstream = DownstreamWindow([edge])
    edge.records_out = 200
    assert downstream.measure(100) == 20
    for _ in range(5000):
        found = downstream.measure(100)
    assert found == 20


def test_a_subtask_that_emits_nothing_is_not_limited_by_its_receivers() -> None:
    assert DownstreamWindow([Edge(4)]).measure(1000) == math.inf
