"""The programs of the zoo that have windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zoo_inputs import (
    BATCH,
    CLOCK_MS,
    JITTER_MS,
    LATE,
    SECOND,
    STEP_MS,
    Digits,
    Event,
    Inputs,
    add,
    key_of,
    program,
    with_late,
)

from penstock.common import Time, WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator
from penstock.datastream import DataStream, ProcessWindowFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)


class Contents(ProcessWindowFunction):
    """Emits all that is in a window, and how often it and its key were evaluated."""

    def process(self, key: str, context: Any, elements: Any) -> Iterator[Any]:
        counts = []
        for store in (context.window_state(), context.global_state()):
            state = store.get_state(ValueStateDescriptor("evaluated"))
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield key, str(context.window()), list(elements), counts

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("evaluated")).clear()


class Listed(ProcessWindowFunction):
    """Emits all that is in a window that may merge with others."""

    def process(self, key: str, context: Any, elements: Any) -> Iterator[Any]:
        yield key, str(context.window()), list(elements)


@program()
def tumbling_reduce(inputs: Inputs) -> DataStream:
    return inputs.windows().reduce(add)


@program()
def tumbling_aggregate_with_window_function(inputs: Inputs) -> DataStream:
    return inputs.windows().aggregate(Digits(), window_function=Listed())


@program()
def tumbling_process_with_lateness(inputs: Inputs) -> DataStream:
    windows = inputs.windows().allowed_lateness(700).side_output_late_data(LATE)
    return with_late(windows.process(Contents()))


@program()
def tumbling_aggregate_with_lateness(inputs: Inputs) -> DataStream:
    windows = inputs.windows().allowed_lateness(700).side_output_late_data(LATE)
    return with_late(windows.aggregate(Digits()))


@program()
def sliding_aggregate(inputs: Inputs) -> DataStream:
    assigner = SlidingEventTimeWindows.of(Time.seconds(2), Time.milliseconds(500))
    return with_late(inputs.windows(assigner).side_output_late_data(LATE).aggregate(Digits()))


@program()
def sliding_process(inputs: Inputs) -> DataStream:
    assigner = SlidingEventTimeWindows.of(Time.seconds(2), Time.milliseconds(500))
    return inputs.windows(assigner).process(Contents())


@program()
def session_reduce(inputs: Inputs) -> DataStream:
    return inputs.windows(EventTimeSessionWindows.with_gap(Time.milliseconds(400))).reduce(add)


@program()
def session_process_with_lateness(inputs: Inputs) -> DataStream:
    windows = inputs.windows(EventTimeSessionWindows.with_gap(Time.milliseconds(400)))
    windows = windows.allowed_lateness(500).side_output_late_data(LATE)
    return with_late(windows.process(Listed()))


@program()
def count_window(inputs: Inputs) -> DataStream:
    return inputs.keyed.count_window(3).reduce(add)


@program()
def sliding_count_window(inputs: Inputs) -> DataStream:
    return inputs.keyed.count_window(5, 2).process(Listed())


@program()
def window_of_all(inputs: Inputs) -> DataStream:
    return inputs.left.window_all(SECOND).reduce(lambda a, b: ("all", a[1] + b[1], 0))


@program()
def window_that_fires_early(inputs: Inputs) -> DataStream:
    windows = inputs.windows(TumblingEventTimeWindows.of(Time.seconds(3)))
    return windows.trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(700))).aggregate(
        Digits()
    )


@program()
def window_that_is_purged(inputs: Inputs) -> DataStream:
    windows = inputs.windows(GlobalWindows.create())
    return windows.trigger(PurgingTrigger.of(CountTrigger.of(4))).process(Contents())


@program()
def count_evictor(inputs: Inputs) -> DataStream:
    return inputs.windows().evictor(CountEvictor.of(2)).process(Contents())


@program()
def time_evictor(inputs: Inputs) -> DataStream:
    windows = inputs.windows(GlobalWindows.create()).trigger(CountTrigger.of(3))
    return windows.evictor(TimeEvictor.of(Time.milliseconds(900))).aggregate(Digits())


@program()
def local_global_aggregate(inputs: Inputs) -> DataStream:
    return inputs.windows().aggregate(Digits(), local_global=True)


@program(manual=True)
def processing_time_windows(inputs: Inputs) -> DataStream:
    assigner = TumblingProcessingTimeWindows.of(Time.milliseconds(2 * CLOCK_MS))
    return inputs.windows(assigner).aggregate(Digits(), window_function=Listed())


class Counted(WatermarkGenerator):
    """Time goes by the number of records, batch by batch: the generator must know how many there were."""

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Event, timestamp: int, output: Any) -> None:
        self.count += 1
        if self.count % BATCH == 0:
            output.emit_watermark(self.count * STEP_MS - JITTER_MS)

    def on_periodic_emit(self, output: Any) -> None:
        pass

    def snapshot(self) -> int:
        return self.count

    def restore(self, state: int) -> None:
        self.count = state


@program("operator")
def watermarks_within_the_program(inputs: Inputs) -> DataStream:
    strategy = WatermarkStrategy.for_generator(Counted).with_timestamp_assigner(
        lambda value, _: value[2]
    )
    stamped = inputs.left.map(lambda value: value).assign_timestamps_and_watermarks(strategy)
    windows = stamped.key_by(key_of).window(SECOND).side_output_late_data(LATE)
    return with_late(windows.aggregate(Digits()))
