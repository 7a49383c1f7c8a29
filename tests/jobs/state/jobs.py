"""Programs whose checkpoints and savepoints the tests read."""

from __future__ import annotations

from pathlib import Path

from penstock.common import Row, Types, WatermarkStrategy
from penstock.datastream import (
    CheckpointedFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
)
from penstock.time.durations import Duration, Time
from tests.builders.scripted import Script

VISIT = Types.ROW_NAMED(["page", "count"], [Types.STRING(), Types.INT()])
# (user, number) pairs; the number is also the timestamp
EPOCHS = [
    [("ann", 1), ("bob", 2)],
    [("ann", 3)],
    [("cid", 12), ("ann", 14)],
]
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()


class Mean:
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, one, other):
        return one[0] + other[0], one[1] + other[1]


def expiring(descriptor):
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_hours(1)).build())
    return descriptor


class Everything(KeyedProcessFunction):
    """Keeps every kind of state, and a timer."""

    def open(self, context):
        self.total = context.get_state(ValueStateDescriptor("total", Types.INT()))
        self.visit = context.get_state(ValueStateDescriptor("visit", VISIT))
        self.seen = context.get_list_state(ListStateDescriptor("seen", Types.INT()))
        self.parity = context.get_map_state(
            MapStateDescriptor("parity", Types.STRING(), Types.INT())
        )
        self.best = context.get_reducing_state(ReducingStateDescriptor("best", max, Types.INT()))
        self.mean = context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean()))
        self.kept = context.get_state(expiring(ValueStateDescriptor("kept", Types.INT())))
        self.kept_list = context.get_list_state(expiring(ListStateDescriptor("kept list")))
        self.kept_map = context.get_map_state(expiring(MapStateDescriptor("kept map")))

    def process_element(self, value, ctx):
        _, number = value
        self.total.update((self.total.value() or 0) + number)
        before = self.visit.value()
        self.visit.update(Row(page=f"p{number}", count=1 + (before.count if before else 0)))
        self.seen.add(number)
        self.parity.put("odd" if number % 2 else "even", number)
        self.best.add(number)
        self.mean.add(number)
        self.kept.update(number)
        self.kept_list.add(number)
        self.kept_map.put(number % 2, number)
        ctx.timer_service().register_event_time_timer(number + 100)
        yield value[0], self.total.value(), sorted(self.seen.get()), self.mean.get()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), "timer", timestamp, self.total.value()


class Buffer(MapFunction, CheckpointedFunction):
    """Keeps all it has seen as operator state, in both ways."""

    def __init__(self):
        self.seen = []

    def map(self, value):
        self.seen.append(value[1])
        return value

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.mine = store.get_list_state(ListStateDescriptor("mine"))
        self.all = store.get_union_list_state(ListStateDescriptor("all"))
        self.seen = list(self.mine.get())

    def snapshot_state(self, context):
        self.mine.update(self.seen)
        self.all.update(self.seen[-1:])


class Elements(ProcessWindowFunction):
    """Counts a window's elements, and remembers the last count of each window."""

    def process(self, key, context, elements):
        found = list(elements)
        count = context.window_state().get_state(ValueStateDescriptor("fired"))
        count.update(len(found))
        yield key, len(found)


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Follow(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value[0], ctx.get_broadcast_state(RULES).get("limit")

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)


def script(*epochs):
    """A source that gives out one list of (user, number) pairs per epoch, with the number as timestamp."""
    return Script(
        [[((user, number), number) for user, number in checkpoint_id] for checkpoint_id in epochs]
    )


def run_everything(env, epochs=EPOCHS):
    """Run the job with every kind of keyed state; return its results."""
    source = env.from_source(script(*epochs), MONOTONOUS, "numbers").uid("numbers")
    keyed = source.key_by(lambda pair: pair[0])
    with keyed.process(Everything()).name("everything").uid("all").execute_and_collect() as found:
        return list(found)


def run_windows(env, epochs=EPOCHS):
    """Run tumbling windows, sessions, windows of elements with a trigger, a rolling reduce, a join."""
    source = env.from_source(script(*epochs), MONOTONOUS, "numbers").uid("numbers")
    keyed = source.key_by(lambda pair: pair[0])
    every_ten = TumblingEventTimeWindows.of(Time.milliseconds(10))
    total = lambda one, other: (one[0], one[1] + other[1])  # noqa: E731
    streams = [
        keyed.window(every_ten).reduce(total).uid("tumbling"),
        keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
        .reduce(total)
        .uid("sessions"),
        keyed.window(every_ten).trigger(CountTrigger.of(2)).process(Elements()).uid("elements"),
        keyed.reduce(total).uid("reduced"),
        keyed.interval_join(source.key_by(lambda pair: pair[0]))
        .between(Time.milliseconds(-5), Time.milliseconds(5))
        .process(Pair())
        .uid("join"),
    ]
    for stream in streams:
        stream.map(repr).print()
    env.execute("windows")


def run_operator_state(env, epochs=EPOCHS):
    """Run a job with list, union list and broadcast state; return its results."""
    source = env.from_source(script(*epochs), MONOTONOUS, "numbers").uid("numbers")
    buffered = source.map(Buffer()).uid("buffer")
    rules = env.from_collection([("limit", 7), ("floor", 1)]).broadcast(RULES)
    followed = buffered.key_by(lambda pair: pair[0]).connect(rules).process(Follow()).uid("follow")
    with followed.execute_and_collect() as found:
        return list(found)


def checkpoint(directory, number=None):
    """Return the path of the one job's directory, or of one of its checkpoints."""
    (job,) = Path(directory, "checkpoints").iterdir()
    return str(job if number is None else job / f"chk-{number}")
