"""Triggers: when windows fire, merge and clear."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidProgramError, UnsupportedOperationError
from penstock.graph.operator_specs import WindowSpec
from penstock.runtime.operators.windows.window import create_window_operator
from penstock.testing import OperatorHarness
from penstock.time.durations import Time
from penstock.windowing import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingProcessingTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.windowing._state import InternalDescriptor
from tests.builders.window_functions import Sum, SumAndCount, by_field_0

MAX = 2**63 - 1


class Numbers:
    def process(self, key, context, elements):
        yield [n for _, n in elements]


def windows(assigner, trigger, **options):
    options = options or {"window_function": Numbers()}
    operator = create_window_operator(WindowSpec(assigner, trigger, **options))
    return OperatorHarness(operator, key_selector=by_field_0)


@pytest.mark.parametrize(
    ("result", "fires", "purges"),
    [
        (TriggerResult.CONTINUE, False, False),
        (TriggerResult.FIRE, True, False),
        (TriggerResult.PURGE, False, True),
        (TriggerResult.FIRE_AND_PURGE, True, True),
    ],
)
def test_a_trigger_result_says_whether_to_fire_and_to_purge(result, fires, purges):
    assert (result.is_fire(), result.is_purge()) == (fires, purges)


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (EventTimeTrigger.create(), True),
        (ProcessingTimeTrigger.create(), True),
        (CountTrigger.of(2), True),
        (ContinuousEventTimeTrigger.of(Time.seconds(1)), True),
        (ContinuousProcessingTimeTrigger.of(Time.seconds(1)), True),
        (PurgingTrigger.of(CountTrigger.of(2)), True),
        (PurgingTrigger.of(NeverTrigger()), False),
        (NeverTrigger(), False),
        pytest.param(DeltaTrigger.of(1, lambda old, new: new - old), False, id="DeltaTrigger"),
    ],
    ids=repr,
)
def test_only_some_triggers_can_merge(trigger, expected):
    assert trigger.can_merge() is expected


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        pytest.param(CountTrigger.of(2), [[1, 2], [1, 2, 3, 4]], id="count keeps"),
        pytest.param(PurgingTrigger.of(CountTrigger.of(2)), [[1, 2], [3, 4]], id="count purges"),
        pytest.param(NeverTrigger(), [], id="never"),
        pytest.param(None, [], id="default"),
        pytest.param(
            DeltaTrigger.of(1, lambda old, new: new[1] - old[1]),
            [[1, 2, 3], [1, 2, 3, 4, 5]],
            id="delta",
        ),
        pytest.param(
            PurgingTrigger.of(DeltaTrigger.of(2, lambda old, new: new[1] - old[1])),
            [[1, 2, 3, 4]],
            id="delta purges",
        ),
    ],
)
def test_triggers_of_a_global_window(trigger, expected):
    harness = windows(GlobalWindows.create(), trigger)
    harness.process_elements([(("a", n), None) for n in range(1, 6)])
    harness.finish()
    assert harness.output() == [(numbers, MAX) for numbers in expected]


def test_a_delta_trigger_takes_an_object_with_get_delta_and_elements_that_are_none():
    class Delta:
        def get_delta(self, old, new):
            return 0 if old == new else 10

    operator = create_window_operator(
        WindowSpec(GlobalWindows(), DeltaTrigger(5, Delta()), reduce_function=lambda a, b: b)
    )
    harness = OperatorHarness(operator, key_selector=lambda value: "k")
    harness.process_elements([(value, None) for value in (None, None, 1, 1, None)])
    assert harness.values() == [1, None]


def test_a_count_trigger_counts_each_key_and_window():
    harness = windows(TumblingEventTimeWindows(5, 0), CountTrigger.of(2))
    harness.process_elements([(("a", 1), 0), (("b", 2), 1), (("a", 3), 5), (("a", 4), 4)])
    assert harness.output() == [([1, 4], 4)]
    harness.process_watermark(9)  # clean-up, without firing
    assert harness.output() == [([1, 4], 4)]
    assert harness.state_entries() == {}


def test_counts_of_merged_sessions_add_up():
    harness = windows(EventTimeSessionWindows(10), CountTrigger.of(3))
    harness.process_elements([(("a", 1), 0), (("a", 2), 20)])
    assert harness.output() == []
    harness.process_element(("a", 3), 10)
    assert harness.output() == [([1, 2, 3], 29)]
    harness.process_watermark(MAX)
    assert harness.state_entries() == {}


def test_a_continuous_event_time_trigger_fires_every_interval_and_at_the_end():
    harness = windows(TumblingEventTimeWindows(25, 0), ContinuousEventTimeTrigger(10))
    harness.process_element(("a", 1), 3)
    harness.process_watermark(9)
    assert harness.take() == []
    harness.process_watermark(10)
    assert harness.take() == [([1], 24)]
    harness.process_element(("a", 2), 12)
    harness.process_watermark(23)
    assert harness.take() == [([1, 2], 24)]
    harness.process_watermark(24)
    assert harness.take() == [([1, 2], 24)]
    assert harness.state_entries() == {}


def test_continuous_event_time_triggers_of_merged_sessions_keep_the_earliest_time():
    harness = windows(EventTimeSessionWindows(10), ContinuousEventTimeTrigger(4))
    harness.process_elements([(("a", 1), 20), (("a", 2), 0), (("a", 3), 10)])
    harness.process_watermark(3)
    assert harness.take() == []
    harness.process_watermark(4)
    assert harness.take() == [([2, 1, 3], 29)]
    harness.process_watermark(MAX)
    assert harness.take() == [([2, 1, 3], 29)] * 7  # at 8, 12, 16, 20, 24, 28 and 29
    assert harness.state_entries() == {}


def test_a_continuous_processing_time_trigger_fires_every_interval_until_the_end():
    harness = windows(TumblingProcessingTimeWindows(25, 0), ContinuousProcessingTimeTrigger(10))
    harness.set_processing_time(3)
    harness.process_element(("a", 1))
    harness.set_processing_time(9)
    assert harness.take() == []
    harness.set_processing_time(10)
    assert harness.take() == [([1], 24)]
    assert harness.operator.next_wakeup() == 20
    harness.process_element(("a", 2))
    harness.set_processing_time(30)
    assert harness.take() == [([1, 2], 24), ([1, 2], 24)]
    assert harness.state_entries() == {}


def test_a_processing_time_window_fires_when_the_clock_passes_its_end():
    harness = windows(TumblingProcessingTimeWindows(10, 0), None, reduce_function=Sum())
    harness.process_element(("a", 1))
    harness.advance_processing_time(8)
    harness.process_element(("a", 1))
    assert harness.operator.next_wakeup() == 9
    assert harness.output() == []
    harness.advance_processing_time(1)
    assert harness.output() == [(("a", 2), 9)]
    assert harness.state_entries() == {}
    assert harness.operator.next_wakeup() is None


def test_processing_time_windows_survive_a_restore():
    spec = WindowSpec(SlidingProcessingTimeWindows(10, 5, 0), None, reduce_function=Sum())
    harness = OperatorHarness(create_window_operator(spec), key_selector=by_field_0)
    harness.process_element(("a", 1))
    snapshot = harness.snapshot()
    harness = OperatorHarness(create_window_operator(spec), snapshots=[snapshot])
    harness.advance_processing_time(4)
    harness.advance_processing_time(5)
    assert harness.output() == [(("a", 1), 4), (("a", 1), 9)]


def test_a_processing_time_window_is_never_late():
    harness = windows(TumblingProcessingTimeWindows(10, 0), None, reduce_function=Sum())
    harness.process_watermark(MAX)
    harness.process_element(("a", 1), 0)
    harness.advance_processing_time(9)
    assert harness.values() == [("a", 1)]


def test_a_processing_time_session_ends_after_the_gap():
    harness = windows(ProcessingTimeSessionWindows(10), None, aggregate_function=SumAndCount())
    for now in (0, 8, 16):
        harness.set_processing_time(now)
        harness.process_element(("a", 1))
    harness.set_processing_time(24)
    assert harness.output() == []
    harness.set_processing_time(25)
    assert harness.output() == [((3, 3), 25)]
    assert harness.state_entries() == {}


class FakeContext:
    """Clocks that stand at 10; keeps the timers that are registered."""

    def __init__(self):
        self.timers = []

    def get_current_watermark(self):
        return 10

    get_current_processing_time = get_current_watermark

    def register_event_time_timer(self, time):
        self.timers.append(("event", time))

    def register_processing_time_timer(self, time):
        self.timers.append(("processing", time))


@pytest.mark.parametrize(
    ("trigger", "end", "expected"),
    [
        pytest.param(EventTimeTrigger(), 11, [], id="event time, over"),
        pytest.param(EventTimeTrigger(), 12, [("event", 11)], id="event time, to come"),
        pytest.param(ProcessingTimeTrigger(), 11, [], id="clock, over"),
        pytest.param(ProcessingTimeTrigger(), 12, [("processing", 11)], id="clock, to come"),
        pytest.param(
            PurgingTrigger(EventTimeTrigger()), 12, [("event", 11)], id="purging, to come"
        ),
    ],
)
def test_a_merged_window_waits_for_its_end_if_that_is_still_to_come(trigger, end, expected):
    context = FakeContext()
    trigger.on_merge(TimeWindow(0, end), context)
    assert context.timers == expected


def test_a_trigger_that_cannot_merge_is_refused_for_sessions():
    with pytest.raises(InvalidProgramError, match="does not work with merging windows"):
        windows(EventTimeSessionWindows(10), NeverTrigger())


class Recorder(Trigger):
    """A user's trigger: fires on "fire", purges on "purge", and keeps a value in the given kind of state."""

    def __init__(self, descriptor=None):
        self.descriptor = descriptor
        self.calls = []

    def on_element(self, element, timestamp, window, ctx):
        if self.descriptor is not None:
            ctx.get_partitioned_state(self.descriptor).add(element[1])
        ctx.get_metric_group().counter("elements").inc()
        return {"fire": TriggerResult.FIRE, "purge": TriggerResult.PURGE}.get(
            element[1], TriggerResult.CONTINUE
        )

    def on_processing_time(self, time, window, ctx):
        self.calls.append(("processing", time, ctx.get_current_processing_time()))
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        self.calls.append(("event", time, ctx.get_current_watermark()))
        return TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.descriptor)
        state = ctx.get_partitioned_state(self.descriptor).get()
        self.calls.append(("merged", window, state if isinstance(state, int) else list(state)))

    def clear(self, window, ctx):
        self.calls.append(("clear", window))
        if self.descriptor is not None:
            ctx.get_partitioned_state(self.descriptor).clear()


