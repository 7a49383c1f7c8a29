"""What a window operator does around the windows: contexts, state, side outputs, errors, batches."""

from __future__ import annotations

import pytest

from penstock.errors import CheckpointError, InvalidProgramError, MissingTimestampError, RecordError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import WindowSpec
from penstock.runtime.operators.registry import create_operator
from penstock.runtime.operators.windows.merging_window import MergingWindowOperator
from penstock.runtime.operators.windows.time_window import TimeWindowOperator
from penstock.runtime.operators.windows.window import WindowOperator, create_window_operator
from penstock.runtime.records import RowBatch
from penstock.testing import OperatorHarness
from penstock.windowing import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)
from tests.builders.window_functions import Show, Sum, SumAndCount, Tag, by_field_0, value_state

MIN, MAX = -(2**63), 2**63 - 1
TUMBLING = TumblingEventTimeWindows(5, 0)
SLIDING = SlidingEventTimeWindows(4, 2, 0)

both_operators = pytest.mark.parametrize(
    "make", [TimeWindowOperator, WindowOperator], ids=["fast", "general"]
)


def harness_of(operator, **options):
    return OperatorHarness(operator, key_selector=by_field_0, **options)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            WindowSpec(TUMBLING, None, reduce_function=Sum()), TimeWindowOperator, id="tumbling"
        ),
        pytest.param(
            WindowSpec(SLIDING, SLIDING.get_default_trigger(None), window_function=Show()),
            TimeWindowOperator,
            id="sliding, default trigger given",
        ),
        pytest.param(
            WindowSpec(TUMBLING, CountTrigger(2), reduce_function=Sum()),
            WindowOperator,
            id="another trigger",
        ),
        pytest.param(
            WindowSpec(TUMBLING, None, reduce_function=Sum(), allowed_lateness=1),
            WindowOperator,
            id="lateness",
        ),
        pytest.param(
            WindowSpec(EventTimeSessionWindows(1), None, reduce_function=Sum()),
            MergingWindowOperator,
            id="sessions",
        ),
    ],
)
def test_the_factory_picks_the_operator(spec, expected):
    assert type(create_window_operator(spec)) is expected
    assert type(create_operator(spec)) is expected


def test_an_assigner_of_the_user_is_not_taken_for_a_built_in_one():
    class Daily(TumblingEventTimeWindows):
        def assign_windows(self, element, timestamp, context):
            return [TimeWindow(0, 100)]

    operator = create_window_operator(WindowSpec(Daily(5, 0), None, reduce_function=Sum()))
    assert type(operator) is WindowOperator
    harness = harness_of(operator)
    harness.process_elements([(("a", 1), 1), (("a", 1), 50)])
    harness.process_watermark(99)
    assert harness.output() == [(("a", 2), 99)]


@pytest.mark.parametrize(
    "functions",
    [
        pytest.param({}, id="no function"),
        pytest.param({"reduce_function": Sum(), "aggregate_function": SumAndCount()}, id="both"),
    ],
)
def test_a_window_without_exactly_one_kind_of_contents_is_refused(functions):
    with pytest.raises(InvalidProgramError):
        create_window_operator(WindowSpec(TUMBLING, None, **functions))


@both_operators
@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        pytest.param({"window_function": True}, [("a", 1), ("a", 2)], id="elements"),
        pytest.param({"window_function": True, "reduce_function": Sum()}, [("a", 3)], id="reduce"),
        pytest.param(
            {"window_function": True, "aggregate_function": SumAndCount()}, [(3, 2)], id="aggregate"
        ),
    ],
)
def test_a_window_function_gets_key_window_and_contents_and_clears_afterwards(
    make, functions, expected
):
    show = Show()
    harness = harness_of(make(WindowSpec(TUMBLING, None, **{**functions, "window_function": show})))
    harness.process_elements([(("a", 1), 1), (("a", 2), 2)])
    assert show.cleared == []
    harness.process_watermark(4)
    assert harness.output() == [(("a", TimeWindow(0, 5), expected), 4)]
    assert show.cleared == [TimeWindow(0, 5)]
    harness.close()
    assert (show.opened, show.closed) == (1, 1)


@both_operators
@pytest.mark.parametrize(
    ("results", "expected"),
    [
        pytest.param(lambda: None, [], id="None"),
        pytest.param(lambda: [1, 2], [1, 2], id="list"),
        pytest.param(lambda: (n for n in (3, 4)), [3, 4], id="generator"),
        pytest.param(lambda: iter(()), [], id="empty"),
        pytest.param(lambda: [(1, 2)], [(1, 2)], id="tuple of two"),
    ],
)
def test_a_window_function_may_return_many_kinds_of_results(make, results, expected):
    class Function:
        def process(self, key, context, elements):
            return results()

    harness = harness_of(make(WindowSpec(TUMBLING, None, window_function=Function())))
    harness.process_element(("a", 1), 1)
    harness.process_watermark(4)
    assert harness.output() == [(value, 4) for value in expected]


