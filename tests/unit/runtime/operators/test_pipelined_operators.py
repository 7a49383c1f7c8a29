"""Operators in pipelined mode: a barrier may be a minute away, so nothing waits for it."""

from __future__ import annotations

import pickle

import pytest

from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator
from penstock.connectors.base.staged_sinks import CollectSink, PrintSink
from penstock.datastream import AggregateFunction, KeyedProcessFunction
from penstock.graph.operator_specs import (
    KeyedProcessSpec,
    LocalAggregateSpec,
    SinkSpec,
    TimestampsAndWatermarksSpec,
    WindowSpec,
)
from penstock.runtime.operators.connectors.sink import MOST_UNTAKEN
from penstock.testing import ManualClock, OperatorHarness
from penstock.windowing import (
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

MAX = 2**63 - 1
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
    lambda value, _: value
)
IDLE_100 = MONOTONOUS.with_idleness(Duration.of_millis(100))


class Flow:
    """An operator that is called when it wants to be, as the loop of a slot does, and never meets a barrier."""

    def __init__(self, spec, **options):
        self.clock = ManualClock(1_000_000)
        self.harness = OperatorHarness(spec, clock=self.clock, pipelined=True, **options)
        self.operator = self.harness.operator

    def wait(self, millis):
        end = self.clock.now + millis
        while (due := self.operator.next_wakeup()) is not None and due <= end:
            assert due >= self.clock.now, "it was due before"
            self.clock.set(due)
            self.operator.advance_processing_time(due)
        self.clock.set(end)


# assign_timestamps_and_watermarks


def test_rule_2_an_operator_emits_its_watermark_by_the_interval_without_any_record():
    flow = Flow(TimestampsAndWatermarksSpec(MONOTONOUS))
    flow.harness.process_element(10)
    flow.harness.process_element(20)
    assert flow.harness.watermarks() == []
    flow.wait(199)
    assert flow.harness.watermarks() == []
    flow.wait(1)
    assert flow.harness.watermarks() == [19]


def test_rule_2_a_generator_is_asked_once_in_each_interval():
    class Counts(WatermarkGenerator):
        def on_event(self, event, timestamp, output):
            pass

        def on_periodic_emit(self, output):
            asked.append(flow.clock.now)

    asked = []
    flow = Flow(TimestampsAndWatermarksSpec(WatermarkStrategy.for_generator(Counts)))
    for _ in range(10):
        flow.wait(100)
        flow.harness.process_element(1)
    assert asked == [1_000_200, 1_000_400, 1_000_600, 1_000_800, 1_001_000]


def test_an_input_turns_idle_by_the_clock_and_returns_with_a_record():
    flow = Flow(TimestampsAndWatermarksSpec(IDLE_100))
    flow.harness.process_element(10)
    flow.wait(99)
    assert flow.harness.statuses() == []
    flow.wait(1)
    assert flow.harness.statuses() == [True]
    assert flow.harness.watermarks() == [9]
    flow.harness.process_element(30)
    assert flow.harness.statuses() == [True, False]


def test_a_clock_that_is_set_back_stops_no_watermarks():
    flow = Flow(TimestampsAndWatermarksSpec(IDLE_100))
    flow.harness.process_element(10)
    flow.clock.now -= 3_600_000
    flow.operator.advance_processing_time(flow.clock.now)
    flow.wait(200)
    assert flow.harness.watermarks() == [9]
    assert flow.harness.statuses() == [True]


def test_after_the_end_nothing_is_due():
    flow = Flow(TimestampsAndWatermarksSpec(IDLE_100))
    flow.harness.process_watermark(MAX)
    assert flow.operator.next_wakeup() is None
    flow.wait(1000)
    assert flow.harness.watermarks() == [MAX]


# The first of two stages


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


def local():
    window = WindowSpec(
        assigner=TumblingEventTimeWindows.of(Duration.of_millis(100)),
        trigger=None,
        aggregate_function=Sum(),
    )
    return Flow(LocalAggregateSpec(window, lambda value: value % 2))


def test_accumulators_do_not_wait_for_the_barrier_when_there_is_nothing_to_read():
    flow = local()
    flow.harness.process_elements([(1, 10), (3, 20), (2, 30)])
    assert flow.harness.values() == []
    flow.operator.on_quiet()
    assert flow.harness.values() == [(1, 0, 4), (0, 0, 2)]
    flow.operator.on_quiet()
    assert len(flow.harness.values()) == 2


def test_accumulators_go_before_the_watermark_however_busy_the_slot_is():
    flow = local()
    flow.harness.process_elements([(1, 10)])
    flow.harness.process_watermark(99)
    assert flow.harness.values() == [(1, 0, 1)]


# Timers and windows of processing time


class Alarm(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(
            ctx.timer_service().current_processing_time() + value
        )

    def on_timer(self, timestamp, ctx):
        yield timestamp


def test_a_timer_fires_at_its_time_without_any_record():
    flow = Flow(KeyedProcessSpec(Alarm()), key_selector=lambda value: value)
    flow.harness.process_element(50)
    flow.harness.process_element(7)
    assert flow.operator.next_wakeup() == 1_000_007
    flow.wait(7)
    assert flow.harness.values() == [1_000_007]
    flow.wait(43)
    assert flow.harness.values() == [1_000_007, 1_000_050]
    assert flow.operator.next_wakeup() is None


@pytest.mark.parametrize(
    ("assigner", "due"),
    [
        (TumblingProcessingTimeWindows.of(Duration.of_millis(100)), 1_000_099),
        (ProcessingTimeSessionWindows.with_gap(Duration.of_millis(30)), 1_000_029),
    ],
    ids=["tumbling", "session"],
)
def test_a_window_of_processing_time_fires_when_its_time_is_over(assigner, due):
    spec = WindowSpec(
        assigner=assigner, trigger=ProcessingTimeTrigger.create(), aggregate_function=Sum()
    )
    flow = Flow(spec, key_selector=lambda _: "k")
    flow.harness.process_elements([(1, None), (2, None)])
    assert flow.operator.next_wakeup() == due
    flow.wait(due - flow.clock.now)
    assert flow.harness.values() == [3]


# Sinks whose output goes to the driver


def sink_flow(sink, checkpointed):
    flow = Flow(
        SinkSpec(sink), job_id="job", staging="/staging", attempt="a", checkpointed=checkpointed
    )
    return flow, flow.harness.context.slot.sent


@pytest.mark.parametrize("checkpointed", [True, False])
def test_print_output_is_sent_immediately(checkpointed):
    flow, reported = sink_flow(PrintSink(), checkpointed)
    flow.harness.process_element("a")
    assert reported == [b"a\n"]
    assert flow.operator.barrier() == []


def test_collected_records_wait_for_checkpoints_if_there_are_any():
    flow, reported = sink_flow(CollectSink(), checkpointed=True)
    flow.harness.process_element("a")
    assert reported == []
    assert len(flow.operator.barrier()) == 1
    flow, reported = sink_flow(CollectSink(), checkpointed=False)
    flow.harness.process_element("a")
    assert list(map(pickle.loads, reported)) == [["a"]]
    assert flow.operator.barrier() == []


def test_a_driver_that_does_not_keep_up_closes_the_input():
    flow, reported = sink_flow(PrintSink(), checkpointed=True)
    while flow.operator.has_room:
        flow.harness.process_element("x" * 100_000)
    assert MOST_UNTAKEN <= sum(map(len, reported)) < MOST_UNTAKEN + 200_000
    flow.operator.on_taken(len(reported[0]))
    assert flow.operator.has_room
