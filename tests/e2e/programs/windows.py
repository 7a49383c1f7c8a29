"""All kinds of windows over one input."""

from collections.abc import Iterable

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import (
    AggregateFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from pyflink.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp) -> int:
        return int(value[1])


class CountElements(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    def process(self, key, context, elements: Iterable[tuple]):
        return [(key, context.window().start, context.window().end, len(list(elements)))]


class SumElements(WindowFunction[tuple, tuple, str, TimeWindow]):
    def apply(self, key, window: TimeWindow, inputs: Iterable[tuple]):
        return [(key, sum(each[1] for each in inputs))]


class CountAll(ProcessAllWindowFunction[tuple, tuple, TimeWindow]):
    def process(self, context, elements: Iterable[tuple]):
        yield context.window().start, len(list(elements))


class Average(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: tuple) -> int:
        return element[1]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

COUNTED = Types.TUPLE([Types.STRING(), Types.INT(), Types.INT(), Types.INT()])
stream = env.from_collection(
    [("hi", 1), ("hi", 2), ("hi", 3), ("hi", 4), ("hi", 5), ("hi", 8), ("hi", 9), ("hi", 15)],
    type_info=Types.TUPLE([Types.STRING(), Types.INT()]),
)
timed = stream.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
)
keyed = timed.key_by(lambda value: value[0], key_type=Types.STRING())

keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(5))).process(
    CountElements(), COUNTED
).print("tumbling")
keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(5), Time.milliseconds(2))).process(
    CountElements(), COUNTED
).print("sliding")
keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(5))).process(
    CountElements(), COUNTED
).print("session")
keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(
    CountElements(), COUNTED
).print("dynamic session")
keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(5))).aggregate(
    Average(), output_type=Types.DOUBLE()
).print("average")
keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(5))).reduce(
    lambda one, other: (one[0], one[1] + other[1])
).print("reduced")
keyed.count_window(2).apply(SumElements(), Types.TUPLE([Types.STRING(), Types.INT()])).print(
    "count"
)
keyed.count_window(5, 2).apply(SumElements(), Types.TUPLE([Types.STRING(), Types.INT()])).print(
    "sliding count"
)
keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3))).apply(
    SumElements()
).print("global")
timed.window_all(TumblingEventTimeWindows.of(Time.milliseconds(5))).process(CountAll()).print("all")
env.execute("windows")
