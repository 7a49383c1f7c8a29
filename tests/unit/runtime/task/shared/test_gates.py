"""Input gates: the order of buffers, the alignment of barriers, and when time moves."""

from __future__ import annotations

import pytest

from penstock.runtime.network.messages import STATUS, WATERMARK, BarrierMessage
from penstock.runtime.task.epochs.epoch_mode import EpochMode
from penstock.runtime.task.shared.gates import ChannelError, ImmediateWatermarks, InputGates
from tests.builders import pipes

MIN = -(2**63)


def gates_of(*sources, policy=None):
    """Gates with so many channels each, of a subtask that all of them are connected to."""
    described = [
        pipes.gate(number + 10, "REBALANCE", number=number, sources=count)
        for number, count in enumerate(sources)
    ]
    options = {"policy_of": policy or EpochMode().watermark_policy}
    return InputGates("v", described, 0, 1, **options)


def immediate(valve, channels):
    return ImmediateWatermarks(valve)


def said(outputs):
    return [(output.watermark, output.idle) for output in outputs]


def barrier(checkpoint=1, *, attempt="a", finished=False):
    return BarrierMessage(checkpoint, attempt, finished)


@pytest.mark.parametrize(
    ("sequences", "complaint"),
    [
        pytest.param([0, 2], "received row 2 instead of row 1", id="lost"),
        pytest.param([0, 0], "received row 0 instead of row 1", id="doubled"),
        pytest.param([1], "received row 1 instead of row 0", id="the first one lost"),
    ],
)
def test_a_channel_must_bring_its_buffers_in_order(sequences, complaint):
    gates = gates_of(2)
    *before, wrong = sequences
    for sequence in before:
        gates.check_sequence(0, 1, sequence)
    with pytest.raises(ChannelError, match=complaint) as caught:
        gates.check_sequence(0, 1, wrong)
    assert caught.value.detail == "vertex 'v', gate 0, channel 1"


def test_channels_are_numbered_separately_and_restart_at_0():
    gates = gates_of(2)
    gates.check_sequence(0, 0, 0)
    gates.check_sequence(0, 1, 0)
    gates.check_sequence(0, 0, 1)
    gates.renumber()
    gates.check_sequence(0, 0, 0)


def test_a_channel_waits_from_its_barrier_on_until_the_next_alignment():
    gates = gates_of(1, 1)
    gates.barrier_alignment.on_barrier((1, 0), barrier())
    assert (gates.barrier_alignment.blocks((0, 0)), gates.barrier_alignment.blocks((1, 0))) == (
        False,
        True,
    )
    assert not gates.barrier_alignment.complete
    gates.barrier_alignment.on_barrier((0, 0), barrier())
    assert gates.barrier_alignment.complete
    gates.barrier_alignment.check(1)
    gates.start_barrier_alignment()
    assert not gates.barrier_alignment.blocks((1, 0))


def test_a_checkpoint_needs_the_barriers_of_all_channels():
    gates = gates_of(2, 1)
    gates.barrier_alignment.on_barrier((0, 1), barrier())
    with pytest.raises(ChannelError, match="2 of 3 input channels ended without a barrier") as it:
        gates.barrier_alignment.check(1)
    assert it.value.detail == "vertex 'v', subtask 0, (gate, channel) [(0, 0), (1, 0)]"


def test_barrier_of_another_checkpoint_is_rejected():
    gates = gates_of(2)
    gates.barrier_alignment.on_barrier((0, 0), barrier(7))
    gates.barrier_alignment.on_barrier((0, 1), barrier(6))
    with pytest.raises(ChannelError, match="checkpoint 6 instead of 7") as it:
        gates.barrier_alignment.check(7)
    assert "(0, 1)" in it.value.detail


def test_barriers_carry_upstream_attempts_and_end_of_input():
    gates = gates_of(1, 2)
    gates.barrier_alignment.on_barrier((0, 0), barrier(attempt="x", finished=True))
    gates.barrier_alignment.on_barrier((1, 0), barrier(attempt="y", finished=True))
    gates.barrier_alignment.on_barrier((1, 1), barrier(attempt="z"))
    assert gates.upstream_attempts() == {("v10", 0): "x", ("v11", 0): "y", ("v11", 1): "z"}
    assert not gates.barrier_alignment.finished
    gates.barrier_alignment.on_barrier((1, 1), barrier(attempt="z", finished=True))
    assert gates.barrier_alignment.finished


EVENTS = [
    ((0, 0), WATERMARK, 12),
    ((0, 1), STATUS, True),
    ((0, 0), WATERMARK, 15),
    ((0, 1), STATUS, False),
    ((0, 1), WATERMARK, 14),
]


@pytest.mark.parametrize(
    ("policy", "at_once", "at_the_barrier"),
    [
        pytest.param(
            None, [[], [], [], [], []], [(14, None)], id="several channels, one after another"
        ),
        pytest.param(
            immediate, [[], [(12, None)], [(15, None)], [], []], [], id="several, side by side"
        ),
    ],
)
def test_when_time_moves_is_a_policy(policy, at_once, at_the_barrier):
    gates = gates_of(2, policy=policy)
    assert [said(gates.on_time(*event)) for event in EVENTS] == at_once
    assert said(gates.on_barriers()) == at_the_barrier
    assert said(gates.on_barriers()) == []  # nothing is announced twice


def test_one_channel_alone_moves_time_at_once_under_every_policy():
    for policy in (None, immediate):
        gates = gates_of(1, policy=policy)
        assert said(gates.on_time((0, 0), WATERMARK, 5)) == [(5, None)]
        assert said(gates.on_time((0, 0), STATUS, True)) == [(None, True)]
        assert said(gates.on_barriers()) == []


def test_watermark_does_not_decrease_after_a_restore():
    gates = gates_of(1)
    gates.restore({"floor": 100})
    assert gates.watermark == 100
    assert said(gates.on_time((0, 0), WATERMARK, 5)) == [(100, None)]
    assert said(gates.on_time((0, 0), WATERMARK, 120)) == [(120, None)]
    again = gates_of(1)
    again.restore(gates.snapshot())
    assert again.watermark == 120
    assert said(again.on_time((0, 0), WATERMARK, 110)) == []
