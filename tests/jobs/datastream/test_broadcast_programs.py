"""Programs with broadcast streams, from source to sink."""

from __future__ import annotations

import pytest

from penstock.datastream import (
    BroadcastProcessFunction,
    RuntimeExecutionMode,
)
from penstock.datastream.state import MapStateDescriptor
from tests.builders.scripted import MONOTONOUS, collect, environment, read
from tests.builders.two_input_functions import RULES, Scaled, key_of

pytestmark = pytest.mark.usefixtures("cluster")


def test_broadcast_elements_reach_every_subtask(parallelism):
    class Where(BroadcastProcessFunction):
        def open(self, runtime_context):
            self.subtask = runtime_context.get_index_of_this_subtask()

        def process_element(self, value, ctx):
            return None

        def process_broadcast_element(self, value, ctx):
            yield value, self.subtask

    env = environment(parallelism)
    rules = env.from_collection(["x", "y"]).broadcast(RULES)
    found = collect(env.from_collection([1]).connect(rules).process(Where()))
    assert sorted(found) == sorted((v, n) for v in "xy" for n in range(parallelism))


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_a_keyed_program_with_rules(parallelism, mode):
    """The rule comes an epoch earlier in STREAMING mode; in BATCH mode it comes first anyway."""
    streaming = mode is RuntimeExecutionMode.STREAMING
    env = environment(parallelism, checkpoints=20 if streaming else None, mode=mode)
    elements = [((f"key{n}", n), n) for n in range(9)]
    data = read(env, [[], elements], strategy=MONOTONOUS, name="data").key_by(key_of)
    rules = read(env, [[10], []], strategy=MONOTONOUS, name="rules").broadcast(RULES)
    found = collect(data.connect(rules).process(Scaled()))
    assert sorted(found) == [(f"key{n}", 10 * n, 10) for n in range(9)]


def test_two_broadcast_states_fill_independently(parallelism):
    names, limits = MapStateDescriptor("names"), MapStateDescriptor("limits")

    class Two(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            state = ctx.get_broadcast_state
            yield state(names).get(value), state(limits).get(value)

        def process_broadcast_element(self, value, ctx):
            kind, key, entry = value
            ctx.get_broadcast_state(names if kind == "name" else limits).put(key, entry)

    env = environment(parallelism, mode=RuntimeExecutionMode.BATCH)
    rules = env.from_collection([("name", 1, "one"), ("limit", 1, 9), ("name", 2, "two")])
    joined = env.from_collection([1, 2]).connect(rules.broadcast(names, limits)).process(Two())
    assert sorted(collect(joined), key=str) == [("one", 9), ("two", None)]
