"""ProcessFunction and KeyedProcessFunction."""

from __future__ import annotations

import pytest

from penstock.datastream import KeyedProcessFunction, OutputTag, ProcessFunction
from penstock.errors import UnsupportedOperationError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import KeyedProcessSpec, ProcessSpec
from penstock.runtime.records import RowBatch
from penstock.state_descriptors.descriptors import ValueStateDescriptor
from penstock.testing import ManualClock, OperatorHarness
from penstock.time.time_domain import TimeDomain

MIN, MAX = -(2**63), 2**63 - 1
SIDE = OutputTag("side")


class Show(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()
        yield SIDE, ctx.timer_service().current_processing_time()


def test_a_process_function_sees_timestamp_watermark_and_clock():
    harness = OperatorHarness(ProcessSpec(Show()), clock=ManualClock(77))
    harness.process_element("a", 5)
    harness.process_watermark(10)
    harness.process_element("b")
    assert harness.output() == [(("a", 5, MIN), 5), (("b", None, 10), None)]
    assert harness.side_output(SIDE) == [(77, 5), (77, None)]
    assert harness.watermarks() == [10]


class Returns(ProcessFunction):
    def process_element(self, value, ctx):
        return {"none": None, "list": [1, 2], "generator": (n for n in (3, 4))}[value]


def test_rule_12_process_may_return_a_generator_a_list_or_none():
    harness = OperatorHarness(ProcessSpec(Returns()))
    harness.process_elements([("none", 1), ("list", 2), ("generator", 3)])
    assert harness.output() == [(1, 2), (2, 2), (3, 3), (4, 3)]


class SetsTimer(ProcessFunction):
    def __init__(self, method):
        self.method = method

    def process_element(self, value, ctx):
        getattr(ctx.timer_service(), self.method)(5)


@pytest.mark.parametrize(
    "method",
    [
        "register_event_time_timer",
        "register_processing_time_timer",
        "delete_event_time_timer",
        "delete_processing_time_timer",
    ],
)
def test_timers_need_a_keyed_stream(method):
    harness = OperatorHarness(ProcessSpec(SetsTimer(method)), name="p")
    with pytest.raises(UserCodeError, match="timers need a keyed stream") as caught:
        harness.process_element(1)
    assert isinstance(caught.value.__cause__, UnsupportedOperationError)
    assert caught.value.detail == "in operator 'p', subtask 1 of 1, record 1"


def test_the_watermark_of_a_process_function_survives_a_restore():
    harness = OperatorHarness(ProcessSpec(Show()))
    harness.process_watermark(10)
    restored = OperatorHarness(ProcessSpec(Show()), snapshots=[harness.snapshot()])
    restored.process_element("a", 11)
    assert restored.values() == [("a", 11, 10)]


def test_many_results_are_emitted_in_several_batches_in_order():
    class Many(ProcessFunction):
        def process_element(self, value, ctx):
            return [value] * 1000

    harness = OperatorHarness(ProcessSpec(Many()))
    harness.process_elements([(n, None) for n in range(10)])
    assert harness.values() == [n for n in range(10) for _ in range(1000)]
    assert max(harness.batch_sizes()) <= 5096
    assert len(harness.batch_sizes()) > 1


@pytest.mark.parametrize("spec", [ProcessSpec, KeyedProcessSpec])
def test_an_error_of_a_later_operator_is_not_taken_for_one_of_this_function(spec):
    class Many:
        def process_element(self, value, ctx):
            return [value] * 5000

    harness = OperatorHarness(spec(Many()), key_selector=lambda value: value)
    later = UserCodeError("KeyError: 'x'", detail="in operator 'map', subtask 1 of 1")

    def emit(batch):
        raise later

    harness._output.emit = emit
    with pytest.raises(UserCodeError) as caught:
        harness.process_element(1)
    assert caught.value is later


class Timed(KeyedProcessFunction):
    """Sets a timer at each value, in both clocks if configured so, and reports its context."""

    def __init__(self, offset=0, processing=False):
        self.offset = offset
        self.processing = processing

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", None))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        timers = ctx.timer_service()
        if self.processing:
            timers.register_processing_time_timer(value[1] + self.offset)
        else:
            timers.register_event_time_timer(value[1] + self.offset)

    def on_timer(self, timestamp, ctx):
        yield (
            ctx.get_current_key(),
            timestamp,
            ctx.timestamp(),
            ctx.time_domain(),
            self.count.value(),
        )
        yield SIDE, timestamp


def by_name(value):
    return value[0]


def test_rule_5_event_time_timers_fire_at_the_watermark_with_their_key_and_timestamp():
    harness = OperatorHarness(KeyedProcessSpec(Timed()), key_selector=by_name)
    harness.process_elements([(("a", 10), 1), (("b", 5), 2), (("a", 10), 3)])
    harness.process_watermark(4)
    assert harness.output() == []
    harness.process_watermark(10)
    event = TimeDomain.EVENT_TIME
    assert harness.output() == [(("b", 5, 5, event, 1), 5), (("a", 10, 10, event, 2), 10)]
    assert harness.side_output(SIDE) == [(5, 5), (10, 10)]
    assert harness.watermarks() == [4, 10]


def test_processing_time_timers_follow_the_clock_and_their_results_have_no_timestamp():
    harness = OperatorHarness(KeyedProcessSpec(Timed(processing=True)), key_selector=by_name)
    harness.process_element(("a", 10), 1)
    assert harness.operator.next_wakeup() == 10
    harness.process_watermark(MAX)
    assert harness.output() == []  # rule 4: pending at the end of input
    harness.set_processing_time(10)
    assert harness.output() == [(("a", 10, 10, TimeDomain.PROCESSING_TIME, 1), None)]
    assert harness.operator.next_wakeup() is None


def test_timer_results_come_before_the_watermark():
    events = []
    harness = OperatorHarness(KeyedProcessSpec(Timed()), key_selector=by_name)
    harness._output.emit = lambda batch: events.append(len(batch))
    harness._output.emit_watermark = events.append
    harness.process_element(("a", 10))
    harness.process_watermark(10)
    assert events == [1, 10]


def test_rule_5_timers_and_state_survive_a_restore_and_go_with_their_key():
    harness = OperatorHarness(KeyedProcessSpec(Timed()), key_selector=by_name)
    names = [f"k{n}" for n in range(20)]
    harness.process_elements([((name, 10), 1) for name in names])
    snapshot = harness.snapshot()
    fired = []
    for subtask in range(3):
        part = OperatorHarness.restore(
            KeyedProcessSpec(Timed()), [snapshot], subtask, 3, key_selector=by_name
        )
        part.process_watermark(10)
        fired += [value[0] for value in part.values()]
        assert part.values()
    assert sorted(fired) == sorted(names)


class Chain(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp, ctx):
        if timestamp < 4:
            ctx.timer_service().register_event_time_timer(timestamp + 1)
        return [timestamp]


def test_a_timer_may_set_the_next_one():
    harness = OperatorHarness(KeyedProcessSpec(Chain()), key_selector=lambda value: value)
    harness.process_element("a")
    harness.process_watermark(3)
    assert harness.output() == [(1, 1), (2, 2), (3, 3)]
    harness.process_watermark(MAX)
    assert harness.values() == [1, 2, 3, 4]


class Fails(KeyedProcessFunction):
    def process_element(self, value, ctx):
        if value == 2:
            raise ValueError("two")
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp, ctx):
        yield 1
        raise ValueError("timer")


def test_rule_21_errors_name_the_record_or_the_timer():
    harness = OperatorHarness(KeyedProcessSpec(Fails()), key_selector=lambda value: value, name="f")
    with pytest.raises(UserCodeError, match="ValueError: two") as caught:
        harness.process_batch(RowBatch([1, 2, 3], [1, 2, 3]))
    assert caught.value.detail == "in operator 'f', subtask 1 of 1, record 2"
    with pytest.raises(UserCodeError, match="ValueError: timer") as caught:
        harness.process_watermark(5)
    assert caught.value.detail == "in operator 'f', subtask 1 of 1, timer 5 of key 1"
