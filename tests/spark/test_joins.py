"""Joins, dead letters and two-stage aggregation, through Spark."""

from __future__ import annotations

import pytest

from penstock.common import Time, WatermarkStrategy
from penstock.datastream import AggregateFunction, CoGroupFunction, OutputTag, ProcessJoinFunction
from penstock.datastream.connectors import NumberSequenceSource
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.datastream.window import CountEvictor, TumblingEventTimeWindows

TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))
BY_NUMBER = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
    lambda value, _: value
)
LEFT, RIGHT = range(200), range(0, 200, 3)


def key_of(number):
    return number % 4


def numbers(env, values):
    stream = env.from_collection(list(values)).assign_timestamps_and_watermarks(BY_NUMBER)
    return stream.set_parallelism(1)


def collect(stream):
    with stream.execute_and_collect() as found:
        return sorted(found)


class Sizes(CoGroupFunction):
    def co_group(self, first, second):
        yield min([*first, *second]), len(first), len(second)


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right, ctx.get_timestamp()


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


@pytest.mark.parametrize("parallelism", [1, 3])
def test_joins_through_spark(env, parallelism):
    env.set_parallelism(parallelism)
    left, right = numbers(env, LEFT), numbers(env, RIGHT)
    joined = left.join(right).where(key_of).equal_to(key_of).window(TEN).apply(lambda a, b: (a, b))
    grouped = left.co_group(right).where(key_of).equal_to(key_of).window(TEN).apply(Sizes())
    near = left.key_by(key_of).interval_join(right.key_by(key_of)).between(-5, 5).process(Pair())
    found = collect(
        joined.map(lambda pair: ("join", pair)).union(
            grouped.map(lambda sizes: ("co_group", sizes)),
            near.map(lambda pair: ("interval", pair)),
        )
    )
    pairs = [(a, b) for a in LEFT for b in RIGHT if a % 4 == b % 4]
    expected = [("join", (a, b)) for a, b in pairs if a // 10 == b // 10]
    expected += [("interval", (a, b, max(a, b))) for a, b in pairs if abs(a - b) <= 5]
    for tens in range(20):
        for key in range(4):
            first, second = (
                [n for n in side if n % 4 == key and n // 10 == tens] for side in (LEFT, RIGHT)
            )
            expected.append(("co_group", (min([*first, *second]), len(first), len(second))))
    assert found == sorted(expected)


def test_two_stages_evictors_dead_letters_and_a_hybrid_source_through_spark(env):
    env.set_parallelism(2)
    source = HybridSource.builder(NumberSequenceSource(0, 99)).add_source(
        NumberSequenceSource(100, 199)
    )
    dead = OutputTag("dead")
    stream = env.from_source(source.build(), BY_NUMBER, "numbers")
    checked = stream.map(lambda n: n if n % 50 else 1 // 0).on_error(dead)
    windows = checked.key_by(key_of).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    totals = windows.aggregate(Total(), local_global=True).map(lambda total: ("total", total))
    last = windows.evictor(CountEvictor.of(1)).aggregate(Total()).map(lambda n: ("last", n))
    letters = checked.get_side_output(dead).map(lambda d: (d.error_type, d.record))
    found = collect(totals.union(last, letters))
    good = [n for n in range(200) if n % 50]
    expected = [("ZeroDivisionError", n) for n in (0, 50, 100, 150)]
    expected += [("total", sum(n for n in good if n % 4 == key)) for key in range(4)]
    assert [each for each in found if each[0] != "last"] == sorted(expected)
    assert len([each for each in found if each[0] == "last"]) == 4
