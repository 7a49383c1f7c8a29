"""A slow function has few records in flight, also downstream of fast ones, so barriers do not wait long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.connectors.base.source import (
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.datastream import CheckpointedFunction, DataStream, MapFunction
from penstock.testing import MiniCluster
from tests.builders.counting_job import Counting
from tests.builders.environments import configured
from tests.builders.waiting import wait_until

# In each exchange: 16 records after four were processed at once, and what waits for its buffer. With buffers of 64 KB it would be 16 000.
MOST_IN_FLIGHT = 30


class Counted(Counting):
    """Numbers without an end; counts those that were read."""

    read = 0

    def create_reader(self) -> SourceReader:
        return _CountedReader()


class _CountedReader(SourceReader):
    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        while True:
            numbers = list(range(position, position + limits.batch_size))
            position += limits.batch_size
            Counted.read += limits.batch_size
            yield SourceBatch(numbers, position, numbers)


class Stuck(MapFunction, CheckpointedFunction):
    """Takes five records, then waits until it is released. Records how many it has taken when the barrier arrives."""

    taken = 0
    before_barrier = 0
    free = threading.Event()

    def initialize_state(self, context: Any) -> None:
        pass

    def snapshot_state(self, context: Any) -> None:
        Stuck.before_barrier = Stuck.taken

    def map(self, value: int) -> int:
        if Stuck.taken == 5:
            Stuck.free.wait()
        Stuck.taken += 1
        return value


class Passing(MapFunction, CheckpointedFunction):
    """Chained to the source; records how many records came before the barrier."""

    taken = 0
    before_barrier = 0
    passed = threading.Event()

    def initialize_state(self, context: Any) -> None:
        pass

    def snapshot_state(self, context: Any) -> None:
        Passing.before_barrier = Passing.taken
        Passing.passed.set()

    def map(self, value: int) -> int:
        Passing.taken += 1
        return value


@pytest.fixture(autouse=True)
def _begin() -> Iterator[None]:
    Counted.read = Stuck.taken = Passing.taken = 0
    Stuck.free.clear()
    Passing.passed.clear()
    yield
    Stuck.free.set()


@pytest.mark.parametrize(
    ("steps", "unaligned"),
    [(0, False), (2, False), (5, False), (2, True)],
    ids=["alone", "behind 2 fast", "behind 5 fast", "with unaligned checkpoints"],
)
def test_a_savepoint_waits_for_few_records_while_a_function_is_stuck(
    steps: int, unaligned: bool, tmp_path: Path
) -> None:
    env = configured(
        {
            "execution.checkpointing.interval": "1 h",
            "execution.checkpointing.unaligned.enabled": str(unaligned),
        },
        parallelism=1,
    )
    stream: DataStream = env.from_source(Counted(), WatermarkStrategy.no_watermarks(), "numbers")
    stream = stream.map(Passing(), Types.LONG())
    # Each in a slot of its own: those before it can go on while the last one is stuck.
    for step in range(steps):
        stream = stream.rebalance().map(lambda number: number, Types.LONG())
        stream = stream.slot_sharing_group(f"step {step}")
    stuck = stream.rebalance().map(Stuck(), Types.LONG()).slot_sharing_group("stuck")
    stuck.filter(lambda number: False).print()
    with MiniCluster(mode="pipelined") as cluster:
        client = env.execute_async("stuck")
        wait_until(lambda: Stuck.taken == 5, "five records")
        wait_until(lambda: _is_back_pressured(cluster), "a source that waits")
        assert Counted.read <= MOST_IN_FLIGHT * (steps + 1)
        savepoint = client.trigger_savepoint(str(tmp_path))
        Passing.passed.wait()
        Stuck.free.set()
        savepoint.result(120)
        # It is aligned, whatever checkpoints are.
        assert Stuck.before_barrier == Passing.before_barrier <= MOST_IN_FLIGHT * (steps + 1)
        client.cancel().result(60)


def _is_back_pressured(cluster: MiniCluster) -> bool:
    """Whether the source has had no room for all of the last second."""
    (master,) = cluster.masters
    source = master.job.plan.vertices[0].id
    reports = master.live.by_vertex().get(source, ())
    return any(each.get("backPressuredTimeMsPerSecond", 0) > 950 for each in reports)
