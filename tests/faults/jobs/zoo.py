"""One small program for each kind of stateful operator, over a source that gives one batch of each split per turn.

    python zoo.py '{"directory": "/tmp/run", "master": "local[2,4]"}'

runs those that can run side by side as one job. The output of a program depends on the records of each turn only, and not
on the order in which channels arrive: all records of a key come from one split, and what meets records of another source
is put out by timers and windows.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zoo_windows  # noqa: F401 - registers its programs
from zoo_inputs import (
    CLOCK_MS,
    LATE,
    PARALLELISM,
    PROGRAMS,
    SECOND,
    STRATEGY,
    Digits,
    Event,
    Inputs,
    Program,
    add,
    key_of,
    program,
    with_late,
)

from penstock.cep import CEP, Pattern
from penstock.common import Configuration, Time
from penstock.common.serialization import Encoder
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CoGroupFunction,
    DataStream,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import EventTimeSessionWindows

JOB_ID = "200" + "0" * 29

# Keyed state and timers


class Kept:
    """Each kind of state: its descriptor, how a value comes in, and what is in it."""

    DESCRIPTORS: dict[str, Any] = {
        "value": lambda: ValueStateDescriptor("kept"),
        "list": lambda: ListStateDescriptor("kept"),
        "map": lambda: MapStateDescriptor("kept"),
        "reducing": lambda: ReducingStateDescriptor("kept", lambda a, b: a + b),
        "aggregating": lambda: AggregatingStateDescriptor("kept", Digits()),
    }

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def get(self, context: Any, descriptor: Any) -> Any:
        name = "get_state" if self.kind == "value" else f"get_{self.kind}_state"
        return getattr(context, name)(descriptor)

    def put(self, state: Any, value: Event) -> Any:
        match self.kind:
            case "value":
                state.update((state.value() or 0) + value[1])
                return state.value()
            case "map":
                state.put(value[1] % 3, (state.get(value[1] % 3) or 0) + 1)
                return sorted(state.items())
            case "list":
                state.add(value[1])
                return list(state.get())
            case "reducing":
                state.add(value[1])
                return state.get()
            case _:
                state.add(value)
                return state.get()


class Keep(KeyedProcessFunction):
    """Puts each record into state and emits all that is in it; every fifth record clears it."""

    def __init__(self, kind: str, ttl: int | None = None) -> None:
        self.kept = Kept(kind)
        self.ttl = ttl

    def open(self, runtime_context: Any) -> None:
        descriptor = Kept.DESCRIPTORS[self.kept.kind]()
        if self.ttl is not None:
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(self.ttl).build())
        self.state = self.kept.get(runtime_context, descriptor)

    def process_element(self, value: Event, ctx: Any) -> Iterator[Any]:
        if value[1] % 23 == 0:
            self.state.clear()
        yield value, self.kept.put(self.state, value)


for _kind in Kept.DESCRIPTORS:
    PROGRAMS[f"{_kind}_state"] = Program(lambda i, k=_kind: i.keyed.process(Keep(k)))
    PROGRAMS[f"{_kind}_state_with_ttl"] = Program(
        lambda i, k=_kind: i.keyed.process(Keep(k, 2 * CLOCK_MS)), manual=True
    )


class Timers(KeyedProcessFunction):
    """Registers event-time timers some epochs ahead, deletes some of them, and emits a count when one fires."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Event, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        timers = ctx.timer_service()
        timers.register_event_time_timer(value[2] + 1_500)
        if value[1] % 4 == 0:
            timers.delete_event_time_timer(value[2] + 1_500)
        yield "element", value, timers.current_watermark()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", ctx.get_current_key(), timestamp, self.count.value()


@program()
def event_time_timers(inputs: Inputs) -> DataStream:
    return inputs.keyed.process(Timers())


class ClockTimers(KeyedProcessFunction):
    """Registers processing-time timers two epochs ahead; one that fires registers another."""

    def process_element(self, value: Event, ctx: Any) -> None:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 1_500)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_processing_time()
        ctx.timer_service().register_processing_time_timer(timestamp + 777)


