"""Rules 1 to 5: timestamps, watermarks, timers."""

from __future__ import annotations

import pytest

from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_strategy import Watermark, WatermarkGenerator
from penstock.datastream import KeyedProcessFunction, OutputTag, ProcessFunction
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.state_descriptors.descriptors import ValueStateDescriptor
from penstock.time.time_domain import TimeDomain
from tests.builders.scripted import LOG, MIN, MONOTONOUS, NONE, collect, environment, read, take

SECOND = 1000


def bounded(millis):
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(millis))


class Watermarks(ProcessFunction):
    """Emits (value, timestamp, watermark)."""

    def process_element(self, value, ctx):
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


def several_epochs_of(parallelism=1):
    """Checkpoint as often as possible: one batch of each split per epoch."""
    return environment(parallelism, checkpoints=10)


@pytest.mark.parametrize("chained", [True, False], ids=["chained", "over an exchange"])
@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        pytest.param(bounded(5), [MIN, 4, 14, 14], id="bounded: max - bound - 1"),
        pytest.param(MONOTONOUS, [MIN, 9, 19, 19], id="monotonous: bound 0"),
        pytest.param(NONE, [MIN, MIN, MIN, MIN], id="none"),
    ],
)
def test_rule_1_the_watermark_after_each_batch(strategy, expected, chained):
    env = several_epochs_of()
    stream = read(env, [[("a", 10)], [("b", 20)], [("c", 15)], [("d", 30)]], strategy=strategy)
    seen = collect((stream if chained else stream.rebalance()).process(Watermarks()))
    assert [watermark for _, _, watermark in seen] == expected
    assert [timestamp for _, timestamp, _ in seen] == [10, 20, 15, 30]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_rule_1_assign_timestamps_and_watermarks_does_the_same_after_a_step(parallelism):
    env = several_epochs_of()
    strategy = bounded(5).with_timestamp_assigner(lambda value, _: value * 10)
    stream = (
        read(env, [[1], [2], [3]])
        .map(lambda n: n)
        .set_parallelism(parallelism)
        .assign_timestamps_and_watermarks(strategy)
        .set_parallelism(parallelism)
        .process(Watermarks())
        .set_parallelism(1)
    )
    seen = collect(stream)
    assert [(value, timestamp) for value, timestamp, _ in seen] == [(1, 10), (2, 20), (3, 30)]
    expected = {1: [MIN, 4, 14], 2: [MIN, MIN, 4]}  # two subtasks: the minimum over both
    assert [watermark for *_, watermark in seen] == expected[parallelism]


class OnEven(WatermarkGenerator):
    def on_event(self, event, timestamp, output):
        if event % 2 == 0:
            output.emit_watermark(Watermark(timestamp))

    def on_periodic_emit(self, output):
        LOG("periodic")


def test_rule_2_a_generator_emits_between_two_elements():
    env = environment()
    strategy = WatermarkStrategy.for_generator(OnEven)
    stream = read(env, [[(1, 10), (2, 20), (3, 30), (4, 25), (5, 50)]], strategy=strategy)
    assert [each[2] for each in collect(stream.process(Watermarks()))] == [MIN, MIN, 20, 20, 25]


def test_rule_2_watermarks_are_not_emitted_per_element_but_periodically():
    env = environment()
    env.get_config().set_auto_watermark_interval(60_000)  # longer than this job reads
    stream = read(env, [[(1, 10), (2, 20)], [(3, 30)]], strategy=MONOTONOUS)
    assert {each[2] for each in collect(stream.process(Watermarks()))} == {MIN}


def test_rule_2_the_periodic_call_comes_at_least_once_an_epoch():
    env = several_epochs_of()
    strategy = WatermarkStrategy.for_generator(OnEven)
    collect(read(env, [[(1, 10)], [(3, 30)]], strategy=strategy).map(lambda n: n))
    assert LOG.lines.count("periodic") >= 2


