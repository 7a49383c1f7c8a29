"""Asynchronous calls on Spark: many at a time, exactly once through checkpoints and a restart."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from penstock.common import Configuration, RestartStrategies, Time, WatermarkStrategy
from penstock.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.errors import JobExecutionError


class Lookup(AsyncFunction):
    """Takes some time to answer, longer than a checkpoint waits; fails once if a marker is given."""

    barrier_wait_millis = 1

    def __init__(self, marker=None):
        self.marker = marker

    async def open(self, runtime_context):
        self.ready = asyncio.Event()
        self.ready.set()

    async def async_invoke(self, value):
        await self.ready.wait()
        await asyncio.sleep(0.002 * (value % 5))
        if value == 700 and self.marker is not None and not os.path.exists(self.marker):
            Path(self.marker).touch()
            raise OSError("the service is down")
        return [value * 2]


@pytest.mark.parametrize(
    "wait", [AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait], ids=lambda w: w.__name__
)
def test_every_number_is_looked_up_once_through_checkpoints_and_a_restart(wait, tmp_path):
    options = Configuration.from_dict({"penstock.debug.check-order": "true"})
    env = StreamExecutionEnvironment.get_execution_environment(options)
    env.set_parallelism(2)
    env.enable_checkpointing(50)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 1))
    source = NumberSequenceSource(1, 1000)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    doubled = wait(
        numbers.key_by(lambda n: n % 10), Lookup(str(tmp_path / "failed")), Time.seconds(30), 10
    )
    with doubled.execute_and_collect() as found:
        results = list(found)
    assert sorted(results) == [2 * n for n in range(1, 1001)]
    assert (tmp_path / "failed").exists()
    if wait is AsyncDataStream.ordered_wait:
        for key in range(10):
            mine = [each for each in results if each // 2 % 10 == key]
            assert mine == sorted(mine), "each key has one subtask, which keeps its order"


def test_a_failed_call_is_reported_with_its_operator_and_record(env):
    class Fails(AsyncFunction):
        async def async_invoke(self, value):
            raise LookupError(f"no customer {value}")

    stream = AsyncDataStream.ordered_wait(env.from_collection([17]), Fails(), Time.seconds(1))
    with pytest.raises(JobExecutionError, match="no customer 17") as caught:
        list(stream.name("customers").execute_and_collect())
    assert "customers" in str(caught.value)
    assert "record 17" in str(caught.value)
