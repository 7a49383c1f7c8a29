"""Broadcast streams: state that is the same in every subtask."""

from __future__ import annotations

import pytest

from penstock.datastream import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    OutputTag,
)
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor
from penstock.errors import InvalidProgramError, UnsupportedOperationError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import BroadcastProcessSpec, KeyedBroadcastProcessSpec
from penstock.runtime.state.broadcast import HeapBroadcastState, ReadOnlyHeapBroadcastState
from penstock.testing import OperatorHarness
from tests.builders.two_input_functions import RULES, SUM, Price, Scaled, key_of


def prices():
    return BroadcastProcessSpec(Price(), (RULES,))


def scaled():
    return KeyedBroadcastProcessSpec(Scaled(), (RULES,))


def keyed(spec, **options):
    return OperatorHarness(spec, key_selector=key_of, **options)


def broadcast(harness, *values):
    for value in values:
        harness.process_element(value, input_index=1, key=None)


# The state object


def test_broadcast_state_is_a_dictionary():
    state = HeapBroadcastState({})
    assert state.is_empty()
    state.put("a", 1)
    state["b"] = 2
    state.put_all({"c": 3, "a": 0})
    assert (state.get("a"), state["b"], state.get("x")) == (0, 2, None)
    assert "c" in state
    assert not state.contains("x")
    assert state.items() == [("a", 0), ("b", 2), ("c", 3)]
    assert (list(state), state.keys(), state.values()) == (
        ["a", "b", "c"],
        ["a", "b", "c"],
        [0, 2, 3],
    )
    state.remove("a")
    state.remove("a")
    del state["b"]
    assert state.keys() == ["c"]
    state.clear()
    assert state.is_empty()


WRITES = [
    pytest.param(lambda state: state.put("a", 1), id="put"),
    pytest.param(lambda state: state.put_all({"a": 1}), id="put_all"),
    pytest.param(lambda state: state.remove("a"), id="remove"),
    pytest.param(lambda state: state.clear(), id="clear"),
    pytest.param(lambda state: state.__setitem__("a", 1), id="item"),
    pytest.param(lambda state: state.__delitem__("a"), id="del"),
]


@pytest.mark.parametrize("write", WRITES)
def test_the_other_side_sees_all_entries_and_can_write_none(write):
    entries = {"a": 0}
    state = ReadOnlyHeapBroadcastState(entries)
    assert (state["a"], state.contains("a"), state.items()) == (0, True, [("a", 0)])
    with pytest.raises(UnsupportedOperationError, match="read-only") as caught:
        write(state)
    assert "process_broadcast_element" in caught.value.hint
    assert entries == {"a": 0}


# One subtask


def test_broadcast_state_is_visible_to_the_other_side():
    harness = OperatorHarness(prices())
    harness.process_element("tea", 1)
    broadcast(harness, ("tea", 3), ("cake", 5))
    harness.process_elements([("tea", 2), ("cake", 3)])
    broadcast(harness, ("tea", None))
    harness.process_element("tea", 4)
    assert harness.output() == [
        (("tea", None), 1),
        (("tea", 3), 2),
        (("cake", 5), 3),
        (("tea", None), 4),
    ]


