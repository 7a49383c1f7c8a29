"""The numbered rules about windows, with their numbers, on the operators that implement them."""

from __future__ import annotations

import pytest

from penstock.graph.operator_specs import WindowSpec
from penstock.runtime.operators.windows.time_window import TimeWindowOperator
from penstock.runtime.operators.windows.window import WindowOperator, create_window_operator
from penstock.testing import OperatorHarness
from penstock.windowing import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tests.builders.window_functions import Show, StartEndCount, Sum, SumAndCount, by_field_0

MAX = 2**63 - 1
SECOND = 1000

both_operators = pytest.mark.parametrize(
    "make", [TimeWindowOperator, WindowOperator], ids=["fast", "general"]
)


def harness_of(operator, **options):
    return OperatorHarness(operator, key_selector=by_field_0, **options)


def restored(harness, operator):
    return harness_of(operator, snapshots=[harness.snapshot()])


@both_operators
def test_rule_4_the_last_watermark_fires_all_event_time_windows(make):
    harness = harness_of(
        make(WindowSpec(TumblingEventTimeWindows(5, 0), None, reduce_function=Sum()))
    )
    harness.process_elements([(("a", 1), 1), (("a", 1), 1000), (("b", 1), 10**15)])
    harness.finish()
    assert harness.output() == [(("a", 1), 4), (("a", 1), 1004), (("b", 1), 10**15 + 4)]
    assert harness.watermarks() == [MAX]


def test_rule_4_a_partly_filled_count_window_does_not_fire_at_the_end():
    harness = harness_of(
        create_window_operator(
            WindowSpec(CountTumblingWindowAssigner(3), None, reduce_function=Sum())
        )
    )
    harness.process_elements([(("a", n), None) for n in (1, 2)])
    harness.finish()
    assert harness.output() == []


def test_rule_4_pending_processing_time_windows_do_not_fire_at_the_end():
    spec = WindowSpec(TumblingProcessingTimeWindows(5, 0), None, reduce_function=Sum())
    harness = harness_of(create_window_operator(spec))
    harness.process_element(("a", 1))
    harness.finish()
    assert harness.output() == []


@both_operators
def test_rule_5_windows_fire_in_time_order_and_survive_a_restore(make):
    spec = WindowSpec(TumblingEventTimeWindows(5, 0), None, reduce_function=Sum())
    harness = harness_of(make(spec))
    harness.process_elements([(("a", 3), 11), (("a", 2), 6), (("a", 1), 1)])
    harness = restored(harness, make(spec))
    harness.process_watermark(14)
    assert harness.output() == [(("a", 1), 4), (("a", 2), 9), (("a", 3), 14)]


@both_operators
def test_rule_6_a_window_fires_when_the_watermark_reaches_its_last_millisecond(make):
    harness = harness_of(
        make(WindowSpec(TumblingEventTimeWindows(5, 0), None, reduce_function=Sum()))
    )
    harness.process_element(("a", 1), 0)
    harness.process_watermark(3)
    assert harness.output() == []
    harness.process_watermark(4)
    assert harness.output() == [(("a", 1), 4)]


@both_operators
def test_rule_6_sliding_windows_start_before_the_first_element(make):
    spec = WindowSpec(SlidingEventTimeWindows(5, 2, 0), None, window_function=StartEndCount())
    harness = harness_of(make(spec))
    harness.process_elements([(("hi", t), t) for t in (1, 2, 3, 4, 5, 8, 9, 15)])
    harness.process_watermark(MAX)
    expected = [
        (-2, 3, 2),
        (0, 5, 4),
        (2, 7, 4),
        (4, 9, 3),
        (6, 11, 2),
        (8, 13, 2),
        (12, 17, 1),
        (14, 19, 1),
    ]
    assert harness.output() == [(window, window[1] - 1) for window in expected]


@both_operators
def test_rule_7_an_element_is_late_when_its_window_has_ended(make):
    spec = WindowSpec(TumblingEventTimeWindows(5, 0), None, reduce_function=Sum(), late_tag="late")
    harness = harness_of(make(spec))
    harness.process_watermark(3)
    harness.process_element(("a", 1), 0)  # older than the watermark, but its window still waits
    assert harness.side_output("late") == []
    harness.process_watermark(4)
    harness.process_elements([(("a", 2), 4), (("a", 3), 5), (("b", 4), 0)])
    assert harness.side_output("late") == [(("a", 2), 4), (("b", 4), 0)]
    harness.process_watermark(9)
    assert harness.output() == [(("a", 1), 4), (("a", 3), 9)]