def test_rule_3_three_channels_to_the_letter(mode):
    # A record at t + 1 makes watermark t. An empty batch says nothing in that epoch.
    channels = [
        [[1], [13], [], [], [21], [99]],
        [[1], [], [16], [], [], [99]],
        [[1], [11], [], [18], [], [99]],
    ]
    env = several_epochs_of()
    streams = [
        read(
            env,
            [[(f"c{n}", time) for time in batch] for batch in batches],
            strategy=MONOTONOUS,
            bounded=False,
            name=f"source {n}",
        )
        for n, batches in enumerate(channels)
    ]
    seen = take(streams[0].union(*streams[1:]).process(Watermarks()), 11)
    by_epoch = [{mark for _, time, mark in seen if time in times} for times in _times(channels)]
    # what the elements of an epoch see is the valve's output of the epoch before
    assert by_epoch[:-1] == [{MIN}, {0}, {0}, {10}, {12}]
    # in pipelined mode, what one channel brings at last may be seen by the last of another
    assert by_epoch[-1] == {15} if mode == "epochs" else min(by_epoch[-1]) == 15


def _times(channels):
    return [
        {time for batches in channels for time in batches[checkpoint_id]}
        for checkpoint_id in range(6)
    ]


class Remind(KeyedProcessFunction):
    """Sets an event-time timer `delay` after each element's value."""

    def __init__(self, delay=0, failing=False):
        self.delay = delay
        self.failing = failing

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_event_time_timer(value[1] + self.delay)
        timers.register_event_time_timer(value[1] + self.delay)  # twice is once

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, ctx.time_domain() is TimeDomain.EVENT_TIME


def timed(*pairs):
    return [(pair, pair[1]) for pair in pairs]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_rule_4_the_end_of_input_fires_all_event_time_timers(parallelism):
    env = environment(parallelism)
    stream = read(env, [timed(("a", 1), ("b", 5))], strategy=MONOTONOUS)
    fired = collect(stream.key_by(lambda pair: pair[0]).process(Remind(10**15)))
    assert sorted(fired) == [("a", 10**15 + 1, True), ("b", 10**15 + 5, True)]


class RemindByClock(KeyedProcessFunction):
    def __init__(self, delay):
        self.delay = delay

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + self.delay)
        yield "element"

    def on_timer(self, timestamp, ctx):
        assert ctx.time_domain() is TimeDomain.PROCESSING_TIME
        assert ctx.timer_service().current_processing_time() >= timestamp
        yield "timer"


@pytest.mark.parametrize(
    ("several_epochs", "delay"),
    [
        pytest.param(False, 60 * SECOND, id="one epoch"),
        pytest.param(True, 60 * SECOND, id="several epochs"),
        pytest.param(False, 0, id="due, and the input has ended"),
    ],
)
def test_rule_4_processing_time_timers_that_are_pending_at_the_end_do_not_fire(
    several_epochs, delay, mode
):
    env = several_epochs_of(2) if several_epochs else environment(2)
    stream = read(env, [[("a", 1)], [("b", 2)]]).key_by(lambda value: value)
    seen = collect(stream.process(RemindByClock(delay)))
    if mode == "pipelined" and not delay:  # its time comes before the end of the input does
        seen = [each for each in seen if each == "element"]
    assert seen == ["element", "element"]


def test_processing_time_timers_fire_without_data_in_a_job_without_an_end():
    env = several_epochs_of(2)
    stream = read(env, [["a"]], bounded=False).key_by(lambda value: value)
    assert take(stream.process(RemindByClock(150)), 2) == ["element", "timer"]


def test_rule_5_timers_fire_in_time_order_once_when_the_watermark_has_come():
    env = environment()
    pairs = timed(("a", 30), ("a", 10), ("b", 20), ("a", 10))
    stream = read(env, [pairs], strategy=MONOTONOUS).key_by(lambda pair: pair[0])
    assert collect(stream.process(Remind())) == [
        ("a", 10, True),
        ("b", 20, True),
        ("a", 30, True),
    ]


