"""Window joins and coGroups on the operator: rule 18, all kinds of windows, against a brute-force model."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.datastream.co_group import CoGroupAdapter
from penstock.datastream.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from penstock.datastream.joined_streams import FlatJoinAdapter, JoinAdapter
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import CoGroupWindowSpec, WindowSpec
from penstock.testing import OperatorHarness
from penstock.windowing import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.windowing.tagged_union import TaggedUnion
from tests.builders.examples import examples

FIRST, SECOND = 0, 1
MAX = 2**63 - 1
TUMBLING = TumblingEventTimeWindows(5, 0)


def both(first, second):
    return [(sorted(first), sorted(second))]


def pair(first, second):
    return first, second


def harness_of(assigner, adapter, snapshots=(), **options):
    window = WindowSpec(assigner, options.pop("trigger", None), window_function=adapter, **options)
    return OperatorHarness(
        CoGroupWindowSpec(window), key_selector=lambda value: value[0], snapshots=snapshots
    )


def send(harness, *elements):
    for side, value, time in elements:
        harness.process_element(value, time, input_index=side)


def test_rule_18_a_join_pairs_elements_of_one_key_and_window_and_stamps_the_windows_end():
    harness = harness_of(TUMBLING, JoinAdapter(pair))
    send(
        harness,
        (FIRST, "a1", 0), (FIRST, "a2", 4), (SECOND, "a3", 2), (SECOND, "b1", 2), (SECOND, "a4", 5),
    )  # fmt: skip
    harness.process_watermark(4)
    assert harness.output() == [(("a1", "a3"), 4), (("a2", "a3"), 4)]
    harness.process_watermark(MAX)
    assert harness.output()[2:] == []
    assert harness.state_entries() == {}


def test_rule_18_a_cogroup_also_fires_for_keys_of_one_side():
    harness = harness_of(TUMBLING, CoGroupAdapter(both))
    send(harness, (FIRST, "a1", 0), (SECOND, "a2", 1), (FIRST, "b1", 2), (SECOND, "c1", 7))
    harness.process_watermark(MAX)
    assert harness.output() == [
        ((["a1"], ["a2"]), 4), ((["b1"], []), 4), (([], ["c1"]), 9),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("adapter", "expected"),
    [
        pytest.param(JoinAdapter(lambda a, b: a + b), ["a1a2"], id="a plain function"),
        pytest.param(JoinAdapter(type("J", (JoinFunction,), {"join": lambda self, a, b: [a, b]})()), [["a1", "a2"]], id="a JoinFunction returns one element"),
        pytest.param(FlatJoinAdapter(type("F", (FlatJoinFunction,), {"join": lambda self, a, b: [a, b]})()), ["a1", "a2"], id="a FlatJoinFunction returns many"),
        pytest.param(FlatJoinAdapter(type("N", (FlatJoinFunction,), {"join": lambda self, a, b: None})()), [], id="or none"),
        pytest.param(CoGroupAdapter(type("C", (CoGroupFunction,), {"co_group": lambda self, a, b: iter([a, b])})()), [["a1"], ["a2"]], id="a CoGroupFunction"),
        pytest.param(CoGroupAdapter(lambda a, b: None), [], id="a coGroup that gives nothing"),
    ],
)  # fmt: skip
def test_functions_of_all_kinds(adapter, expected):
    harness = harness_of(TUMBLING, adapter)
    send(harness, (FIRST, "a1", 0), (SECOND, "a2", 0))
    harness.process_watermark(4)
    assert harness.values() == expected


def test_an_element_is_in_all_its_sliding_windows():
    harness = harness_of(SlidingEventTimeWindows(4, 2, 0), JoinAdapter(pair))
    send(harness, (FIRST, "a1", 3), (SECOND, "a2", 4))
    harness.process_watermark(MAX)
    assert harness.output() == [(("a1", "a2"), 5)]
    harness = harness_of(SlidingEventTimeWindows(4, 2, 0), CoGroupAdapter(both))
    send(harness, (FIRST, "a1", 3), (SECOND, "a2", 4))
    harness.process_watermark(MAX)
    assert harness.output() == [
        ((["a1"], []), 3), ((["a1"], ["a2"]), 5), (([], ["a2"]), 7),
    ]  # fmt: skip


def test_sessions_grow_over_elements_of_both_sides():
    harness = harness_of(EventTimeSessionWindows(3), CoGroupAdapter(both))
    send(harness, (FIRST, "a1", 0), (FIRST, "a2", 4), (SECOND, "a3", 2), (SECOND, "a4", 20))
    harness.process_watermark(MAX)
    assert harness.output() == [((["a1", "a2"], ["a3"]), 6), (([], ["a4"]), 22)]
    assert harness.state_entries() == {}


def test_global_windows_fire_by_their_trigger():
    harness = harness_of(
        GlobalWindows.create(), CoGroupAdapter(both), trigger=PurgingTrigger.of(CountTrigger.of(3))
    )
    send(harness, (FIRST, "a1", 0), (SECOND, "a2", 0), (FIRST, "b1", 0), (SECOND, "a3", 0))
    assert harness.values() == [(["a1"], ["a2", "a3"])]


def test_processing_time_windows():
    harness = harness_of(TumblingProcessingTimeWindows(10, 0), JoinAdapter(pair))
    send(harness, (FIRST, "a1", None), (SECOND, "a2", None))
    harness.advance_processing_time(10)
    send(harness, (FIRST, "a3", None))
    harness.advance_processing_time(10)
    assert harness.values() == [("a1", "a2")]


def test_rule_7_late_elements_fire_again_within_the_allowed_lateness():
    harness = harness_of(TUMBLING, CoGroupAdapter(both), allowed_lateness=3)
    send(harness, (FIRST, "a1", 0))
    harness.process_watermark(4)
    send(harness, (SECOND, "a2", 1))
    harness.process_watermark(7)
    send(harness, (SECOND, "a3", 1))
    assert harness.values() == [(["a1"], []), (["a1"], ["a2"])]
    assert harness.state_entries() == {}


def test_triggers_and_evictors_see_which_stream_an_element_is_of():
    seen = []

    class OnSecond(Trigger):
        def on_element(self, element, timestamp, window, ctx):
            seen.append(element)
            return TriggerResult.FIRE if element.is_two() else TriggerResult.CONTINUE

        def on_processing_time(self, time, window, ctx):
            return TriggerResult.CONTINUE

        def on_event_time(self, time, window, ctx):
            return TriggerResult.CONTINUE

        def on_merge(self, window, ctx):
            raise NotImplementedError

        def clear(self, window, ctx):
            pass

    harness = harness_of(
        GlobalWindows.create(), CoGroupAdapter(both), trigger=OnSecond(), evictor=CountEvictor.of(2)
    )
    send(harness, (FIRST, "a1", 0), (FIRST, "a2", 0), (SECOND, "a3", 0))
    assert harness.values() == [(["a2"], ["a3"])]
    assert seen[-1] == TaggedUnion(1, "a3")
    assert (seen[0].get_one(), seen[0].get_two()) == ("a1", None)


def test_windows_in_flight_survive_a_restore():
    adapter = CoGroupAdapter(both)
    harness = harness_of(TUMBLING, adapter)
    send(harness, (FIRST, "a1", 0))
    restored = harness_of(TUMBLING, adapter, snapshots=[harness.snapshot()])
    send(restored, (SECOND, "a2", 1))
    restored.process_watermark(4)
    assert restored.output() == [((["a1"], ["a2"]), 4)]


def test_functions_are_opened_and_closed():
    class Opened(JoinFunction):
        log = []

        def open(self, runtime_context):
            self.log.append("open")

        def join(self, first, second):
            return self.log[-1]

        def close(self):
            self.log.append("close")

    harness = harness_of(TUMBLING, JoinAdapter(Opened()))
    send(harness, (FIRST, "a1", 0), (SECOND, "a2", 0))
    harness.process_watermark(4)
    harness.close()
    assert (harness.values(), Opened.log) == (["open"], ["open", "close"])


def test_an_error_names_key_and_window():
    harness = harness_of(TUMBLING, JoinAdapter(lambda a, b: a / b))
    send(harness, (FIRST, "a1", 0), (SECOND, "a2", 0))
    with pytest.raises(UserCodeError, match="TypeError") as caught:
        harness.process_watermark(4)
    assert "key 'a', TimeWindow(start=0, end=5)" in caught.value.detail


# Against a model

elements = st.lists(
    st.tuples(st.sampled_from([FIRST, SECOND]), st.sampled_from("ab"), st.integers(-10, 30)),
    max_size=25,
)


def windows_of(kind, times):
    """The windows, as (start, end), that these timestamps of one key make."""
    if kind == "session":
        windows = []
        for time in sorted(times):
            if windows and time <= windows[-1][1]:
                windows[-1] = (windows[-1][0], max(windows[-1][1], time + 4))
            else:
                windows.append((time, time + 4))
        return windows
    size, slide = {"tumbling": (5, 5), "sliding": (6, 2)}[kind]
    return sorted(
        {
            (start, start + size)
            for time in times
            for start in range(-20, 40)
            if start % slide == 0 and start <= time < start + size
        }
    )


ASSIGNERS = {
    "tumbling": TUMBLING,
    "sliding": SlidingEventTimeWindows(6, 2, 0),
    "session": EventTimeSessionWindows(4),
}


def groups(kind, script):
    """Per key and window: the elements of both sides, and the window's last timestamp."""
    named = [(side, f"{key}{n}", key, time) for n, (side, key, time) in enumerate(script)]
    for key in sorted({key for _, _, key, _ in named}):
        mine = [element for element in named if element[2] == key]
        for start, end in windows_of(kind, [time for *_, time in mine]):
            inside = [element for element in mine if start <= element[3] < end]
            yield (
                tuple(
                    sorted(name for side, name, *_ in inside if side == wanted)
                    for wanted in (FIRST, SECOND)
                ),
                end - 1,
            )


@settings(max_examples=examples(150), deadline=None)
@given(elements, st.sampled_from(sorted(ASSIGNERS)), st.integers(0, 25))
def test_cogroup_and_join_agree_with_brute_force(script, kind, cut):
    for adapter, expected in (
        (CoGroupAdapter(both), list(groups(kind, script))),
        (
            JoinAdapter(pair),
            [((a, b), end) for (one, two), end in groups(kind, script) for a in one for b in two],
        ),
    ):
        harness = harness_of(ASSIGNERS[kind], adapter)
        for number, (side, key, time) in enumerate(script):
            if number == cut:
                harness = harness_of(ASSIGNERS[kind], adapter, snapshots=[harness.snapshot()])
            harness.process_element(f"{key}{number}", time, input_index=side)
        harness.process_watermark(MAX)
        assert sorted(harness.output()) == sorted(expected)
        assert harness.state_entries() == {}
