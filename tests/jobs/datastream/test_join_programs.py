"""Joins as programs: built with the API, run in one process, in one epoch or many, with a crash in the middle."""

from __future__ import annotations

import pytest

from penstock.common import Row, Time, Types
from penstock.datastream import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    OutputTag,
    ProcessJoinFunction,
)
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    InvalidProgramError,
    UnsupportedOperationError,
)
from penstock.testing import MiniCluster
from penstock.testing.faults import StepFault, protocol_faults
from tests.builders.scripted import MONOTONOUS, collect, environment, read

TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))

# (key, number) with the number as timestamp, in two splits of several batches: one batch is read per epoch
ORDERS = [(f"k{n % 4}", n) for n in range(0, 60, 2)]
PAYMENTS = [(f"k{n % 3}", n) for n in range(0, 60, 3)]


def key_of(element):
    return element[0]


def script(elements, splits=2, size=5):
    parts = [elements[n::splits] for n in range(splits)]
    return [
        [[(value, value[1]) for value in part[at : at + size]] for at in range(0, len(part), size)]
        for part in parts
    ]


def two_streams(env):
    return (
        read(env, *script(ORDERS), strategy=MONOTONOUS, name="orders"),
        read(env, *script(PAYMENTS), strategy=MONOTONOUS, name="payments"),
    )


class Pair(JoinFunction):
    def join(self, first, second):
        return first, second


class Flat(FlatJoinFunction):
    def join(self, first, second):
        yield first, second


class Sizes(CoGroupFunction):
    def co_group(self, first, second):
        elements = [*first, *second]
        yield elements[0][0], min(e[1] for e in elements) // 10, len(first), len(second)