@both_operators
def test_a_result_with_a_tag_goes_to_the_side_output(make):
    class Function:
        def process(self, key, context, elements):
            yield Tag("side"), key
            yield "main"

    harness = harness_of(make(WindowSpec(TUMBLING, None, window_function=Function())))
    harness.process_element(("a", 1), 1)
    harness.process_watermark(4)
    assert harness.output() == [("main", 4)]
    assert harness.side_output(Tag("side")) == [("a", 4)]


@both_operators
def test_a_window_function_has_clocks_state_of_the_window_and_state_of_the_key(make):
    class Function:
        def process(self, key, context, elements):
            own = context.window_state().get_state(value_state("n"))
            all_windows = context.global_state().get_state(value_state("n"))
            own.update((own.value() or 0) + 1)
            all_windows.update((all_windows.value() or 0) + 1)
            times = context.current_watermark(), context.current_processing_time()
            yield own.value(), all_windows.value(), *times

        def clear(self, context):
            context.window_state().get_state(value_state("n")).clear()

    harness = harness_of(make(WindowSpec(TUMBLING, None, window_function=Function())))
    harness.set_processing_time(77)
    harness.process_elements([(("a", 1), 1), (("b", 1), 1), (("a", 1), 6)])
    harness.process_watermark(4)
    harness.process_watermark(12)
    assert harness.values() == [(1, 1, 4, 77), (1, 1, 4, 77), (1, 2, 12, 77)]
    assert harness.state_entries() == {"state/n": 2}


def test_window_state_is_refused_in_sessions():
    class Function:
        def process(self, key, context, elements):
            context.window_state().get_state(value_state("n"))

    spec = WindowSpec(EventTimeSessionWindows(5), None, window_function=Function())
    harness = harness_of(create_window_operator(spec))
    harness.process_element(("a", 1), 1)
    with pytest.raises(InvalidProgramError, match="not supported in merging windows"):
        harness.process_watermark(10)


@both_operators
def test_windows_over_all_elements_use_one_key(make):
    spec = WindowSpec(TUMBLING, None, window_function=Show(), keyed=False)
    harness = OperatorHarness(make(spec))
    harness.process_elements([(("a", 1), 1), (("b", 2), 2), (("c", 3), 7)])
    snapshot = harness.snapshot()
    harness = OperatorHarness(make(spec), snapshots=[snapshot])
    harness.process_watermark(MAX)
    assert harness.output() == [
        ((None, TimeWindow(0, 5), [("a", 1), ("b", 2)]), 4),
        ((None, TimeWindow(5, 10), [("c", 3)]), 9),
    ]


class BrokenError(Exception):
    pass


def fail(*args):
    raise BrokenError("no")


class BrokenAt(SumAndCount):
    """An aggregate that fails for the number 13."""

    def add(self, value, accumulator):
        if value[1] == 13:
            fail()
        return super().add(value, accumulator)


@both_operators
@pytest.mark.parametrize(
    "functions",
    [
        pytest.param({"aggregate_function": BrokenAt()}, id="aggregate"),
        pytest.param({"reduce_function": fail}, id="reduce"),
    ],
)
def test_an_error_of_the_user_names_the_record(make, functions):
    harness = harness_of(make(WindowSpec(TUMBLING, None, **functions)), name="my windows")
    with pytest.raises(UserCodeError) as caught:
        harness.process_elements([(("a", 1), 1), (("b", 2), 7), (("a", 13), 2), (("b", 3), 7)])
    assert "record ('a', 13)" in caught.value.detail
    assert "my windows" in caught.value.detail
    assert isinstance(caught.value.__cause__, BrokenError)


class BrokenResult(SumAndCount):
    def get_result(self, accumulator):
        return fail() if accumulator[0] == 2 else accumulator


class BrokenProcess(Show):
    def process(self, key, context, elements):
        yield 1
        fail()


class BrokenClear(Show):
    def clear(self, context):
        fail()


