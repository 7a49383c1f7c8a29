"""A program with state of every kind, run with checkpoints in this process."""

from __future__ import annotations

from contextlib import suppress

from penstock.cep import CEP, Pattern
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    MapFunction,
)
from penstock.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
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
from penstock.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from penstock.errors import JobCancelledError
from penstock.time.durations import Duration, Time
from tests.builders.scripted import Script

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()
LONG_AWAY = 10_000_000_000_000
TTL = StateTtlConfig.new_builder(Duration.of_hours(100)).build()
RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


def expiring(descriptor):
    descriptor.enable_time_to_live(TTL)
    return descriptor


class Average(AggregateFunction):
    def create_accumulator(self):
        return 0, 0.0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator):
        return accumulator[1] / accumulator[0]

    def merge(self, one, other):
        return one[0] + other[0], one[1] + other[1]


def add(one, other):
    return one + other


class Everything(KeyedProcessFunction):
    """Keeps every kind of state, with and without a time to live, and timers."""

    def open(self, runtime_context):
        context = runtime_context
        self.count = context.get_state(ValueStateDescriptor("count", Types.INT()))
        self.seen = context.get_list_state(ListStateDescriptor("seen", Types.INT()))
        self.last = context.get_map_state(MapStateDescriptor("last", Types.INT(), Types.INT()))
        self.sum = context.get_reducing_state(ReducingStateDescriptor("sum", add, Types.INT()))
        self.mean = context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Average(), None)
        )
        self.mixed = context.get_state(ValueStateDescriptor("mixed"))
        self.old_count = context.get_state(expiring(ValueStateDescriptor("old count")))
        self.old_seen = context.get_list_state(
            expiring(ListStateDescriptor("old/seen", Types.INT()))
        )
        self.old_last = context.get_map_state(
            expiring(MapStateDescriptor("old last", Types.INT(), Types.STRING()))
        )

    def process_element(self, value, ctx):
        _, number = value
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(number)
        self.last.put(number % 3, number)
        self.sum.add(number)
        self.mean.add(number)
        self.mixed.update([number, float(number), True, str(number), None][number % 5])
        self.old_count.update((self.old_count.value() or 0) + number)
        self.old_seen.add(number)
        self.old_last.put(number % 3, str(number))
        ctx.timer_service().register_event_time_timer(number + 25)
        ctx.timer_service().register_processing_time_timer(LONG_AWAY + number)
        if number % 4 == 0:
            self.last.clear()

    def on_timer(self, timestamp, ctx):
        if timestamp < LONG_AWAY:
            state = (
                self.count.value(),
                sorted(self.seen.get()),
                sorted(self.last.items()),
                self.sum.get(),
                self.mean.get(),
                self.mixed.value(),
                self.old_count.value(),
                sorted(self.old_seen.get()),
                sorted(self.old_last.items()),
            )
            yield "timer", ctx.get_current_key(), timestamp, state


class Remember(MapFunction, CheckpointedFunction):
    """Keeps all numbers in list state, which is redistributed, and the highest ones in union list state."""

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("numbers"))
        self.union = store.get_union_list_state(ListStateDescriptor("highest"))
        self.numbers = list(self.state.get())

    def snapshot_state(self, context):
        self.state.update(self.numbers)
        self.union.update([max(self.numbers, default=(0, 0))])

    def map(self, value):
        self.numbers.append((value[1], None))
        return value


class Rule(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield "rule", value[0]  # which factor there is depends on what comes first

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("factor", value[1])


class Collected(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "session", key, sorted(value[1] for value in elements)


def by_name(record):
    return record[0]


BATCHES = [[((f"key {n % 7}", n), n) for n in range(t, t + 4)] for t in range(0, 60, 4)]


def run(env):
    """Run the program; return its results. An epoch reads one batch of each source."""
    stream = env.from_source(Script(BATCHES), MONOTONOUS, "numbers").uid("numbers")
    rules = env.from_source(Script([[(("factor", n), n)] for n in range(3)]), MONOTONOUS, "rules")
    stream = stream.map(Remember()).uid("remember")
    keyed = stream.key_by(by_name)
    results = [
        keyed.process(Everything()).uid("everything"),
        keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(20)))
        .reduce(summed)
        .uid("summed"),
        keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(30)))
        .process(Collected())
        .uid("sessions"),
        keyed.count_window(5).reduce(summed).uid("counted"),
        keyed.reduce(highest).uid("rolling"),
        stream.connect(rules.uid("rules").broadcast(RULES)).process(Rule()).uid("ruled"),
    ]
    first, *others = [result.map(repr) for result in results]
    with first.union(*others).execute_and_collect() as found:
        return sorted(found)


def summed(one, other):
    return one[0], one[1] + other[1]


def highest(one, other):
    return one[0], max(one[1], other[1])


class Pairs(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield "pair", left, right


def matches_and_pairs(env):
    """Run a pattern, a join and sessions over the same stream; return their results as far as the job comes."""
    stream = env.from_source(Script(BATCHES), MONOTONOUS, "numbers").uid("numbers")
    keyed = stream.key_by(by_name)
    pattern = Pattern.begin("even").where(lambda value: value[1] % 2 == 0)
    pattern = pattern.followed_by("third").where(lambda value: value[1] % 3 == 0)
    results = [
        CEP.pattern(keyed, pattern.within(Time.milliseconds(50)))
        .select(lambda match: ("match", match["even"][0], match["third"][0]))
        .uid("matches"),
        keyed.interval_join(stream.key_by(by_name))
        .between(Time.milliseconds(-8), Time.milliseconds(8))
        .process(Pairs())
        .uid("pairs"),
        keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(30)))
        .process(Collected())
        .uid("sessions"),
    ]
    first, *others = [result.map(repr) for result in results]
    found = []
    with first.union(*others).execute_and_collect() as collected, suppress(JobCancelledError):
        found.extend(collected)
    return found
