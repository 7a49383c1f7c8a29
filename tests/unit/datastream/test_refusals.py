"""Wrong use is refused where it is written, with a message that says what is wrong and a hint what to do."""

from __future__ import annotations

import threading

import pytest

from penstock.common import Configuration, Duration, Time, Types, WatermarkStrategy
from penstock.datastream import (
    FilterFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.functions import AllWindowFunction, ProcessWindowFunction, WindowFunction
from penstock.datastream.state_backend import StateBackend
from penstock.datastream.window import (
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.errors import PenstockError
from tests.builders.cases import by_name, check_all
from tests.builders.window_functions import Count
from tests.unit.datastream.conftest import PathSink, QuietSource

TUMBLING = TumblingProcessingTimeWindows.of(Time.seconds(1))


class Map(MapFunction):
    def map(self, value):
        return value


class Filter(FilterFunction):
    def filter(self, value):
        return True


class Process(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class KeyedProcess(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Window(WindowFunction):
    def apply(self, key, window, inputs):
        return inputs


class AllWindow(AllWindowFunction):
    def apply(self, window, inputs):
        return inputs


class ProcessWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        return elements


def key(value):
    return value


def keyed(s):
    return s.key_by(key)


REFUSED = [
    # functions
    ("a map of a number", lambda s: s.map(3), TypeError, "MapFunction or a callable is required, got 3 of type int", "lambda that takes"),
    ("a map of None", lambda s: s.map(None), TypeError, "got None", "(value)"),
    ("a function class", lambda s: s.map(Map), TypeError, "got the class Map", "Map()"),
    ("a function of another kind", lambda s: s.map(Filter()), TypeError, "got an object of Filter", "derive Filter from MapFunction"),
    ("too many parameters", lambda s: s.map(lambda a, b: a), TypeError, "cannot be called as MapFunction", "(value)"),
    ("too few parameters", lambda s: keyed(s).reduce(lambda a: a), TypeError, "cannot be called as ReduceFunction", "(value1, value2)"),
    ("a filter of text", lambda s: s.filter("x"), TypeError, "FilterFunction", "lambda"),
    ("a flat map of a list", lambda s: s.flat_map([1]), TypeError, "FlatMapFunction", "lambda"),
    ("a reduce of a number", lambda s: keyed(s).reduce(1), TypeError, "ReduceFunction", "lambda"),
    ("a plain function to process", lambda s: s.process(key), TypeError, "ProcessFunction is required", "map() or flat_map()"),
    ("a process class", lambda s: s.process(Process), TypeError, "got the class Process", "Process()"),
    ("a keyed process without keys", lambda s: s.process(KeyedProcess()), TypeError, "needs a keyed stream", "key_by"),
    ("a process with keys", lambda s: keyed(s).process(Process()), TypeError, "KeyedProcessFunction is required", "derive Process from"),
    ("a plain function to keyed process", lambda s: keyed(s).process(key), TypeError, "KeyedProcessFunction is required", "derive"),
    ("a type that is none", lambda s: s.map(key, str), TypeError, "output_type is not a type", "Types.STRING()"),
    ("a type that is not called", lambda s: s.map(key, Types.INT), TypeError, "output_type is not a type", "Types.INT()"),
    # keys and partitions
    ("a key by name", lambda s: s.key_by("id"), TypeError, "KeySelector or a callable", "lambda value: value['id']"),
    ("a key by index", lambda s: s.key_by(0), TypeError, "KeySelector or a callable", "lambda value: value[0]"),
    ("a partitioner that is none", lambda s: s.partition_custom(1, key), TypeError, "Partitioner", "key, num_partitions"),
    ("a sum of a list", lambda s: keyed(s).sum([0]), TypeError, "position_to_sum must be an int or a str", "field 0"),
    ("a negative field", lambda s: keyed(s).min(-1), ValueError, "position_to_min must not be negative", None),
    ("a field without name", lambda s: keyed(s).max_by(""), ValueError, "position_to_max_by must not be empty", None),
    ("rebalance after key_by", lambda s: keyed(s).rebalance(), RuntimeError, "rebalance() cannot override the partitioning", "before key_by"),
    ("shuffle after key_by", lambda s: keyed(s).shuffle(), RuntimeError, "shuffle() cannot override", "before key_by"),
    ("rescale after key_by", lambda s: keyed(s).rescale(), RuntimeError, "rescale() cannot override", "before key_by"),
    ("forward after key_by", lambda s: keyed(s).forward(), RuntimeError, "forward() cannot override", "before key_by"),
    ("global after key_by", lambda s: keyed(s).global_(), RuntimeError, "global_() cannot override", "before key_by"),
    ("broadcast after key_by", lambda s: keyed(s).broadcast(), RuntimeError, "broadcast() cannot override", "before key_by"),
    ("custom after key_by", lambda s: keyed(s).partition_custom(max, key), RuntimeError, "partition_custom() cannot override", "before key_by"),
    ("broadcast state", lambda s: s.broadcast(object()), TypeError, "a broadcast state descriptor must be a MapStateDescriptor", "MapStateDescriptor("),
    # settings
    ("the name of a keyed stream", lambda s: keyed(s).name("x"), RuntimeError, "a name is not supported for a keyed stream", "before or after key_by"),
    ("the name of it", lambda s: keyed(s).get_name(), RuntimeError, "a name is not supported", "key_by"),
    ("the uid of a keyed stream", lambda s: keyed(s).uid("x"), RuntimeError, "a uid is not supported", "key_by"),
    ("the uid hash of a keyed stream", lambda s: keyed(s).set_uid_hash("0" * 32), RuntimeError, "a uid hash is not supported", "key_by"),
    ("the parallelism of a keyed stream", lambda s: keyed(s).set_parallelism(2), RuntimeError, "a parallelism is not supported", "key_by"),
    ("the max parallelism of it", lambda s: keyed(s).set_max_parallelism(2), RuntimeError, "a max parallelism is not supported", "key_by"),
    ("one subtask for a keyed stream", lambda s: keyed(s).force_non_parallel(), RuntimeError, "a parallelism is not supported", "key_by"),
    ("the buffers of a keyed stream", lambda s: keyed(s).set_buffer_timeout(1), RuntimeError, "a buffer timeout is not supported", "key_by"),
    ("the text of a keyed stream", lambda s: keyed(s).set_description("x"), RuntimeError, "a description is not supported", "key_by"),
    ("the chain of a keyed stream", lambda s: keyed(s).start_new_chain(), RuntimeError, "chaining is not supported", "key_by"),
    ("no chain for a keyed stream", lambda s: keyed(s).disable_chaining(), RuntimeError, "chaining is not supported", "key_by"),
    ("the slot of a keyed stream", lambda s: keyed(s).slot_sharing_group("x"), RuntimeError, "a slot sharing group is not supported", "key_by"),
    ("parallelism zero", lambda s: s.map(key).set_parallelism(0), ValueError, "parallelism must be at least 1, got 0", "leave it unset"),
    ("parallelism below zero", lambda s: s.map(key).set_parallelism(-1), ValueError, "parallelism must be at least 1", "leave it unset"),
    ("parallelism as text", lambda s: s.map(key).set_parallelism("2"), TypeError, "parallelism must be an int, got '2' of type str", None),
    ("parallelism as bool", lambda s: s.map(key).set_parallelism(True), TypeError, "parallelism must be an int", None),
    ("parallelism beyond all", lambda s: s.map(key).set_parallelism(40_000), ValueError, "at most 32768", None),
    ("max parallelism zero", lambda s: s.map(key).set_max_parallelism(0), ValueError, "between 1 and 32768, got 0", None),
    ("max parallelism beyond all", lambda s: s.map(key).set_max_parallelism(32_769), ValueError, "between 1 and 32768", None),
    ("max parallelism as float", lambda s: s.map(key).set_max_parallelism(2.0), TypeError, "max parallelism must be an int", None),
    ("max below parallelism", lambda s: s.map(key).set_parallelism(4).set_max_parallelism(2), ValueError, "max parallelism 2 is less than parallelism 4", "key groups"),
    ("parallelism above max", lambda s: s.map(key).set_max_parallelism(2).set_parallelism(4), ValueError, "parallelism 4 is greater than max parallelism 2", "increase it"),
    ("a fixed parallelism", lambda s: s.map(key).force_non_parallel().set_parallelism(2), ValueError, "greater than max parallelism 1", "increase it"),
    ("an empty name", lambda s: s.map(key).name(""), ValueError, "must not be empty", None),
    ("a name that is not a string", lambda s: s.map(key).name(1), TypeError, "must be a str", None),
    ("a uid that is not a string", lambda s: s.map(key).uid(1), TypeError, "uid must be a str", None),
    ("uid after uid hash", lambda s: s.map(key).set_uid_hash("0" * 32).uid("x"), RuntimeError, "already has a uid hash", "either"),
    ("uid hash after uid", lambda s: s.map(key).uid("x").set_uid_hash("0" * 32), RuntimeError, "already has a uid", "either"),
    ("a uid hash that is none", lambda s: s.map(key).set_uid_hash("xyz"), ValueError, "must have 32 hexadecimal digits", "uid()"),
    ("a buffer timeout below -1", lambda s: s.map(key).set_buffer_timeout(-2), ValueError, "timeout_millis must be at least -1", None),
    ("a slot group that is none", lambda s: s.map(key).slot_sharing_group(1), TypeError, "SlotSharingGroup, got int", None),
    ("an empty slot group", lambda s: s.map(key).slot_sharing_group(""), ValueError, "must not be empty", None),
    ("the name of a union", lambda s: s.union(s).name("x"), RuntimeError, "a name is not available for a union", "operator before or after"),
    ("the parallelism of a rebalance", lambda s: s.rebalance().set_parallelism(2), RuntimeError, "not available for a partitioned stream", "operator before or after"),
    # unions and side outputs
    ("a union with a list", lambda s: s.union([s]), TypeError, "a stream of a union must be a DataStream", None),
    ("a union of types", lambda s: s.map(key, Types.INT()).union(s.map(key, Types.STRING())), RuntimeError, "streams of different types", "map() them"),
    ("a tag that is text", lambda s: s.process(Process()).get_side_output("late"), TypeError, "output_tag must be an OutputTag, got 'late'", "OutputTag("),
    ("a side output of a union", lambda s: s.union(s).get_side_output(OutputTag("t")), RuntimeError, "a side output is not available for a union", "operator before"),
    ("a side output of a side output", lambda s: s.process(Process()).get_side_output(OutputTag("t")).get_side_output(OutputTag("u")), RuntimeError, "not available for a side output", "operator before"),
    ("a side output of a keyed stream", lambda s: keyed(s).get_side_output(OutputTag("t")), RuntimeError, "a side output is not supported", "key_by"),
    ("a tag without name", lambda s: OutputTag(""), ValueError, "tag_id cannot be None or empty", None),
    ("a tag with None", lambda s: OutputTag(None), ValueError, "tag_id cannot be None or empty", None),
    ("a tag with a number", lambda s: OutputTag(3), TypeError, "tag_id must be a str", None),
    ("a tag with a wrong type", lambda s: OutputTag("t", str), TypeError, "type_info must be a TypeInformation", "Types.STRING()"),
    # projections
    ("a projection of nothing", lambda s: s.project(), ValueError, "at least one field index", None),
    ("a projection by name", lambda s: s.project("a"), TypeError, "a field index must be an int", None),
    ("a projection of a number", lambda s: s.map(key, Types.INT()).project(0), RuntimeError, "only streams of tuples", "map()"),
    ("a projection beyond", lambda s: s.map(key, Types.TUPLE([Types.INT()])).project(1), ValueError, "out of range for a tuple of 1 fields", None),
    # windows
    ("a window without key_by", lambda s: s.window(TUMBLING), RuntimeError, "window() needs a keyed stream", "key_by"),
    ("a count window without key_by", lambda s: s.count_window(2), RuntimeError, "count_window() needs a keyed stream", "key_by"),
    ("a reduce without key_by", lambda s: s.reduce(max), RuntimeError, "reduce() needs a keyed stream", "key_by(...).reduce"),
    ("a sum without key_by", lambda s: s.sum(0), RuntimeError, "sum() needs a keyed stream", "key_by"),
    ("an assigner that is none", lambda s: keyed(s).window(5), TypeError, "window_assigner must be a WindowAssigner", "TumblingEventTimeWindows"),
    ("an assigner class", lambda s: keyed(s).window(GlobalWindows), TypeError, "got the class GlobalWindows", "GlobalWindows("),
    ("event time without timestamps", lambda s: keyed(s).window(TumblingEventTimeWindows.of(Time.seconds(1))), RuntimeError, "TumblingEventTimeWindows needs timestamps", "assign_timestamps_and_watermarks"),
    ("event time for all without timestamps", lambda s: s.window_all(SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))), RuntimeError, "needs timestamps", "assign_timestamps_and_watermarks"),
    ("a window of no elements", lambda s: keyed(s).count_window(0), ValueError, "must be positive", None),
    ("a window that slides back", lambda s: keyed(s).count_window(2, -1), ValueError, "slide must be at least 0", None),
    ("a trigger that is none", lambda s: keyed(s).window(TUMBLING).trigger("x"), TypeError, "trigger must be a Trigger", "CountTrigger"),
    ("a trigger class", lambda s: keyed(s).window(TUMBLING).trigger(NeverTrigger), TypeError, "got the class NeverTrigger", "NeverTrigger("),
    ("negative lateness", lambda s: keyed(s).window(TUMBLING).allowed_lateness(-1), ValueError, "must not be negative, got -1", None),
    ("lateness as text", lambda s: keyed(s).window(TUMBLING).allowed_lateness("1 s"), TypeError, "not an amount of time", "Duration"),
    ("a late tag that is none", lambda s: keyed(s).window(TUMBLING).side_output_late_data("late"), TypeError, "output_tag must be an OutputTag", "OutputTag("),
    ("a window reduce of a number", lambda s: keyed(s).window(TUMBLING).reduce(1), TypeError, "ReduceFunction", "lambda"),
    ("an aggregate of a function", lambda s: keyed(s).window(TUMBLING).aggregate(max), TypeError, "AggregateFunction is required", "reduce() for plain"),
    ("an aggregate class", lambda s: keyed(s).window(TUMBLING).aggregate(Count), TypeError, "got the class Count", "Count()"),
    ("apply of a process function", lambda s: keyed(s).window(TUMBLING).apply(ProcessWindow()), TypeError, "a WindowFunction is required, got a ProcessWindowFunction", "apply()"),
    ("process of a window function", lambda s: keyed(s).window(TUMBLING).process(Window()), TypeError, "a ProcessWindowFunction is required", "process()"),
    ("an 'all' function for keys", lambda s: keyed(s).window(TUMBLING).apply(AllWindow()), TypeError, "a WindowFunction is required, got an AllWindowFunction", "window_all()"),
    ("a keyed function for all", lambda s: s.window_all(TUMBLING).apply(Window()), TypeError, "an AllWindowFunction is required", "window_all()"),
    ("apply of a lambda", lambda s: keyed(s).window(TUMBLING).apply(lambda k, w, i: i), TypeError, "WindowFunction is required", "derive a class"),
    ("a window function class", lambda s: keyed(s).window(TUMBLING).reduce(max, Window), TypeError, "window_function must be", "Window()"),
    ("a window function that is none", lambda s: keyed(s).window(TUMBLING).reduce(max, max), TypeError, "window_function must be", "derive a class"),
    # sinks, timestamps, collecting
    ("a sink that is none", lambda s: s.sink_to("out"), TypeError, "a sink must be a Sink", "FileSink"),
    ("an old sink that is none", lambda s: s.add_sink(3), TypeError, "a sink must be a Sink", "FileSink"),
    ("a print prefix that is none", lambda s: s.print(3), TypeError, "sink_identifier must be a str", None),
    ("a strategy that is none", lambda s: s.assign_timestamps_and_watermarks(5), TypeError, "watermark_strategy must be a WatermarkStrategy", "for_bounded_out_of_orderness"),
    ("a limit of zero", lambda s: s.execute_and_collect(limit=0), ValueError, "limit must be at least 1", None),
]  # fmt: skip


def test_wrong_use_of_a_stream_is_refused_when_it_is_written():
    def check(case):
        _, use, kind, message, hint = case
        # An environment remembers what is built on its streams, so each case has its own.
        env = StreamExecutionEnvironment.get_execution_environment()
        with pytest.raises(kind) as caught:
            use(env.from_source(QuietSource(), WatermarkStrategy.no_watermarks(), "quiet"))
        assert isinstance(caught.value, PenstockError)
        assert message in caught.value.message
        if hint is not None:
            assert hint in caught.value.hint

    check_all(by_name(REFUSED, lambda case: case[0]), check)


WRONG_ENVIRONMENT = [
    ("a collection that is text", lambda e: e.from_collection("abc"), TypeError, "collection must be a list"),
    ("a collection that is a number", lambda e: e.from_collection(3), TypeError, "collection must be a list"),
    ("a collection that is a dict", lambda e: e.from_collection({}), TypeError, "collection must be a list"),
    ("elements of another type", lambda e: e.from_collection(["a"], Types.INT()), RuntimeError, "'a' (str) is not a value of type Integer"),
    ("a source that is none", lambda e: e.from_source(1, WatermarkStrategy.no_watermarks(), "s"), TypeError, "a source must be a Source"),
    ("no strategy", lambda e: e.from_source(QuietSource(), None, "s"), TypeError, "watermark_strategy must be"),
    ("a source without name", lambda e: e.from_source(QuietSource(), WatermarkStrategy.no_watermarks(), ""), ValueError, "source_name must not be empty"),
    ("parallelism zero", lambda e: e.set_parallelism(0), ValueError, "parallelism must be at least 1"),
    ("parallelism as text", lambda e: e.set_parallelism("4"), TypeError, "parallelism must be an int"),
    ("max parallelism too high", lambda e: e.set_max_parallelism(32_769), ValueError, "between 1 and 32768"),
    ("max parallelism below parallelism", lambda e: e.set_parallelism(4).set_max_parallelism(2), ValueError, "less than parallelism 4"),
    ("a mode that is text", lambda e: e.set_runtime_mode("BATCH"), TypeError, "execution_mode must be a RuntimeExecutionMode"),
    ("an unknown option", lambda e: e.configure(Configuration.from_dict({"paralelism.default": "2"})), ValueError, "unknown option 'paralelism.default'"),
    ("an option that cannot be read", lambda e: e.configure(Configuration.from_dict({"parallelism.default": "two"})), ValueError, "option 'parallelism.default' cannot be 'two'"),
    ("a configuration that is none", lambda e: e.configure({"a": "b"}), TypeError, "configuration must be a Configuration"),
    ("a checkpoint interval of zero", lambda e: e.enable_checkpointing(0), ValueError, "checkpoint_interval must be at least 10 ms"),
    ("a state backend that is none", lambda e: e.set_state_backend("rocksdb"), TypeError, "state_backend must be a StateBackend"),
    ("a backend of one's own", lambda e: e.set_state_backend(StateBackend()), NotImplementedError, "unsupported state backend"),
    ("a restart strategy that is none", lambda e: e.set_restart_strategy("never"), TypeError, "must be a RestartStrategyConfiguration"),
    ("nothing to execute", lambda e: e.execute(), RuntimeError, "no operators defined"),
    ("a plan of nothing", lambda e: e.get_execution_plan(), RuntimeError, "no operators defined"),
    ("a buffer timeout below -1", lambda e: e.set_buffer_timeout(-5), ValueError, "at least -1"),
    ("the parallelism of a collection", lambda e: e.from_collection([1]).set_parallelism(2), RuntimeError, "is not parallel, its parallelism must be 1"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("use", "kind", "message"),
    [row[1:] for row in WRONG_ENVIRONMENT],
    ids=[row[0] for row in WRONG_ENVIRONMENT],
)
def test_wrong_use_of_an_environment_is_refused(env, use, kind, message):
    with pytest.raises(kind) as caught:
        use(env)
    assert isinstance(caught.value, PenstockError)
    assert message in caught.value.message


def test_an_environment_is_not_created_with_unknown_options():
    with pytest.raises(PenstockError, match=r"unknown option 'state\.no-such-option'"):
        StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict({"state.no-such-option": "1"})
        )


def test_a_source_alone_is_nothing_to_execute(env, stream, executor):
    with pytest.raises(PenstockError, match="no operators defined"):
        env.execute()
    assert executor.submitted == []


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(
            lambda e: e.from_source(
                QuietSource(), WatermarkStrategy.for_monotonous_timestamps(), "s"
            ),
            id="a strategy that emits watermarks",
        ),
        pytest.param(
            lambda e: e.from_source(
                QuietSource(),
                WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda v, t: v),
                "s",
            ),
            id="a strategy with a timestamp assigner",
        ),
        pytest.param(
            lambda e: e.from_collection([1]).assign_timestamps_and_watermarks(
                WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
            ),
            id="assigned on the way",
        ),
        pytest.param(
            lambda e: e.from_source(Unknown(), WatermarkStrategy.no_watermarks(), "s"),
            id="a source that may bring timestamps",
        ),
    ],
)
def test_event_time_windows_are_taken_where_timestamps_can_be(env, before):
    windows = before(env).map(key).key_by(key).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    assert windows.reduce(max).get_name() == "TumblingEventTimeWindows"