@program(manual=True)
def processing_time_timers(inputs: Inputs) -> DataStream:
    return inputs.keyed.process(ClockTimers())


@program()
def rolling_reduce(inputs: Inputs) -> DataStream:
    return inputs.keyed.reduce(add)


@program()
def rolling_min(inputs: Inputs) -> DataStream:
    return inputs.keyed.min(2)


class Numbered(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def map(self, value: Event) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return value, self.count.value()


@program()
def keyed_map(inputs: Inputs) -> DataStream:
    return inputs.keyed.map(Numbered())


# Two inputs


def register_later(ctx: Any, timestamp: int) -> None:
    """Register a timer that is not due yet: one that is would fire with the first watermark after a restore, before its turn ends."""
    timers = ctx.timer_service()
    timers.register_event_time_timer(max(timestamp, timers.current_watermark() + 1))


class Balance(KeyedCoProcessFunction):
    """Adds one input up and the other one down; a timer emits the balance."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum"))

    def process_element1(self, value: Event, ctx: Any) -> None:
        self._add(value[1], ctx)

    def process_element2(self, value: Event, ctx: Any) -> None:
        self._add(-value[1], ctx)

    def _add(self, amount: int, ctx: Any) -> None:
        self.sum.update((self.sum.value() or 0) + amount)
        register_later(ctx, ctx.timestamp() // 700 * 700 + 1_400)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, self.sum.value()


@program()
def keyed_co_process(inputs: Inputs) -> DataStream:
    return inputs.left.connect(inputs.right).key_by(key_of, key_of).process(Balance())


RULES = MapStateDescriptor("rules")


class Price(BroadcastProcessFunction):
    """Emits records with what the rules say about their number."""

    def process_element(self, value: Event, ctx: Any) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        yield value, rules.get(value[1] % 8), len(list(rules.items()))

    def process_broadcast_element(self, value: Event, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value[1], f"rule {value[1]}")


@program("operator")
def broadcast_process(inputs: Inputs) -> DataStream:
    return inputs.later.connect(inputs.rules.broadcast(RULES)).process(Price())


class KeyedPrice(KeyedBroadcastProcessFunction):
    """Counts the records of a key; timers emit the count with what the rules say."""

    def open(self, runtime_context: Any) -> None:
        self.descriptor = ValueStateDescriptor("count")
        self.count = runtime_context.get_state(self.descriptor)

    def process_element(self, value: Event, ctx: Any) -> None:
        self.count.update((self.count.value() or 0) + 1)
        register_later(ctx, value[2] + 1_000)

    def process_broadcast_element(self, value: Event, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(RULES)
        rules.put(value[1] % 8, (rules.get(value[1] % 8) or 0) + 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        rules = sorted(ctx.get_broadcast_state(RULES).items())
        yield ctx.get_current_key(), timestamp, self.count.value(), rules


@program()
def keyed_broadcast_process(inputs: Inputs) -> DataStream:
    return inputs.keyed.connect(inputs.right.broadcast(RULES)).process(KeyedPrice())


@program("operator")
def rules_of_a_keyed_broadcast_process(inputs: Inputs) -> DataStream:
    return inputs.keyed.connect(inputs.right.broadcast(RULES)).process(KeyedPrice())


class Pair(ProcessJoinFunction):
    def process_element(self, left: Event, right: Event, ctx: Any) -> Iterator[Any]:
        yield left, right, ctx.get_timestamp()


@program()
def interval_join(inputs: Inputs) -> DataStream:
    joined = inputs.keyed.interval_join(inputs.right.key_by(key_of))
    return with_late(
        joined.between(-600, 900)
        .side_output_left_late_data(LATE)
        .side_output_right_late_data(LATE)
        .process(Pair())
    )


@program()
def window_join(inputs: Inputs) -> DataStream:
    joined = inputs.left.join(inputs.right).where(key_of).equal_to(key_of)
    return joined.window(SECOND).apply(lambda left, right: (left, right))


class Groups(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Iterator[Any]:
        yield list(first), list(second)


@program()
def co_group(inputs: Inputs) -> DataStream:
    grouped = inputs.left.co_group(inputs.right).where(key_of).equal_to(key_of)
    return grouped.window(EventTimeSessionWindows.with_gap(Time.milliseconds(300))).apply(Groups())


# Operator state, asynchronous calls, partitions, sources


class Fives(FlatMapFunction, CheckpointedFunction):
    """Emits the records of a subtask five at a time; counts them in union state."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.waiting_state = store.get_list_state(ListStateDescriptor("waiting"))
        self.count_state = store.get_union_list_state(ListStateDescriptor("counts"))

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.waiting = list(self.waiting_state.get())
        self.count = dict(self.count_state.get()).get(self.subtask, 0)

    def snapshot_state(self, context: Any) -> None:
        self.waiting_state.update(self.waiting)
        self.count_state.update([(self.subtask, self.count)])

    def flat_map(self, value: Event) -> Iterator[Any]:
        self.waiting.append(value)
        self.count += 1
        if len(self.waiting) == 5:
            yield self.waiting, self.count
            self.waiting = []


@program("operator")
def checkpointed_function(inputs: Inputs) -> DataStream:
    return inputs.left.flat_map(Fives())


class Lookup(AsyncFunction):
    """Answers after the barrier: what waits is part of the checkpoint."""

    barrier_wait_millis = 0

    async def async_invoke(self, value: Event) -> list[Any]:
        # The barrier may come some time after the value.
        await asyncio.sleep(0.05 + value[1] % 3 / 1000)
        return [("found", value)]


@program("operator")
def async_ordered(inputs: Inputs) -> DataStream:
    return AsyncDataStream.ordered_wait(inputs.left, Lookup(), Time.seconds(30), 20)


@program("operator")
def async_unordered(inputs: Inputs) -> DataStream:
    return AsyncDataStream.unordered_wait(inputs.left, Lookup(), Time.seconds(30), 20)


@program()
def full_window_partition(inputs: Inputs) -> DataStream:
    return inputs.left.full_window_partition().sort_partition(1)


@program()
def full_window_partition_aggregate(inputs: Inputs) -> DataStream:
    return inputs.left.full_window_partition().aggregate(Digits())


@program("source")
def hybrid_source(inputs: Inputs) -> DataStream:
    first = inputs.steps("left", batches=3)
    second = inputs.steps("right!", batches=4, begin=4)
    source = HybridSource.builder(first).add_source(second)
    stream = inputs.env.from_source(source.build(), STRATEGY, "hybrid")
    return stream.key_by(key_of).window(SECOND).aggregate(Digits())


@program()
def pattern(inputs: Inputs) -> DataStream:
    rise = (
        Pattern.begin("low")
        .where(lambda value: value[1] % 2 == 0)
        .followed_by("high")
        .where(lambda value: value[1] % 3 == 0)
        .one_or_more()
        .within(Time.milliseconds(1_200))
    )
    return CEP.pattern(inputs.keyed, rise).select(lambda match: sorted(match.items()))


# All in one job

TOGETHER = [name for name, each in PROGRAMS.items() if not each.manual]


class Labelled(MapFunction):
    """Writes a result as a line with the name of its program."""

    def __init__(self, name: str) -> None:
        self.name = name

    def map(self, value: Any) -> str:
        return f"{self.name}: {value}"


def all_together(env: StreamExecutionEnvironment, turns: str | None = None) -> DataStream:
    """Put programs into one job; the result is a stream of lines."""
    inputs = Inputs(env, turns=turns)
    streams = [PROGRAMS[name].build(inputs).map(Labelled(name)) for name in TOGETHER]
    return streams[0].union(*streams[1:])


def main(directory: Path, master: str, way: dict[str, str]) -> None:
    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "penstock.job-id": JOB_ID,
        "penstock.state.inline-threshold": "1 b",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "0 ms",
        "spark.master": master,
        "spark.local.dir": f"{directory}/spark",
        **way,
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(PARALLELISM)
    all_together(env, f"{directory}/turns").sink_to(
        FileSink.for_row_format(f"{directory}/results", Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    env.execute("zoo")


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    main(Path(options["directory"]), options["master"], options.get("way", {}))
