"""What windowed streams build: specs, triggers, adapters."""

from __future__ import annotations

import pickle

import pytest

from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.datastream import OutputTag
from penstock.datastream.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tests.builders.window_functions import Count
from tests.unit.datastream.conftest import QuietSource

EVENT = TumblingEventTimeWindows.of(Time.seconds(5))
PROCESSING = TumblingProcessingTimeWindows.of(Time.seconds(5))


class Context:
    def window(self):
        return TimeWindow(0, 5000)


class Life:
    """Records what happens to a function."""

    def __init__(self):
        self.calls = []

    def open(self, runtime_context):
        self.calls.append(("open", runtime_context))

    def close(self):
        self.calls.append("close")


class Keyed(Life, WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, window.start, list(inputs))]


class Whole(Life, AllWindowFunction):
    def apply(self, window, inputs):
        return [(window.end, list(inputs))]


class KeyedProcess(Life, ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().end, sum(elements)

    def clear(self, context):
        self.calls.append("clear")


class WholeProcess(Life, ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window().start, sum(elements)

    def clear(self, context):
        self.calls.append("clear")


@pytest.fixture
def timed(env):
    return env.from_source(QuietSource(), WatermarkStrategy.for_monotonous_timestamps(), "timed")


@pytest.fixture
def keyed(timed):
    return timed.key_by(abs)


def spec_of(result):
    return result.transformation.spec


@pytest.mark.parametrize(
    ("assigner", "trigger"),
    [
        pytest.param(EVENT, EventTimeTrigger, id="event time"),
        pytest.param(PROCESSING, ProcessingTimeTrigger, id="processing time"),
        pytest.param(GlobalWindows.create(), NeverTrigger, id="global"),
        pytest.param(CountTumblingWindowAssigner.of(3), PurgingTrigger, id="count"),
    ],
)
def test_the_default_trigger_is_the_assigners(keyed, assigner, trigger):
    spec = spec_of(keyed.window(assigner).reduce(max))
    assert spec.assigner is assigner
    assert type(spec.trigger) is trigger


def test_a_trigger_of_ones_own_takes_its_place(keyed):
    trigger = CountTrigger.of(2)
    assert spec_of(keyed.window(EVENT).trigger(trigger).reduce(max)).trigger is trigger


@pytest.mark.parametrize(
    ("windows", "kind", "size", "slide"),
    [
        pytest.param(
            lambda s: s.count_window(3), CountTumblingWindowAssigner, 3, None, id="tumbling"
        ),
        pytest.param(
            lambda s: s.count_window(3, 2), CountSlidingWindowAssigner, 3, 2, id="sliding"
        ),
        pytest.param(
            lambda s: s.count_window_all(4), CountTumblingWindowAssigner, 4, None, id="all tumbling"
        ),
        pytest.param(
            lambda s: s.count_window_all(4, 1), CountSlidingWindowAssigner, 4, 1, id="all sliding"
        ),
    ],
)
def test_count_windows_have_their_assigners(keyed, windows, kind, size, slide):
    assigner = spec_of(windows(keyed).reduce(max)).assigner
    assert type(assigner) is kind
    assert assigner.window_size == size
    assert getattr(assigner, "window_slide", None) == slide


def test_keyed_windows_are_keyed_and_windows_over_all_run_in_one_subtask(timed, keyed):
    per_key = keyed.window(EVENT).reduce(max).transformation
    assert per_key.spec.keyed
    assert per_key.key_selectors == (abs,)
    assert (per_key.parallelism, per_key.parallelism_fixed) == (None, False)
    whole = timed.window_all(EVENT).reduce(max).transformation
    assert not whole.spec.keyed
    assert whole.key_selectors == ()
    assert (whole.parallelism, whole.parallelism_fixed) == (1, True)


def test_a_reduced_window_has_the_type_of_its_elements(env):
    numbers = env.from_collection([1], Types.INT()).key_by(abs).count_window(2)
    assert numbers.get_input_type() == Types.INT()
    assert numbers.reduce(max).get_type() == Types.INT()
    assert numbers.reduce(max, Keyed()).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert numbers.reduce(max, Keyed(), Types.LONG()).get_type() == Types.LONG()
    assert numbers.aggregate(Count(), output_type=Types.LONG()).get_type() == Types.LONG()


@pytest.mark.parametrize(
    ("assigner", "lateness", "kept"),
    [
        pytest.param(EVENT, 100, 100, id="event time"),
        pytest.param(EVENT, Duration.of_seconds(2), 2000, id="a duration"),
        pytest.param(PROCESSING, 100, 0, id="processing time has no lateness"),
        pytest.param(GlobalWindows.create(), 100, 0, id="global windows have no lateness"),
    ],
)
def test_lateness_counts_for_event_time_only(keyed, assigner, lateness, kept):
    windows = keyed.window(assigner).allowed_lateness(lateness)
    assert spec_of(windows.reduce(max)).allowed_lateness == kept


def test_late_elements_go_to_the_tag(keyed):
    tag = OutputTag("late", Types.INT())
    result = keyed.window(EVENT).side_output_late_data(tag).reduce(max)
    assert spec_of(result).late_tag == "late"
    assert result.get_side_output(tag).get_type() == Types.INT()
    assert spec_of(keyed.window(EVENT).reduce(max)).late_tag is None


def test_reduce_and_aggregate_without_window_function_emit_the_value_itself(keyed):
    reduced = spec_of(keyed.window(EVENT).reduce(max))
    assert (reduced.reduce_function, reduced.aggregate_function) == (max, None)
    assert reduced.window_function is None
    count = Count()
    aggregated = spec_of(keyed.window(EVENT).aggregate(count))
    assert (aggregated.reduce_function, aggregated.aggregate_function) == (None, count)
    assert aggregated.window_function is None


ADAPTED = [
    pytest.param(lambda s: s.window(EVENT).apply(Keyed()), [("k", 0, [1, 2])], id="WindowFunction"),
    pytest.param(
        lambda s: s.window(EVENT).process(KeyedProcess()),
        [("k", 5000, 3)],
        id="ProcessWindowFunction",
    ),
    pytest.param(
        lambda s: s.window_all(EVENT).apply(Whole()), [(5000, [1, 2])], id="AllWindowFunction"
    ),
    pytest.param(
        lambda s: s.window_all(EVENT).process(WholeProcess()),
        [(0, 3)],
        id="ProcessAllWindowFunction",
    ),
    pytest.param(
        lambda s: s.window(EVENT).reduce(max, Keyed()),
        [("k", 0, [1, 2])],
        id="reduce, WindowFunction",
    ),
    pytest.param(
        lambda s: s.window(EVENT).aggregate(Count(), KeyedProcess()),
        [("k", 5000, 3)],
        id="aggregate, ProcessWindowFunction",
    ),
    pytest.param(
        lambda s: s.window_all(EVENT).reduce(max, WholeProcess()), [(0, 3)], id="all, reduce"
    ),
]


@pytest.mark.parametrize(("build", "expected"), ADAPTED)
def test_every_window_function_is_called_in_one_shape(keyed, build, expected):
    function = spec_of(build(keyed)).window_function
    assert list(function.process("k", Context(), [1, 2])) == expected


@pytest.mark.parametrize(("build", "expected"), ADAPTED)
def test_the_adapters_pickle_and_forward_open_close_and_clear(keyed, build, expected):
    function = pickle.loads(pickle.dumps(spec_of(build(keyed)).window_function))
    function.open("runtime context")
    function.clear(Context())
    function.close()
    calls = function.function.calls
    assert calls[0] == ("open", "runtime context")
    assert calls[-1] == "close"
    assert ("clear" in calls) == hasattr(type(function.function), "clear")
    assert list(function.process("k", Context(), [1, 2])) == expected


def test_operator_and_description_name_the_window(keyed):
    operator = keyed.window(EVENT).process(KeyedProcess()).transformation
    assert operator.name == "TumblingEventTimeWindows"
    assert operator.description.startswith("Window(TumblingEventTimeWindows(")
    assert operator.description.endswith(", EventTimeTrigger, KeyedProcess)")
