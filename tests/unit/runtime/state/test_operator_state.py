"""Operator state: lists that are split or united, and how state is redistributed when the parallelism changes."""

from __future__ import annotations

import pickle

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Time
from penstock.datastream import CheckpointedFunction, MapFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.window import EventTimeTrigger, TumblingEventTimeWindows
from penstock.datastream.window_functions import ProcessAdapter, ProcessWindowFunction
from penstock.errors import InvalidProgramError
from penstock.graph.deployment import SubtaskRestore
from penstock.graph.operator_specs import MapSpec, WindowSpec
from penstock.runtime.state.operator_state import OperatorStateBackend
from penstock.runtime.state.redistribution import redistribute, restore_local, split_evenly
from penstock.state_descriptors.ttl import StateTtlConfig
from penstock.testing import OperatorHarness

MIN = -(2**63)


class Buffer(MapFunction, CheckpointedFunction):
    """Keeps what it has seen, in list state or union list state."""

    def __init__(self, method="get_list_state"):
        self.method = method

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.state = getattr(store, self.method)(ListStateDescriptor("seen"))
        self.seen = list(self.state.get())
        self.restored = context.is_restored()
        self.calls = ["initialize"]

    def open(self, runtime_context):
        self.calls.append("open")

    def snapshot_state(self, context):
        self.state.update(self.seen)
        self.calls.append(("snapshot", context.get_checkpoint_id()))

    def map(self, value):
        self.seen.append(value)
        return value


def run(method, values, subtask=0, parallelism=1, snapshots=()):
    function = Buffer(method)
    harness = OperatorHarness(
        MapSpec(function), subtask=subtask, parallelism=parallelism, snapshots=snapshots
    )
    harness.process_elements([(value, None) for value in values])
    return function, harness.snapshot()


# The state objects


def test_list_state_of_an_operator():
    backend = OperatorStateBackend()
    state = backend.get_list_state(ListStateDescriptor("seen"))
    assert list(state) == []
    state.add(1)
    state.add_all([2, 3])
    assert list(state.get()) == [1, 2, 3]
    assert list(backend.get_list_state(ListStateDescriptor("seen"))) == [1, 2, 3]
    state.update([state.get().__next__(), 9])
    assert list(state) == [1, 9]
    state.add_all(state)
    assert list(state) == [1, 9, 1, 9]
    state.clear()
    assert list(state) == []


REFUSED = [
    pytest.param(
        lambda b: b.get_list_state(ValueStateDescriptor("v")), "list state desc", id="kind"
    ),
    pytest.param(lambda b: b.get_broadcast_state(ListStateDescriptor("v")), "map state", id="map"),
    pytest.param(
        lambda b: b.get_union_list_state(ListStateDescriptor("seen")),
        "was registered as list state and is now accessed as union list state",
        id="two kinds of one name",
    ),
    pytest.param(
        lambda b: b.get_broadcast_state(MapStateDescriptor("seen")),
        "was registered as list state and is now accessed as broadcast state",
        id="list and broadcast",
    ),
]


@pytest.mark.parametrize(("ask", "message"), REFUSED)
def test_state_that_does_not_fit_its_descriptor_is_refused(ask, message):
    backend = OperatorStateBackend({"list/seen": [1]})
    with pytest.raises(InvalidProgramError, match=message):
        ask(backend)


def test_operator_state_does_not_expire():
    descriptor = ListStateDescriptor("seen")
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(InvalidProgramError, match="has a TTL"):
        OperatorStateBackend().get_list_state(descriptor)


# CheckpointedFunction


def test_state_is_initialized_before_open_and_written_at_every_checkpoint():
    function = Buffer()
    harness = OperatorHarness(MapSpec(function))
    assert not function.restored
    harness.snapshot()
    harness.snapshot()
    assert function.calls == ["initialize", "open", ("snapshot", 1), ("snapshot", 2)]