@both_operators
@pytest.mark.parametrize(
    "functions",
    [
        pytest.param({"aggregate_function": BrokenResult()}, id="result"),
        pytest.param({"window_function": BrokenProcess()}, id="process"),
        pytest.param({"window_function": BrokenClear()}, id="clear"),
    ],
)
def test_an_error_of_the_user_at_the_end_of_a_window_names_key_and_window(make, functions):
    harness = harness_of(make(WindowSpec(TUMBLING, None, **functions)))
    harness.process_elements([(("b", 2), 1)])
    with pytest.raises(UserCodeError) as caught:
        harness.process_watermark(4)
    assert "key 'b', TimeWindow(start=0, end=5)" in caught.value.detail
    assert isinstance(caught.value.__cause__, BrokenError)


def test_the_key_of_a_broken_result_is_the_right_one_among_many():
    harness = harness_of(
        TimeWindowOperator(WindowSpec(TUMBLING, None, aggregate_function=BrokenResult()))
    )
    harness.process_elements([((key, n), 1) for key, n in (("a", 1), ("b", 1), ("c", 2), ("d", 1))])
    with pytest.raises(UserCodeError, match="no") as caught:
        harness.process_watermark(4)
    assert "key 'c'" in caught.value.detail


def test_an_error_of_a_trigger_or_an_assigner_names_the_record():
    class BadTrigger(CountTrigger):
        def on_element(self, element, timestamp, window, ctx):
            fail()

    class BadAssigner(GlobalWindows):
        def assign_windows(self, element, timestamp, context):
            fail()

    for assigner, trigger in ((GlobalWindows(), BadTrigger(1)), (BadAssigner(), CountTrigger(1))):
        harness = harness_of(
            create_window_operator(WindowSpec(assigner, trigger, reduce_function=Sum()))
        )
        with pytest.raises(UserCodeError) as caught:
            harness.process_element(("a", 1))
        assert "record ('a', 1)" in caught.value.detail


@both_operators
@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(RowBatch([("a", 1)], None), id="no timestamps"),
        pytest.param(RowBatch([("a", 1), ("a", 2)], [1, None]), id="one without"),
        pytest.param(RowBatch([("a", 1)], [None]), id="the only one without"),
    ],
)
def test_a_record_without_a_timestamp_is_refused(make, batch):
    harness = harness_of(make(WindowSpec(TUMBLING, None, reduce_function=Sum())))
    with pytest.raises(RecordError, match="without a timestamp"):
        harness.process_batch(RowBatch(list(batch.values), batch.timestamps))


@both_operators
def test_a_record_without_a_timestamp_is_named_with_its_operator_and_inputs(make):
    harness = harness_of(
        make(WindowSpec(TUMBLING, None, reduce_function=Sum())),
        untimed_inputs="records of 'clicks' have no timestamps",
    )
    with pytest.raises(MissingTimestampError) as caught:
        harness.process_batch(RowBatch([("a", 1), ("a", 2)], [1, None]))
    name = harness.context.operator_name
    assert caught.value.detail == (
        f"records of 'clicks' have no timestamps; in operator '{name}', subtask 1 of 1, record ('a', 2)"
    )
    assert "with a strategy that has a timestamp assigner" in caught.value.hint


@both_operators
def test_the_least_timestamp_is_none(make):
    harness = harness_of(make(WindowSpec(TUMBLING, None, reduce_function=Sum())))
    with pytest.raises(MissingTimestampError):
        harness.process_element(("a", 1), MIN)


@both_operators
def test_a_window_at_the_end_of_time_fires_with_the_last_watermark(make):
    harness = harness_of(make(WindowSpec(TUMBLING, None, reduce_function=Sum())))
    harness.process_elements([(("a", 1), MAX), (("a", 2), MAX - 1)])
    harness.process_watermark(MAX - 1)
    assert harness.output() == []
    harness.process_watermark(MAX)
    assert harness.output() == [(("a", 3), MAX)]


def test_a_late_record_without_a_timestamp_has_none_in_the_side_output():
    spec = WindowSpec(EventTimeSessionWindows(5), None, reduce_function=Sum(), late_tag="late")
    harness = harness_of(create_window_operator(spec))
    harness.process_element(("a", 1))
    harness.process_watermark(10)
    harness.process_element(("a", 2))
    assert harness.output() == [(("a", 1), MIN + 4)]
    assert harness.side_output("late") == [(("a", 2), None)]


@both_operators
@pytest.mark.parametrize("window_function", [None, Show()], ids=["no function", "function"])
def test_results_leave_in_bounded_batches_before_the_watermark(make, window_function):
    spec = WindowSpec(TUMBLING, None, reduce_function=Sum(), window_function=window_function)
    harness = harness_of(make(spec))
    seen = []
    harness.context.output.emit_watermark = lambda mark: seen.append((mark, len(harness.output())))
    harness.process_elements([((key, 1), 5 * (key % 3)) for key in range(10_000)])
    harness.process_watermark(MAX)
    assert seen == [(MAX, 10_000)]
    assert max(harness.batch_sizes()) <= 4096
    assert len(harness.batch_sizes()) <= 4


