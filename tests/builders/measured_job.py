"""A job that has everything there is to measure: metrics of functions, state, timers, windows with late records."""

from __future__ import annotations

import time

from penstock.common import Time, Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, MapFunction
from penstock.datastream.connectors import DataGeneratorSource
from penstock.datastream.state import ValueStateDescriptor
from penstock.windowing import TumblingEventTimeWindows
from tests.builders.environments import configured

FAR = 4_000_000_000_000  # a timer that never fires
LATE_EVERY = 100


class Measuring(MapFunction):
    """Has one metric of each kind, and takes its time."""

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group()
        self.seen = group.counter("seen")
        self.rate = group.add_group("shop").meter("rate", 10)
        self.sizes = group.distribution("sizes")
        self.orders = group.add_group("topic", "orders").counter("orders")
        group.gauge("twice", lambda: self.seen.get_count() * 2)
        group.gauge("broken", lambda: 1 / 0)

    def map(self, value):
        self.seen.inc()
        self.rate.mark_event()
        self.sizes.update(value // 2 % 10)
        self.orders.inc()
        time.sleep(0.0002)
        return value


class Waiting(KeyedProcessFunction):
    """Keeps one value and one timer a key."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        self.last.update(value)
        ctx.timer_service().register_event_time_timer(FAR)
        yield value


class Stamped:
    """Times that go on, but for a record now and then that is an hour late."""

    def extract_timestamp(self, value, record_timestamp):
        moment = 1_000_000_000_000 + value * 10
        return moment - 3_600_000 if value % LATE_EVERY == LATE_EVERY - 1 else moment


def measured_environment(directory, **more):
    """Return an environment with the job, which goes on until it is cancelled."""
    options = {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "penstock.epoch.interval": "200 ms",
        "metrics.latency.interval": "100 ms",
        **more,
    }
    env = configured(options, 2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamped())
    numbers = env.from_source(DataGeneratorSource(lambda i: i), strategy, "numbers")
    measured = numbers.map(Measuring(), Types.LONG()).name("measuring: all")
    keyed = measured.key_by(lambda value: value % 7).process(Waiting(), Types.LONG())
    windowed = keyed.name("waiting").key_by(lambda value: value % 3)
    sums = windowed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
    sums.reduce(lambda a, b: a + b).name("sums").filter(lambda _: False).print()
    return env