class Joined(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right, ctx.get_timestamp()


def tumbling_join(first, second):
    return first.join(second).where(key_of).equal_to(key_of).window(TEN).apply(Pair())


def flat_join(first, second):
    return first.join(second).where(key_of).equal_to(key_of).window(TEN).apply(Flat())


def tumbling_cogroup(first, second):
    return first.co_group(second).where(key_of).equal_to(key_of).window(TEN).apply(Sizes())


def interval_join(first, second):
    keyed = first.key_by(key_of).interval_join(second.key_by(key_of))
    return keyed.between(Time.milliseconds(-3), Time.milliseconds(5)).process(Joined())


def exclusive_interval_join(first, second):
    keyed = first.key_by(key_of).interval_join(second.key_by(key_of))
    bounds = keyed.between(-3, 5).lower_bound_exclusive().upper_bound_exclusive()
    return bounds.process(Joined())


PAIRS = sorted(
    (a, b) for a in ORDERS for b in PAYMENTS if a[0] == b[0] and a[1] // 10 == b[1] // 10
)
GROUPS = sorted(
    (key, tens, len(first), len(second))
    for key in ("k0", "k1", "k2", "k3")
    for tens in range(6)
    for first in [[e for e in ORDERS if e[0] == key and e[1] // 10 == tens]]
    for second in [[e for e in PAYMENTS if e[0] == key and e[1] // 10 == tens]]
    if first or second
)


def near(lower, upper):
    return sorted(
        (a, b, max(a[1], b[1]))
        for a in ORDERS
        for b in PAYMENTS
        if a[0] == b[0] and lower <= b[1] - a[1] <= upper
    )


PROGRAMS = [
    pytest.param(tumbling_join, PAIRS, id="join"),
    pytest.param(flat_join, PAIRS, id="flat join"),
    pytest.param(tumbling_cogroup, GROUPS, id="coGroup"),
    pytest.param(interval_join, near(-3, 5), id="interval join"),
    pytest.param(exclusive_interval_join, near(-2, 4), id="interval join, exclusive bounds"),
]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize(("build", "expected"), PROGRAMS)
def test_a_join_in_one_epoch(build, expected, parallelism):
    with MiniCluster():
        assert sorted(collect(build(*two_streams(environment(parallelism))))) == expected


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize(("build", "expected"), PROGRAMS)
def test_a_join_over_many_epochs_with_a_crash_in_the_middle(build, expected, parallelism):
    fault = StepFault("before write_manifest", 3)
    with MiniCluster() as cluster, protocol_faults(fault) as faults:
        env = environment(parallelism, checkpoints=10)
        assert sorted(collect(build(*two_streams(env)))) == expected
    assert faults.struck == [fault]
    assert cluster.masters[0].restarts == 1


def test_a_declared_type_makes_rows():
    kind = Types.ROW_NAMED(["left", "right"], [Types.INT(), Types.INT()])
    first, second = two_streams(environment())
    windowed = first.join(second).where(key_of).equal_to(key_of).window(TEN)
    joined = windowed.apply(lambda a, b: (a[1], b[1]), kind)
    with MiniCluster():
        found = collect(joined)
    assert all(isinstance(row, Row) for row in found)
    assert sorted((row.left, row.right) for row in found) == sorted((a[1], b[1]) for a, b in PAIRS)
    assert joined.get_type() == kind


def test_a_declared_type_makes_rows_of_an_interval_join():
    class Numbers(ProcessJoinFunction):
        def process_element(self, left, right, ctx):
            yield left[1], right[1]

    kind = Types.ROW_NAMED(["left", "right"], [Types.INT(), Types.INT()])
    first, second = two_streams(environment())
    keyed = first.key_by(key_of).interval_join(second.key_by(key_of))
    with MiniCluster():
        found = collect(keyed.between(0, 0).process(Numbers(), kind))
    assert sorted(row.left for row in found) == [a[1] for a, _, _ in near(0, 0)]


@pytest.mark.parametrize(
    ("assigner", "expected"),
    [
        pytest.param(SlidingEventTimeWindows.of(Time.milliseconds(4), Time.milliseconds(2)), [("a", 1, 2), ("a", 6, 4)], id="sliding: [0, 4) and [4, 8)"),
        pytest.param(EventTimeSessionWindows.with_gap(Time.milliseconds(3)), [("a", 1, 2), ("a", 1, 4), ("a", 6, 2), ("a", 6, 4)], id="session"),
    ],
)  # fmt: skip
def test_other_windows(assigner, expected):
    env = environment(2)
    first = read(env, [[(("a", n), n) for n in (1, 6)]], strategy=MONOTONOUS, name="first")
    second = read(env, [[(("a", n), n) for n in (2, 4)]], strategy=MONOTONOUS, name="second")
    windowed = first.join(second).where(key_of).equal_to(key_of).window(assigner)
    joined = windowed.apply(lambda a, b: ("a", a[1], b[1]))
    with MiniCluster():
        found = sorted(collect(joined))
    assert found == expected


def test_global_windows_with_a_trigger_and_an_evictor():
    env = environment()
    first = read(env, [[(("a", n), n) for n in range(3)]], name="first")
    second = read(env, [[(("a", n), n) for n in range(3)]], name="second")
    windowed = first.co_group(second).where(key_of).equal_to(key_of).window(GlobalWindows.create())
    counted = windowed.trigger(PurgingTrigger.of(CountTrigger.of(6))).evictor(CountEvictor.of(5))
    with MiniCluster():
        found = collect(counted.apply(lambda a, b: [(len(a), len(b))]))
    assert found == [(2, 3)]


def test_a_stream_joins_with_itself():
    env = environment(2)
    stream = read(env, *script(ORDERS), strategy=MONOTONOUS)
    joined = stream.join(stream).where(key_of).equal_to(key_of).window(TEN).apply(Pair())
    expected = [(a, b) for a in ORDERS for b in ORDERS if a[0] == b[0] and a[1] // 10 == b[1] // 10]
    with MiniCluster():
        assert sorted(collect(joined)) == sorted(expected)


def test_each_side_has_a_key_of_its_own_and_one_stage_serves_two_joins():
    env = environment(2)
    first = read(env, [[((1, "x"), 1)]], strategy=MONOTONOUS, name="first")
    second = read(env, [[(("y", 1), 1)]], strategy=MONOTONOUS, name="second")
    where = first.join(second).where(lambda e: e[0])
    good = where.equal_to(lambda e: e[1]).window(TEN).apply(lambda a, b: a[1] + b[0])
    other = where.equal_to(lambda e: e[0]).window(TEN).apply(lambda a, b: "never")
    with MiniCluster():
        assert collect(good.union(other)) == ["xy"]


def test_late_elements_of_an_interval_join_go_to_their_side_outputs():
    env = environment()
    elements = [(("a", n), n) for n in (10, 20, 1)]
    first = read(env, [elements[:2], elements[2:]], strategy=MONOTONOUS, bounded=True, name="first")
    second = read(env, [[(("a", 30), 30)]], strategy=MONOTONOUS, name="second")
    late = OutputTag("late")
    env.enable_checkpointing(10)
    joined = (
        first.key_by(key_of)
        .interval_join(second.key_by(key_of))
        .between(0, 100)
        .side_output_left_late_data(late)
        .process(Joined())
    )
    with MiniCluster():
        assert collect(joined.get_side_output(late)) == [("a", 1)]


# Refusals


@pytest.fixture
def timed():
    env = environment()
    return env.from_collection([("a", 1)]).assign_timestamps_and_watermarks(MONOTONOUS)


@pytest.mark.parametrize(
    ("use", "hint"),
    [
        pytest.param(lambda s: s.join(s).window(TEN), "where", id="window without where"),
        pytest.param(lambda s: s.join(s).equal_to(key_of), "where", id="equal_to without where"),
        pytest.param(lambda s: s.join(s).apply(Pair()), "where", id="apply without anything"),
        pytest.param(lambda s: s.join(s).where(key_of).window(TEN), "equal_to", id="window without equal_to"),
        pytest.param(lambda s: s.join(s).where(key_of).equal_to(key_of).apply(Pair()), "window", id="apply without window"),
        pytest.param(lambda s: s.co_group(s).where(key_of).apply(Sizes()), "equal_to", id="coGroup without equal_to"),
        pytest.param(lambda s: s.key_by(key_of).interval_join(s.key_by(key_of)).process(Joined()), "between", id="interval join without between"),
    ],
)  # fmt: skip
def test_a_step_that_comes_too_early_names_the_one_before(timed, use, hint):
    with pytest.raises(InvalidProgramError, match=rf"comes after {hint}\(\)") as caught:
        use(timed)
    assert ".where(key)" in caught.value.hint or ".between(" in caught.value.hint


def test_other_missing_names_are_plain_attribute_errors(timed):
    assert not hasattr(timed.join(timed), "no_such_step")
    assert not hasattr(timed.key_by(key_of).interval_join(timed.key_by(key_of)), "no_such_step")


def windowed(stream):
    return stream.join(stream).where(key_of).equal_to(key_of).window(TEN)


def interval(stream):
    return stream.key_by(key_of).interval_join(stream.key_by(key_of))


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        pytest.param(lambda s: s.join([1]), ArgumentTypeError, "other stream", id="join with a list"),
        pytest.param(lambda s: s.join(s).where(0), ArgumentTypeError, "KeySelector", id="an index as key"),
        pytest.param(lambda s: s.join(s).where(key_of, Types.INT()).equal_to(key_of, Types.STRING()), InvalidProgramError, "different types", id="keys of different types"),
        pytest.param(lambda s: s.join(s).where(key_of).equal_to(key_of).window(5), ArgumentTypeError, "window_assigner", id="no assigner"),
        pytest.param(lambda s: windowed(s).trigger(5), ArgumentTypeError, "trigger", id="no trigger"),
        pytest.param(lambda s: windowed(s).evictor(5), ArgumentTypeError, "evictor", id="no evictor"),
        pytest.param(lambda s: windowed(s).allowed_lateness(-1), ArgumentError, "lateness", id="negative lateness"),
        pytest.param(lambda s: windowed(s).apply(Pair), ArgumentTypeError, "JoinFunction", id="a class for an object"),
        pytest.param(lambda s: windowed(s).apply(Sizes()), ArgumentTypeError, "JoinFunction", id="a coGroup function in a join"),
        pytest.param(lambda s: windowed(s).apply(lambda only: only), ArgumentTypeError, "cannot be called", id="one argument"),
        pytest.param(lambda s: s.join(s).where(key_of).equal_to(key_of).window(GlobalWindows.create()).apply(Pair()), InvalidProgramError, "needs a trigger", id="global windows without a trigger"),
        pytest.param(lambda s: s.join(s).where(key_of).equal_to(key_of).window(EventTimeSessionWindows.with_gap(Time.seconds(1))).trigger(DeltaTrigger.of(1, lambda a, b: 0)), InvalidProgramError, "merg", id="a trigger that cannot merge"),
        pytest.param(lambda s: s.interval_join(s), InvalidProgramError, "needs a keyed stream", id="interval join without keys"),
        pytest.param(lambda s: s.key_by(key_of).interval_join(s), ArgumentTypeError, "KeyedStream", id="interval join with a stream without keys"),
        pytest.param(lambda s: interval(s).between(5, 3), ArgumentError, "greater than its upper", id="bounds the wrong way round"),
        pytest.param(lambda s: interval(s).between("1 s", 3), ArgumentTypeError, "amount of time", id="a bound as text"),
        pytest.param(lambda s: interval(s).between(3, 3).lower_bound_exclusive().process(Joined()), InvalidProgramError, "no pair", id="nothing between the bounds"),
        pytest.param(lambda s: interval(s).between(3, 3).process(lambda a, b: a), ArgumentTypeError, "ProcessJoinFunction", id="a plain function"),
        pytest.param(lambda s: interval(s).between(3, 3).side_output_left_late_data("late"), ArgumentTypeError, "OutputTag", id="a tag as text"),
        pytest.param(lambda s: interval(s).in_processing_time(), UnsupportedOperationError, "event time", id="processing time"),
        pytest.param(lambda s: s.key_by(key_of, Types.INT()).interval_join(s.key_by(key_of, Types.STRING())), InvalidProgramError, "different types", id="interval join, keys of different types"),
    ],
)  # fmt: skip
def test_wrong_use_is_refused_where_it_is_written(timed, use, error, message):
    with pytest.raises(error, match=message):
        use(timed)


def test_streams_of_two_environments_are_refused(timed):
    other = environment().from_collection([("a", 1)])
    with pytest.raises(InvalidProgramError, match="different environments"):
        timed.join(other)
    with pytest.raises(InvalidProgramError, match="different environments"):
        timed.key_by(key_of).interval_join(
            other.assign_timestamps_and_watermarks(MONOTONOUS).key_by(key_of)
        )


def test_streams_without_timestamps_are_refused():
    stream = environment().from_collection([("a", 1)])
    with pytest.raises(InvalidProgramError, match="timestamps"):
        stream.join(stream).where(key_of).equal_to(key_of).window(TEN)
    with pytest.raises(InvalidProgramError, match="timestamps"):
        interval(stream)


def test_in_event_time_changes_nothing(timed):
    join = interval(timed)
    assert join.in_event_time() is join