@both_operators
def test_a_watermark_that_fires_nothing_is_sent_on(make):
    harness = harness_of(make(WindowSpec(TUMBLING, None, reduce_function=Sum())))
    harness.process_watermark(10)
    harness.process_status(True)
    assert (harness.watermarks(), harness.statuses()) == ([10], [True])
    assert harness.batch_sizes() == []


def test_a_merge_into_a_window_that_is_over_is_refused():
    class Shrinking(EventTimeSessionWindows):
        def merge_windows(self, windows, callback):
            windows = list(windows)
            if len(windows) > 1:
                callback.merge(windows, TimeWindow(0, 1))

    assert issubclass(Shrinking, MergingWindowAssigner)
    harness = harness_of(
        create_window_operator(WindowSpec(Shrinking(10), None, reduce_function=Sum()))
    )
    harness.process_watermark(5)
    with pytest.raises(InvalidProgramError, match="which has already ended"):
        harness.process_elements([(("a", 1), 6), (("a", 1), 9)])


def test_merging_windows_of_the_user_merge_as_the_user_says():
    class ByDay(EventTimeSessionWindows):
        """Merges all windows that begin in the same hundred."""

        def merge_windows(self, windows, callback):
            groups = {}
            for window in windows:
                groups.setdefault(window.start // 100, []).append(window)
            for group in groups.values():
                if len(group) > 1:
                    ends = max(window.end for window in group)
                    callback.merge(group, TimeWindow(min(w.start for w in group), ends))

    harness = harness_of(
        create_window_operator(WindowSpec(ByDay(10), None, window_function=Show()))
    )
    harness.process_elements([(("a", n), t) for n, t in enumerate((5, 90, 50, 110, 105, 5))])
    harness.process_watermark(MAX)
    shown = [(window, [n for _, n in elements]) for _, window, elements in harness.values()]
    assert shown == [((5, 100), [0, 1, 2, 5]), ((105, 120), [3, 4])]
    assert harness.state_entries() == {}


def test_windows_of_the_fast_operator_go_on_in_the_general_one():
    spec = WindowSpec(TUMBLING, None, reduce_function=Sum())
    later = WindowSpec(TUMBLING, None, reduce_function=Sum(), allowed_lateness=3)
    harness = harness_of(create_window_operator(spec))
    harness.process_elements([(("a", 1), 1), (("b", 1), 1), (("a", 5), 6)])
    harness = harness_of(create_window_operator(later), snapshots=[harness.snapshot()])
    harness.process_element(("a", 1), 2)
    harness = harness_of(create_window_operator(later), snapshots=[harness.snapshot()])
    harness.process_watermark(4)
    assert sorted(harness.take()) == [(("a", 2), 4), (("b", 1), 4)]
    harness.process_element(("b", 1), 2)
    assert harness.take() == [(("b", 2), 4)]
    harness.process_watermark(12)
    assert harness.take() == [(("a", 5), 9)]
    assert harness.state_entries() == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(WindowOperator, TimeWindowOperator, id="general, fast"),
        pytest.param("sessions", WindowOperator, id="sessions, general"),
        pytest.param("sessions", TimeWindowOperator, id="sessions, fast"),
        pytest.param(WindowOperator, "sessions", id="general, sessions"),
        pytest.param(TimeWindowOperator, "sessions", id="fast, sessions"),
    ],
)
def test_state_of_other_windows_is_refused(before, after):
    def make(kind):
        if kind == "sessions":
            return MergingWindowOperator(
                WindowSpec(EventTimeSessionWindows(5), None, reduce_function=Sum())
            )
        return kind(WindowSpec(TUMBLING, None, reduce_function=Sum()))

    harness = harness_of(make(before))
    harness.process_element(("a", 1), 1)
    with pytest.raises(CheckpointError, match="the restored"):
        harness_of(make(after), snapshots=[harness.snapshot()])


def test_windows_restored_with_another_size_still_end():
    def operator(size):
        return TimeWindowOperator(
            WindowSpec(TumblingEventTimeWindows(size, 0), None, reduce_function=Sum())
        )

    harness = harness_of(operator(10))
    harness.process_element(("a", 1), 1)
    harness = harness_of(operator(5), snapshots=[harness.snapshot()])
    harness.process_element(("a", 2), 2)
    harness.process_watermark(4)
    harness.process_watermark(9)
    assert harness.output() == [(("a", 2), 4), (("a", 1), 9)]
