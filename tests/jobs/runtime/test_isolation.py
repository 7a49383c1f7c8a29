"""What was emitted does not change when user code goes on with its own objects: in whole programs."""

from __future__ import annotations

import pytest

from penstock.datastream import (
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing import MiniCluster


@pytest.fixture
def env():
    with MiniCluster():
        environment = StreamExecutionEnvironment.get_execution_environment()
        environment.set_parallelism(1)
        yield environment


class GrowingList(MapFunction):
    def __init__(self):
        self.seen = []

    def map(self, value):
        self.seen.append(value)
        return self.seen


class OneRowAgainAndAgain(FlatMapFunction):
    def flat_map(self, value):
        row = {}
        for number in range(value):
            row["n"] = number
            yield row


class HistoryInState(KeyedProcessFunction):
    def open(self, runtime_context):
        self.history = runtime_context.get_state(ValueStateDescriptor("history", None))

    def process_element(self, value, ctx):
        history = self.history.value() or []
        history.append(value)
        self.history.update(history)
        yield history


def add_in_place(total, value):
    total["n"] += value["n"]
    return total


def growing_closure():
    seen = []

    def function(value):
        seen.append(value)
        return (value, seen)

    return function


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        pytest.param(lambda s: s.map(GrowingList()), [[1], [1, 2], [1, 2, 3]], id="map returns its own list"),
        pytest.param(
            lambda s: s.map(growing_closure()),
            [(1, [1]), (2, [1, 2]), (3, [1, 2, 3])],
            id="a closure returns its list inside a tuple",
        ),
        pytest.param(
            lambda s: s.flat_map(OneRowAgainAndAgain()),
            [{"n": n} for value in (1, 2, 3) for n in range(value)],
            id="flat_map yields one dictionary again and again",
        ),
        pytest.param(
            lambda s: s.key_by(lambda _: 0).process(HistoryInState()),
            [[1], [1, 2], [1, 2, 3]],
            id="process yields the value of its state",
        ),
        pytest.param(
            lambda s: s.map(lambda n: {"n": n}).key_by(lambda _: 0).reduce(add_in_place),
            [{"n": 1}, {"n": 3}, {"n": 6}],
            id="reduce adds in place",
        ),
    ],
)  # fmt: skip
def test_emitted_objects_do_not_change_afterwards(env, build, expected):
    with build(env.from_collection([1, 2, 3])).execute_and_collect() as found:
        assert list(found) == expected


def test_two_consumers_do_not_see_each_others_changes(env):
    def mark(name):
        def function(record):
            record["seen by"].append(name)
            return record

        return function

    start = env.from_collection([1, 2]).map(lambda n: {"n": n, "seen by": []})
    left, right = start.map(mark("left")), start.map(mark("right"))
    with left.union(right).execute_and_collect() as found:
        assert sorted((record["n"], record["seen by"]) for record in found) == [
            (1, ["left"]), (1, ["right"]), (2, ["left"]), (2, ["right"]),
        ]  # fmt: skip
