"""Which timestamps results have, and what an event-time operation does with records that have none.

The expected timestamps are those that Flink 2.3.0 gave for the same programs, asked for with `ctx.timestamp()`. Only windows at the end of time
differ: Flink's end there is negative, because it overflows.
"""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cep import CEP, Pattern
from penstock.common import Time, WatermarkStrategy
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    DataStream,
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream.functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import MapStateDescriptor
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from penstock.errors import JobExecutionError
from tests.builders.cases import check_all

MIN, MAX = -(2**63), 2**63 - 1
DATA = [("a", n) for n in range(1, 6)]
TEN_SECONDS = TumblingEventTimeWindows.of(Time.seconds(10))
# Fires at each element, so that no test waits for the clock.
NOW = TumblingProcessingTimeWindows.of(Time.hours(1))
HOUR = 3_600_000
STATE = MapStateDescriptor("rules")


class Stamp(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, ctx.timestamp()


def environment() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    return env


def bare(env: StreamExecutionEnvironment, data: list[Any] = DATA) -> DataStream:
    return env.from_collection(data).map(lambda v: v).name("bare")


def timed(env: StreamExecutionEnvironment, data: list[Any] = DATA) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    seconds = strategy.with_timestamp_assigner(lambda value, _: value[1] * 1000)
    return env.from_collection(data).assign_timestamps_and_watermarks(seconds)


def key(value: Any) -> Any:
    return value[0]


def keyed(stream: DataStream) -> Any:
    return stream.key_by(key)


def add(one: Any, other: Any) -> Any:
    return one[0], one[1] + other[1]


def stamps(stream: DataStream) -> list[int | None]:
    return [timestamp for _, timestamp in stream.process(Stamp()).execute_and_collect()]


class Show(ProcessWindowFunction):
    """Emits the key, the window and the number of its elements."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        window = context.window()
        yield key, (window.start, window.end), len(list(elements))


class Timers(KeyedProcessFunction):
    """Sets a timer of event time for each record, and emits at timers only."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value[1] * 1000 + 5)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "t", 1


class CoTimers(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value[1] * 1000 + 5)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "t", 1


class KeyedRules(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value[1] * 1000 + 5)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "t", 1


class Rules(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Joined(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left[1], right[1]


class Ask(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


class ByElement(WindowAssigner[Any, TimeWindow]):
    """Windows of two seconds by a field of the element."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        start = element[1] * 1000 // 2000 * 2000
        return [TimeWindow(start, start + 2000)]

    def get_default_trigger(self, env: Any) -> EventTimeTrigger:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


def two(match: Any) -> Any:
    return match["y"][0]


PAIR = Pattern.begin("x").where(lambda value: value[1] % 2 == 1).next("y")


def test_the_timestamps_of_results_are_flinks() -> None:
    every = PurgingTrigger.of(CountTrigger.of(2))
    seconds = [1000, 2000, 3000, 4000, 5000]
    timers = [1005, 2005, 3005, 4005, 5005]

    def in_batch(env: StreamExecutionEnvironment) -> StreamExecutionEnvironment:
        return env.set_runtime_mode(RuntimeExecutionMode.BATCH)

    cases: dict[str, tuple[Any, list[int | None]]] = {
        "a collection": (bare, [None] * 5),
        "assigned timestamps": (timed, seconds),
        "a reduce": (lambda e: keyed(timed(e)).reduce(add), seconds),
        "a reduce in batch mode": (lambda e: keyed(bare(in_batch(e))).reduce(add), [MAX]),
        "a count window": (lambda e: keyed(bare(e)).count_window(2).reduce(add), [MAX, MAX]),
        "a count window over timestamps": (
            lambda e: keyed(timed(e)).count_window(2).reduce(add),
            [MAX, MAX],
        ),
        "a count window over all": (lambda e: bare(e).count_window_all(2).reduce(add), [MAX, MAX]),
        "a global window": (
            lambda e: keyed(bare(e)).window(GlobalWindows.create()).trigger(every).reduce(add),
            [MAX, MAX],
        ),
        "a time window that counts": (
            lambda e: keyed(timed(e)).window(TEN_SECONDS).trigger(CountTrigger.of(2)).reduce(add),
            [9999, 9999],
        ),
        "a time window that fires early": (
            lambda e: (
                keyed(timed(e))
                .window(TEN_SECONDS)
                .trigger(ContinuousEventTimeTrigger.of(Time.seconds(6)))
                .reduce(add)
            ),
            [9999, 9999],
        ),
        "an assigner of the program": (
            lambda e: keyed(bare(e)).window(ByElement()).reduce(add),
            [1999, 3999, 5999],
        ),
        "a session without timestamps": (
            lambda e: (
                keyed(bare(e)).window(EventTimeSessionWindows.with_gap(Time.seconds(1))).reduce(add)
            ),
            [MIN + 999],
        ),
        "timers": (lambda e: keyed(bare(e)).process(Timers()), timers),
        "timers of two inputs": (
            lambda e: bare(e).connect(bare(e, [])).key_by(key, key).process(CoTimers()),
            timers,
        ),
        "timers beside a broadcast stream": (
            lambda e: (
                keyed(bare(e))
                .connect(timed(e, [("x", 100)]).broadcast(STATE))
                .process(KeyedRules())
            ),
            [*timers, 100_000],
        ),
        "a broadcast stream": (
            lambda e: bare(e, []).connect(timed(e, [("x", 100)]).broadcast(STATE)).process(Rules()),
            [100_000],
        ),
        "a window join": (
            lambda e: (
                timed(e, DATA[:2])
                .join(timed(e, DATA[:1]))
                .where(key)
                .equal_to(key)
                .window(TEN_SECONDS)
                .apply(add)
            ),
            [9999, 9999],
        ),
        "an interval join": (
            lambda e: (
                keyed(timed(e, DATA[:2]))
                .interval_join(keyed(timed(e, DATA[:2])))
                .between(Time.seconds(-1), Time.seconds(0))
                .process(Joined())
            ),
            [1000, 2000, 2000],
        ),
        "a map over partitions": (
            lambda e: timed(e).full_window_partition().map_partition(lambda values: values),
            [None] * 5,
        ),
        "a reduce over partitions": (
            lambda e: timed(e).full_window_partition().reduce(add),
            [None],
        ),
        "a pattern": (lambda e: CEP.pattern(keyed(timed(e)), PAIR).select(two), [2000, 4000]),
        "a pattern in processing time": (
            lambda e: CEP.pattern(keyed(timed(e)), PAIR).in_processing_time().select(two),
            [None, None],
        ),
        "asynchronous calls": (
            lambda e: AsyncDataStream.ordered_wait(timed(e), Ask(), Time.seconds(100)),
            seconds,
        ),
    }

    def check(case: tuple[Any, list[int | None]]) -> None:
        make, expected = case
        assert sorted(stamps(make(environment())), key=str) == sorted(expected, key=str)

    check_all(cases, check)


def test_a_co_group_and_a_window_of_processing_time_end_with_the_window() -> None:
    env = environment()
    windows = keyed(bare(env)).window(NOW).trigger(CountTrigger.of(1)).reduce(add)
    group = bare(env).co_group(bare(env, [])).where(key).equal_to(key).window(NOW)
    groups = group.trigger(CountTrigger.of(1)).apply(lambda one, other: [("g", 1)])
    found = stamps(windows.union(groups))
    assert len(found) == 10
    assert {time % HOUR for time in found if time is not None} == {HOUR - 1}


@pytest.mark.parametrize("united", [False, True], ids=["alone", "united with timestamps"])
def test_event_time_windows_over_windows_of_processing_time(united: bool) -> None:
    env = environment()
    windows = keyed(bare(env)).window(NOW).trigger(PurgingTrigger.of(CountTrigger.of(1)))
    results = windows.reduce(add)
    if united:
        results = results.union(timed(env))
    again = keyed(results).window(TumblingEventTimeWindows.of(Time.days(1))).reduce(add)
    assert sum(total for _, total in again.execute_and_collect()) == 15 * (2 if united else 1)


@pytest.mark.parametrize(
    ("windows", "function"),
    [
        (lambda stream: stream.window(TEN_SECONDS), Show()),
        (lambda stream: stream.window(TEN_SECONDS).allowed_lateness(5), Show()),
    ],
    ids=["panes", "timers"],
)
def test_an_event_time_window_over_count_windows_lasts_to_the_end_of_time(
    windows: Any, function: Any
) -> None:
    env = environment()
    counted = keyed(bare(env)).count_window(2).reduce(add)
    start = MAX - MAX % 10_000
    found = list(windows(keyed(counted)).process(function).process(Stamp()).execute_and_collect())
    assert found == [(("a", (start, MAX), 2), MAX)]


def test_other_windows_over_count_windows_last_to_the_end_of_time() -> None:
    cases = {
        "sliding": SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5)),
        "sessions": EventTimeSessionWindows.with_gap(Time.seconds(1)),
    }

    def check(assigner: Any) -> None:
        env = environment()
        counted = keyed(bare(env)).count_window(2).reduce(add)
        stream = keyed(counted).window(assigner).reduce(add)
        found = list(stream.process(Stamp()).execute_and_collect())
        expected = 2 if isinstance(assigner, SlidingEventTimeWindows) else 1
        assert found == [(("a", 10), MAX)] * expected

    check_all(cases, check)


def test_two_stages_over_count_windows_last_to_the_end_of_time() -> None:
    env = environment()
    counted = keyed(bare(env)).count_window(2).reduce(add)
    stream = keyed(counted).window(TEN_SECONDS).reduce(add, local_global=True)
    assert list(stream.process(Stamp()).execute_and_collect()) == [(("a", 10), MAX)]


def test_event_time_windows_over_timers_and_over_a_reduce_in_batch_mode() -> None:
    two_seconds = TumblingEventTimeWindows.of(Time.seconds(2))
    over_timers = keyed(keyed(bare(environment())).process(Timers())).window(two_seconds)
    assert stamps(over_timers.reduce(add)) == [1999, 3999, 5999]
    batch = environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert stamps(keyed(keyed(bare(batch)).reduce(add)).window(two_seconds).reduce(add)) == [MAX]


# Records without timestamps


def test_an_input_without_timestamps_and_records_is_not_a_mistake() -> None:
    env = environment()
    nothing = bare(env).filter(lambda _: False)
    assert stamps(keyed(timed(env).union(nothing)).window(TEN_SECONDS).reduce(add)) == [9999]


def test_the_first_record_without_a_timestamp_fails_the_job_and_names_its_input() -> None:
    def pattern(stream: DataStream) -> DataStream:
        return CEP.pattern(keyed(stream), PAIR).select(two)

    def interval_join(stream: DataStream) -> DataStream:
        other = keyed(timed(stream.get_execution_environment()))
        joined = keyed(stream).interval_join(other).between(Time.seconds(-1), Time.seconds(0))
        return joined.process(Joined())

    def join(stream: DataStream) -> DataStream:
        other = timed(stream.get_execution_environment())
        return other.join(stream).where(key).equal_to(key).window(TEN_SECONDS).apply(add)

    cases: dict[str, tuple[Any, str]] = {
        "panes": (lambda s: keyed(s).window(TEN_SECONDS).reduce(add), "an event-time window"),
        "timers": (
            lambda s: keyed(s).window(TEN_SECONDS).trigger(CountTrigger.of(2)).reduce(add),
            "an event-time window",
        ),
        "over all": (lambda s: s.window_all(TEN_SECONDS).reduce(add), "an event-time window"),
        "two stages": (
            lambda s: keyed(s).window(TEN_SECONDS).reduce(add, local_global=True),
            "an event-time window",
        ),
        "a join": (join, "an event-time window"),
        "an interval join": (interval_join, "an interval join"),
        "a pattern": (pattern, "a pattern in event time"),
    }

    def check(case: tuple[Any, str]) -> None:
        make, what = case
        env = environment()
        bad = env.from_collection([("b", 7)]).map(lambda v: v).rebalance()
        with pytest.raises(JobExecutionError) as failed:
            stamps(make(timed(env).union(bad)))
        said = str(failed.value)
        assert f"a record without a timestamp reached {what}" in said
        assert "records of 'Source: Collection Source' have no timestamps" in said
        assert "record ('b', 7)" in said
        assert "call assign_timestamps_and_watermarks(...) on that stream" in said

    check_all(cases, check)


def test_a_timestamp_assigner_that_passes_on_what_is_not_there_gives_no_timestamp() -> None:
    env = environment()
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda _, before: before)
    stream = bare(env).assign_timestamps_and_watermarks(strategy)
    with pytest.raises(JobExecutionError, match="a record without a timestamp reached"):
        stamps(keyed(stream).window(TEN_SECONDS).reduce(add))