@both_operators
def test_rule_7_an_element_with_one_window_left_is_not_late(make):
    spec = WindowSpec(
        SlidingEventTimeWindows(4, 2, 0), None, window_function=StartEndCount(), late_tag="late"
    )
    harness = harness_of(make(spec))
    harness.process_watermark(5)
    harness.process_element(("a", 1), 4)  # [2, 6) is over, [4, 8) is not
    harness.process_element(("a", 1), 3)  # [0, 4) and [2, 6) are over
    harness.process_watermark(MAX)
    assert harness.output() == [((4, 8, 1), 7)]
    assert harness.side_output("late") == [(("a", 1), 3)]


@both_operators
def test_rule_7_an_element_between_windows_is_late_only_if_its_timestamp_has_passed(make):
    spec = WindowSpec(
        SlidingEventTimeWindows(2, 5, 0), None, window_function=StartEndCount(), late_tag="late"
    )
    harness = harness_of(make(spec))
    harness.process_watermark(3)
    harness.process_elements([(("a", 1), 3), (("a", 2), 4), (("a", 3), 5)])
    harness.process_watermark(MAX)
    assert harness.output() == [((5, 7, 1), 6)]
    assert harness.side_output("late") == [(("a", 1), 3)]


@both_operators
def test_rule_7_late_elements_without_a_side_output_are_counted(make):
    harness = harness_of(
        make(WindowSpec(TumblingEventTimeWindows(5, 0), None, reduce_function=Sum()))
    )
    harness.process_watermark(9)
    harness.process_elements([(("a", 1), 4), (("a", 1), 9), (("a", 1), 10)])
    assert harness.metrics.counter("numLateRecordsDropped").get_count() == 2


def test_rule_7_each_late_element_within_the_lateness_fires_its_window_again():
    spec = WindowSpec(
        TumblingEventTimeWindows(5, 0),
        None,
        reduce_function=Sum(),
        allowed_lateness=3,
        late_tag="late",
    )
    harness = harness_of(create_window_operator(spec))
    harness.process_element(("a", 1), 0)
    harness.process_watermark(4)
    assert harness.take() == [(("a", 1), 4)]
    harness = restored(harness, create_window_operator(spec))
    harness.process_watermark(6)
    harness.process_element(("a", 1), 1)
    harness.process_element(("a", 1), 2)
    assert harness.take() == [(("a", 2), 4), (("a", 3), 4)]
    harness.process_watermark(7)  # 4 + 3: the window goes away
    assert harness.state_entries() == {}
    harness.process_element(("a", 1), 3)
    assert harness.output() == []
    assert harness.side_output("late") == [(("a", 1), 3)]


def test_rule_7_a_purging_trigger_makes_a_late_element_fire_alone():
    spec = WindowSpec(
        TumblingEventTimeWindows(5, 0),
        PurgingTrigger.of(TumblingEventTimeWindows(5, 0).get_default_trigger(None)),
        reduce_function=Sum(),
        allowed_lateness=3,
    )
    harness = harness_of(create_window_operator(spec))
    harness.process_element(("a", 1), 0)
    harness.process_watermark(4)
    harness.process_element(("a", 10), 1)
    assert harness.output() == [(("a", 1), 4), (("a", 10), 4)]
    harness.process_watermark(7)
    assert harness.state_entries() == {}


def test_rule_7_the_end_of_a_window_plus_the_lateness_stops_at_the_largest_time():
    spec = WindowSpec(
        TumblingEventTimeWindows(5, 0),
        None,
        reduce_function=Sum(),
        allowed_lateness=MAX,
        late_tag="late",
    )
    harness = harness_of(create_window_operator(spec))
    harness.process_element(("a", 1), 0)
    harness.process_watermark(10**15)
    harness.process_element(("a", 1), 1)
    assert harness.take() == [(("a", 1), 4), (("a", 2), 4)]
    harness.process_watermark(MAX)
    harness.process_element(("a", 1), 2)
    assert harness.output() == []
    assert harness.side_output("late") == [(("a", 1), 2)]


