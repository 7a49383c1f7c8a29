"""Window assigners and the arguments they refuse."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.errors import ArgumentError, ArgumentTypeError, MissingTimestampError
from penstock.time.durations import Duration, Time
from penstock.windowing import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    MergingWindowAssigner,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssignerContext,
)

S = Time.seconds
MIN, MAX = -(2**63), 2**63 - 1


class Value:
    def __init__(self):
        self.held = None

    def value(self):
        return self.held

    def update(self, value):
        self.held = value


class Context(WindowAssignerContext):
    def __init__(self, now=0):
        self.now = now
        self.state = Value()

    def get_current_processing_time(self):
        return self.now

    def get_runtime_context(self):
        return None

    def get_partitioned_state(self, state_descriptor):
        return self.state


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element

    def __repr__(self):
        return "Gap()"


@pytest.mark.parametrize(
    ("assigner", "timestamp", "expected"),
    [
        pytest.param(TumblingEventTimeWindows.of(S(5)), 4999, [(0, 5000)], id="tumbling, last"),
        pytest.param(TumblingEventTimeWindows.of(S(5)), 5000, [(5000, 10000)], id="tumbling, next"),
        pytest.param(
            TumblingEventTimeWindows.of(S(5), Time.milliseconds(100)),
            0,
            [(-4900, 100)],
            id="tumbling, offset",
        ),
        pytest.param(
            TumblingEventTimeWindows.of(timedelta(seconds=5), Duration.of_millis(-100)),
            0,
            [(-100, 4900)],
            id="tumbling, negative offset",
        ),
        pytest.param(
            SlidingEventTimeWindows.of(S(5), S(1)),
            4999,
            [(4000, 9000), (3000, 8000), (2000, 7000), (1000, 6000), (0, 5000)],
            id="sliding",
        ),
        pytest.param(
            SlidingEventTimeWindows(5, 2, 0), 1, [(0, 5), (-2, 3)], id="sliding, odd, two"
        ),
        pytest.param(
            SlidingEventTimeWindows(5, 2, 0), 2, [(2, 7), (0, 5), (-2, 3)], id="sliding, odd, three"
        ),
        pytest.param(SlidingEventTimeWindows(2, 5, 0), 3, [], id="sliding, in a gap"),
        pytest.param(SlidingEventTimeWindows(2, 5, 0), 6, [(5, 7)], id="sliding, beside a gap"),
        pytest.param(
            SlidingEventTimeWindows.of(S(5), S(1), Time.milliseconds(100)),
            100,
            [(100, 5100), (-900, 4100), (-1900, 3100), (-2900, 2100), (-3900, 1100)],
            id="sliding, offset",
        ),
        pytest.param(EventTimeSessionWindows.with_gap(S(3)), 10, [(10, 3010)], id="session"),
        pytest.param(
            EventTimeSessionWindows.with_dynamic_gap(Gap()), 10, [(10, 17)], id="dynamic session"
        ),
        pytest.param(
            DynamicEventTimeSessionWindows.with_dynamic_gap(lambda element: element + 1),
            10,
            [(10, 18)],
            id="dynamic session, function",
        ),
        pytest.param(
            TumblingProcessingTimeWindows.of(S(5)), 1, [(10000, 15000)], id="tumbling, clock"
        ),
        pytest.param(
            SlidingProcessingTimeWindows.of(S(4), S(2)),
            1,
            [(12000, 16000), (10000, 14000)],
            id="sliding, clock",
        ),
        pytest.param(
            ProcessingTimeSessionWindows.with_gap(S(1)), 1, [(12500, 13500)], id="session, clock"
        ),
        pytest.param(
            ProcessingTimeSessionWindows.with_dynamic_gap(Gap()),
            1,
            [(12500, 12507)],
            id="dynamic session, clock",
        ),
    ],
)
def test_an_element_belongs_to_these_windows(assigner, timestamp, expected):
    windows = assigner.assign_windows(7, timestamp, Context(now=12500))
    assert list(windows) == [TimeWindow(*window) for window in expected]


def test_all_elements_belong_to_the_global_window():
    assert list(GlobalWindows.create().assign_windows("x", 1, Context())) == [GlobalWindow()]


@pytest.mark.parametrize(
    ("assigner", "expected"),
    [
        pytest.param(CountTumblingWindowAssigner.of(2), [[0], [0], [1], [1], [2]], id="tumbling"),
        pytest.param(
            CountSlidingWindowAssigner.of(3, 2), [[0], [0], [1, 0], [1], [2, 1]], id="sliding"
        ),
        pytest.param(
            CountSlidingWindowAssigner.of(2, 3), [[0], [0], [], [1], [1]], id="sliding with gaps"
        ),
        pytest.param(
            CountSlidingWindowAssigner.of(3, 2, partial=True),
            [[0], [1, 0], [1], [2, 1], [2]],
            id="sliding, partial",
        ),
        pytest.param(
            CountSlidingWindowAssigner.of(2, 3, partial=True),
            [[], [0], [0], [], [1]],
            id="sliding with gaps, partial",
        ),
    ],
)
def test_count_windows_are_numbered(assigner, expected):
    context = Context()
    numbers = [[window.id for window in assigner.assign_windows("x", 0, context)] for _ in expected]
    assert numbers == expected


@pytest.mark.parametrize(
    ("assigner", "trigger", "event_time", "merges"),
    [
        (TumblingEventTimeWindows(5, 0), EventTimeTrigger, True, False),
        (SlidingEventTimeWindows(5, 1, 0), EventTimeTrigger, True, False),
        (EventTimeSessionWindows(5), EventTimeTrigger, True, True),
        (DynamicEventTimeSessionWindows(Gap()), EventTimeTrigger, True, True),
        (TumblingProcessingTimeWindows(5, 0), ProcessingTimeTrigger, False, False),
        (SlidingProcessingTimeWindows(5, 1, 0), ProcessingTimeTrigger, False, False),
        (ProcessingTimeSessionWindows(5), ProcessingTimeTrigger, False, True),
        (DynamicProcessingTimeSessionWindows(Gap()), ProcessingTimeTrigger, False, True),
        (GlobalWindows(), NeverTrigger, False, False),
    ],
    ids=lambda value: repr(value) if hasattr(value, "is_event_time") else "",
)
def test_each_assigner_has_its_default_trigger_and_time(assigner, trigger, event_time, merges):
    assert type(assigner.get_default_trigger(None)) is trigger
    assert assigner.is_event_time() is event_time
    assert isinstance(assigner, MergingWindowAssigner) is merges


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: TumblingEventTimeWindows.of(S(0)), id="size 0"),
        pytest.param(lambda: TumblingEventTimeWindows.of(S(-1)), id="size < 0"),
        pytest.param(lambda: TumblingEventTimeWindows.of(S(5), S(5)), id="offset = size"),
        pytest.param(lambda: TumblingProcessingTimeWindows.of(S(5), S(-5)), id="offset = -size"),
        pytest.param(lambda: SlidingEventTimeWindows.of(S(0), S(1)), id="sliding size 0"),
        pytest.param(lambda: SlidingEventTimeWindows.of(S(1), S(0)), id="slide 0"),
        pytest.param(
            lambda: SlidingProcessingTimeWindows.of(S(5), S(1), S(1)), id="offset = slide"
        ),
        pytest.param(lambda: EventTimeSessionWindows.with_gap(S(0)), id="gap 0"),
        pytest.param(lambda: ProcessingTimeSessionWindows.with_gap(S(-1)), id="gap < 0"),
        pytest.param(lambda: CountTumblingWindowAssigner.of(0), id="count 0"),
        pytest.param(lambda: CountSlidingWindowAssigner.of(2, 0), id="count slide 0"),
        pytest.param(lambda: CountTrigger.of(0), id="count trigger 0"),
        pytest.param(lambda: ContinuousEventTimeTrigger.of(S(0)), id="interval 0"),
        pytest.param(lambda: ContinuousProcessingTimeTrigger.of(S(-1)), id="interval < 0"),
    ],
)
def test_an_argument_that_cannot_work_is_refused_at_once(make):
    with pytest.raises(ArgumentError):
        make()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: TumblingEventTimeWindows.of("5 s"), id="size as text"),
        pytest.param(lambda: TumblingEventTimeWindows(5.0, 0), id="size as float"),
        pytest.param(lambda: TumblingEventTimeWindows(5, None), id="offset None"),
        pytest.param(lambda: CountTrigger("3"), id="count as text"),
        pytest.param(lambda: CountTumblingWindowAssigner(True), id="count as bool"),
        pytest.param(lambda: EventTimeSessionWindows.with_dynamic_gap(3), id="extractor as int"),
        pytest.param(lambda: TumblingEventTimeWindows.of(10), id="tumbling size as int"),
        pytest.param(lambda: TumblingEventTimeWindows.of(S(10), 5), id="offset as int"),
        pytest.param(lambda: SlidingEventTimeWindows.of(S(10), 5), id="slide as int"),
        pytest.param(lambda: EventTimeSessionWindows.with_gap(10), id="gap as int"),
        pytest.param(lambda: ContinuousEventTimeTrigger.of(10), id="interval as int"),
        pytest.param(lambda: DeltaTrigger.of(1, 3), id="delta function as int"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused_at_once(make):
    with pytest.raises(ArgumentTypeError):
        make()


def test_a_dynamic_gap_must_be_positive():
    with pytest.raises(ArgumentError, match="session gap must be positive, got 0"):
        DynamicEventTimeSessionWindows(Gap()).assign_windows(0, 10, Context())


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(5, 0),
        SlidingEventTimeWindows(5, 1, 0),
    ],
    ids=repr,
)
def test_an_event_time_window_needs_a_timestamp(assigner):
    with pytest.raises(MissingTimestampError, match="without a timestamp"):
        assigner.assign_windows("x", MIN, Context())


@pytest.mark.parametrize(
    "assigner",
    [EventTimeSessionWindows(5), DynamicEventTimeSessionWindows(lambda _: 5)],
    ids=["fixed gap", "dynamic gap"],
)
def test_an_element_without_a_timestamp_opens_the_first_session_as_in_flink(assigner):
    assert list(assigner.assign_windows("x", MIN, Context())) == [TimeWindow(MIN, MIN + 5)]


@pytest.mark.parametrize(
    ("assigner", "starts"),
    [
        (TumblingEventTimeWindows(1000, 0), [807]),
        (SlidingEventTimeWindows(1000, 500, 0), [307, 807]),
        (EventTimeSessionWindows(1000), [0]),
    ],
    ids=repr,
)
def test_windows_are_cut_off_at_the_end_of_time(assigner, starts):
    windows = assigner.assign_windows("x", MAX, Context())
    assert [(MAX - window.start, window.end) for window in windows] == [
        (before, MAX) for before in starts
    ]
    assert {window.max_timestamp() for window in windows} == {MAX}


def test_a_sliding_window_that_ends_before_the_end_of_time_is_whole():
    assigner = SlidingEventTimeWindows(1000, 500, 0)
    first, second = assigner.assign_windows("x", MAX - 400, Context())
    assert (first.end, first.max_timestamp()) == (MAX, MAX)
    assert second.max_timestamp() == second.start + 999 < MAX
