"""Event-time operations without timestamps: what is refused when it is written, and what an error at run time names."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from penstock.cep import CEP, Pattern
from penstock.common import Duration, Row, Time, Types, WatermarkStrategy
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    StreamExecutionEnvironment,
)
from penstock.datastream.functions import (
    BroadcastProcessFunction,
    CoMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ProcessJoinFunction,
)
from penstock.datastream.state import MapStateDescriptor
from penstock.datastream.window import (
    CountTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from penstock.errors import InvalidProgramError
from penstock.graph.compiler import compile_program
from penstock.graph.operator_specs import OperatorSpec, OutputTimestamps, spec_kinds
from penstock.graph.transformations import OperatorTransformation
from penstock.table import DataTypes, Schema, StreamTableEnvironment
from penstock.table.expressions import col
from tests.builders.cases import check_all
from tests.builders.window_functions import Count
from tests.unit.datastream.conftest import QuietSource

TUMBLING = TumblingEventTimeWindows.of(Time.seconds(1))
PROCESSING = TumblingProcessingTimeWindows.of(Time.seconds(1))
NONE = WatermarkStrategy.no_watermarks()
ASSIGNING = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v)
STATE = MapStateDescriptor("rules", Types.INT(), Types.INT())
TAG = OutputTag("late", Types.INT())

Make = Callable[[StreamExecutionEnvironment], Any]


def key(value: Any) -> Any:
    return value


def first(one: Any, _: Any) -> Any:
    return one


class Passes(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Timers(Passes):
    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp


class MoreTimers(Timers):
    """Inherits `on_timer` of another function of the program."""


class CoPasses(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield value


class CoTimers(CoPasses):
    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp


class KeyedRules(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        yield value


class KeyedRulesWithTimers(KeyedRules):
    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp


class Rules(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Map(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


class Ask(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


class Joined(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left


class ByElement(WindowAssigner[Any, TimeWindow]):
    """Windows by a field of the element: records need no timestamps."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        return [TimeWindow(element, element + 1)]

    def get_default_trigger(self, env: Any) -> EventTimeTrigger:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class TumblingByElement(TumblingEventTimeWindows[Any]):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return super().assign_windows(element, element, context)


class MayCarry(QuietSource):
    carries_timestamps = True


def bare(env: StreamExecutionEnvironment, name: str = "bare") -> DataStream:
    return env.from_collection([1, 2]).map(key).name(name)


def timed(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1, 2]).assign_timestamps_and_watermarks(ASSIGNING).name("timed")


def keyed(stream: DataStream) -> Any:
    return stream.key_by(key)


def table(env: StreamExecutionEnvironment, *, rowtime: bool) -> DataStream:
    """Return a stream that was a table on its way."""
    tables = StreamTableEnvironment.create(env)
    schema = Schema.new_builder().column("x", DataTypes.BIGINT())
    if rowtime:
        schema.column_by_expression("t", "TO_TIMESTAMP_LTZ(x, 3)").watermark("t", "t")
    kind = Types.ROW_NAMED(["x"], [Types.LONG()])
    rows = tables.from_data_stream(env.from_collection([Row(1)], kind), schema.build())
    return tables.to_data_stream(rows.select(col("*")))


def with_itself(stream: DataStream) -> DataStream:
    return stream.union(stream.map(key))