def test_rule_8_sessions_over_a_restore():
    class Session:
        def process(self, key, context, elements):
            yield key, sum(n for _, n in elements), context.window()

    spec = WindowSpec(EventTimeSessionWindows(3 * SECOND), None, window_function=Session())
    harness = harness_of(create_window_operator(spec))
    before = [
        ("key2", 1, 0),
        ("key2", 2, 1000),
        ("key2", 3, 2500),
        ("key1", 1, 10),
        ("key1", 2, 1000),
    ]
    after = [
        ("key1", 3, 2500),
        ("key2", 4, 5501),
        ("key2", 5, 6000),
        ("key2", 5, 6000),
        ("key2", 6, 6050),
    ]
    harness.process_elements([((key, n), t) for key, n, t in before])
    harness = restored(harness, create_window_operator(spec))
    harness.process_elements([((key, n), t) for key, n, t in after])
    harness.process_watermark(12000)
    assert sorted(harness.output()) == [
        (("key1", 6, TimeWindow(10, 5500)), 5499),
        (("key2", 6, TimeWindow(0, 5500)), 5499),
        (("key2", 20, TimeWindow(5501, 9050)), 9049),
    ]
    assert harness.state_entries() == {}


@pytest.mark.parametrize("kind", ["elements", "reduce", "aggregate"])
def test_rule_8_an_element_between_two_sessions_joins_them(kind):
    functions = {
        "elements": {"window_function": Show()},
        "reduce": {"window_function": Show(), "reduce_function": Sum()},
        "aggregate": {"window_function": Show(), "aggregate_function": SumAndCount()},
    }
    expected = {
        "elements": [("a", 1), ("a", 2), ("a", 4)],
        "reduce": [("a", 7)],
        "aggregate": [(7, 3)],
    }
    spec = WindowSpec(EventTimeSessionWindows(10), None, **functions[kind])
    harness = harness_of(create_window_operator(spec))
    harness.process_elements([(("a", 1), 0), (("a", 2), 20)])
    assert harness.state_entries()["window-contents"] == 2
    harness.process_element(("a", 4), 10)  # touches both
    assert harness.state_entries() == {
        "merging-window-set": 1,
        "window-contents": 1,
        "timers/event": 1,
    }
    harness.process_watermark(28)
    assert harness.output() == []
    harness.process_watermark(29)
    ((key, window, elements), timestamp), *rest = harness.output()
    assert (key, window, timestamp, rest) == ("a", TimeWindow(0, 30), 29, [])
    assert sorted(elements) == expected[kind]
    assert harness.state_entries() == {}


def test_rule_8_a_merge_moves_the_timers_of_the_end_and_of_the_clean_up():
    spec = WindowSpec(EventTimeSessionWindows(10), None, window_function=Show(), allowed_lateness=5)
    harness = harness_of(create_window_operator(spec))
    harness.process_elements([(("a", 1), 0), (("a", 2), 20), (("a", 3), 10)])
    assert harness.state_entries()["timers/event"] == 2
    harness.process_watermark(30)
    assert harness.take() == [(("a", TimeWindow(0, 30), [("a", 1), ("a", 2), ("a", 3)]), 29)]
    harness.process_element(("a", 4), 25)  # late, and the session grows: it has not ended any more
    assert harness.take() == []
    harness.process_watermark(34)
    ((_, window, elements), timestamp), *rest = harness.take()
    assert (window, len(elements), timestamp, rest) == (TimeWindow(0, 35), 4, 34, [])
    harness.process_element(("a", 5), 3)  # late, and the session stays as it is: it fires again
    assert [len(elements) for _, _, elements in harness.values()] == [5]
    harness.process_watermark(39)
    assert harness.state_entries() == {}


