"""Operators of connected streams, one subtask at a time."""

from __future__ import annotations

import pytest

from penstock.datastream import CoMapFunction, KeyedCoProcessFunction, OutputTag
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import (
    CoFlatMapSpec,
    CoMapSpec,
    CoProcessSpec,
    KeyedCoProcessSpec,
)
from penstock.testing import OperatorHarness
from penstock.time.time_domain import TimeDomain
from tests.builders.two_input_functions import Label, Repeat, SharedSum, Side, key_of

MIN = -(2**63)


def test_co_map_calls_the_method_of_the_input_and_drops_none():
    harness = OperatorHarness(CoMapSpec(Label()))
    harness.process_elements([(1, 10), (2, 20), (3, 30)])
    harness.process_elements([("a", 40)], input_index=1)
    assert harness.output() == [(("first", 1), 10), (("first", 3), 30), (("second", "a"), 40)]


def test_co_map_keeps_zero_and_other_values_that_are_false():
    class Same(CoMapFunction):
        def map1(self, value):
            return value

        map2 = map1

    harness = OperatorHarness(CoMapSpec(Same()))
    harness.process_elements([(0, None), ("", None), (False, None), (None, None), ([], None)])
    assert harness.values() == [0, "", False, []]


def test_co_map_of_keyed_streams_has_keyed_state_that_both_inputs_share():
    class Count(CoMapFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count"))

        def map1(self, value):
            self.count.update((self.count.value() or 0) + 1)
            return value, self.count.value()

        map2 = map1

    harness = OperatorHarness(CoMapSpec(Count()), key_selector=[lambda x: x, lambda x: x])
    harness.process_elements([("a", None), ("b", None)])
    harness.process_elements([("a", None)], input_index=1)
    assert harness.values() == [("a", 1), ("b", 1), ("a", 2)]


def test_co_flat_map_emits_all_results_with_the_timestamp_of_their_element():
    harness = OperatorHarness(CoFlatMapSpec(Repeat()))
    harness.process_elements([(2, 10), (0, 20), (1, 30)])
    harness.process_element("x", input_index=1)
    assert harness.output() == [(2, 10), (2, 10), (1, 30)]


def test_co_process_sees_timestamps_and_the_watermark_of_the_operator():
    harness = OperatorHarness(CoProcessSpec(Side()))
    harness.process_element("a", 5)
    harness.process_watermark(7)
    harness.process_element("b", 9, input_index=1)
    assert harness.values() == [(1, "a", 5, MIN), (2, "b", 9, 7)]


def test_two_keyed_inputs_share_state_and_timers():
    harness = OperatorHarness(KeyedCoProcessSpec(SharedSum()), key_selector=[key_of, key_of])
    harness.process_element(("a", 5), 1)
    harness.process_element(("a", 2), 1, input_index=1)  # the same timer: it fires once
    harness.process_element(("b", 1), 2, input_index=1)
    harness.process_watermark(11)
    assert harness.take() == [(("a", 3, 11), 11)]
    harness.process_watermark(12)
    assert harness.take() == [(("b", -1, 12), 12)]


def test_state_and_timers_of_two_inputs_survive_a_restore_at_another_parallelism():
    keys = [f"key{n}" for n in range(12)]
    first = OperatorHarness(KeyedCoProcessSpec(SharedSum()), key_selector=[key_of, key_of])
    first.process_elements([((key, 5), 1) for key in keys])
    first.process_elements([((key, 2), 1) for key in keys[::2]], input_index=1)
    snapshots = [first.snapshot()]
    found = []
    for subtask in range(3):
        harness = OperatorHarness.restore(
            KeyedCoProcessSpec(SharedSum()), snapshots, subtask, 3, key_selector=[key_of, key_of]
        )
        harness.process_watermark(11)
        assert harness.values()
        found += harness.values()
    assert sorted(found) == sorted((key, 3 if n % 2 == 0 else 5, 11) for n, key in enumerate(keys))


def test_a_timer_of_two_inputs_knows_its_clock():
    class Domains(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            ctx.timer_service().register_event_time_timer(10)

        def process_element2(self, value, ctx):
            ctx.timer_service().register_processing_time_timer(50)

        def on_timer(self, timestamp, ctx):
            yield ctx.time_domain(), timestamp, ctx.get_current_key()

    harness = OperatorHarness(KeyedCoProcessSpec(Domains()), key_selector=[key_of, key_of])
    harness.process_element(("a", 1), 1)
    harness.process_element(("b", 1), 1, input_index=1)
    harness.process_watermark(10)
    harness.set_processing_time(50)
    assert harness.output() == [
        ((TimeDomain.EVENT_TIME, 10, "a"), 10),
        ((TimeDomain.PROCESSING_TIME, 50, "b"), None),
    ]


def test_side_outputs_work_from_both_inputs():
    tag = OutputTag("odd")

    class Sort(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            yield (tag, value) if value % 2 else value

        def process_element2(self, value, ctx):
            return [(tag, -value)]

    harness = OperatorHarness(KeyedCoProcessSpec(Sort()), key_selector=[abs, abs])
    harness.process_elements([(1, None), (2, None)])
    harness.process_element(4, input_index=1)
    assert harness.values() == [2]
    assert [value for value, _ in harness.side_output(tag)] == [1, -4]


@pytest.mark.parametrize(
    ("spec", "value", "side"),
    [
        pytest.param(CoMapSpec(Label()), "text", 0, id="map"),
        pytest.param(CoFlatMapSpec(Repeat()), None, 0, id="flat_map"),
        pytest.param(KeyedCoProcessSpec(SharedSum()), ("k", "text"), 1, id="process"),
    ],
)
def test_user_exception_names_operator_and_record(spec, value, side):
    harness = OperatorHarness(spec, name="join", key_selector=[id, id])
    with pytest.raises(UserCodeError, match="TypeError") as caught:
        harness.process_element(value, input_index=side)
    assert "operator 'join'" in caught.value.detail
    assert repr(value) in caught.value.detail