# Streams whose records can have timestamps: an event-time window over them runs in Flink, too.
WITH: dict[str, Make] = {
    "assigned": timed,
    "a map after it": lambda e: timed(e).map(key),
    "a flat_map after it": lambda e: timed(e).flat_map(lambda v: [v]),
    "a process function after it": lambda e: keyed(timed(e)).process(Passes()),
    "a reduce after it": lambda e: keyed(timed(e)).reduce(first),
    "a side output": lambda e: keyed(timed(e)).process(Passes()).get_side_output(TAG),
    "a partitioning": lambda e: timed(e).rebalance(),
    "an asynchronous call": lambda e: AsyncDataStream.unordered_wait(
        timed(e), Ask(), Time.seconds(1)
    ),
    "a source with an assigner": lambda e: e.from_source(QuietSource(), ASSIGNING, "s"),
    "a source that may have them": lambda e: e.from_source(MayCarry(), NONE, "s"),
    "a processing-time window": lambda e: keyed(bare(e)).window(PROCESSING).reduce(first),
    "a processing-time window over all": lambda e: bare(e).window_all(PROCESSING).reduce(first),
    "a processing-time session": lambda e: (
        keyed(bare(e)).window(ProcessingTimeSessionWindows.with_gap(Time.seconds(1))).reduce(first)
    ),
    "a count window": lambda e: keyed(bare(e)).count_window(2).reduce(first),
    "a sliding count window": lambda e: keyed(bare(e)).count_window(2, 1).aggregate(Count()),
    "a count window over all": lambda e: bare(e).count_window_all(2).reduce(first),
    "a global window": lambda e: (
        keyed(bare(e)).window(GlobalWindows.create()).trigger(CountTrigger.of(2)).reduce(first)
    ),
    "late data of windows": lambda e: (
        keyed(timed(e))
        .window(TUMBLING)
        .side_output_late_data(TAG)
        .reduce(first)
        .get_side_output(TAG)
    ),
    "a co-group in processing time": lambda e: (
        bare(e).co_group(bare(e)).where(key).equal_to(key).window(PROCESSING).apply(first)
    ),
    "a join in processing time": lambda e: (
        bare(e).join(bare(e)).where(key).equal_to(key).window(PROCESSING).apply(first)
    ),
    "timers": lambda e: keyed(bare(e)).process(Timers()),
    "inherited timers": lambda e: keyed(bare(e)).process(MoreTimers()),
    "timers of two inputs": lambda e: bare(e).connect(bare(e)).key_by(key, key).process(CoTimers()),
    "timers beside a broadcast stream": lambda e: (
        keyed(bare(e)).connect(bare(e).broadcast(STATE)).process(KeyedRulesWithTimers())
    ),
    "the broadcast side": lambda e: bare(e).connect(timed(e).broadcast(STATE)).process(Rules()),
    "one of two connected streams": lambda e: bare(e).connect(timed(e)).map(Map()),
    "one of two inputs of a union": lambda e: timed(e).union(bare(e)),
    "one of many inputs": lambda e: bare(e).union(bare(e).union(timed(e), bare(e)).map(key)),
    "a union before a count window": lambda e: (
        keyed(bare(e).union(bare(e))).count_window(2).reduce(first)
    ),
    "a reduce in batch mode": lambda e: keyed(bare(e)).reduce(first),
    "a pattern": lambda e: CEP.pattern(timed(e), Pattern.begin("a")).select(key),
    "a sorted partition": lambda e: timed(e).full_window_partition().sort_partition(key),
    "a table with a rowtime": lambda e: table(e, rowtime=True),
    "a strategy without an assigner": lambda e: bare(e).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    ),
}

# Streams without any timestamp: each record would fail.
WITHOUT: dict[str, tuple[Make, str]] = {
    "a collection": (lambda e: e.from_collection([1]), "'Collection Source'"),
    "a map": (bare, "'Collection Source'"),
    "a source": (lambda e: e.from_source(QuietSource(), NONE, "quiet"), "'quiet'"),
    "a process function": (lambda e: keyed(bare(e)).process(Passes()), "'Collection Source'"),
    "two inputs": (
        lambda e: bare(e).connect(bare(e)).key_by(key, key).process(CoPasses()),
        "'Collection Source' and 'Collection Source'",
    ),
    "a broadcast stream": (
        lambda e: keyed(bare(e)).connect(bare(e).broadcast(STATE)).process(KeyedRules()),
        "'Collection Source' and 'Collection Source'",
    ),
    "a union": (
        lambda e: e.from_source(QuietSource(), NONE, "a").union(
            e.from_source(QuietSource(), NONE, "b")
        ),
        "'a' and 'b'",
    ),
    "one source, twice": (
        lambda e: with_itself(e.from_source(QuietSource(), NONE, "a")),
        "'a'",
    ),
    "a map over partitions": (
        lambda e: timed(e).full_window_partition().map_partition(key),
        "'MapPartition'",
    ),
    "a reduce over partitions": (
        lambda e: timed(e).full_window_partition().reduce(first),
        "'PartitionReduce'",
    ),
    "a pattern in processing time": (
        lambda e: CEP.pattern(timed(e), Pattern.begin("a")).in_processing_time().select(key),
        "'CepOperator'",
    ),
    "a table without a rowtime": (lambda e: table(e, rowtime=False), "'Collection Source'"),
}


