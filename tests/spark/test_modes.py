"""Streaming in many epochs, bounded streaming and batch run the same program with the same results."""

from __future__ import annotations

import pytest

from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.datastream import AggregateFunction, ProcessWindowFunction, RuntimeExecutionMode
from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

SECOND = 1000


def by_timestamp(bound_seconds=0):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(bound_seconds))
    return strategy.with_timestamp_assigner(lambda event, _: event[1])


class CountPerWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, len(list(elements))


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[2]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


def test_sliding_windows_start_before_the_epoch(env):
    env.set_parallelism(2)
    events = [("k", t) for t in (1, 2, 3, 4, 5, 8, 9, 15)]
    stream = env.from_collection(events).assign_timestamps_and_watermarks(by_timestamp())
    windows = stream.key_by(lambda e: e[0]).window(
        SlidingEventTimeWindows.of(Time.milliseconds(5), Time.milliseconds(2))
    )
    with windows.process(CountPerWindow()).execute_and_collect() as found:
        results = sorted(item[1:] for item in found)
    assert results == [
        (-2, 3, 2), (0, 5, 4), (2, 7, 4), (4, 9, 3), (6, 11, 2), (8, 13, 2), (12, 17, 1), (14, 19, 1),
    ]  # fmt: skip


EVENTS = [(f"k{i % 5}", i * 100, i) for i in range(400)]
EXPECTED = sorted(
    (sum(i for i in range(400) if i % 5 == k and i * 100 // 10_000 == w))
    for k in range(5)
    for w in range(4)
)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("mode", list(RuntimeExecutionMode)[:2], ids=lambda mode: mode.name)
def test_windowed_sums_agree_in_streaming_and_batch(env, mode, parallelism):
    env.set_runtime_mode(mode)
    env.set_parallelism(parallelism)
    stream = env.from_collection(EVENTS).assign_timestamps_and_watermarks(by_timestamp(1))
    sums = (
        stream.key_by(lambda e: e[0])
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .aggregate(Total())
    )
    with sums.execute_and_collect() as found:
        assert sorted(found) == EXPECTED


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(RuntimeExecutionMode.STREAMING, [1, 3, 6, 10]), (RuntimeExecutionMode.BATCH, [10])],
    ids=["streaming emits every update", "batch emits the last value"],
)
def test_a_rolling_sum(env, mode, expected):
    env.set_runtime_mode(mode)
    with (
        env.from_collection([1, 2, 3, 4], Types.INT())
        .key_by(lambda _: 0)
        .sum()
        .execute_and_collect() as found
    ):
        assert list(found) == expected


@pytest.mark.ci
def test_a_job_says_the_master_of_the_context_that_it_uses(env, capsys):
    env.set_parallelism(1)
    env.from_collection([1]).print()
    env.execute("short")
    assert "starts on Spark (local[2,4])" in capsys.readouterr().err