def test_rule_5_a_timer_waits_for_its_watermark():
    class Sees(Remind):
        def process_element(self, value, ctx):
            super().process_element(value, ctx)
            yield value

    env = several_epochs_of()
    batches = [timed(("a", 10)), timed(("a", 110)), timed(("a", 111)), timed(("a", 112))]
    stream = read(env, batches, strategy=MONOTONOUS).key_by(lambda pair: pair[0])
    seen = collect(stream.process(Sees(100)))
    # watermark 109 after the second element, 110 after the third
    assert seen[:5] == [("a", 10), ("a", 110), ("a", 111), ("a", 110, True), ("a", 112)]


class FailOnce(Remind):
    """Raises in the second epoch of the first run; counts elements in keyed state."""

    def open(self, context):
        self.attempt = context.get_attempt_number()
        self.count = context.get_state(ValueStateDescriptor("count", None))

    def process_element(self, value, ctx):
        if value[1] == 20 and self.attempt == 0:
            raise RuntimeError("as planned")
        self.count.update((self.count.value() or 0) + 1)
        super().process_element(value, ctx)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, self.count.value()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_rule_5_timers_and_state_survive_a_restore(parallelism, cluster):
    env = several_epochs_of(parallelism)
    batches = [timed(("a", 10), ("b", 11)), timed(("a", 20)), timed(("b", 30))]
    stream = read(env, batches, strategy=MONOTONOUS).key_by(lambda pair: pair[0])
    fired = collect(stream.process(FailOnce(1000)))
    assert sorted(fired) == [("a", 1010, 2), ("a", 1020, 2), ("b", 1011, 2), ("b", 1030, 2)]
    assert cluster.masters[0].restarts == 1


# Idleness and splits


def window_counts(stream, size=10):
    return (
        stream.map(lambda value: (value, 1))
        .key_by(lambda _: "all")
        .window(TumblingEventTimeWindows.of(Duration.of_millis(size)))
        .reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]))
    )


@pytest.mark.parametrize("parallelism", [1, 2])
def test_idleness_lets_a_window_fire_although_one_source_is_silent(parallelism):
    env = several_epochs_of(parallelism)
    idle = MONOTONOUS.with_idleness(Duration.of_millis(50))
    loud = read(env, [[("a", 1), ("b", 2)], [("c", 25)]], strategy=idle, bounded=False, name="loud")
    silent = read(env, [], strategy=idle, bounded=False, name="silent")
    assert take(window_counts(loud.union(silent)), 1) == [("ab", 2)]


def test_without_idleness_a_silent_source_holds_all_windows_back():
    env = several_epochs_of()
    loud = read(env, [[("a", 1)], [("b", 25)], [("c", 35)]], strategy=MONOTONOUS, name="loud")
    quiet = read(env, [[], [], [], [], [("q", 2)]], strategy=MONOTONOUS, name="quiet")
    stream = loud.union(quiet)
    windows = collect(window_counts(stream))
    assert ("aq", 2) in windows  # q@2 came last and was not late


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("several_epochs", [False, True], ids=["one epoch", "several epochs"])
def test_watermarks_per_split_keep_the_records_of_a_late_partition(parallelism, several_epochs):
    env = several_epochs_of(parallelism) if several_epochs else environment(parallelism)
    env.get_config().set_auto_watermark_interval(1)
    fast = [[(f"f{n}-{i}", 1000 * n + i) for i in range(5)] for n in range(6)]
    slow = [[(f"s{n}-{i}", 100 * n + i) for i in range(5)] for n in range(6)]
    late = OutputTag("late")
    windows = (
        read(env, fast, slow, strategy=MONOTONOUS)
        .map(lambda value: (value, 1))
        .key_by(lambda pair: pair[0][0])
        .window(TumblingEventTimeWindows.of(Duration.of_millis(50)))
        .side_output_late_data(late)
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )
    windows.get_side_output(late).map(lambda value: LOG(value))
    assert sum(count for _, count in collect(windows)) == 60
    assert LOG.lines == []