def test_windows_are_taken_where_records_can_have_timestamps(env: Any) -> None:
    check_all(WITH, lambda make: keyed(make(env)).window(TUMBLING))


def test_windows_are_refused_where_no_record_has_a_timestamp(env: Any) -> None:
    def check(case: tuple[Make, str]) -> None:
        make, named = case
        stream = make(env)
        for use in (
            lambda: keyed(stream).window(TUMBLING),
            lambda: stream.window_all(SlidingEventTimeWindows.of(Time.hours(2), Time.hours(1))),
            lambda: stream.join(stream).where(key).equal_to(key).window(TUMBLING),
            lambda: keyed(stream).interval_join(keyed(stream)),
            lambda: CEP.pattern(stream, Pattern.begin("a")).select(key),
        ):
            with pytest.raises(InvalidProgramError, match="needs timestamps") as raised:
                use()
            assert raised.value.detail == f"records of {named} have no timestamps"
            assert "timestamp assigner" in str(raised.value.hint)

    check_all(WITHOUT, check)


def test_joins_are_taken_if_one_side_has_timestamps(env: Any) -> None:
    sides = (timed(env), bare(env))
    for left, right in (sides, sides[::-1]):
        left.join(right).where(key).equal_to(key).window(TUMBLING).apply(first)
        left.co_group(right).where(key).equal_to(key).window(TUMBLING).apply(first)
        keyed(left).interval_join(keyed(right)).between(0, 1).process(Joined())


def test_custom_assigners_are_not_checked_for_timestamps(env: Any) -> None:
    for assigner in (ByElement(), TumblingByElement(1000, 0)):
        keyed(bare(env)).window(assigner).reduce(first)


@pytest.mark.parametrize(
    "sessions",
    [
        EventTimeSessionWindows.with_gap(Time.seconds(1)),
        DynamicEventTimeSessionWindows(lambda _: 1),
    ],
    ids=["fixed gap", "dynamic gap"],
)
def test_sessions_without_timestamps_run_as_in_flink_and_are_mentioned(
    env: Any, caplog: pytest.LogCaptureFixture, sessions: Any
) -> None:
    with caplog.at_level(logging.WARNING):
        keyed(timed(env).union(bare(env))).window(sessions)
        assert caplog.messages == []
        keyed(bare(env)).window(sessions)
    (said,) = caplog.messages
    assert said == (
        f"records of 'Collection Source' have no timestamps: {type(sessions).__name__} puts all of them into one "
        "session per key"
    )


# What the error at run time names


def named(stream: DataStream) -> str | None:
    """Return the input descriptions of the last operator's tasks."""
    stream.print()
    env = stream.get_execution_environment()
    plans = compile_program(env._transformations, env._graph_settings(None))
    (node,) = (node for node in plans.stream_graph.nodes if node.name == "here")
    deployed = [each for vertex in plans.stage_plan.vertices for each in vertex.operators]
    assert [each.untimed_inputs for each in deployed if each.name == "here"] == [
        node.untimed_inputs
    ]
    return node.untimed_inputs


def windowed(stream: DataStream) -> DataStream:
    return keyed(stream).window(TUMBLING).reduce(first).name("here")


def quiet(env: StreamExecutionEnvironment, name: str) -> DataStream:
    return env.from_source(QuietSource(), NONE, name)