class Unknown(QuietSource):
    carries_timestamps = True


def test_merging_windows_refuse_a_trigger_that_cannot_merge(env):
    timed = env.from_source(QuietSource(), WatermarkStrategy.for_monotonous_timestamps(), "s")
    sessions = timed.key_by(key).window(EventTimeSessionWindows.with_gap(Time.seconds(1)))
    with pytest.raises(
        PenstockError, match="DeltaTrigger cannot be used with EventTimeSession"
    ) as e:
        sessions.trigger(DeltaTrigger.of(1.0, lambda old, new: new - old))
    assert "can_merge" in e.value.hint
    assert sessions.trigger(CountTrigger.of(2)) is sessions
    assert sessions.trigger(EventTimeTrigger.create()) is sessions


def test_the_same_tag_with_another_type_is_refused_at_one_operator(stream):
    processed = stream.process(Process())
    processed.get_side_output(OutputTag("late", Types.INT()))
    processed.get_side_output(OutputTag("late", Types.INT()))
    with pytest.raises(PenstockError, match="is used with two types"):
        processed.get_side_output(OutputTag("late", Types.STRING()))


def test_two_sinks_with_one_path_are_refused(stream):
    stream.sink_to(PathSink("/out"))
    stream.sink_to(PathSink(None))
    stream.sink_to(PathSink("/other"))
    with pytest.raises(PenstockError, match="two sinks write to '/out'"):
        stream.sink_to(PathSink("/out"))


