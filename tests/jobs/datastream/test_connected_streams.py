"""`connect`: what the API accepts, and programs with two inputs from source to sink."""

from __future__ import annotations

import pytest

from penstock.common import Types
from penstock.datastream import ConnectedStreams, StreamExecutionEnvironment
from penstock.errors import ArgumentTypeError, InvalidProgramError
from penstock.graph.compiler import compile_program
from penstock.graph.settings import GraphSettings
from tests.builders.scripted import MONOTONOUS, collect, environment, read
from tests.builders.two_input_functions import (
    RULES,
    Label,
    Price,
    Repeat,
    Scaled,
    SharedSum,
    Side,
    key_of,
)

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def numbers():
    return environment().from_collection([1, 2, 3])


@pytest.fixture
def words(numbers):
    return numbers.get_execution_environment().from_collection(["a", "b"])


NAMES = [
    ("map", lambda c: c.map(Label()), "Co-Map"),
    ("flat_map", lambda c: c.flat_map(Repeat()), "Co-Flat Map"),
    ("process", lambda c: c.process(Side()), "Co-Process"),
    ("keyed", lambda c: c.key_by(id, id).process(SharedSum()), "Keyed Co-Process"),
]


@pytest.mark.parametrize(("build", "name"), [pytest.param(*n[1:], id=n[0]) for n in NAMES])
def test_operators_of_connected_streams_have_pyflinks_names(numbers, words, build, name):
    assert build(numbers.connect(words)).get_name() == name


REFUSED = [
    ("no stream", lambda a, b: a.connect([1]), "ds must be a DataStream"),
    ("map of a plain function", lambda a, b: a.connect(b).map(len), "a CoMapFunction is required"),
    ("map of a class", lambda a, b: a.connect(b).map(Label), "a CoMapFunction object is required"),
    ("flat_map", lambda a, b: a.connect(b).flat_map(Label()), "a CoFlatMapFunction is required"),
    ("process", lambda a, b: a.connect(b).process(Label()), "a CoProcessFunction is required"),
    ("keyed function", lambda a, b: a.connect(b).process(SharedSum()), "needs two keyed streams"),
    (
        "one keyed side",
        lambda a, b: a.key_by(id).connect(b).process(SharedSum()),
        "needs two keyed streams",
    ),
    ("broadcast state", lambda a, b: a.broadcast(object()), "must be a MapStateDescriptor"),
    (
        "broadcast without keys",
        lambda a, b: a.connect(b.broadcast(RULES)).process(Scaled()),
        "a BroadcastProcessFunction is required for a stream without keys",
    ),
    (
        "broadcast with keys",
        lambda a, b: a.key_by(id).connect(b.broadcast(RULES)).process(Price()),
        "a KeyedBroadcastProcessFunction is required for a stream with keys",
    ),
    (
        "broadcast of something else",
        lambda a, b: a.connect(b.broadcast(RULES)).process(Label()),
        "a BroadcastProcessFunction is required",
    ),
    ("a wrong type", lambda a, b: a.connect(b).map(Label(), "int"), "output_type"),
]


@pytest.mark.parametrize(("build", "message"), [pytest.param(*r[1:], id=r[0]) for r in REFUSED])
def test_invalid_connections_are_rejected_at_once(numbers, words, build, message):
    with pytest.raises(ArgumentTypeError, match=message) as caught:
        build(numbers, words)
    assert caught.value.hint


def test_two_broadcast_states_of_one_name_are_refused(words):
    with pytest.raises(ValueError, match="same name"):
        words.broadcast(RULES, RULES)


def test_streams_of_two_environments_cannot_be_connected(numbers):
    other = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    with pytest.raises(InvalidProgramError, match="different environments"):
        numbers.connect(other)
    with pytest.raises(InvalidProgramError, match="different environments"):
        ConnectedStreams(numbers, other)


def test_the_plan_has_two_gates_that_tell_the_inputs_apart(numbers, words):
    joined = numbers.connect(words).key_by(abs, len).process(SharedSum())
    plans = compile_program([joined.transformation], GraphSettings("job", parallelism=3))
    vertex = plans.stage_plan.vertices[-1]
    assert [(gate.gate, gate.input_index, gate.partitioning.NAME) for gate in vertex.inputs] == [
        (0, 0, "HASH"),
        (1, 1, "HASH"),
    ]
    assert vertex.operators[0].is_keyed


def test_map_of_two_streams(parallelism):
    env = environment(parallelism)
    joined = env.from_collection([1, 2, 3]).connect(env.from_collection(["a", "b"])).map(Label())
    assert sorted(collect(joined)) == [
        ("first", 1),
        ("first", 3),
        ("second", "a"),
        ("second", "b"),
    ]


def test_flat_map_of_two_streams_with_a_declared_type(parallelism):
    env = environment(parallelism)
    joined = env.from_collection([1, 2]).connect(env.from_collection(["a"]))
    assert sorted(collect(joined.flat_map(Repeat(), Types.DOUBLE()))) == [1.0, 2.0, 2.0]
    assert all(type(value) is float for value in collect(joined.flat_map(Repeat(), Types.DOUBLE())))


def test_a_stream_can_be_connected_with_itself(parallelism):
    stream = environment(parallelism).from_collection([1, 3])
    assert sorted(collect(stream.connect(stream).map(Label()))) == [
        ("first", 1),
        ("first", 3),
        ("second", 1),
        ("second", 3),
    ]


def test_a_connected_stream_can_be_a_side_of_another_one(parallelism):
    env = environment(parallelism)
    first = env.from_collection([1, 3]).connect(env.from_collection([5])).map(Label())
    both = first.map(lambda pair: pair[1]).connect(env.from_collection([7])).map(Label())
    assert sorted(collect(both)) == [("first", 1), ("first", 3), ("first", 5), ("second", 7)]


def test_two_keyed_streams_share_state_and_timers(parallelism):
    env = environment(parallelism)
    keys = [f"key{n}" for n in range(9)]
    first = read(env, [[((key, 5), 1) for key in keys]], strategy=MONOTONOUS, name="first")
    second = read(env, [[((key, 2), 1) for key in keys]], strategy=MONOTONOUS, name="second")
    joined = first.connect(second).key_by(key_of, key_of).process(SharedSum())
    assert sorted(collect(joined)) == sorted((key, 3, 11) for key in keys)


def test_streams_that_were_keyed_before_are_connected_by_key(parallelism):
    env = environment(parallelism)
    first = read(env, [[(("a", 1), 1), (("b", 2), 1)]], strategy=MONOTONOUS).key_by(key_of)
    second = read(env, [[(("a", 10), 1)]], strategy=MONOTONOUS, name="second").key_by(key_of)
    joined = first.connect(second).process(SharedSum())
    assert sorted(collect(joined)) == [("a", -9, 11), ("b", 2, 11)]


def test_event_time_is_the_minimum_of_both_inputs(parallelism):
    """Two epochs: the first input is at 100 after the first, the second input at 20."""
    env = environment(parallelism, checkpoints=20)
    fast = read(env, [[("x", 100)], [("x", 101)]], strategy=MONOTONOUS, name="fast")
    slow = read(env, [[("y", 20)], [("y", 21)]], strategy=MONOTONOUS, name="slow")
    joined = fast.broadcast().connect(slow.broadcast()).process(Side())
    seen = {(side, time): watermark for side, _, time, watermark in collect(joined)}
    assert seen == {(1, 100): -(2**63), (2, 20): -(2**63), (1, 101): 19, (2, 21): 19}
