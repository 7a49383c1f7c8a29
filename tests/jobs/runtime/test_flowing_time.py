"""Whole jobs in pipelined mode, without a checkpoint in sight: what comes out, and when."""

from __future__ import annotations

import asyncio
import time

import pytest

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.connectors.base.source import SourceBatch, SourceReader, SourceSplit
from penstock.datastream import AsyncDataStream, AsyncFunction, KeyedProcessFunction
from penstock.datastream.connectors import DataGeneratorSource, NumberSequenceSource
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing import MiniCluster
from tests.builders.endless import EndlessSource
from tests.builders.environments import configured, restarts
from tests.builders.waiting import wait_until

NONE = WatermarkStrategy.no_watermarks()


@pytest.fixture
def env():
    with MiniCluster("pipelined"):
        yield configured(restarts(0, "1 ms"), 1)


class Ticks(EndlessSource):
    """Numbers with themselves as timestamps, `step` apart, as fast as they are read, up to a limit; then nothing more comes."""

    def __init__(self, step=1, limit=None):
        self.step, self.limit = step, limit

    def splits(self):
        return [SourceSplit("s", None, start=0)]

    def create_reader(self):
        return _TickReader(self)


class _TickReader(SourceReader):
    def __init__(self, source):
        self.source = source

    def read(self, split, position, limits):
        if self.source.limit is None or position < self.source.limit:
            yield SourceBatch([position], position + self.source.step, [position])


def test_lines_are_printed_at_once(env, capsys):
    env.from_source(DataGeneratorSource(str, rate_per_second=100), NONE, "in").print()
    client = env.execute_async("prints")
    printed = []

    def three_are_printed():
        printed.append(capsys.readouterr().out)
        return "".join(printed).count("\n") >= 3

    wait_until(three_are_printed)
    client.cancel().result()
    assert "".join(printed).splitlines()[:3] == ["0", "1", "2"]


def test_records_are_collected_at_once_if_there_are_no_checkpoints(env):
    source = DataGeneratorSource(lambda i: i, rate_per_second=1000)
    assert env.from_source(source, NONE, "in").execute_and_collect(limit=5) == [0, 1, 2, 3, 4]


def test_collected_records_are_durable_if_there_are_checkpoints(env):
    env.enable_checkpointing(20)
    source = DataGeneratorSource(lambda i: i, rate_per_second=1000)
    assert env.from_source(source, NONE, "in").execute_and_collect(limit=5) == [0, 1, 2, 3, 4]


def test_the_next_source_of_a_hybrid_one_needs_no_checkpoint(env):
    live = DataGeneratorSource(lambda i: -i, rate_per_second=1000)
    source = HybridSource.builder(NumberSequenceSource(1, 3)).add_source(live).build()
    found = env.from_source(source, NONE, "in").execute_and_collect(limit=6)
    assert found == [1, 2, 3, 0, -1, -2]


def test_windows_fire_by_watermarks_when_no_more_records_come(env):
    """The periodic watermark moves time after the last record of the window was read."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = (
        env.from_source(Ticks(limit=25), strategy, "in")
        .key_by(lambda _: 0)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .reduce(lambda a, b: a + b)
    )
    assert stream.execute_and_collect(limit=2) == [45, 145]


class Alarm(KeyedProcessFunction):
    def process_element(self, value, ctx):
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + 20)

    def on_timer(self, timestamp, ctx):
        yield timestamp <= time.time() * 1000


def test_a_timer_fires_at_its_time_although_nothing_else_happens(env):
    stream = env.from_source(Ticks(limit=1), NONE, "in").key_by(lambda v: v).process(Alarm())
    assert stream.execute_and_collect(limit=1) == [True]


class Echo(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(0.03)
        return [value]


def test_answers_come_when_they_arrive_although_nothing_else_happens(env):
    stream = AsyncDataStream.unordered_wait(
        env.from_source(Ticks(limit=3), NONE, "in"), Echo(), Time.seconds(10), 2
    )
    assert sorted(stream.execute_and_collect(limit=3)) == [0, 1, 2]


REACHED = {"fast": 0, "slow": 0}


def note(name):
    def noted(value):
        from tests.jobs.runtime import test_flowing_time as shared

        shared.REACHED[name] = value
        return value

    return noted


@pytest.mark.parametrize("aligned", [True, False], ids=["aligned", "free"])
def test_a_source_waits_for_the_slowest_of_its_group(env, aligned):
    """Both give a record whenever they are asked; in one of them each stands for 100 times as long as in the other."""
    REACHED.update(fast=0, slow=0)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if aligned:
        strategy = strategy.with_watermark_alignment(
            "group", Duration.of_millis(200), Duration.of_millis(20)
        )
    fast = env.from_source(Ticks(100), strategy, "fast").map(note("fast"))
    slow = env.from_source(Ticks(1), strategy, "slow").map(note("slow"))
    fast.union(slow).filter(lambda _: False).print()
    client = env.execute_async("drift")
    wait_until(lambda: min(REACHED.values()) > 2000)  # both go on
    if aligned:
        wait_until(lambda: REACHED["fast"] - REACHED["slow"] <= 300)
    else:
        assert REACHED["fast"] - REACHED["slow"] > 100_000
    client.cancel().result()