def test_rule_8_late_sessions_join_those_that_still_wait():
    spec = WindowSpec(EventTimeSessionWindows(10), None, window_function=Show(), late_tag="late")
    harness = harness_of(create_window_operator(spec))
    harness.process_element(("a", 1), 20)
    harness.process_watermark(25)
    harness.process_element(("a", 2), 12)  # [12, 22) alone would be late
    harness.process_element(("a", 3), 1)  # [1, 11) is late
    harness.process_watermark(MAX)
    assert harness.output() == [(("a", TimeWindow(12, 30), [("a", 1), ("a", 2)]), 29)]
    assert harness.side_output("late") == [(("a", 3), 1)]
    assert harness.state_entries() == {}


@pytest.mark.parametrize(
    ("assigner", "trigger"),
    [
        pytest.param(CountTumblingWindowAssigner.of(3), None, id="count assigner"),
        pytest.param(
            GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(3)), id="global windows"
        ),
    ],
)
def test_rule_9_a_count_window_of_3_emits_only_full_windows(assigner, trigger):
    spec = WindowSpec(assigner, trigger, reduce_function=Sum())
    harness = harness_of(create_window_operator(spec))
    harness.process_elements([(("a", n), None) for n in range(1, 5)] + [(("b", 1), None)])
    harness = restored(harness, create_window_operator(spec))
    assert harness.output() == []
    harness.process_elements([(("a", n), None) for n in range(5, 9)])
    harness.finish()
    assert harness.output() == [(("a", 15), MAX)]


@pytest.mark.parametrize(
    ("partial", "expected"),
    [
        pytest.param(True, [[1], [1, 3], [3, 5], [5, 7]], id="also partial windows"),
        pytest.param(False, [[1, 3], [3, 5], [5, 7]], id="only full windows"),
    ],
)
def test_rule_9_a_count_window_of_2_and_1_slides(partial, expected):
    class Numbers:
        def process(self, key, context, elements):
            return [[n for _, n in elements]]

    spec = WindowSpec(
        CountSlidingWindowAssigner(2, 1, partial=partial), None, window_function=Numbers()
    )
    harness = harness_of(create_window_operator(spec))
    harness.process_elements([(("a", n), None) for n in (1, 3)])
    harness_before = harness.values()
    harness = restored(harness, create_window_operator(spec))
    harness.process_elements([(("a", n), None) for n in (5, 7)])
    assert harness_before + harness.values() == expected


def test_rule_9_partial_count_windows_with_a_slide_that_does_not_divide_the_size():
    spec = WindowSpec(CountSlidingWindowAssigner(3, 2, partial=True), None, window_function=Show())
    harness = harness_of(create_window_operator(spec))
    harness.process_elements([(("a", n), None) for n in range(7)])
    shown = [[n for _, n in elements] for _, _, elements in harness.values()]
    assert shown == [[0, 1], [1, 2, 3], [3, 4, 5]]


@both_operators
@pytest.mark.parametrize("kind", ["reduce", "aggregate"])
def test_rule_10_sliding_sums_over_a_restore(make, kind):
    class SumOfKey(SumAndCount):
        def create_accumulator(self):
            return (None, 0)

        def add(self, value, accumulator):
            return (value[0], accumulator[1] + value[1])

    function = (
        {"reduce_function": Sum()} if kind == "reduce" else {"aggregate_function": SumOfKey()}
    )
    spec = WindowSpec(SlidingEventTimeWindows(3 * SECOND, SECOND, 0), None, **function)
    harness = harness_of(make(spec))
    for key, timestamp in [
        ("key2", 3999),
        ("key2", 3000),
        ("key1", 20),
        ("key1", 0),
        ("key1", 999),
        ("key2", 1998),
        ("key2", 1999),
        ("key2", 1000),
    ]:
        harness.process_element((key, 1), timestamp)

    def fired_at(watermark):
        harness.process_watermark(watermark)
        return sorted(harness.take())

    assert fired_at(999) == [(("key1", 3), 999)]
    assert fired_at(1999) == [(("key1", 3), 1999), (("key2", 3), 1999)]
    assert fired_at(2999) == [(("key1", 3), 2999), (("key2", 3), 2999)]
    harness = restored(harness, make(spec))
    assert fired_at(3999) == [(("key2", 5), 3999)]
    assert fired_at(4999) == [(("key2", 2), 4999)]
    assert fired_at(5999) == [(("key2", 2), 5999)]
    assert fired_at(6999) == []
    assert harness.state_entries() == {}