def test_both_sides_know_timestamp_clock_and_watermark():
    class Times(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.timestamp(), ctx.current_processing_time(), ctx.current_watermark()

        process_broadcast_element = process_element

    harness = OperatorHarness(BroadcastProcessSpec(Times(), (RULES,)))
    harness.process_watermark(7)
    harness.set_processing_time(100)
    harness.process_element("a", 8)
    harness.process_element("b", 9, input_index=1)
    assert harness.output() == [((8, 100, 7), 8), ((9, 100, 7), 9)]


def test_the_keyed_side_cannot_write_broadcast_state():
    class Writes(Price):
        def process_element(self, value, ctx):
            ctx.get_broadcast_state(RULES).put(value, 1)

    harness = OperatorHarness(BroadcastProcessSpec(Writes(), (RULES,)))
    with pytest.raises(UserCodeError, match="read-only"):
        harness.process_element("tea")


def test_a_state_that_was_not_declared_is_refused_with_the_declared_ones():
    class Typo(Price):
        def process_element(self, value, ctx):
            ctx.get_broadcast_state(MapStateDescriptor("ruels"))

    harness = OperatorHarness(BroadcastProcessSpec(Typo(), (RULES,)))
    with pytest.raises(UserCodeError) as caught:
        harness.process_element("tea")
    assert isinstance(caught.value.__cause__, InvalidProgramError)
    assert "unknown broadcast state 'ruels'" in str(caught.value.__cause__)
    assert "'rules'" in caught.value.__cause__.detail


def test_the_keyed_side_has_state_and_timers_that_read_broadcast_state():
    harness = keyed(scaled())
    harness.process_element(("a", 2), 1)
    broadcast(harness, 10)
    harness.process_elements([(("a", 3), 2), (("b", 4), 2)])
    harness.process_watermark(11)
    assert harness.take() == [(("a", 32, 10), 11)]
    harness.process_watermark(12)
    assert harness.take() == [(("a", 32, 10), 12), (("b", 40, 10), 12)]


def test_the_broadcast_side_reaches_the_state_of_every_key():
    harness = keyed(scaled())
    harness.process_elements([(("a", 2), None), (("b", 3), None), (("c", 4), None)])
    broadcast(harness, "show", "reset", "show")
    harness.process_element(("b", 1))
    broadcast(harness, "show")
    assert harness.values() == [
        [("a", 2), ("b", 3), ("c", 4)],
        [("a", 0), ("b", 0), ("c", 0)],
        [("a", 0), ("b", 1), ("c", 0)],
    ]


def test_a_function_object_may_visit_and_clear_the_keys():
    class Drop:
        def process(self, key, state):
            if state.value() > 2:
                state.clear()

    class Sweeping(Scaled):
        def process_broadcast_element(self, value, ctx):
            ctx.apply_to_keyed_state(SUM, Drop())

    harness = keyed(KeyedBroadcastProcessSpec(Sweeping(), (RULES,)))
    harness.process_elements([((f"k{n}", n), None) for n in range(5)])
    broadcast(harness, "go")
    assert harness.state_entries() == {"state/sum": 3}


@pytest.mark.parametrize(
    "reach",
    [
        pytest.param(lambda function, service: function.sum.value(), id="read state"),
        pytest.param(lambda function, service: function.sum.update(1), id="write state"),
        pytest.param(lambda function, service: service.register_event_time_timer(1), id="timer"),
    ],
)
def test_broadcast_side_cannot_access_keyed_state_and_timers(reach):
    class Confused(Scaled):
        def process_element(self, value, ctx):
            self.service = ctx.timer_service()
            return super().process_element(value, ctx)

        def process_broadcast_element(self, value, ctx):
            reach(self, self.service)

    harness = keyed(KeyedBroadcastProcessSpec(Confused(), (RULES,)))
    harness.process_element(("a", 1))
    with pytest.raises(UserCodeError, match="they have no key") as caught:
        broadcast(harness, "x")
    assert "apply_to_keyed_state" in caught.value.__cause__.hint


def test_both_sides_have_side_outputs():
    tag = OutputTag("notes")

    class Notes(KeyedBroadcastProcessFunction):
        def process_element(self, value, ctx):
            yield tag, ctx.get_current_key()

        def process_broadcast_element(self, value, ctx):
            yield tag, value

    harness = keyed(KeyedBroadcastProcessSpec(Notes(), (RULES,)))
    harness.process_element(("a", 1))
    broadcast(harness, "rule")
    assert [value for value, _ in harness.side_output(tag)] == ["a", "rule"]


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (3, 2), (3, 1), (2, 2)])
def test_broadcast_state_survives_a_restore_at_any_parallelism(before, after):
    snapshots = []
    for subtask in range(before):
        harness = OperatorHarness(prices(), subtask=subtask, parallelism=before)
        broadcast(harness, ("tea", 3))
        snapshots.append(harness.snapshot())
    for subtask in range(after):
        harness = OperatorHarness.restore(prices(), snapshots, subtask, after)
        harness.process_element("tea")
        assert harness.values() == [("tea", 3)]
        broadcast(harness, ("tea", 4))
        harness.process_element("tea")
        assert harness.values()[-1] == ("tea", 4)


def test_state_in_a_snapshot_does_not_change_afterwards():
    harness = OperatorHarness(prices())
    broadcast(harness, ("tea", 3))
    snapshot = harness.snapshot()
    broadcast(harness, ("tea", 4))
    restored = OperatorHarness.restore(prices(), [snapshot])
    restored.process_element("tea")
    assert restored.values() == [("tea", 3)]


def test_in_batch_mode_the_broadcast_side_comes_first():
    harness = OperatorHarness(prices(), batch_mode=True)
    harness.process_element("tea", 1)
    broadcast(harness, ("tea", 3))
    assert harness.output() == []
    harness.finish()
    assert harness.output() == [(("tea", 3), 1)]


def test_broadcast_state_takes_a_map_descriptor_without_time_to_live():
    harness = OperatorHarness(prices())
    store = harness.context.operator_state
    with pytest.raises(InvalidProgramError, match="map state descriptor"):
        store.get_broadcast_state(ListStateDescriptor("other"))


# Whole programs
