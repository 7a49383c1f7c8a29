"""full_window_partition in whole programs."""

from __future__ import annotations

import pytest

from penstock.common import Types
from penstock.datastream import MapPartitionFunction, Order
from penstock.testing import MiniCluster
from penstock.testing.faults import StepFault, protocol_faults
from tests.builders.scripted import MONOTONOUS, collect, environment, read
from tests.builders.window_functions import CountInWords


class Sizes(MapPartitionFunction):
    def map_partition(self, values):
        yield len(list(values))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_programs_evaluate_each_partition_once(parallelism):
    numbers = list(range(30))
    with MiniCluster():
        env = environment(parallelism)
        stream = env.from_collection(numbers).rebalance().map(lambda n: n)
        assert sum(collect(stream.full_window_partition().map_partition(Sizes()))) == 30
        env = environment(parallelism)
        stream = env.from_collection(numbers).rebalance().map(lambda n: n)
        sums = collect(stream.full_window_partition().reduce(lambda a, b: a + b))
        assert (len(sums), sum(sums)) == (parallelism, sum(numbers))
        env = environment(parallelism)
        stream = env.from_collection(numbers).rebalance().map(lambda n: n)
        counts = collect(stream.full_window_partition().aggregate(CountInWords()))
        assert counts == [f"{30 // parallelism} elements"] * parallelism


def test_a_program_over_many_epochs_with_a_crash():
    fault = StepFault("before write_manifest", 2)
    batches = [[(n, n) for n in range(at, at + 3)] for at in (3, 0, 6)]
    with MiniCluster(), protocol_faults(fault) as faults:
        env = environment(1, checkpoints=10)
        stream = read(env, batches, strategy=MONOTONOUS)
        found = collect(stream.full_window_partition().sort_partition(0, Order.DESCENDING))
    assert found == list(range(8, -1, -1))
    assert faults.struck == [fault]


def test_a_declared_type_makes_rows():
    kind = Types.ROW_NAMED(["n"], [Types.INT()])
    with MiniCluster():
        stream = environment().from_collection([1, 2])
        rows = stream.full_window_partition().map_partition(lambda values: [(len(values),)], kind)
        assert [row.n for row in collect(rows)] == [2]
