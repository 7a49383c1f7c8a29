"""full_window_partition: everything a subtask has seen when its input ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.datastream import Order
from penstock.datastream.partition_windowed_stream import MapPartition, SortPartition
from penstock.errors import ArgumentError, ArgumentTypeError, UnsupportedOperationError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import FullWindowPartitionSpec
from penstock.runtime.operators.windows import full_window_partition
from penstock.testing import OperatorHarness
from tests.builders.examples import examples
from tests.builders.scripted import environment
from tests.builders.window_functions import CountInWords

MAX = 2**63 - 1


def mapping(function):
    return FullWindowPartitionSpec(function=MapPartition(function))


def test_nothing_comes_before_the_last_watermark():
    harness = OperatorHarness(mapping(lambda values: [sum(values)]))
    harness.process_elements([(1, 5), (2, 6)])
    harness.process_watermark(6)
    assert (harness.output(), harness.watermarks()) == ([], [])
    harness.process_elements([(3, 7)])
    harness.finish()
    assert (harness.output(), harness.watermarks()) == ([(6, None)], [MAX])
    assert harness.state_entries() == {}


def test_an_empty_partition_gives_nothing():
    harness = OperatorHarness(mapping(lambda values: [len(values)]))
    harness.finish()
    assert harness.output() == []


def test_a_partition_that_waits_is_not_idle():
    harness = OperatorHarness(mapping(list))
    harness.process_status(True)
    assert harness.statuses() == []


@pytest.mark.parametrize(
    ("field", "order", "expected"),
    [
        pytest.param(0, Order.ASCENDING, "abc", id="an index"),
        pytest.param(1, Order.DESCENDING, "cab", id="descending"),
        pytest.param(lambda value: -value[1], Order.ASCENDING, "cab", id="a function"),
    ],
)
def test_sorting_keeps_timestamps(field, order, expected):
    harness = OperatorHarness(FullWindowPartitionSpec(function=SortPartition(field, order)))
    harness.process_elements([(("b", 1), 10), (("a", 2), 20), (("c", 3), 30)])
    harness.finish()
    times = {"b": 10, "a": 20, "c": 30}
    assert [(value[0], time) for value, time in harness.output()] == [
        (name, times[name]) for name in expected
    ]


def test_elements_are_kept_in_blocks_and_a_checkpoint_writes_new_ones_only(monkeypatch):
    monkeypatch.setattr(full_window_partition, "_BLOCK", 3)
    harness = OperatorHarness(mapping(list))
    harness.process_elements([(n, None) for n in range(3)])
    harness.process_elements([(n, None) for n in range(3, 5)])
    harness.snapshot()
    harness.process_element(5)
    harness.operator.barrier()
    (delta,) = harness.keyed_state.snapshot().values()
    assert [block[0] for block in delta.written.values()] == [[5]]


SPECS = [
    pytest.param(lambda: mapping(list), list, id="map"),
    pytest.param(lambda: FullWindowPartitionSpec(reduce_function=lambda a, b: a + b), lambda numbers: [sum(numbers)] if numbers else [], id="reduce"),
    pytest.param(lambda: FullWindowPartitionSpec(aggregate_function=CountInWords()), lambda numbers: [f"{len(numbers)} elements"] if numbers else [], id="aggregate"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "model"), SPECS)
@settings(max_examples=examples(40), deadline=None)
@given(numbers=st.lists(st.integers(0, 99), max_size=20), cuts=st.sets(st.integers(0, 20)))
def test_restores_at_any_place_lose_nothing(make, model, numbers, cuts):
    harness = OperatorHarness(make())
    for at, number in enumerate(numbers):
        if at in cuts:
            harness = OperatorHarness(make(), snapshots=[harness.snapshot()])
        harness.process_element(number)
    harness.finish()
    assert harness.values() == model(numbers)


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_partitions_move_as_a_whole_when_the_parallelism_changes(parallelism):
    before = []
    for subtask in range(3):
        harness = OperatorHarness(mapping(list), subtask=subtask, parallelism=3)
        harness.process_elements([(subtask * 10 + n, None) for n in range(3)])
        before.append(harness.snapshot())
    found = []
    for subtask in range(parallelism):
        part = OperatorHarness.restore(mapping(list), before, subtask, parallelism)
        part.process_element(100 + subtask)
        part.finish()
        found += part.values()
    old = [subtask * 10 + n for subtask in range(3) for n in range(3)]
    assert sorted(found) == sorted([*old, *(100 + n for n in range(parallelism))])


def test_an_error_names_the_operator():
    harness = OperatorHarness(mapping(lambda values: 1 // 0), name="the partition")
    harness.process_element(1)
    with pytest.raises(UserCodeError, match="ZeroDivisionError") as caught:
        harness.finish()
    assert "the partition" in caught.value.detail


@pytest.mark.parametrize(
    ("use", "error"),
    [
        pytest.param(lambda s: s.key_by(lambda v: v).full_window_partition(), UnsupportedOperationError, id="a keyed stream"),
        pytest.param(lambda s: s.full_window_partition().map_partition(5), ArgumentTypeError, id="no function"),
        pytest.param(lambda s: s.full_window_partition().sort_partition(-1), ArgumentError, id="a negative index"),
        pytest.param(lambda s: s.full_window_partition().sort_partition(0, "up"), ArgumentTypeError, id="no order"),
        pytest.param(lambda s: s.full_window_partition().aggregate(5), ArgumentTypeError, id="no aggregate"),
        pytest.param(lambda s: s.full_window_partition().reduce(5), ArgumentTypeError, id="no reduce"),
    ],
)  # fmt: skip
def test_wrong_use_is_refused(use, error):
    with pytest.raises(error):
        use(environment().from_collection([1]))
