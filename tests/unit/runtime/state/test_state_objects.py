"""State as user functions see it."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidProgramError
from penstock.runtime.operators.runtime_context import StreamingRuntimeContext
from penstock.runtime.state.hashmap.backend import HashMapKeyedStateBackend
from penstock.runtime.state.operator_state import OperatorStateBackend
from penstock.state_descriptors.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)


class Average:
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, first, second):
        return first[0] + second[0], first[1] + second[1]


DESCRIPTORS = {
    "value": ValueStateDescriptor("s", None),
    "list": ListStateDescriptor("s", None),
    "map": MapStateDescriptor("s", None, None),
    "reducing": ReducingStateDescriptor("s", lambda a, b: a + b, None),
    "aggregating": AggregatingStateDescriptor("s", Average(), None),
}


def state_of(kind):
    backend = HashMapKeyedStateBackend(lambda: 0)
    backend.current_key = "a"
    return backend.get_state(DESCRIPTORS[kind]), backend


def write(state, kind):
    {
        "value": lambda: state.update(5),
        "list": lambda: state.add(5),
        "map": lambda: state.put("x", 5),
        "reducing": lambda: state.add(5),
        "aggregating": lambda: state.add(5),
    }[kind]()


def read(state, kind):
    return {
        "value": lambda: state.value(),
        "list": lambda: list(state.get()),
        "map": lambda: dict(state.items()),
        "reducing": lambda: state.get(),
        "aggregating": lambda: state.get(),
    }[kind]()


EMPTY = {"value": None, "list": [], "map": {}, "reducing": None, "aggregating": None}
WRITTEN = {"value": 5, "list": [5], "map": {"x": 5}, "reducing": 5, "aggregating": 5.0}
kinds = pytest.mark.parametrize("kind", list(DESCRIPTORS))


@kinds
def test_state_is_empty_before_it_is_written_and_after_clear(kind):
    state, _ = state_of(kind)
    assert read(state, kind) == EMPTY[kind]
    write(state, kind)
    assert read(state, kind) == WRITTEN[kind]
    state.clear()
    assert read(state, kind) == EMPTY[kind]


@kinds
def test_each_key_has_state_of_its_own(kind):
    state, backend = state_of(kind)
    write(state, kind)
    backend.current_key = "b"
    assert read(state, kind) == EMPTY[kind]
    backend.current_key = "a"
    assert read(state, kind) == WRITTEN[kind]


@kinds
def test_each_window_has_state_of_its_own(kind):
    backend = HashMapKeyedStateBackend(lambda: 0)
    backend.current_key, backend.current_namespace = "a", "w1"
    state = backend.get_state(DESCRIPTORS[kind], namespaced=True)
    write(state, kind)
    backend.current_namespace = "w2"
    assert read(state, kind) == EMPTY[kind]


@kinds
def test_state_survives_a_snapshot(kind):
    state, backend = state_of(kind)
    write(state, kind)
    deltas = pickle.loads(pickle.dumps(backend.snapshot()))
    other = HashMapKeyedStateBackend(lambda: 0)
    other.apply(deltas)
    other.current_key = "a"
    assert read(other.get_state(DESCRIPTORS[kind]), kind) == WRITTEN[kind]


def test_updating_a_value_to_none_removes_it():
    state, _ = state_of("value")
    state.update(0)
    assert state.value() == 0
    state.update(None)
    assert len(state.table) == 0


def test_lists_append_replace_and_can_be_walked_while_they_change():
    state, _ = state_of("list")
    state.add_all([1, 2])
    state.add_all([])
    for element in state:
        state.add(element * 10)
    assert list(state.get()) == [1, 2, 10, 20]
    state.update(iter([7]))
    assert list(state) == [7]
    state.update([])
    assert len(state.table) == 0


def test_reducing_and_aggregating_states_fold():
    reducing, _ = state_of("reducing")
    aggregating, _ = state_of("aggregating")
    for number in (1, 2, 6):
        reducing.add(number)
        aggregating.add(number)
    assert reducing.get() == 9
    assert aggregating.get() == 3.0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "put_all", "remove", "clear", "setitem", "delitem"]),
            st.integers(0, 4),
            st.integers(),
        ),
        max_size=30,
    )
)
def test_a_map_state_equals_a_dictionary(steps):
    state, _ = state_of("map")
    model = {}
    for action, key, value in steps:
        if action == "put":
            state.put(key, value)
            model[key] = value
        elif action == "put_all":
            state.put_all({key: value, key + 1: value})
            model.update({key: value, key + 1: value})
        elif action == "setitem":
            state[key] = value
            model[key] = value
        elif action == "clear":
            state.clear()
            model.clear()
        elif action == "remove":
            state.remove(key)
            model.pop(key, None)
        else:
            del state[key]
            model.pop(key, None)
        assert dict(state.items()) == model
        assert list(state.keys()) == list(state) == list(model)
        assert list(state.values()) == list(model.values())
        assert state.is_empty() == (not model)
        assert state.get(key) == state[key] == model.get(key)
        assert state.contains(key) == (key in state) == (key in model)
        assert len(state.table) == (1 if model else 0)


def context_of(keyed_state=None):
    return StreamingRuntimeContext(
        task_name="count",
        subtask=1,
        parallelism=4,
        max_parallelism=128,
        attempt_number=2,
        keyed_state=keyed_state,
        operator_state=OperatorStateBackend({"n": 1}),
        job_parameters={"colour": "red"},
    )


def test_runtime_context_describes_the_subtask():
    context = context_of()
    assert context.get_task_name() == "count"
    assert context.get_task_name_with_subtasks() == "count (2/4)"
    assert context.get_index_of_this_subtask() == 1
    assert context.get_number_of_parallel_subtasks() == 4
    assert context.get_max_number_of_parallel_subtasks() == 128
    assert context.get_attempt_number() == 2
    assert context.get_job_parameter("colour", "blue") == "red"
    assert context.get_job_parameter("size", "large") == "large"
    assert context.get_operator_state_store().get("n") == 1


ACCESSORS = {
    "value": "get_state",
    "list": "get_list_state",
    "map": "get_map_state",
    "reducing": "get_reducing_state",
    "aggregating": "get_aggregating_state",
}


@kinds
def test_each_kind_of_state_has_its_accessor(kind):
    backend = HashMapKeyedStateBackend(lambda: 0)
    state = getattr(context_of(backend), ACCESSORS[kind])(DESCRIPTORS[kind])
    assert state.kind == kind


@kinds
def test_state_needs_a_keyed_stream(kind):
    with pytest.raises(InvalidProgramError, match="needs a keyed stream") as caught:
        getattr(context_of(), ACCESSORS[kind])(DESCRIPTORS[kind])
    assert "count" in caught.value.detail
    assert "key_by" in caught.value.hint


def test_an_accessor_refuses_the_descriptor_of_another_kind():
    with pytest.raises(InvalidProgramError, match="a list state needs a list state descriptor"):
        context_of(HashMapKeyedStateBackend(lambda: 0)).get_list_state(DESCRIPTORS["value"])


def test_operator_state_returns_stored_values():
    state = OperatorStateBackend({"a": 1})
    state.put("b", 2)
    assert (state.get("a"), state.get("b"), state.get("c", 3)) == (1, 2, 3)
    assert state.snapshot() == {"a": 1, "b": 2}
