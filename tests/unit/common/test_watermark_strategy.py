from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_strategy import (
    AscendingTimestampsWatermarks,
    AssignerWithPeriodicWatermarksWrapper,
    BoundedOutOfOrdernessWatermarks,
    NoWatermarks,
    TimestampAssigner,
    Watermark,
    WatermarkAlignment,
    WatermarkGenerator,
    WatermarkOutput,
)
from penstock.errors import ArgumentError, ArgumentTypeError, UnsupportedOperationError

MIN = -(2**63)


class Output(WatermarkOutput):
    def __init__(self):
        self.emitted = []

    def emit_watermark(self, watermark):
        self.emitted.append(watermark)

    def mark_idle(self):
        self.emitted.append("idle")

    def mark_active(self):
        self.emitted.append("active")


class FirstField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


class Punctuated(WatermarkGenerator):
    def on_event(self, event, timestamp, output):
        if event == "end":
            output.emit_watermark(Watermark(timestamp))

    def on_periodic_emit(self, output):
        pass


@pytest.mark.parametrize(
    ("generator", "timestamps", "expected"),
    [
        (BoundedOutOfOrdernessWatermarks(Duration.of_millis(5)), [], MIN),
        (BoundedOutOfOrdernessWatermarks(5), [10], 4),
        (BoundedOutOfOrdernessWatermarks(5), [10, 30, 20], 24),
        (BoundedOutOfOrdernessWatermarks(5), [MIN], MIN),
        (BoundedOutOfOrdernessWatermarks(0), [-7], -8),
        (AscendingTimestampsWatermarks(), [], MIN),
        (AscendingTimestampsWatermarks(), [10], 9),
    ],
    ids=["none", "one", "out of order", "lowest", "negative", "ascending none", "ascending"],
)
def test_a_watermark_trails_the_highest_timestamp(generator, timestamps, expected):
    output = Output()
    for timestamp in timestamps:
        generator.on_event(None, timestamp, output)
    assert output.emitted == []
    generator.on_periodic_emit(output)
    assert output.emitted == [expected]


@given(
    st.integers(0, 1000),
    st.lists(st.integers(-(10**6), 10**6)),
    st.lists(st.integers(-(10**6), 10**6)),
)
def test_a_restored_generator_goes_on_where_the_other_stopped(bound, before, after):
    whole, first = BoundedOutOfOrdernessWatermarks(bound), BoundedOutOfOrdernessWatermarks(bound)
    for timestamp in before:
        whole.on_event(None, timestamp, Output())
        first.on_event(None, timestamp, Output())
    second = BoundedOutOfOrdernessWatermarks(bound)
    second.restore(pickle.loads(pickle.dumps(first.snapshot())))
    for timestamp in after:
        whole.on_event(None, timestamp, Output())
        second.on_event(None, timestamp, Output())
    assert second.current_watermark() == whole.current_watermark()


@pytest.mark.parametrize(
    ("strategy", "generator", "bound", "emits"),
    [
        (
            WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)),
            BoundedOutOfOrdernessWatermarks,
            5000,
            True,
        ),
        (WatermarkStrategy.for_monotonous_timestamps(), AscendingTimestampsWatermarks, 0, True),
        (WatermarkStrategy.no_watermarks(), NoWatermarks, None, False),
        (WatermarkStrategy.for_generator(Punctuated), Punctuated, None, True),
        (WatermarkStrategy.for_generator(lambda: Punctuated()), Punctuated, None, True),
    ],
    ids=["bounded", "monotonous", "none", "class", "function"],
)
def test_a_strategy_creates_its_generator(strategy, generator, bound, emits):
    created = strategy.create_generator()
    assert type(created) is generator
    assert created is not strategy.create_generator()
    assert strategy.max_out_of_orderness_ms == bound
    assert strategy.emits_watermarks is emits
    assert strategy.timestamp_assigner is None
    assert strategy.idle_timeout_ms is None


def test_the_generator_has_the_bound_of_the_strategy():
    assert (
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(7))
        .create_generator()
        .bound
        == 7
    )


