"""What pipelined jobs tell about their checkpoints."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Time, WatermarkStrategy
from penstock.connectors.base.source import (
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.datastream import AsyncDataStream, AsyncFunction, MapFunction
from penstock.jobmanager.checkpointing.checkpoint_statistics import (
    CheckpointRecord,
    CheckpointStatus,
)
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.testing import MiniCluster
from tests.builders.counting_job import KEYS, Counting, Total, environment
from tests.builders.steps import at_step, before_each_trigger
from tests.builders.waiting import wait_until

LAST = 6
BATCH = 10  # records that a source reads at once, and that a buffer has at most
#: While it is set, no call is answered: a subtask takes one more buffer at most.
HELD = threading.Event()
#: More than two subtasks take then
MANY = 3 * BATCH


class Slow(MapFunction):
    def map(self, value: Any) -> Any:
        time.sleep(0.0002)
        return value


class Counted(Counting):
    """Counts what is read."""

    read = 0

    def create_reader(self) -> SourceReader:
        return _CountedReader()


class _CountedReader(SourceReader):
    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        numbers = list(range(position, position + BATCH))
        Counted.read += (
            BATCH  # before the yield: a reader that is asked for other sizes is not resumed
        )
        yield SourceBatch(numbers, position + BATCH, numbers)


class Taken(MapFunction):
    """Counts what is taken."""

    count = 0

    def map(self, value: Any) -> Any:
        Taken.count += 1
        return value


class Answered(AsyncFunction):
    """Answers unless the test holds the answers back; barriers do not wait for them."""

    barrier_wait_millis = 0

    async def async_invoke(self, value: Any) -> list[Any]:
        while HELD.is_set():
            await asyncio.sleep(0.001)
        return [value]


def test_each_unaligned_checkpoint_tells_of_the_records_in_flight() -> None:
    Counted.read = Taken.count = 0
    HELD.clear()
    env = environment(
        2,
        execution__checkpointing__interval="30 ms",
        execution__checkpointing__unaligned__enabled="true",
        execution__buffer_timeout="0 ms",
        taskmanager__network__memory__buffer_debloat__enabled="false",
        web__checkpoints__history="1000000",
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    keyed = env.from_source(Counted(), strategy, "numbers").key_by(lambda number: number % KEYS)
    stream = keyed.process(Total()).map(Taken())
    held: list[int] = []

    def hold(number: int) -> None:
        """Let records wait in the channels, once there are any, until the checkpoint is complete."""
        if len(held) == LAST:
            cluster.masters[0].cancel(graceful=True)
        elif Taken.count:
            HELD.set()
            wait_until(lambda: Counted.read - Taken.count > MANY, "records that wait")
            held.append(number)

    with (
        MiniCluster(mode="pipelined") as cluster,
        before_each_trigger(hold),
        at_step("after write_manifest", lambda number: HELD.clear()),
    ):
        client = _start(env, AsyncDataStream.unordered_wait(stream, Answered(), Time.hours(1), 1))
        client.get_job_execution_result().exception(120)
    found = {each.number: each.totals() for each in _completed(cluster.masters[0])}
    assert {number: found[number].persisted_in_flight > 0 for number in held} == dict.fromkeys(
        held, True
    )
    assert len(held) == LAST


@pytest.mark.parametrize("unaligned", [False, True])
def test_a_checkpoint_tells_what_it_took_in_each_subtask(unaligned):
    env = environment(
        2,
        execution__checkpointing__interval="30 ms",
        execution__checkpointing__unaligned__enabled=str(unaligned).lower(),
        taskmanager__memory__segment_size="1 kb",
        web__checkpoints__history="1000000",
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    one, other = (env.from_source(Counting(), strategy, name) for name in ("one", "other"))
    keyed = one.union(other).key_by(lambda number: number % KEYS)
    stream = keyed.process(Total()).map(Slow())

    def waited() -> bool:
        """Whether a checkpoint found what it is about: records that wait, or barriers that do."""
        totals = [each.totals() for each in _completed(cluster.masters[0])]
        if unaligned:
            return any(each.persisted_in_flight for each in totals)
        return any(each.processed_in_flight for each in totals)

    def before(number: int) -> None:
        if number >= LAST and waited():
            cluster.masters[0].cancel(graceful=True)

    with MiniCluster(mode="pipelined") as cluster, before_each_trigger(before):
        client = _start(env, stream)
        client.get_job_execution_result().exception(120)
    completed = _completed(cluster.masters[0])
    assert len(completed) >= 3
    assert cluster.masters[0].statistics.snapshot().completed_count >= len(completed)
    assert {each.unaligned for each in completed} == {unaligned}
    for record in completed:
        totals = record.totals()
        assert len(record.subtasks) == sum(record.parallelism.values())
        assert 0 < totals.written <= totals.size
        assert totals.duration_ms >= 0
        assert unaligned or not totals.persisted_in_flight
        delays = [each.figures.start_delay_ms for each in record.subtasks.values()]
        assert round(max(delays)) <= totals.duration_ms + 5
    # Where barriers overtake, records in flight are kept; else records of one input were processed while the other was waited for.
    assert any(each.totals().persisted_in_flight > 0 for each in completed) is unaligned
    assert unaligned or max(each.totals().processed_in_flight for each in completed) > 0


def _completed(master: JobMaster) -> list[CheckpointRecord]:
    history = master.statistics.snapshot().history
    return [each for each in history if each.status is CheckpointStatus.COMPLETED]


def _start(env: Any, stream: Any) -> Any:
    stream.filter(lambda value: False).print()
    return env.execute_async("figures")
