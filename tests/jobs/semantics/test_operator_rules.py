"""Rules 11, 12, 14, 15 and 19: rolling aggregates, side outputs, broadcast, keyed streams, unions."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.common import Duration, Row, Types
from penstock.datastream import (
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
)
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import InvalidProgramError
from tests.builders.scripted import LOG, MIN, MONOTONOUS, Note, collect, environment, read

PAIRS = [("a", 3, "x"), ("b", 5, "y"), ("a", 1, "z"), ("a", 1, "w"), ("b", 9, "v")]
BATCH = RuntimeExecutionMode.BATCH
STREAMING = RuntimeExecutionMode.STREAMING


def by_first(value):
    return value[0]


AGGREGATES = [
    pytest.param(
        lambda keyed: keyed.sum(1),
        [("a", 3, "x"), ("b", 5, "y"), ("a", 4, "x"), ("a", 5, "x"), ("b", 14, "y")],
        id="sum",
    ),
    pytest.param(
        lambda keyed: keyed.min(1),
        [("a", 3, "x"), ("b", 5, "y"), ("a", 1, "x"), ("a", 1, "x"), ("b", 5, "y")],
        id="min keeps the first element's other fields",
    ),
    pytest.param(
        lambda keyed: keyed.max(1),
        [("a", 3, "x"), ("b", 5, "y"), ("a", 3, "x"), ("a", 3, "x"), ("b", 9, "y")],
        id="max",
    ),
    pytest.param(
        lambda keyed: keyed.min_by(1),
        [("a", 3, "x"), ("b", 5, "y"), ("a", 1, "z"), ("a", 1, "z"), ("b", 5, "y")],
        id="min_by keeps the whole element",
    ),
    pytest.param(
        lambda keyed: keyed.max_by(1),
        [("a", 3, "x"), ("b", 5, "y"), ("a", 3, "x"), ("a", 3, "x"), ("b", 9, "v")],
        id="max_by",
    ),
    pytest.param(
        lambda keyed: keyed.reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2])),
        [("a", 3, "x"), ("b", 5, "y"), ("a", 4, "xz"), ("a", 5, "xzw"), ("b", 14, "yv")],
        id="reduce",
    ),
]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(("aggregate", "updates"), AGGREGATES)
def test_rule_11_streaming_emits_every_update(aggregate, updates, parallelism):
    env = environment(parallelism, mode=STREAMING)
    found = collect(aggregate(env.from_collection(PAIRS).key_by(by_first)))
    for key in "ab":
        assert [each for each in found if each[0] == key] == [u for u in updates if u[0] == key]
    assert len(found) == len(updates)


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(("aggregate", "updates"), AGGREGATES)
def test_rule_11_batch_emits_one_value_per_key(aggregate, updates, parallelism):
    env = environment(parallelism, mode=BATCH)
    found = collect(aggregate(env.from_collection(PAIRS).key_by(by_first)))
    last = {update[0]: update for update in updates}
    assert sorted(found) == sorted(last.values())


def test_rule_11_fields_go_by_index_by_name_or_are_the_first():
    rows = [Row(key="a", number=1), Row(key="a", number=2)]
    kind = Types.ROW_NAMED(["key", "number"], [Types.STRING(), Types.INT()])
    env = environment()
    found = collect(env.from_collection(rows, kind).key_by(lambda row: row["key"]).sum("number"))
    assert [row["number"] for row in found] == [1, 3]
    env = environment()
    assert collect(env.from_collection([1, 2, 3]).key_by(lambda _: 0).sum()) == [1, 3, 6]
    env = environment()
    assert collect(env.from_collection([(5, "x"), (2, "y")]).key_by(lambda _: 0).min()) == [
        (5, "x"),
        (2, "x"),
    ]


# Rule 12


SIDE = OutputTag("side", Types.INT())
TEXT = OutputTag("text", Types.STRING())


def odd_aside(value):
    if value % 2:
        yield SIDE, value
    else:
        yield value
    yield TEXT, f"n{value}"


class OddAside(ProcessFunction):
    def process_element(self, value, ctx):
        return odd_aside(value)


class KeyedOddAside(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value)
        return list(odd_aside(value))

    def on_timer(self, timestamp, ctx):
        yield SIDE, -timestamp


STEPS = [
    pytest.param(lambda stream: stream.flat_map(odd_aside), id="flat_map"),
    pytest.param(lambda stream: stream.flat_map(odd_aside, Types.INT()), id="typed flat_map"),
    pytest.param(lambda stream: stream.process(OddAside()), id="process"),
    pytest.param(lambda stream: stream.process(OddAside(), Types.INT()), id="typed process"),
    pytest.param(
        lambda stream: stream.key_by(lambda n: n).flat_map(odd_aside), id="keyed flat_map"
    ),
]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("chaining", [True, False], ids=["chained", "not chained"])
@pytest.mark.parametrize("step", STEPS)
def test_rule_12_main_and_side_outputs_are_kept_apart(step, chaining, parallelism):
    env = environment(parallelism)
    if not chaining:
        env.disable_operator_chaining()
    stream = step(env.from_collection(range(1, 7)))
    stream.map(Note("main"))
    stream.get_side_output(SIDE).map(Note("side"))
    stream.get_side_output(TEXT).map(Note("text", ""))
    env.execute()
    assert LOG.counts() == Counter(
        [("main", n) for n in (2, 4, 6)]
        + [("side", n) for n in (1, 3, 5)]
        + [("text", f"n{n}") for n in range(1, 7)]
    )


def test_rule_12_a_side_output_can_be_collected_and_keeps_timestamps():
    class Times(ProcessFunction):
        def process_element(self, value, ctx):
            yield value, ctx.timestamp()

    env = environment(2)
    stream = read(env, [[(1, 10), (2, 20), (3, 30)]], strategy=MONOTONOUS).process(OddAside())
    found = collect(stream.get_side_output(SIDE).process(Times()))
    assert sorted(found) == [(1, 10), (3, 30)]


def test_rule_12_timers_emit_to_side_outputs_too():
    env = environment(2)
    stream = env.from_collection([1, 2]).key_by(lambda n: n).process(KeyedOddAside())
    assert sorted(collect(stream.get_side_output(SIDE))) == [-2, -1, 1]


def test_rule_12_one_tag_may_be_used_at_two_operators():
    env = environment(2)
    first = env.from_collection([1, 2, 3]).process(OddAside())
    second = first.map(lambda n: n + 1).process(OddAside())
    united = first.get_side_output(SIDE).union(second.get_side_output(SIDE))
    assert sorted(collect(united)) == [1, 3, 3]


def test_rule_12_an_unread_side_output_is_dropped():
    env = environment()
    assert collect(env.from_collection([1, 2]).process(OddAside())) == [2]


def test_rule_12_get_side_output_works_on_any_operator_and_may_be_empty():
    env = environment()
    assert collect(env.from_collection([1]).map(lambda n: n).get_side_output(SIDE)) == []


def test_rule_12_late_elements_of_a_window_are_a_side_output():
    env = environment(checkpoints=10)
    late = OutputTag("late")
    windows = (
        read(env, [[("a", 1)], [("b", 50)], [("c", 2)], [("d", 60)]], strategy=MONOTONOUS)
        .key_by(lambda _: 0)
        .window(TumblingEventTimeWindows.of(Duration.of_millis(10)))
        .side_output_late_data(late)
        .reduce(lambda a, b: a + b)
    )
    windows.map(Note("window", ""))
    windows.get_side_output(late).map(Note("late", ""))
    env.execute()
    assert sorted(LOG.lines) == [("late", "c"), ("window", "a"), ("window", "b"), ("window", "d")]


# Rule 14


class Subtasks(ProcessFunction):
    def open(self, context):
        self.index = context.get_index_of_this_subtask()

    def process_element(self, value, ctx):
        yield self.index, value


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (2, 3), (3, 2)])
def test_rule_14_broadcast_elements_reach_every_subtask(before, after):
    env = environment(after)
    stream = read(env, [[1, 2]], [[3]]).map(lambda n: n).set_parallelism(before)
    found = collect(stream.broadcast().process(Subtasks()))
    assert Counter(found) == Counter((index, n) for index in range(after) for n in (1, 2, 3))


# Rule 15


@pytest.mark.parametrize("parallelism", [1, 2])
def test_rule_15_a_keyed_stream_collects_rows_of_key_and_value(parallelism):
    env = environment(parallelism)
    found = collect(env.from_collection([(1, "x"), (2, "y")]).key_by(lambda value: value[0] * 10))
    assert all(isinstance(row, Row) for row in found)
    assert sorted((row[0], row[1]) for row in found) == [(10, (1, "x")), (20, (2, "y"))]


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda keyed: keyed.rebalance(), id="rebalance"),
        pytest.param(lambda keyed: keyed.rescale(), id="rescale"),
        pytest.param(lambda keyed: keyed.shuffle(), id="shuffle"),
        pytest.param(lambda keyed: keyed.broadcast(), id="broadcast"),
        pytest.param(lambda keyed: keyed.forward(), id="forward"),
        pytest.param(lambda keyed: keyed.global_(), id="global_"),
        pytest.param(
            lambda keyed: keyed.partition_custom(lambda k, n: 0, lambda v: v), id="custom"
        ),
        pytest.param(lambda keyed: keyed.name("x"), id="name"),
        pytest.param(lambda keyed: keyed.uid("x"), id="uid"),
        pytest.param(lambda keyed: keyed.set_parallelism(2), id="set_parallelism"),
        pytest.param(lambda keyed: keyed.get_side_output(SIDE), id="get_side_output"),
    ],
)
def test_rule_15_what_a_keyed_stream_does_not_have_raises(call):
    keyed = environment().from_collection([1]).key_by(lambda n: n)
    with pytest.raises(InvalidProgramError):
        call(keyed)


def test_rule_15_functions_on_a_keyed_stream_get_the_values():
    env = environment(2)
    keyed = env.from_collection([1, 2, 3, 4]).key_by(lambda n: n % 2)
    assert sorted(collect(keyed.map(lambda n: n * 10).filter(lambda n: n > 10))) == [20, 30, 40]


def test_rule_15_all_values_of_a_key_meet_in_one_subtask():
    class Where(KeyedProcessFunction):
        def open(self, context):
            self.index = context.get_index_of_this_subtask()

        def process_element(self, value, ctx):
            yield ctx.get_current_key(), self.index

    env = environment(4)
    stream = read(env, [list(range(50))], [list(range(50, 100))]).key_by(lambda n: n % 10)
    places = collect(stream.process(Where()))
    assert len(places) == 100
    assert len(set(places)) == 10
    assert len({index for _, index in places}) > 1


# Rule 19


class Watermarks(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timer_service().current_watermark()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_rule_19_a_union_has_all_elements_of_all_streams(parallelism):
    env = environment(parallelism)
    streams = [env.from_collection(range(n * 10, n * 10 + 5)) for n in range(3)]
    found = collect(streams[0].union(streams[1], streams[2]).map(lambda n: n))
    assert sorted(found) == [n * 10 + i for n in range(3) for i in range(5)]


def test_rule_19_a_stream_may_be_united_with_itself():
    env = environment(2)
    stream = env.from_collection([1, 2])
    assert sorted(collect(stream.union(stream).map(lambda n: n))) == [1, 1, 2, 2]


@pytest.mark.parametrize("mode", ["epochs"], indirect=True)  # what comes together is one epoch
def test_rule_19_the_watermark_of_a_union_is_the_minimum_over_its_inputs():
    env = environment(checkpoints=10)
    first = read(env, [[("a", 10)], [("a", 30)], [("a", 50)]], strategy=MONOTONOUS, name="first")
    second = read(env, [[("b", 20)], [("b", 21)], [("b", 99)]], strategy=MONOTONOUS, name="second")
    seen = collect(first.union(second).process(Watermarks()))
    assert [mark for value, mark in seen if value == "a"] == [MIN, 9, 20]
    assert [mark for value, mark in seen if value == "b"] == [MIN, 9, 20]


def test_rule_19_the_watermark_of_a_union_is_the_minimum_over_its_inputs_by_turns():
    env = environment(checkpoints=10)
    some = [[("a", 10)], [], [("a", 30)], [], [("a", 50)]]
    others = [[], [("b", 20)], [], [("b", 21)], [], [("b", 99)]]
    first = read(env, some, strategy=MONOTONOUS, name="first")
    second = read(env, others, strategy=MONOTONOUS, name="second")
    seen = collect(first.union(second).process(Watermarks()))
    assert [mark for value, mark in seen if value == "a"] == [MIN, 9, 20]
    assert [mark for value, mark in seen if value == "b"] == [MIN, 19, 20]


def test_rule_19_an_input_that_has_ended_no_longer_holds_back():
    env = environment(checkpoints=10)
    short = read(env, [[("a", 10)]], strategy=MONOTONOUS, name="short")
    long = read(
        env, [[("b", 20)], [("b", 30)], [("b", 40)], [("b", 50)]], strategy=MONOTONOUS, name="long"
    )
    seen = collect(short.union(long).process(Watermarks()))
    assert [mark for value, mark in seen if value == "b"][-1] == 39