def test_a_generator_may_emit_at_an_event():
    output = Output()
    generator = WatermarkStrategy.for_generator(Punctuated).create_generator()
    generator.on_event("a", 1, output)
    generator.on_event("end", 2, output)
    generator.on_periodic_emit(output)
    assert output.emitted == [Watermark(2)]
    assert Watermark(2).get_timestamp() == 2
    assert generator.snapshot() is None


def test_no_watermarks_emits_nothing():
    output = Output()
    generator = NoWatermarks()
    generator.on_event(None, 5, output)
    generator.on_periodic_emit(output)
    assert output.emitted == []


@pytest.mark.parametrize(
    "assigner", [FirstField(), lambda value, timestamp: value[0]], ids=["object", "function"]
)
def test_timestamps_come_from_an_assigner_or_a_function(assigner):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
    assert strategy.timestamp_assigner.extract_timestamp((42, "x"), MIN) == 42


def test_settings_make_another_strategy_and_keep_each_other():
    base = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1))
    assigner = FirstField()
    rich = (
        base.with_timestamp_assigner(assigner)
        .with_idleness(Duration.of_minutes(1))
        .with_watermark_alignment("group", Duration.of_seconds(20))
    )
    assert (base.timestamp_assigner, base.idle_timeout_ms, base.watermark_alignment) == (
        None,
        None,
        None,
    )
    assert rich.timestamp_assigner is assigner
    assert rich.idle_timeout_ms == 60_000
    assert rich.watermark_alignment == WatermarkAlignment("group", 20_000, 1000)
    assert rich.max_out_of_orderness_ms == 1
    faster = rich.with_watermark_alignment("group", Duration.of_millis(5), Duration.of_millis(10))
    assert faster.watermark_alignment == WatermarkAlignment("group", 5, 10)


def test_a_strategy_survives_pickling():
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_millis(5)
    ).with_timestamp_assigner(FirstField())
    again = pickle.loads(pickle.dumps(strategy))
    assert again.create_generator().bound == 5
    assert again.timestamp_assigner.extract_timestamp((1,), MIN) == 1


@pytest.mark.parametrize(
    ("act", "error", "match"),
    [
        (
            lambda s: s.for_bounded_out_of_orderness("5 s"),
            ArgumentTypeError,
            "max_out_of_orderness",
        ),
        (
            lambda s: s.for_bounded_out_of_orderness(Duration.of_millis(-1)),
            ArgumentError,
            "at least 0",
        ),
        (lambda s: s.for_bounded_out_of_orderness(5), ArgumentTypeError, "not an amount of time"),
        (lambda s: s.no_watermarks().with_idleness(5), ArgumentTypeError, "not an amount of time"),
        (
            lambda s: s.no_watermarks().with_idleness(Duration.of_millis(0)),
            ArgumentError,
            "at least 1",
        ),
        (
            lambda s: s.no_watermarks().with_timestamp_assigner(5),
            ArgumentTypeError,
            "not a timestamp assigner",
        ),
        (
            lambda s: s.no_watermarks().with_timestamp_assigner(FirstField),
            ArgumentTypeError,
            r"FirstField\(\)",
        ),
        (lambda s: s.for_generator(Punctuated()), ArgumentTypeError, "supplier"),
        (lambda s: s.for_generator(5), ArgumentTypeError, "supplier"),
        (
            lambda s: s.for_generator(list).create_generator(),
            ArgumentTypeError,
            "WatermarkGenerator",
        ),
        (lambda s: s.no_watermarks().with_watermark_alignment("", 5), ArgumentTypeError, "group"),
        (lambda s: AssignerWithPeriodicWatermarksWrapper(None), UnsupportedOperationError, "Java"),
    ],
    ids=[
        "text",
        "negative",
        "bound as int",
        "idleness as int",
        "idleness",
        "number",
        "class",
        "instance",
        "no supplier",
        "wrong product",
        "group",
        "java",
    ],
)
def test_arguments_are_checked(act, error, match):
    with pytest.raises(error, match=match):
        act(WatermarkStrategy)
