"""Evictors: what leaves a window before and after its function, on every kind of window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Duration, Time
from penstock.errors import ArgumentError, ArgumentTypeError, CheckpointError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import WindowSpec
from penstock.runtime.operators.windows.evicting_window import (
    EvictingMergingWindowOperator,
    EvictingWindowOperator,
)
from penstock.runtime.operators.windows.window import create_window_operator
from penstock.testing import OperatorHarness
from penstock.windowing import (
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    EventTimeSessionWindows,
    Evictor,
    GlobalWindows,
    TimeEvictor,
    TimestampedValue,
    TimeWindow,
    TumblingEventTimeWindows,
)
from tests.builders.window_functions import Sum, SumAndCount, by_field_0

MAX = 2**63 - 1
TUMBLING = TumblingEventTimeWindows(10, 0)


class Numbers:
    """Emits the second fields of the elements."""

    def process(self, key, context, elements):
        yield [number for _, number in elements]


class Custom(Evictor):
    """Takes odd numbers out before, and the first element after."""

    def evict_before(self, elements, size, window, evictor_context):
        assert size == len(elements)
        elements[:] = [element for element in elements if element.value[1] % 2 == 0]

    def evict_after(self, elements, size, window, evictor_context):
        assert size == len(elements)
        del elements[:1]


def harness_of(evictor, assigner=TUMBLING, trigger=None, snapshots=(), **functions):
    spec = WindowSpec(
        assigner, trigger, **(functions or {"window_function": Numbers()}), evictor=evictor
    )
    return OperatorHarness(spec, key_selector=by_field_0, snapshots=snapshots)


def stamped(*pairs):
    return [TimestampedValue(value, time) for value, time in pairs]


def gap(element, last):
    return abs(element - last)


@pytest.mark.parametrize(
    ("evictor", "elements", "kept"),
    [
        pytest.param(CountEvictor.of(2), [(1, 0), (2, 0), (3, 0)], [2, 3], id="the last two"),
        pytest.param(CountEvictor.of(5), [(1, 0), (2, 0)], [1, 2], id="fewer than the count"),
        pytest.param(CountEvictor.of(5), [], [], id="nothing to count"),
        pytest.param(TimeEvictor.of(Time.milliseconds(5)), [(1, 5), (2, 10), (3, 6)], [2, 3], id="younger than 5 ms, the bound is out"),
        pytest.param(TimeEvictor.of(Duration.of_millis(0)), [(1, 5)], [], id="no time at all"),
        pytest.param(TimeEvictor.of(5), [(1, None), (2, None)], [1, 2], id="no timestamps"),
        pytest.param(TimeEvictor.of(5), [], [], id="no elements to compare"),
        pytest.param(DeltaEvictor.of(3, gap), [(1, 0), (5, 0), (9, 0), (4, 0)], [5, 4], id="near the last, the bound is out"),
        pytest.param(DeltaEvictor.of(3, gap), [], [], id="no last element"),
    ],
)  # fmt: skip
def test_the_built_in_evictors(evictor, elements, kept):
    before = stamped(*elements)
    evictor.evict_after(before, len(before), None, None)
    assert before == stamped(*elements)
    evictor.evict_before(before, len(before), None, None)
    assert [element.value for element in before] == kept


@pytest.mark.parametrize(
    "make", [CountEvictor.of, TimeEvictor.of, lambda n, after: DeltaEvictor.of(n, gap, after)]
)
def test_an_evictor_can_come_after_the_window_function(make):
    evictor = make(1, True)
    elements = stamped((1, 0), (5, 9))
    evictor.evict_before(elements, 2, None, None)
    assert len(elements) == 2
    evictor.evict_after(elements, 2, None, None)
    assert elements == stamped((5, 9))


def test_a_delta_function_may_be_an_object():
    class Gap:
        def get_delta(self, old, new):
            return abs(old - new)

    elements = stamped((1, 0), (5, 0))
    DeltaEvictor.of(2, Gap()).evict_before(elements, 2, None, None)
    assert elements == stamped((5, 0))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        pytest.param(lambda: CountEvictor.of(0), ArgumentError, id="count of zero"),
        pytest.param(lambda: CountEvictor.of("3"), ArgumentTypeError, id="count of text"),
        pytest.param(lambda: TimeEvictor.of(-1), ArgumentError, id="negative time"),
        pytest.param(lambda: TimeEvictor.of("5 s"), ArgumentTypeError, id="time as text"),
        pytest.param(lambda: DeltaEvictor.of(1, 2), ArgumentTypeError, id="no function"),
        pytest.param(lambda: DeltaEvictor.of("1", gap), ArgumentTypeError, id="no number"),
    ],
)
def test_wrong_arguments_are_refused(make, error):
    with pytest.raises(error):
        make()


def test_windows_with_an_evictor_have_operators_of_their_own():
    plain = WindowSpec(TUMBLING, None, reduce_function=Sum(), evictor=CountEvictor.of(1))
    merging = WindowSpec(
        EventTimeSessionWindows(3), None, reduce_function=Sum(), evictor=CountEvictor.of(1)
    )
    assert type(create_window_operator(plain)) is EvictingWindowOperator
    assert type(create_window_operator(merging)) is EvictingMergingWindowOperator


def test_rule_9_an_evictor_runs_before_the_window_function():
    harness = harness_of(CountEvictor.of(2))
    harness.process_elements([(("a", n), n) for n in range(5)])
    harness.process_elements([(("b", 7), 1)])
    harness.process_watermark(9)
    assert harness.output() == [([3, 4], 9), ([7], 9)]
    assert harness.state_entries() == {}


def test_evicted_elements_are_missing_in_later_firings():
    harness = harness_of(CountEvictor.of(2), GlobalWindows.create(), CountTrigger.of(2))
    for number in range(1, 7):
        harness.process_element(("a", number), None)
    assert harness.values() == [[1, 2], [3, 4], [5, 6]]


def test_evicting_after_keeps_elements_for_the_next_firing():
    harness = harness_of(
        CountEvictor.of(1, do_evict_after=True), GlobalWindows.create(), CountTrigger.of(2)
    )
    for number in range(1, 5):
        harness.process_element(("a", number), None)
    assert harness.values() == [[1, 2], [2, 3, 4]]


def test_a_users_evictor_runs_on_both_sides_of_the_window_function():
    harness = harness_of(Custom(), GlobalWindows.create(), CountTrigger.of(2))
    for number in (2, 4, 1, 6):
        harness.process_element(("a", number), None)
    assert harness.values() == [[2, 4], [4, 6]]


def test_window_emptied_by_an_evictor_is_cleared():
    class All(Custom):
        def evict_before(self, elements, size, window, evictor_context):
            pass

        def evict_after(self, elements, size, window, evictor_context):
            elements.clear()

    harness = harness_of(All(), GlobalWindows.create(), CountTrigger.of(1))
    harness.process_element(("a", 1), None)
    harness.process_element(("a", 2), None)
    assert harness.values() == [[1], [2]]
    assert harness.state_entries() == {}


@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        pytest.param({"reduce_function": Sum()}, [("a", 7)], id="reduce"),
        pytest.param({"aggregate_function": SumAndCount()}, [(7, 2)], id="aggregate"),
        pytest.param({"reduce_function": Sum(), "window_function": Numbers()}, [[7]], id="reduce, then a window function"),
    ],
)  # fmt: skip
def test_with_reduce_and_aggregate_the_elements_are_kept_until_the_window_is_evaluated(
    functions, expected
):
    harness = harness_of(CountEvictor.of(2), **functions)
    harness.process_elements([(("a", n), n) for n in range(5)])
    kept = dict(harness.keyed_state.table("window-contents", namespaced=True).items())
    assert [len(elements) for elements in kept.values()] == [5]
    harness.process_watermark(9)
    assert harness.values() == expected


@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        pytest.param({"window_function": Numbers()}, [[]], id="elements: an empty list"),
        pytest.param({"aggregate_function": SumAndCount()}, [(0, 0)], id="aggregate: the empty accumulator"),
        pytest.param({"reduce_function": Sum()}, [], id="reduce: nothing"),
    ],
)  # fmt: skip
def test_a_window_emptied_before_its_function(functions, expected):
    harness = harness_of(Custom(), **functions)
    harness.process_element(("a", 1), 1)
    harness.process_watermark(9)
    assert harness.values() == expected


def test_sessions_merge_their_elements_with_their_timestamps():
    harness = harness_of(TimeEvictor.of(3), EventTimeSessionWindows(5))
    harness.process_elements([(("a", 1), 0), (("a", 3), 8), (("a", 2), 6), (("a", 4), 4)])
    harness.process_watermark(MAX)
    assert harness.output() == [([3, 2], 12)]
    assert harness.state_entries() == {}


def test_rule_7_late_elements_within_the_lateness_see_remaining_elements():
    spec = WindowSpec(
        TUMBLING,
        None,
        window_function=Numbers(),
        allowed_lateness=5,
        evictor=CountEvictor.of(1, do_evict_after=True),
    )
    harness = OperatorHarness(spec, key_selector=by_field_0)
    harness.process_elements([(("a", 1), 1), (("a", 2), 2)])
    harness.process_watermark(9)
    harness.process_element(("a", 3), 3)
    harness.process_watermark(14)
    harness.process_element(("a", 4), 4)
    assert harness.values() == [[1, 2], [2, 3]]
    assert harness.state_entries() == {}


def test_state_survives_a_restore_with_timestamps():
    harness = harness_of(TimeEvictor.of(3))
    harness.process_elements([(("a", 1), 1), (("a", 2), 6)])
    harness.snapshot()
    restored = harness_of(TimeEvictor.of(3), snapshots=[harness.snapshot()])
    restored.process_element(("a", 3), 7)
    restored.process_watermark(9)
    assert restored.values() == [[2, 3]]


def test_evicted_elements_are_missing_after_a_restore():
    options = (CountEvictor.of(1, do_evict_after=True), GlobalWindows.create(), CountTrigger.of(2))
    harness = harness_of(*options)
    harness.process_elements([(("a", 1), None)])
    harness.snapshot()
    harness.process_elements([(("a", 2), None)])
    restored = harness_of(*options, snapshots=[harness.snapshot()])
    restored.process_elements([(("a", 3), None), (("a", 4), None)])
    assert restored.values() == [[2, 3, 4]]


def test_state_that_was_kept_without_an_evictor_is_refused():
    plain = OperatorHarness(
        WindowSpec(TUMBLING, None, window_function=Numbers()), key_selector=by_field_0
    )
    plain.process_element(("a", 1), 1)
    with pytest.raises(CheckpointError, match="evictor"):
        harness_of(CountEvictor.of(1), snapshots=[plain.snapshot()])


@pytest.mark.parametrize(
    ("assigner", "trigger"),
    [(GlobalWindows.create(), CountTrigger.of(9)), (EventTimeSessionWindows(3), None)],
    ids=["global", "session"],
)
def test_state_that_was_kept_with_an_evictor_is_refused_without_one(assigner, trigger):
    evicting = harness_of(CountEvictor.of(1), assigner, trigger)
    evicting.process_element(("a", 1), 1)
    with pytest.raises(CheckpointError, match="kept with an evictor"):
        harness_of(None, assigner, trigger, snapshots=[evicting.snapshot()])


def test_an_evictor_sees_clock_watermark_and_window():
    seen = []

    class Looks(Custom):
        def evict_before(self, elements, size, window, ctx):
            seen.append((window, ctx.get_current_watermark(), ctx.get_current_processing_time()))
            ctx.get_metric_group().counter("evictions").inc()

    harness = harness_of(Looks())
    harness.advance_processing_time(77)
    harness.process_element(("a", 1), 1)
    harness.process_watermark(12)
    assert seen == [(TimeWindow(0, 10), 12, 77)]
    assert harness.metrics.report()["evictions"][1] == 1


def test_an_error_of_an_evictor_names_key_and_window():
    class Fails(Custom):
        def evict_after(self, elements, size, window, ctx):
            raise KeyError("oops")

    harness = harness_of(Fails())
    harness.process_element(("a", 2), 1)
    with pytest.raises(UserCodeError, match="oops") as caught:
        harness.process_watermark(9)
    assert "key 'a', TimeWindow" in caught.value.detail


@given(
    st.lists(st.integers(0, 50), max_size=30),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(0, 30),
)
def test_count_eviction_agrees_with_a_list(numbers, keep, every, cut):
    """Any count trigger and evictor, with a restore at any place: the last `keep` of what there was."""
    options = (CountEvictor.of(keep), GlobalWindows.create(), CountTrigger.of(every))
    harness = harness_of(*options)
    found = []
    for at, number in enumerate(numbers):
        if at == cut:
            found += harness.values()
            harness = harness_of(*options, snapshots=[harness.snapshot()])
        harness.process_element(("a", number), None)
    found += harness.values()
    expected = [numbers[: end + 1][-keep:] for end in range(len(numbers)) if (end + 1) % every == 0]
    # between two firings more than `keep` may gather, but a firing shows the last ones only
    assert found == expected