def test_a_path_is_free_again_in_the_next_program(env, stream, executor):
    stream.sink_to(PathSink("/out"))
    env.execute()
    stream.sink_to(PathSink("/out"))


def test_streams_of_two_environments_cannot_be_united(stream):
    other = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(PenstockError, match="different environments"):
        stream.union(other.from_collection([1]))


def test_a_uid_used_twice_is_refused_with_the_plan(env, stream):
    stream.map(key).uid("one").map(key).uid("one")
    with pytest.raises(PenstockError, match="the uid 'one' is used twice"):
        env.get_execution_plan()


def test_forward_between_different_parallelisms_is_refused_with_the_plan(env, stream):
    stream.map(key).set_parallelism(2).forward().map(key).set_parallelism(3)
    with pytest.raises(PenstockError, match="forward partitioning"):
        env.get_execution_plan()


def test_operators_without_uid_are_refused_if_generated_uids_are_off(env, stream, executor):
    env.get_config().disable_auto_generated_uids()
    stream.map(key).uid("one").map(key).name("two")
    with pytest.raises(PenstockError, match="operator 'two' has no uid"):
        env.execute()


class HasLock(MapFunction):
    def __init__(self):
        self.settings = {"lock": threading.Lock()}

    def map(self, value):
        return value


def closure_with_lock():
    lock = threading.Lock()

    def guarded(value):
        with lock:
            return value

    return guarded


@pytest.mark.parametrize(
    ("build", "operator", "where"),
    [
        pytest.param(
            lambda s: s.map(HasLock()).name("mine"),
            "mine",
            ".settings['lock'] is a lock, which cannot be pickled",
            id="an attribute",
        ),
        pytest.param(
            lambda s: s.filter(closure_with_lock()),
            "Filter",
            "variable 'lock' of closure_with_lock.<locals>.guarded is a lock",
            id="a variable of a closure",
        ),
        pytest.param(
            lambda s: s.key_by(closure_with_lock()).map(key),
            "Map",
            "variable 'lock' of",
            id="a key selector",
        ),
        pytest.param(
            lambda s: s.partition_custom(max, closure_with_lock()).map(key),
            "Custom",
            "variable 'lock' of",
            id="a partitioner's key selector",
        ),
    ],
)
def test_a_function_that_cannot_be_pickled_is_named_at_execute(
    env, stream, executor, build, operator, where
):
    build(stream)
    with pytest.raises(PenstockError, match=f"operator '{operator}' cannot be sent to tasks") as e:
        env.execute()
    assert where in e.value.detail
    assert "open()" in e.value.hint
    assert executor.submitted == []
