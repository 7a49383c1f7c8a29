"""The operator harness itself."""

from __future__ import annotations

import pickle

import pytest

from penstock.errors import ArgumentError
from penstock.graph.operator_specs import MapSpec, WindowSpec
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.records import RowBatch
from penstock.testing import ManualClock, OperatorHarness
from penstock.windowing import TumblingEventTimeWindows
from tests.builders.window_functions import Sum, by_field_0

SPEC = WindowSpec(TumblingEventTimeWindows(5, 0), None, reduce_function=Sum(), late_tag="late")


def test_it_makes_the_operator_of_a_spec():
    harness = OperatorHarness(MapSpec(lambda n: n * 2))
    harness.process_batch(RowBatch([1, 2]))
    harness.process_element(3, 7)
    assert harness.values() == [2, 4, 6]
    assert harness.output()[-1] == (6, 7)


def test_keys_come_from_the_selector_or_with_the_record():
    harness = OperatorHarness(SPEC, key_selector=by_field_0)
    harness.process_element(("a", 1), 0)
    harness.process_element(("x", 1), 0, key="a")
    harness.process_watermark(4)
    assert harness.values() == [("a", 2)]


def test_each_input_may_have_its_own_key_selector():
    class Keys(StreamOperator):
        def process(self, batch, input_index=0):
            self.output.emit(RowBatch([(input_index, key) for key in batch.keys]))

    harness = OperatorHarness(Keys(None), key_selector=[by_field_0, lambda value: value[1]])
    harness.process_element(("a", "b"))
    harness.process_element(("a", "b"), input_index=1)
    assert harness.values() == [(0, "a"), (1, "b")]


def test_take_and_clear_forget_the_output():
    harness = OperatorHarness(SPEC, key_selector=by_field_0)
    harness.process_element(("a", 1), 0)
    harness.process_watermark(4)
    harness.process_element(("a", 1), 0)
    assert harness.side_output("late") == [(("a", 1), 0)]
    assert harness.take() == [(("a", 1), 4)]
    assert (harness.output(), harness.side_output("late"), harness.watermarks()) == ([], [], [])


def test_time_does_not_go_back():
    harness = OperatorHarness(SPEC)
    harness.process_watermark(5)
    with pytest.raises(ArgumentError, match="cannot go back"):
        harness.process_watermark(4)
    clock = ManualClock(3)
    with pytest.raises(ArgumentError, match="cannot go back"):
        clock.set(2)


def test_a_snapshot_pickles_and_holds_the_watermark():
    harness = OperatorHarness(SPEC, key_selector=by_field_0)
    harness.process_elements([(("a", 1), 6), (("b", 1), 6)])
    harness.process_watermark(4)
    snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
    harness = OperatorHarness.restore(SPEC, [snapshot], key_selector=by_field_0)
    harness.process_element(("a", 1), 1)
    assert harness.side_output("late") == [(("a", 1), 1)]
    harness.process_watermark(9)
    assert harness.values() == [("a", 1), ("b", 1)]


def test_a_snapshot_does_not_see_what_comes_after_it():
    harness = OperatorHarness(SPEC, key_selector=by_field_0)
    harness.process_element(("a", 1), 0)
    snapshot = harness.snapshot()
    harness.process_element(("a", 10), 0)
    other = OperatorHarness.restore(SPEC, [snapshot])
    other.process_watermark(4)
    assert other.values() == [("a", 1)]


def test_snapshots_of_several_subtasks_are_shared_out_by_key():
    harness = OperatorHarness(SPEC, key_selector=by_field_0)
    harness.process_elements([((key, 1), 0) for key in range(20)])
    snapshot = harness.snapshot()
    seen = []
    for subtask in range(3):
        part = OperatorHarness.restore(SPEC, [snapshot], subtask, 3)
        part.process_watermark(4)
        assert 0 < len(part.values()) < 20
        seen += part.values()
    assert sorted(seen) == [(key, 1) for key in range(20)]


def test_operator_state_is_part_of_a_snapshot():
    class Counting(StreamOperator):
        def process(self, batch, input_index=0):
            state = self.context.operator_state
            state.put("n", state.get("n", 0) + len(batch))

    harness = OperatorHarness(Counting(None))
    harness.process_batch(RowBatch([1, 2]))
    restored = OperatorHarness.restore(Counting(None), [harness.snapshot()])
    restored.process_element(3)
    assert restored.context.operator_state.get("n") == 3