def test_list_state_survives_a_restore():
    _, snapshot = run("get_list_state", "ab")
    function, _ = run("get_list_state", "c", snapshots=[snapshot])
    assert function.restored
    assert function.seen == ["a", "b", "c"]


def test_without_anything_in_it_state_is_restored_nevertheless():
    _, snapshot = run("get_list_state", "")
    assert run("get_list_state", "", snapshots=[snapshot])[0].restored


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("get_list_state", [["a", "b"], ["c"], ["d", "e"]]),
        ("get_union_list_state", [list("abcde")] * 3),
    ],
)
def test_with_the_same_parallelism_lists_stay_and_unions_go_to_all(method, expected):
    snapshots = [run(method, values, n, 3)[1] for n, values in enumerate(["ab", "c", "de"])]
    assert [run(method, "", n, 3, snapshots)[0].seen for n in range(3)] == expected


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("get_list_state", [["a", "b", "c"], ["d", "e"]]),
        ("get_union_list_state", [list("abcde")] * 2),
    ],
)
def test_with_another_parallelism_lists_are_split_and_unions_go_to_all(method, expected):
    snapshots = [run(method, values, n, 3)[1] for n, values in enumerate(["ab", "c", "de"])]
    assert [run(method, "", n, 2, snapshots)[0].seen for n in range(2)] == expected


def test_exception_in_snapshot_state_is_a_user_error():
    class Bad(Buffer):
        def snapshot_state(self, context):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        OperatorHarness(MapSpec(Bad())).snapshot()


def test_a_window_function_may_keep_operator_state():
    class Panes(ProcessWindowFunction, CheckpointedFunction):
        def initialize_state(self, context):
            store = context.get_operator_state_store()
            self.state = store.get_list_state(ListStateDescriptor("panes"))
            self.panes = sum(self.state.get())

        def snapshot_state(self, context):
            self.state.update([self.panes])

        def process(self, key, context, elements):
            self.panes += 1
            yield self.panes

    spec = WindowSpec(
        TumblingEventTimeWindows.of(Time.milliseconds(10)),
        EventTimeTrigger(),
        window_function=ProcessAdapter(Panes()),
    )
    first = OperatorHarness(spec, key_selector=lambda value: 0)
    first.process_elements([("a", 1), ("b", 11)])
    first.process_watermark(9)
    again = OperatorHarness.restore(cloudpickle.loads(cloudpickle.dumps(spec)), [first.snapshot()])
    again.process_watermark(19)
    assert first.values() + again.values() == [1, 2]


# Dealing out


@given(st.lists(st.integers()), st.integers(1, 9))
def test_a_list_is_split_evenly_and_in_order(elements, parallelism):
    parts = [split_evenly(elements, parallelism, subtask) for subtask in range(parallelism)]
    assert [element for part in parts for element in part] == elements
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


SUBTASKS = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {},
        optional={
            "list/a": st.lists(st.integers()),
            "list/b": st.lists(st.integers()),
            "union/c": st.lists(st.integers()),
            "emitted": st.integers(),
            "watermark": st.integers(),
            "idle": st.booleans(),
        },
    ),
    min_size=1,
    max_size=5,
)


@given(SUBTASKS, st.integers(1, 6))
def test_nothing_is_lost_and_nothing_comes_twice(former, parallelism):
    now = [redistribute(former, parallelism, subtask) for subtask in range(parallelism)]

    def everything(states, name):
        return [element for state in states if state for element in state.get(name, ())]

    for name in ("list/a", "list/b"):
        assert everything(now, name) == everything(former, name)
    for state in now:
        if any(each and "union/c" in each for each in former):
            assert state["union/c"] == everything(former, "union/c")


