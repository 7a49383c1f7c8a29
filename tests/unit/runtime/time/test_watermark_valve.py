"""The watermark valve against the rules, to the letter and against a brute-force model."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.time.watermark_valve import InputValves, ValveOutput, WatermarkValve, combine

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


# Channel 1 is idle at 25, and channel 0 at 20, where the valve stands; channel 2 is active, and behind at 10.
AHEAD_AND_BEHIND = [
    *(("wm", channel, 10) for channel in range(3)),
    ("idle", 2),
    ("wm", 1, 25),
    ("wm", 0, 20),
    ("idle", 1),
    ("active", 2),
    ("idle", 0),
]


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
            [("wm", 0, 5), ("wm", 1, 9), ("idle", 0), ("idle", 1)],
            ValveOutput(idle=True),
            id="all idle: the last one was the maximum",
        ),
        pytest.param(
            2,
            [("wm", 0, 5), ("idle", 0), ("idle", 1)],
            ValveOutput(watermark=5, idle=True),
            id="all idle: the last one never spoke, and nor did the valve",
        ),
        pytest.param(
            3,
            [*AHEAD_AND_BEHIND, ("idle", 2)],
            ValveOutput(idle=True),
            id="all idle: the last one was behind, no flush",
        ),
        pytest.param(
            3,
            [*AHEAD_AND_BEHIND, ("idle", 2), ("active", 1), ("active", 2), ("idle", 2)],
            ValveOutput(),
            id="one that was behind goes idle: nothing new",
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
def test_valve_output_per_event(channels, events, last):
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
        status = True if all(self.idle) else None
        if kind == "idle" and max(self.seen[channel]) != self.out:
            return None, status  # it did not hold the output where it is
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
def test_valve_matches_the_model_for_any_events(case):
    channels, events = case
    valve, model = WatermarkValve(channels), Model(channels)
    for event, output in zip(events, feed(valve, events), strict=True):
        assert (output.watermark, output.idle) == model.apply(event), event


@given(st.integers(1, 4).flatmap(lambda n: st.tuples(st.just(n), events_of(n))))
def test_valve_output_is_monotonic_and_bounded_by_its_inputs(case):
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
def test_restored_valve_behaves_like_the_original(case):
    channels, events, cut = case
    valve = WatermarkValve(channels)
    feed(valve, events[:cut])
    restored = WatermarkValve(channels)
    restored.restore(valve.snapshot())
    assert feed(restored, events[cut:]) == feed(valve, events[cut:])


# Several inputs: a valve each, then the minimum over those that are active


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([(5, False), (3, False)], 3, id="the lowest"),
        pytest.param([(5, False), (3, True)], 5, id="of those that are active"),
        pytest.param([(5, True), (3, True)], 5, id="the highest, if none is"),
    ],
)
def test_how_times_are_combined(times, expected):
    assert combine(times) == expected


def outputs_of(inputs, events):
    return [(each.watermark, each.idle) for each in feed(InputValves(inputs), events)]


def test_the_time_of_two_inputs_is_the_lower_one():
    events = [("wm", 0, 10), ("wm", 1, 4), ("wm", 1, 12), ("wm", 0, 11)]
    assert outputs_of([0, 1], events) == [(None, None), (4, None), (10, None), (11, None)]


def test_an_input_that_returns_from_idleness_counts_at_once_although_it_is_behind():
    events = [
        ("wm", 0, 100),
        ("idle", 1),  # -> 100
        ("active", 1),
        ("wm", 1, 50),
        ("wm", 0, 200),  # a channel of the same input would have to catch up first
        ("wm", 1, 120),  # -> 120
    ]
    assert outputs_of([0, 1], events) == [
        (None, None),
        (100, None),
        (None, None),
        (None, None),
        (None, None),
        (120, None),
    ]
    # Two channels of one input, for comparison.
    assert outputs_of([0, 0], events)[4:] == [(200, None), (None, None)]


def test_two_idle_inputs_emit_the_highest_watermark_first():
    events = [("wm", 0, 10), ("wm", 1, 4), ("idle", 1), ("idle", 0), ("active", 1), ("active", 0)]
    assert outputs_of([0, 1], events) == [
        (None, None),
        (4, None),
        (10, None),
        (None, True),
        (None, False),
        (None, None),
    ]
    flushed = [("wm", 0, 10), ("wm", 1, 4), ("idle", 0), ("idle", 1)]
    assert outputs_of([0, 1], flushed)[-1] == (10, True)


def test_channels_of_an_input_are_one_valve_wherever_they_are_numbered():
    # Channels 0 and 2 belong to the first input, 1 and 3 to the second.
    events = [("wm", 0, 5), ("wm", 1, 7), ("wm", 3, 6), ("wm", 2, 9), ("idle", 0), ("wm", 3, 20)]
    assert outputs_of([0, 1, 0, 1], events) == [
        (None, None),
        (None, None),
        (None, None),
        (5, None),
        (6, None),
        (7, None),
    ]


def inputs_and_events():
    """The inputs of some channels, and what the channels say."""
    return st.lists(st.integers(0, 2), min_size=1, max_size=5).flatmap(
        lambda inputs: st.tuples(st.just(inputs), events_of(len(inputs)))
    )


@given(inputs_and_events())
def test_several_inputs_are_valves_whose_times_are_combined(case):
    inputs, events = case
    together = InputValves(inputs)
    names = sorted(set(inputs))
    apart = {name: WatermarkValve(inputs.count(name)) for name in names}
    highest = MIN
    for event in events:
        kind, channel, *rest = event
        name, place = inputs[channel], inputs[:channel].count(inputs[channel])
        feed(apart[name], [(kind, place, *rest)])
        was_idle = together.idle
        (output,) = feed(together, [event])
        time = combine([(valve.watermark, valve.idle) for valve in apart.values()])
        assert output.watermark == (time if time > highest else None)
        highest = max(highest, time)
        assert together.watermark == highest
        idle = all(valve.idle for valve in apart.values())
        assert output.idle == (None if idle == was_idle else idle)


@given(st.integers(1, 4).flatmap(lambda n: st.tuples(st.just(n), events_of(n))))
def test_one_input_is_its_valve(case):
    channels, events = case
    assert feed(InputValves([0] * channels), events) == feed(WatermarkValve(channels), events)


@given(inputs_and_events(), st.integers(0, 60))
def test_restored_input_valves_behave_like_the_originals(case, cut):
    inputs, events = case
    valves = InputValves(inputs)
    feed(valves, events[:cut])
    restored = InputValves(inputs)
    restored.restore(pickle.loads(pickle.dumps(valves.snapshot())))
    assert feed(restored, events[cut:]) == feed(valves, events[cut:])


def test_with_other_inputs_all_channels_start_where_the_output_stood():
    valves = InputValves([0, 0])
    feed(valves, [("wm", 0, 7), ("wm", 1, 7)])
    restored = InputValves([0, 1])
    restored.restore(valves.snapshot())
    assert restored.watermark == 7
    assert [o.watermark for o in feed(restored, [("wm", 0, 9), ("wm", 1, 8)])] == [None, 8]
