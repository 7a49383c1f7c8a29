"""Rules 13, 14, 16 and 18: connected streams, broadcast state, asynchronous calls, window joins."""

from __future__ import annotations

import asyncio

import pytest

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import MapStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import JobExecutionError, UnsupportedOperationError
from tests.builders.scripted import collect_sorted

RULES = MapStateDescriptor("rules", None, None)


@pytest.fixture(params=[1, 3], ids=["parallelism 1", "parallelism 3"])
def env(request):
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(request.param)
    return environment


def timed(env, events, bound=0):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound))
    strategy = strategy.with_timestamp_assigner(lambda event, _: event[1])
    return env.from_collection(events).assign_timestamps_and_watermarks(strategy)


class EvenAndNegative(CoMapFunction):
    def map1(self, value):
        return value if value % 2 == 0 else None

    def map2(self, value):
        return -value


def test_rule_13_connected_map_drops_none(env):
    streams = env.from_collection([1, 2, 3, 4]).connect(env.from_collection([5]))
    assert collect_sorted(streams.map(EvenAndNegative())) == [-5, 2, 4]


class Watermarks(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield "first", ctx.timer_service().current_watermark()

    def process_element2(self, value, ctx):
        yield "second", ctx.timer_service().current_watermark()


def test_rule_13_event_time_is_the_minimum_of_both_inputs(env):
    silent = env.from_collection([("x", 0)]).map(
        lambda event: event
    )  # it has no watermarks before its end
    first = timed(env, [("a", 100), ("b", 200)])
    found = collect_sorted(first.connect(silent).process(Watermarks()))
    assert {watermark for _, watermark in found} == {-(2**63)}


class ByRule(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        state = ctx.get_broadcast_state(RULES)
        with pytest.raises(UnsupportedOperationError, match="read-only"):
            state.put("own", "rule")  # the keyed side only reads
        yield value, state.get("factor")

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("factor", value)


def test_rule_14_broadcast_elements_reach_every_subtask_before_the_data_in_batch_mode(env):
    from penstock.datastream import RuntimeExecutionMode

    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    rules = env.from_collection([7]).broadcast(RULES)
    keyed = env.from_collection(list(range(20))).key_by(lambda number: number)
    assert collect_sorted(keyed.connect(rules).process(ByRule())) == [(n, 7) for n in range(20)]


class SlowestFirst(AsyncFunction):
    """The earlier a value, the longer its answer takes."""

    async def async_invoke(self, value):
        for _ in range(10 - value):
            await asyncio.sleep(0)
        return [value, -value]


class NoList(AsyncFunction):
    def __init__(self, answer):
        self.answer = answer

    async def async_invoke(self, value):
        return self.answer


class TooLate(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.get_running_loop().create_future()

    def timeout(self, value):
        return [f"no answer about {value}"]


def test_rule_16_ordered_keeps_the_order_of_the_input(env):
    env.set_parallelism(1)
    stream = env.from_collection([1, 2, 3])
    answers = AsyncDataStream.ordered_wait(stream, SlowestFirst(), Time.seconds(10))
    with answers.execute_and_collect() as found:
        assert list(found) == [1, -1, 2, -2, 3, -3]


def test_rule_16_unordered_gives_the_same_answers(env):
    answers = AsyncDataStream.unordered_wait(
        env.from_collection([1, 2, 3]), SlowestFirst(), Time.seconds(10)
    )
    assert collect_sorted(answers) == [-3, -2, -1, 1, 2, 3]


@pytest.mark.parametrize("answer", [None, 5, "text"], ids=repr)
def test_rule_16_an_answer_that_is_not_a_list_is_an_error(env, answer):
    answers = AsyncDataStream.ordered_wait(
        env.from_collection([1]), NoList(answer), Time.seconds(10)
    )
    with pytest.raises(JobExecutionError, match="should be of list type"):
        collect_sorted(answers)


def test_rule_16_timeout_gives_a_fallback(env):
    answers = AsyncDataStream.ordered_wait(
        env.from_collection([1]), TooLate(), Time.milliseconds(50)
    )
    assert collect_sorted(answers) == ["no answer about 1"]


def test_rule_18_a_window_join_pairs_within_key_and_window_only(env):
    left = timed(env, [("a", 1), ("a", 4), ("b", 2), ("a", 11)])
    right = timed(env, [("a", 3), ("b", 15), ("a", 12)])
    joined = left.join(right).where(lambda e: e[0]).equal_to(lambda e: e[0])
    windows = joined.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    assert collect_sorted(windows.apply(lambda x, y: (x, y))) == [
        (("a", 1), ("a", 3)),
        (("a", 4), ("a", 3)),
        (("a", 11), ("a", 12)),
    ]
