"""Programs whose output depends on what the wall clock and chance decide: a replay must decide the same."""

from __future__ import annotations

import asyncio
import random

from penstock.common import Duration, Time, WatermarkStrategy
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
    AsyncDataStream,
    AsyncFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
)
from penstock.datastream.window import TumblingEventTimeWindows, TumblingProcessingTimeWindows

BATCHES = 40
PER_EPOCH = 12
BATCH = 5


class Bursts(Source):
    """Splits of numbered records in small batches; batches of any size when the split is read again, if `ragged`."""

    def __init__(self, splits=2, *, ragged=False):
        self.splits = splits
        self.ragged = ragged

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism, restored=None):
        return _Once(self.splits, found=bool(restored))

    def create_reader(self):
        return _BurstReader(self.ragged)


class _Once(SplitEnumerator):
    def __init__(self, splits, *, found):
        self._splits = splits
        self._found = found

    def discover(self):
        if self._found:
            return []
        self._found = True
        return [SourceSplit(f"s{n}", payload=n, start=0) for n in range(self._splits)]

    def no_more_splits(self):
        return self._found

    def snapshot(self):
        return self._found


class _BurstReader(SourceReader):
    reads = 0  # in this process

    def __init__(self, ragged):
        self._ragged = ragged

    def read(self, split, position, limits):
        end = min(position + PER_EPOCH * BATCH, BATCHES * BATCH)
        while position < BATCHES * BATCH:
            size = BATCH
            if self._ragged:
                _BurstReader.reads += 1
                size = 1 + _BurstReader.reads * 7 % 9
            stop = min(position + size, end)
            if stop == end and limits.deadline is not None:
                # The last batch of the interval comes when its time is up.
                while not limits.expired:
                    pass
            rows = [record(split.payload, number) for number in range(position, stop)]
            position = stop
            yield SourceBatch(rows, position, [row[2] for row in rows])
            if position == end:
                end = min(position + PER_EPOCH * BATCH, BATCHES * BATCH)


def record(split, number):
    late = 300 if number % 7 == 0 else number % 5 * 10
    return f"{split}-{number % 3}", number, max(number * 20 - late, 0)


STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(50))
LATE = OutputTag("late")


def read(env, splits=2, *, ragged=False):
    return env.from_source(Bursts(splits, ragged=ragged), STRATEGY, "bursts")


def key_of(value):
    return value[0]


def late_records(env, **options):
    """What is late depends on when watermarks are emitted."""
    windows = (
        read(env, 1, **options)
        .key_by(key_of)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
        .side_output_late_data(LATE)
    )
    counted = windows.reduce(lambda one, other: (one[0], one[1] + other[1], other[2]))
    return counted.union(counted.get_side_output(LATE).map(lambda value: ("late", value)))


class Numbered(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


def own_watermarks(env):
    """The same with an operator that assigns timestamps itself."""
    strategy = STRATEGY.with_timestamp_assigner(Numbered())
    stream = read(env, 1).map(lambda value: value).assign_timestamps_and_watermarks(strategy)
    return stream.process(ShowTime())


class ShowTime(ProcessFunction):
    def process_element(self, value, ctx):
        service = ctx.timer_service()
        yield value, service.current_watermark(), service.current_processing_time()


def clock_readings(env):
    return read(env).process(ShowTime())


class Alarms(KeyedProcessFunction):
    """Sets an alarm for each record, a moment ahead; some ring in the same interval, some in a later one."""

    def process_element(self, value, ctx):
        service = ctx.timer_service()
        now = service.current_processing_time()
        service.register_processing_time_timer(now + value[1] % 4)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_processing_time()


def alarms(env):
    return read(env).key_by(key_of).process(Alarms())


def processing_time_windows(env):
    return (
        read(env)
        .key_by(key_of)
        .window(TumblingProcessingTimeWindows.of(Time.milliseconds(3)))
        .reduce(lambda one, other: (one[0], one[1] + other[1], other[2]))
    )


class Placed(ProcessFunction):
    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value, ctx):
        yield value, self.subtask


def rebalanced(env):
    return read(env).filter(lambda value: value[1] % 4).rebalance().process(Placed())


def shuffled(env):
    return read(env).shuffle().process(Placed())


def running_order(env):
    """Every record is numbered in the order in which channels arrive."""
    return read(env, 3).rebalance().map(Order()).set_parallelism(1)


class Order:
    def __init__(self):
        self.seen = []

    def map(self, value):
        self.seen = [*self.seen[-2:], value[1]]
        return value, tuple(self.seen)

    def open(self, runtime_context):
        pass

    def close(self):
        pass


PROGRAMS = {
    each.__name__: each
    for each in (
        late_records,
        own_watermarks,
        clock_readings,
        alarms,
        processing_time_windows,
        rebalanced,
        shuffled,
    )
}


class Ask(AsyncFunction):
    """Answers sooner or later."""

    async def async_invoke(self, value):
        await asyncio.sleep(random.random() * 0.004)
        return ["asked", value]

    def timeout(self, value):
        return [("late", value)]


def asked(env, *, ordered, timeout_ms):
    """What is answered when, and what is not, depends on the services of the day."""
    wait = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    return wait(read(env), Ask(), Time.milliseconds(timeout_ms), 7)
