"""Jobs for looking at: one that runs like the demo, one that fails, one that is wide."""

from __future__ import annotations

import time

from penstock.common import Configuration, Duration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.datagen import DataGeneratorSource
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

CARDS = 200


def payment(index, rng):
    """Payment number `index`, made a moment ago."""
    return {
        "id": index,
        "card": f"card-{rng.randrange(CARDS):04}",
        "cents": round(rng.lognormvariate(8, 1)),
        "time": int(time.time() * 1000) - rng.randrange(2_000),
    }


class EventTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value["time"]


class Spending(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value["cents"]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class ForMinute(ProcessWindowFunction):
    def process(self, key, context, elements):
        for cents in elements:
            yield {"card": key, "minute": context.window().start, "cents": cents}


class Detector(KeyedProcessFunction):
    """Remembers the last payments of a card, and works a little for each."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(
            ValueStateDescriptor("last payment", Types.PICKLED_BYTE_ARRAY())
        )
        self.counts = runtime_context.get_map_state(
            MapStateDescriptor("payments by size", Types.STRING(), Types.LONG())
        )

    def process_element(self, value, ctx):
        digits = str(len(str(value["cents"])))
        self.counts.put(digits, (self.counts.get(digits) or 0) + 1)
        before = self.last.value()
        self.last.update(value)
        score = sum(math_work(value["cents"]) for _ in range(8))
        if before and before["cents"] < 400 and value["cents"] > 20_000 and score:
            yield {"card": value["card"], "cents": value["cents"]}


def math_work(cents):
    return sum(n * n % 7 for n in range(cents % 60))


def environment(options, parallelism=2):
    settings = {
        "execution.checkpointing.interval": "1 s",
        "parallelism.default": str(parallelism),
        "metrics.latency.interval": "100 ms",
    }
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict(settings | {key: str(value) for key, value in options.items()})
    )


def payments(env, rate, count=10_000_000):
    source = DataGeneratorSource(payment, count=count, rate_per_second=rate, seed=7)
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(3))
    return env.from_source(
        source, watermarks.with_timestamp_assigner(EventTime()), "card payments"
    ).uid("payments")


def forget(value):
    return False


def fraud_detection(options=(), rate=1_000, parallelism=2):
    """A job like the demo's: one source, two keyed operators, two ends."""
    env = environment(dict(options), parallelism)
    cards = payments(env, rate).key_by(lambda value: value["card"])
    sums = (
        cards.window(TumblingEventTimeWindows.of(Time.seconds(5)))
        .aggregate(Spending(), ForMinute())
        .name("spending per minute")
        .uid("spending")
    )
    alerts = cards.process(Detector()).name("fraud detector").uid("detector")
    alerts.key_by(lambda value: value["card"]).filter(forget).name("alerts").uid("alerts")
    sums.rebalance().filter(forget).name("aggregates").uid("aggregates")
    return env.execute_async("fraud detection")


def fail_later(value):
    if value["id"] >= 200:
        raise ValueError(f"no exchange rate for payment {value['id']}")
    return value


def failing(options=()):
    """A job whose user code raises."""
    env = environment({"restart-strategy.type": "none", **dict(options)}, 1)
    payments(env, 400).map(fail_later).name("convert currency").uid("convert")
    return env.execute_async("currency conversion")


def wide(vertices=50, options=(), rate=200):
    """A job of so many vertices: a source, then rows of keyed operators that meet again at the end."""
    env = environment({"execution.checkpointing.interval": "5 s", **dict(options)}, 1)
    source = payments(env, rate)
    rows, length = 7, (vertices - 2) // 7
    ends = []
    for row in range(rows):
        stream = source
        for step in range(length + (row < (vertices - 2) % 7)):
            stream = (
                stream.key_by(lambda value: value["card"])
                .map(lambda value: value)
                .name(f"enrich with table {row}.{step}")
            )
        ends.append(stream)
    ends[0].union(*ends[1:]).key_by(lambda value: value["card"]).filter(forget).name("warehouse")
    return env.execute_async("large enrichment")
