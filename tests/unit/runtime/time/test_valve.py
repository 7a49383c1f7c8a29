"""The watermark valve against the rules, to the letter and against a brute-force model."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.time.valve import ValveOutput, WatermarkValve

MIN = -(2**63)
MAX = 2**63 - 1


def feed(valve, events):
    """Apply ("wm", channel, watermark) and ("idle" or "active", channel) events; return the outputs."""
    outputs = []
    for event in events:
        if event[0] == "wm":
            outputs.append(valve.on_watermark(event[1], event[2]))
        else:
            outputs.append(valve.on_status(event[1], idle=event[0] == "idle"))
    return outputs


def test_rule_3_the_example_with_three_channels():
    valve = WatermarkValve(3)
    steps = [
        (0, 0, None),
        (1, 0, None),
        (2, 0, 0),
        (0, 12, None),
        (2, 8, None),
        (2, 10, None),
        (1, 15, 10),
        (2, 17, 12),
        (0, 20, 15),
    ]
    assert [valve.on_watermark(channel, mark).watermark for channel, mark, _ in steps] == [
        expected for _, _, expected in steps
    ]


def test_rule_3_an_idle_channel_is_ignored():
    valve = WatermarkValve(3)
    outputs = feed(valve, [("wm", 0, 15), ("wm", 1, 10), ("idle", 2)])
    assert outputs == [ValveOutput(), ValveOutput(), ValveOutput(watermark=10)]


@pytest.mark.parametrize(
    ("channels", "events", "last"),
    [
        pytest.param(1, [("wm", 0, 5), ("wm", 0, 4)], ValveOutput(), id="never goes back"),
        pytest.param(1, [("wm", 0, 5), ("wm", 0, 5)], ValveOutput(), id="the same again"),
        pytest.param(2, [("wm", 0, 5), ("idle", 1)], ValveOutput(watermark=5), id="one idle"),
        pytest.param(
            2,
            [("wm", 0, 5), ("wm", 1, 9), ("idle", 1), ("idle", 0)],
            ValveOutput(watermark=9, idle=True),
            id="all idle: flush the maximum",
        ),
        pytest.param(
            2,
            [("idle", 0), ("idle", 1)],
            ValveOutput(idle=True),
            id="all idle before any watermark",
        ),
        pytest.param(
            2,
            [("idle", 0), ("idle", 1), ("active", 0)],
            ValveOutput(idle=False),
            id="one returns",
        ),
        pytest.param(1, [("idle", 0), ("idle", 0)], ValveOutput(), id="idle twice"),
        pytest.param(1, [("active", 0)], ValveOutput(), id="active from the start"),
        pytest.param(
            2, [("idle", 0), ("wm", 0, 7)], ValveOutput(), id="watermark of an idle channel"
        ),
        pytest.param(2, [("wm", 0, MAX), ("wm", 1, MAX)], ValveOutput(watermark=MAX), id="the end"),
    ],
)
def test_what_an_event_gives(channels, events, last):
    assert feed(WatermarkValve(channels), events)[-1] == last


def test_a_channel_that_returns_behind_does_not_hold_back_until_it_has_caught_up():
    valve = WatermarkValve(2)
    feed(valve, [("wm", 0, 5), ("wm", 1, 20), ("idle", 0)])
    assert valve.watermark == 20
    assert feed(valve, [("active", 0), ("wm", 1, 30)])[-1].watermark == 30  # channel 0 is at 5
    assert feed(valve, [("wm", 0, 10), ("wm", 1, 40)])[-1].watermark == 40  # still behind
    assert feed(valve, [("wm", 0, 40), ("wm", 1, 50)])[-1].watermark is None  # now it counts
    assert feed(valve, [("wm", 0, 45)])[-1].watermark == 45


def test_a_valve_goes_on_from_its_snapshot():
    valve = WatermarkValve(3)
    feed(valve, [("wm", 0, 5), ("wm", 1, 7), ("idle", 2)])
    restored = WatermarkValve(3)
    restored.restore(pickle.loads(pickle.dumps(valve.snapshot())))
    rest = [("wm", 2, 9), ("wm", 0, 6), ("active", 2), ("wm", 0, 8), ("wm", 2, 8), ("wm", 1, 9)]
    assert feed(restored, rest) == feed(valve, rest)


def test_with_another_number_of_channels_all_start_where_the_output_stood():
    valve = WatermarkValve(2)
    feed(valve, [("wm", 0, 5), ("wm", 1, 7), ("idle", 0)])
    restored = WatermarkValve(3)
    restored.restore(valve.snapshot())
    assert restored.watermark == 7
    outputs = feed(restored, [("wm", 0, 8), ("wm", 1, 9), ("wm", 2, 10)])
    assert [output.watermark for output in outputs] == [None, None, 8]


class Model:
    """The rules, spelled out: all history is kept, every question is answered from it."""

    def __init__(self, channels):
        self.seen = [[MIN] for _ in range(channels)]  # watermarks that counted
        self.idle = [False] * channels
        self.behind = [False] * channels
        self.out = MIN

    def apply(self, event):
        kind, channel, *rest = event
        before_idle = all(self.idle)
        if kind == "wm":
            if self.idle[channel] or rest[0] <= max(self.seen[channel]):
                return None, None
            self.seen[channel].append(rest[0])
        elif self.idle[channel] == (kind == "idle"):
            return None, None
        else:
            self.idle[channel] = kind == "idle"
        if kind == "active":
            # It returned: it counts only from the moment that it is not behind the output.
            self.behind[channel] = max(self.seen[channel]) < self.out
            return None, (False if before_idle else None)
        if max(self.seen[channel]) >= self.out:
            self.behind[channel] = False
        if all(self.idle):
            best = max(max(marks) for marks in self.seen)
        else:
            counting = [
                max(marks)
                for marks, idle, behind in zip(self.seen, self.idle, self.behind, strict=True)
                if not idle and not behind
            ]
            best = min(counting, default=MIN)
        status = True if all(self.idle) and not before_idle else None
        if best <= self.out:
            return None, status
        self.out = best
        return best, status


def events_of(channels):
    channel = st.integers(0, channels - 1)
    return st.lists(
        st.one_of(
            st.tuples(st.just("wm"), channel, st.integers(-20, 40)),
            st.tuples(st.just("wm"), channel, st.integers(-20, 40)),
            st.tuples(st.sampled_from(["idle", "active"]), channel),
        ),
        max_size=60,
    )


@given(st.integers(1, 4).flatmap(lambda n: st.tuples(st.just(n), events_of(n))))
def test_any_sequence_of_events_gives_what_the_rules_say(case):
    channels, events = case
    valve, model = WatermarkValve(channels), Model(channels)
    for event, output in zip(events, feed(valve, events), strict=True):
        assert (output.watermark, output.idle) == model.apply(event), event


@given(st.integers(1, 4).flatmap(lambda n: st.tuples(st.just(n), events_of(n))))
def test_the_output_only_moves_forward_and_never_beyond_what_was_seen(case):
    channels, events = case
    marks = [o.watermark for o in feed(WatermarkValve(channels), events) if o.watermark is not None]
    assert marks == sorted(set(marks))
    highest = max((event[2] for event in events if event[0] == "wm"), default=MIN)
    assert all(mark <= highest for mark in marks)


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(-100, 100)), max_size=50),
        )
    )
)
def test_without_idleness_the_output_is_the_minimum_over_all_channels(case):
    channels, marks = case
    valve = WatermarkValve(channels)
    highest = [MIN] * channels
    for channel, mark in marks:
        valve.on_watermark(channel, mark)
        highest[channel] = max(highest[channel], mark)
        assert valve.watermark == min(highest)


@given(st.integers(1, 4).flatmap(lambda n: st.tuples(st.just(n), events_of(n), st.integers(0, 60))))
def test_a_restored_valve_cannot_be_told_from_the_original(case):
    channels, events, cut = case
    valve = WatermarkValve(channels)
    feed(valve, events[:cut])
    restored = WatermarkValve(channels)
    restored.restore(valve.snapshot())
    assert feed(restored, events[cut:]) == feed(valve, events[cut:])