def test_a_trigger_of_the_user_fires_and_purges():
    harness = windows(GlobalWindows(), Recorder())
    harness.process_elements([(("a", n), None) for n in (1, "fire", "purge", 2, "fire")])
    assert harness.values() == [[1, "fire"], [2, "fire"]]
    assert harness.metrics.counter("elements").get_count() == 5


class Total:
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, first, second):
        return first + second


class AggregatingDescriptor:
    name = "total"
    kind = "aggregating"
    ttl_config = None
    agg_function = Total()


@pytest.mark.parametrize(
    ("descriptor", "expected"),
    [
        pytest.param(InternalDescriptor("s", "list"), [1, 2], id="list"),
        pytest.param(InternalDescriptor("s", "reducing", lambda a, b: a + b), 3, id="reducing"),
        pytest.param(AggregatingDescriptor(), 3, id="aggregating"),
    ],
)
def test_merging_windows_merges_trigger_state(descriptor, expected):
    trigger = Recorder(descriptor)
    harness = windows(EventTimeSessionWindows(10), trigger)
    harness.process_elements([(("a", 1), 0), (("a", 2), 20), (("a", 4), 10)])
    assert trigger.calls[0] == ("merged", (0, 30), expected)
    assert trigger.calls[1:] == [("clear", (0, 10)), ("clear", (20, 30))]
    harness.process_watermark(MAX)
    assert harness.state_entries() == {}


def test_a_value_state_of_a_trigger_cannot_be_merged():
    class Bad(Recorder):
        def on_element(self, element, timestamp, window, ctx):
            return TriggerResult.CONTINUE

    harness = windows(EventTimeSessionWindows(10), Bad(InternalDescriptor("s", "value")))
    with pytest.raises(UnsupportedOperationError, match="value state 's' of a trigger"):
        harness.process_elements([(("a", 1), 0), (("a", 2), 5)])


def test_a_trigger_sees_both_clocks_and_its_deleted_timers_do_not_fire():
    class Timers(Recorder):
        def on_element(self, element, timestamp, window, ctx):
            for time in (3, 5):
                ctx.register_event_time_timer(time)
                ctx.register_processing_time_timer(time)
            ctx.delete_event_time_timer(3)
            ctx.delete_processing_time_timer(5)
            return TriggerResult.CONTINUE

    trigger = Timers()
    harness = windows(GlobalWindows(), trigger)
    harness.process_element(("a", 1), 0)
    harness.process_watermark(7)
    harness.set_processing_time(8)
    assert trigger.calls == [("event", 5, 7), ("processing", 3, 8)]
