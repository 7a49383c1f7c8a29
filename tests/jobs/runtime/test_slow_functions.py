"""A slow function has little work under way, also behind fast ones: so barriers do not wait long."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.connectors.source import ReadLimits, SourceBatch, SourceReader, SourceSplit
from penstock.testing.mini_cluster import MiniCluster
from tests.builders.counting_job import Counting, environment
from tests.builders.waiting import wait_until

BATCH = 1024


class Counted(Counting):
    """Numbers without an end; counts those that were read."""

    read = 0

    def create_reader(self) -> SourceReader:
        return _CountedReader()


class _CountedReader(SourceReader):
    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        size = min(limits.batch_size, BATCH)
        numbers = list(range(position, position + size))
        Counted.read += size
        yield SourceBatch(numbers, position + size, numbers)


class Stuck:
    """A function that takes five records, and then waits until it is let go on."""

    taken = 0
    free = threading.Event()

    @staticmethod
    def take(number: int) -> int:
        if Stuck.taken == 5:
            Stuck.free.wait()
        Stuck.taken += 1
        return number


@pytest.fixture(autouse=True)
def _begin() -> Iterator[None]:
    Counted.read = Stuck.taken = 0
    Stuck.free.clear()
    yield
    Stuck.free.set()


@pytest.mark.parametrize("steps", [0, 2], ids=["behind the source", "behind fast functions"])
def test_little_is_read_while_a_function_is_stuck(steps: int) -> None:
    env = environment(1)
    strategy = WatermarkStrategy.no_watermarks()
    stream = env.from_source(Counted(), strategy, "numbers")
    # Each in a slot of its own: those before it can go on while the last one is stuck.
    for step in range(steps):
        stream = stream.rebalance().map(lambda number: number, Types.LONG())
        stream = stream.slot_sharing_group(f"step {step}")
    stuck = stream.rebalance().map(Stuck.take, Types.LONG()).slot_sharing_group("stuck")
    stuck.filter(lambda number: False).print()
    with MiniCluster(mode="pipelined") as cluster:
        client = env.execute_async("stuck")
        wait_until(lambda: Stuck.taken == 5, "five records")
        wait_until(lambda: _is_back_pressured(cluster), "a source that waits")
        assert Counted.read <= 500
        Stuck.free.set()
        client.cancel().result(60)


def _is_back_pressured(cluster: MiniCluster) -> bool:
    """Whether the source has had no room for all of the last second."""
    (master,) = cluster.masters
    source = master.job.plan.vertices[0].id
    reports = master.live.by_vertex().get(source, ())
    return any(each.get("backPressuredTimeMsPerSecond", 0) > 950 for each in reports)