def renamed(env: StreamExecutionEnvironment) -> DataStream:
    source = quiet(env, "a")
    windows = windowed(timed(env).union(source))
    source.name("later")
    return windows


NAMED: dict[str, tuple[Make, str | None]] = {
    "nobody": (lambda e: windowed(timed(e)), None),
    "an input of a union": (
        lambda e: windowed(timed(e).union(quiet(e, "a").map(key))),
        "records of 'Source: a' have no timestamps",
    ),
    "many inputs": (
        lambda e: windowed(timed(e).union(*(quiet(e, each) for each in "abcdefg"))),
        "records of 'Source: a', 'Source: b', 'Source: c', 'Source: d', 'Source: e' and 2 more have no timestamps",
    ),
    "an operator that drops them": (
        lambda e: windowed(
            timed(e).union(timed(e).full_window_partition().map_partition(key).name("parts"))
        ),
        "records of 'parts' have no timestamps",
    ),
    "a side of a join": (
        lambda e: (
            timed(e)
            .join(quiet(e, "a"))
            .where(key)
            .equal_to(key)
            .window(TUMBLING)
            .apply(first)
            .name("here")
        ),
        "records of 'Source: a' have no timestamps",
    ),
    "a side of an interval join": (
        lambda e: (
            keyed(timed(e))
            .interval_join(keyed(quiet(e, "a")))
            .between(0, 1)
            .process(Joined())
            .name("here")
        ),
        "records of 'Source: a' have no timestamps",
    ),
    "events of a pattern": (
        lambda e: (
            CEP.pattern(timed(e).union(quiet(e, "a")), Pattern.begin("a")).select(key).name("here")
        ),
        "records of 'Source: a' have no timestamps",
    ),
    "the first of two stages": (
        lambda e: (
            keyed(timed(e).union(quiet(e, "a")))
            .window(TUMBLING)
            .reduce(first, local_global=True)
            .name("second")
            ._local.name("here")
        ),
        "records of 'Source: a' have no timestamps",
    ),
    "a source that may have them": (
        lambda e: windowed(timed(e).union(e.from_source(MayCarry(), NONE, "k"))),
        "records of 'Source: k' may have no timestamps",
    ),
    "timers": (
        lambda e: windowed(keyed(timed(e)).process(Timers()).name("timers")),
        "records of 'timers' may have no timestamps",
    ),
    "a source before timers": (
        lambda e: windowed(keyed(quiet(e, "a")).process(Timers()).name("timers")),
        "records of 'Source: a' have no timestamps",
    ),
    "a count window": (lambda e: windowed(keyed(bare(e)).count_window(2).reduce(first)), None),
    "a name that is given later": (
        renamed,
        "records of 'Source: later' have no timestamps",
    ),
}


def test_inputs_without_timestamps_are_named() -> None:
    def check(case: tuple[Make, str | None]) -> None:
        make, expected = case
        env = StreamExecutionEnvironment.get_execution_environment()
        assert named(make(env)) == expected

    check_all(NAMED, check)


def test_a_reduce_in_batch_mode_gives_timestamps_and_one_in_streaming_mode_does_not(
    env: Any,
) -> None:
    reduced = keyed(quiet(env, "a")).reduce(first).transformation
    assert isinstance(reduced, OperatorTransformation)
    assert reduced.spec.output_timestamps is OutputTimestamps.OF_INPUT
    assert reduced.spec.in_batch_mode().output_timestamps is OutputTimestamps.OWN


def test_a_long_program_is_looked_through_without_recursion(env: Any) -> None:
    stream = timed(env)
    for _ in range(1500):
        stream = stream.union(bare(env)).map(key)
    keyed(stream).window(TUMBLING)


def test_operations_that_need_timestamps_emit_timestamps() -> None:
    """Operators that need timestamps of records emit records with timestamps."""
    for kind in spec_kinds():
        if kind.needs_timestamps is not OperatorSpec.needs_timestamps:
            assert kind.output_timestamps is not OperatorSpec.output_timestamps, kind