@given(SUBTASKS, st.integers(1, 6))
def test_no_subtask_is_later_than_the_slowest_one_was(former, parallelism):
    """Of the watermarks that were sent, those of idle subtasks count only if all are idle: they held back no other."""
    if len(former) == parallelism:
        return
    states = [state for state in former if state]
    waited = [each["watermark"] for each in states if "watermark" in each]
    said = [each for each in states if "emitted" in each]
    active = [each["emitted"] for each in said if not each.get("idle", False)]
    for subtask in range(parallelism):
        state = redistribute(former, parallelism, subtask) or {}
        assert state.get("watermark") == min(waited, default=None)
        if active:
            assert state["emitted"] == min(active)
        else:
            assert state.get("emitted") == max((each["emitted"] for each in said), default=None)
        assert "idle" not in state


@given(st.dictionaries(st.text(), st.integers(), min_size=1), st.integers(1, 5), st.integers(1, 6))
def test_every_subtask_has_the_broadcast_state(entries, before, parallelism):
    former = [{"broadcast/rules": dict(entries)} for _ in range(before)]
    for subtask in range(parallelism):
        state = redistribute(former, parallelism, subtask)
        assert state == {"broadcast/rules": entries}


def test_an_operator_without_state_has_none_afterwards():
    assert redistribute([None, None], 3, 1) is None


def test_scaling_there_and_back_keeps_all_elements():
    states = [{"list/a": [1, 2, 3]}, {"list/a": [4]}]
    for parallelism in (5, 3, 1):
        states = [redistribute(states, parallelism, subtask) for subtask in range(parallelism)]
    assert states == [{"list/a": [1, 2, 3, 4]}]


# The state of a subtask


def local(watermark, floor=MIN, *, finished=False, **operators):
    return {
        "valve": (watermark, False, [(watermark, False, True)]),
        "floor": floor,
        "finished": finished,
        "operators": operators,
    }


def restored(subtask, parallelism, operators, own=None, just_restored=False, **former):
    pickles = {name: tuple(map(pickle.dumps, locals_)) for name, locals_ in former.items()}
    restore = SubtaskRestore(
        local=None if own is None else pickle.dumps(own),
        former=pickles,
        just_restored=just_restored,
    )
    return restore_local(restore, operators, subtask, parallelism)


def test_a_fresh_subtask_has_nothing():
    assert restored(0, 1, ["head"]) == {}


def test_an_unchanged_subtask_gets_its_own_snapshot_back():
    states = [local(5, head={"list/a": [n]}) for n in range(2)]
    assert restored(1, 2, ["head"], own=states[1], head=states) == states[1]


def test_restored_valve_restarts_but_the_watermark_does_not():
    states = [local(5, head={"list/a": [1]})]
    found = restored(0, 1, ["head"], own=states[0], just_restored=True, head=states)
    assert "valve" not in found
    assert found["floor"] == 5


@pytest.mark.parametrize(
    ("former", "floor", "finished"),
    [
        ([local(5), local(7)], 5, False),
        ([local(MIN, floor=4), local(7)], 4, False),
        ([local(5, finished=True), local(7, finished=True)], 5, True),
        ([local(5, finished=True), local(7)], 5, False),
    ],
)
def test_a_rescaled_subtask_starts_at_the_lowest_time(former, floor, finished):
    found = restored(2, 3, ["head"], just_restored=True, head=former)
    assert found == {"floor": floor, "finished": finished, "operators": {}}


def test_an_operator_finds_its_state_in_the_chain_that_it_was_in():
    former = [local(5, source={"emitted": 5}, map={"list/a": [n]}) for n in range(4)]
    found = restored(1, 2, ["map", "sink"], just_restored=True, source=former)
    assert found["operators"] == {"map": {"list/a": [2, 3]}}
    assert (found["floor"], found["finished"]) == (MIN, False)


def test_union_list_state_is_united_also_if_nothing_changed():
    states = [local(5, head={"union/a": [n], "list/b": [n]}) for n in range(2)]
    found = restored(1, 2, ["head"], own=states[1], head=states)
    assert found["operators"] == {"head": {"union/a": [0, 1], "list/b": [1]}}
    assert found["valve"] == states[1]["valve"]
