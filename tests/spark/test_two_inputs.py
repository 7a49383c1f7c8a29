"""Connected and broadcast streams on Spark, and operator state over a change of parallelism."""

from __future__ import annotations

import pytest

from penstock.common import Configuration, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import (
    CheckpointedFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.errors import JobExecutionError

from .test_recovery import file_sink, lines

RULES = MapStateDescriptor("rules")
POISON = -1
JOB_ID = "0123456789abcdef0123456789abcdef"


class Time(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Balance(KeyedCoProcessFunction):
    """Counts one input up and the other one down; at the end of a key's time, emits the count."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element1(self, value, ctx):
        self._add(1, ctx)

    def process_element2(self, value, ctx):
        self._add(-1, ctx)

    def _add(self, step, ctx):
        self.count.update((self.count.value() or 0) + step)
        ctx.timer_service().register_event_time_timer(1_000)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value()


class Wait(KeyedBroadcastProcessFunction):
    """Counts elements per key; a timer emits the count with the broadcast name of the key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(1_000)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value % 5, f"name {value % 5}")

    def on_timer(self, timestamp, ctx):
        key = ctx.get_current_key()
        yield ctx.get_broadcast_state(RULES).get(key), self.count.value()


def numbers(env, last, name):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Time())
    return env.from_source(NumberSequenceSource(1, last), strategy, name)


def test_connected_and_broadcast_streams_share_state_and_time(env):
    env.set_parallelism(2)
    first, second = numbers(env, 100, "first"), numbers(env, 40, "second")
    balance = first.connect(second).key_by(lambda n: n % 5, lambda n: n % 5).process(Balance())
    named = first.key_by(lambda n: n % 5).connect(second.broadcast(RULES)).process(Wait())
    found = sorted(balance.map(str).union(named.map(str)).execute_and_collect())
    assert found == sorted(
        [f"({key}, 12)" for key in range(5)] + [f"('name {key}', 20)" for key in range(5)]
    )


class Stepwise(Source):
    """Each split is a list of numbers; one more split is found before each epoch.

    The numbers are not in the split: on a slow machine an epoch is over before the split it has found is read, the checkpoint
    holds that split, and a job that goes on is to read its own numbers there.
    """

    def __init__(self, *splits):
        self.splits = splits

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism, restored=None):
        return OneByOne(len(self.splits), restored or 0)

    def create_reader(self):
        return WholeSplits(self.splits)


class OneByOne(SplitEnumerator):
    def __init__(self, splits, found):
        self.splits = splits
        self.found = found

    def discover(self):
        new = range(self.splits)[self.found : self.found + 1]
        self.found += len(new)
        return [SourceSplit(str(number), number, 0) for number in new]

    def no_more_splits(self):
        return self.found == self.splits

    def snapshot(self):
        return self.found


class WholeSplits(SourceReader):
    def __init__(self, splits):
        self.splits = splits

    def read(self, split, position, limits):
        numbers = self.splits[split.payload]
        if position < len(numbers):
            yield SourceBatch(numbers[position:], len(numbers))


class Hold(FlatMapFunction, CheckpointedFunction):
    """Holds all numbers back until one above 100 comes; fails on the poison."""

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("held"))
        self.held = list(self.state.get())
        self.union = store.get_union_list_state(ListStateDescriptor("subtasks"))
        self.reported = list(self.union.get())

    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.parallelism = runtime_context.get_number_of_parallel_subtasks()
        # A subtask that is built again in another worker learns from those of its own parallelism how many were before.
        mine = [
            former for _, parallelism, former in self.reported if parallelism == self.parallelism
        ]
        self.former = mine[0] if mine else len(set(self.reported))

    def snapshot_state(self, context):
        self.state.update(self.held)
        self.union.update([(self.subtask, self.parallelism, self.former)])

    def flat_map(self, value):
        if value == POISON:
            raise ValueError("poison")
        self.held.append(value)
        if value > 100:
            held, self.held = self.held, []
            yield from (f"{each} {self.former}" for each in held)


def test_operator_state_is_redistributed_when_a_job_is_resumed_with_another_parallelism(tmp_path):
    def run(parallelism, *splits):
        options = {
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "penstock.job-id": JOB_ID,
            "execution.checkpointing.interval": "100 ms",
            "restart-strategy.type": "none",
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
        env.set_parallelism(parallelism)
        source = env.from_source(Stepwise(*splits), WatermarkStrategy.no_watermarks(), "in")
        stream = source.uid("in").set_parallelism(1).rebalance()
        stream.flat_map(Hold()).uid("hold").sink_to(file_sink(tmp_path / "out")).uid("out")
        env.execute("rescaled")

    with pytest.raises(JobExecutionError, match="poison"):
        run(2, [*range(10)], [POISON])
    # Every subtask gets one of these, and lets go of what it holds.
    run(3, [*range(10)], [101, 102, 103])
    found = [line.split() for line in lines(tmp_path / "out")]
    assert sorted(int(value) for value, _ in found) == [*range(10), 101, 102, 103]
    assert {former for _, former in found} == {"2"}
