"""Barriers: who waits for whom, when a checkpoint begins, and which barriers mean nothing any more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.graph.stage import BarrierSettings
from penstock.runtime.network.messages import BarrierMessage
from penstock.runtime.task.pipelined.barrier_handlers import (
    AbandonCheckpoint,
    AlignedBarrierHandler,
    BeginCheckpoint,
    BlockChannel,
    CountingBarrierHandler,
    UnblockChannels,
)
from penstock.runtime.task.pipelined.unaligned_barrier_handler import create_barriers

A, B, C = (0, 0), (0, 1), (1, 0)


def barrier(checkpoint, attempt="a"):
    return BarrierMessage(checkpoint, attempt, finished=False)


class Fed:
    """Barriers of three channels, one millisecond apart; keeps what was decided, in words."""

    def __init__(self, kind):
        self.core, self.now = kind([A, B, C]), 0

    def __call__(self, channel, checkpoint):
        self.now += 1
        return self.words(self.core.on_barrier(channel, barrier(checkpoint), self.now))

    def abort(self, checkpoint):
        return self.words(self.core.on_aborted(checkpoint))

    def words(self, decisions):
        return [self._word(decision) for decision in decisions]

    def _word(self, decision):
        match decision:
            case BlockChannel(channel):
                return ("block", channel)
            case UnblockChannels():
                return "unblock"
            case BeginCheckpoint(checkpoint=checkpoint):
                return ("begin", checkpoint)
            case AbandonCheckpoint(checkpoint=checkpoint):
                return ("abandon", checkpoint)


def test_a_channel_waits_for_the_others_and_the_last_one_begins():
    fed = Fed(AlignedBarrierHandler)
    assert fed(B, 1) == [("block", B)]
    assert fed(A, 1) == [("block", A)]
    assert fed(C, 1) == [("begin", 1), "unblock"]


def test_begin_has_all_barriers_and_the_alignment_duration():
    core = AlignedBarrierHandler([A, B])
    core.on_barrier(A, barrier(7, "x"), 100.0)
    begin, _ = core.on_barrier(B, barrier(7, "y"), 130.5)
    assert {channel: message.attempt for channel, message in begin.barriers.items()} == {
        A: "x",
        B: "y",
    }
    assert (begin.first_ms, begin.last_ms) == (100.0, 130.5)


@pytest.mark.parametrize("kind", [AlignedBarrierHandler, CountingBarrierHandler])
def test_one_channel_alone_begins_at_once(kind):
    core = kind([A])
    assert isinstance(core.on_barrier(A, barrier(1), 0)[0], BeginCheckpoint)
    assert isinstance(core.on_barrier(A, barrier(2), 0)[0], BeginCheckpoint)


def test_at_least_once_counts_concurrent_checkpoints_without_blocking():
    fed = Fed(CountingBarrierHandler)
    assert fed(A, 1) == []
    assert fed(A, 2) == []
    assert fed(B, 1) == []
    assert fed(B, 2) == []
    assert fed(C, 1) == [("begin", 1)]
    assert fed(C, 2) == [("begin", 2)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param(AlignedBarrierHandler, ["unblock"], id="exactly once"),
        pytest.param(CountingBarrierHandler, [], id="at least once"),
    ],
)
def test_aborted_checkpoint_unblocks_channels(kind, expected):
    fed = Fed(kind)
    fed(A, 1)
    assert fed.abort(1) == expected
    assert fed(B, 1) == []  # late, and no reason to wait
    assert fed(C, 1) == []
    fed(A, 2)
    fed(B, 2)
    assert ("begin", 2) in fed(C, 2)


@pytest.mark.parametrize("kind", [AlignedBarrierHandler, CountingBarrierHandler])
def test_checkpoint_can_be_aborted_before_its_first_barrier(kind):
    fed = Fed(kind)
    assert fed.abort(1) == []
    assert [fed(A, 1), fed(B, 1), fed(C, 1)] == [[], [], []]
    fed(A, 2)
    fed(B, 2)
    assert ("begin", 2) in fed(C, 2)


def test_giving_up_a_later_checkpoint_leaves_the_one_under_way_alone():
    fed = Fed(AlignedBarrierHandler)
    fed(A, 1)
    assert fed.abort(2) == []
    fed(B, 1)
    assert fed(C, 1) == [("begin", 1), "unblock"]
    assert fed(A, 2) == []


def test_a_barrier_of_a_later_checkpoint_abandons_one_that_lacks_barriers():
    fed = Fed(AlignedBarrierHandler)
    fed(A, 1)
    assert fed(B, 2) == [("abandon", 1), "unblock", ("block", B)]
    assert fed(C, 1) == []  # of what was abandoned
    assert fed(A, 2) == [("block", A)]
    assert fed(C, 2) == [("begin", 2), "unblock"]


def test_at_least_once_a_checkpoint_that_completes_abandons_those_before_it():
    fed = Fed(CountingBarrierHandler)
    fed(A, 1)
    fed(A, 3)
    fed(B, 3)
    assert fed(C, 3) == [("abandon", 1), ("begin", 3)]
    assert fed(B, 1) == []


def test_barrier_of_a_finished_checkpoint_is_ignored():
    fed = Fed(AlignedBarrierHandler)
    for channel in (A, B, C):
        fed(channel, 5)
    assert fed(A, 4) == []
    assert fed(A, 5) == []
    assert fed.abort(5) == []
    assert fed(A, 6) == [("block", A)]


def test_the_settings_say_who_decides():
    assert isinstance(create_barriers([A], BarrierSettings()), AlignedBarrierHandler)
    counted = create_barriers([A], BarrierSettings(exactly_once=False))
    assert isinstance(counted, CountingBarrierHandler)


@given(
    st.lists(st.integers(0, 2), min_size=0, max_size=60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 6)), max_size=4),
)
def test_blocked_channels_are_released_and_each_checkpoint_starts_once(order, aborts):
    """Channels bring barriers 1 to 6 as they get their turn; a blocked one brings nothing."""
    core = AlignedBarrierHandler([A, B, C])
    channels = [A, B, C]
    following = dict.fromkeys(channels, 1)
    blocked, begun, given_up = set(), [], set()

    def apply(decisions):
        for decision in decisions:
            if isinstance(decision, BlockChannel):
                blocked.add(decision.channel)
            elif isinstance(decision, UnblockChannels):
                blocked.clear()
            elif isinstance(decision, BeginCheckpoint):
                begun.append(decision.checkpoint)
                assert set(decision.barriers) == set(channels)

    def bring(channel):
        if channel not in blocked and following[channel] <= 6:
            number = following[channel]
            following[channel] += 1
            apply(core.on_barrier(channel, barrier(number), 0))

    for step, pick in enumerate(order):
        for at, number in aborts:
            if at == step and number not in begun:
                given_up.add(number)
                apply(core.on_aborted(number))
        bring(channels[pick])
    for _ in range(40):
        for channel in channels:
            bring(channel)
    assert not blocked
    assert begun == [number for number in range(1, 7) if number not in given_up]


def test_at_least_once_a_checkpoint_is_abandoned_once():
    barriers = CountingBarrierHandler([(0, 0), (0, 1)])
    messages = {number: BarrierMessage(number, "a", finished=False) for number in (1, 2, 3)}
    barriers.on_barrier((0, 0), messages[1], 0)
    abandoned = []
    for number in (2, 3):
        for channel in ((0, 0), (0, 1)):
            decisions = barriers.on_barrier(channel, messages[number], 0)
            abandoned += [
                each.checkpoint for each in decisions if isinstance(each, AbandonCheckpoint)
            ]
    assert abandoned == [1]
