"""The fast window operator does what the general one does."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.graph.operator_specs import WindowSpec
from penstock.runtime.operators.windows.time_window import TimeWindowOperator
from penstock.runtime.operators.windows.window import WindowOperator
from penstock.testing import OperatorHarness
from penstock.windowing import SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.builders.window_functions import Show, Sum, SumAndCount, Trail, by_field_0

records = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(-20, 60)), max_size=12
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), records),
        st.tuples(st.just("watermark"), st.integers(-25, 80)),
        st.tuples(st.just("snapshot"), st.none()),
        st.tuples(st.just("restore"), st.none()),
    ),
    max_size=12,
)


@st.composite
def assigners(draw):
    size = draw(st.integers(1, 12))
    slide = draw(st.one_of(st.just(size), st.integers(1, 15)))
    offset = draw(st.integers(1 - slide, slide - 1))
    if slide == size and draw(st.booleans()):
        return TumblingEventTimeWindows(size, offset)
    return SlidingEventTimeWindows(size, slide, offset)


FUNCTIONS = {
    "reduce": {"reduce_function": Sum()},
    "reduce in order": {"reduce_function": Trail()},
    "aggregate": {"aggregate_function": SumAndCount()},
    "aggregate and function": {"aggregate_function": SumAndCount(), "window_function": Show()},
    "elements": {"window_function": Show()},
}


def hashable(value):
    return repr(value)


@pytest.mark.parametrize("functions", FUNCTIONS.values(), ids=FUNCTIONS)
@settings(deadline=None)
@given(assigner=assigners(), steps=steps, tagged=st.booleans())
def test_the_fast_operator_equals_the_general_one(functions, assigner, steps, tagged):
    spec = WindowSpec(assigner, None, late_tag="late" if tagged else None, **functions)
    harnesses = [
        OperatorHarness(make(spec), key_selector=by_field_0)
        for make in (TimeWindowOperator, WindowOperator)
    ]
    watermark = -(2**63)
    dropped = [0, 0]
    for kind, argument in [*steps, ("watermark", 2**63 - 1)]:
        if kind == "batch":
            for harness in harnesses:
                harness.process_elements([((key, n), t) for key, n, t in argument])
        elif kind == "watermark":
            watermark = max(watermark, argument)
            for harness in harnesses:
                harness.process_watermark(watermark)
        elif kind == "snapshot":
            for harness in harnesses:
                harness.snapshot()
        else:
            dropped = [
                count + harness.metrics.counter("numLateRecordsDropped").get_count()
                for count, harness in zip(dropped, harnesses, strict=True)
            ]
            harnesses = [
                OperatorHarness(make(spec), key_selector=by_field_0, snapshots=[harness.snapshot()])
                for make, harness in zip(
                    (TimeWindowOperator, WindowOperator), harnesses, strict=True
                )
            ]
            continue
        fast, general = harnesses
        assert Counter(map(repr, fast.output())) == Counter(map(repr, general.output()))
        assert [time for _, time in fast.output()] == [time for _, time in general.output()]
        assert fast.side_output("late") == general.side_output("late")
        for harness in harnesses:
            harness.clear()
    # Both measure the same lateness.
    fast_late, general_late = (
        harness.metrics.report().get("lateRecordsLatenessMs") for harness in harnesses
    )
    assert fast_late == general_late
    counts = [
        count + harness.metrics.counter("numLateRecordsDropped").get_count()
        for count, harness in zip(dropped, harnesses, strict=True)
    ]
    assert counts[0] == counts[1]
    assert harnesses[0].state_entries() == harnesses[1].state_entries() == {}


@pytest.mark.parametrize(
    "spec",
    [
        WindowSpec(TumblingEventTimeWindows(10, 0), None, reduce_function=Sum()),
        WindowSpec(SlidingEventTimeWindows(10, 4, 0), None, aggregate_function=SumAndCount()),
    ],
    ids=["tumbling", "sliding"],
)
@settings(deadline=None)
@given(
    records=st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(0, 60)), max_size=30
    ),
    before=st.integers(1, 4),
    after=st.integers(1, 4),
)
def test_windows_can_be_restored_at_another_parallelism(spec, records, before, after):
    def run(parallelism, batch, watermark, snapshots=()):
        harnesses = [
            OperatorHarness.restore(
                TimeWindowOperator(spec),
                snapshots,
                subtask,
                parallelism,
                key_selector=by_field_0,
                max_parallelism=8,
            )
            for subtask in range(parallelism)
        ]
        for subtask, harness in enumerate(harnesses):
            harness.process_elements(
                [((k, n), t) for k, n, t in batch if owner(k, parallelism) == subtask]
            )
            harness.process_watermark(watermark)
        return harnesses, [record for harness in harnesses for record in harness.output()]

    first, second = records[::2], records[1::2]
    harnesses, early = run(before, first, 20)
    snapshots = [harness.snapshot() for harness in harnesses]
    _, late = run(after, second, 2**63 - 1, snapshots)
    single = OperatorHarness(TimeWindowOperator(spec), key_selector=by_field_0)
    single.process_elements([((k, n), t) for k, n, t in first])
    single.process_watermark(20)
    single.process_elements([((k, n), t) for k, n, t in second])
    single.process_watermark(2**63 - 1)
    assert Counter(early + late) == Counter(single.output())


def owner(key, parallelism):
    from penstock.graph.key_groups import key_group_of, subtask_of

    return subtask_of(key_group_of(key, 8), parallelism, 8)


def test_snapshot_contains_only_touched_entries():
    spec = WindowSpec(TumblingEventTimeWindows(10, 0), None, reduce_function=Sum())
    harness = OperatorHarness(TimeWindowOperator(spec), key_selector=by_field_0)
    harness.process_elements([((key, 1), 10 * (key % 3)) for key in range(99)])
    first = harness.keyed_state
    harness.snapshot()
    harness.process_elements([((0, 5), 0), ((100, 7), 10)])
    harness.operator.barrier()
    (delta,) = first.snapshot().values()
    assert delta.written == {(0, (0, 10)): (0, 6), (100, (10, 20)): (100, 7)}
    assert delta.removed == []
    harness.process_watermark(9)
    harness.operator.barrier()
    (delta,) = first.snapshot().values()
    assert delta.written == {}
    assert sorted(delta.removed) == [(key, (0, 10)) for key in range(0, 99, 3)]


def test_accumulators_that_are_none_or_mutable_are_kept():
    class Odd:
        def create_accumulator(self):
            return []

        def add(self, value, accumulator):
            if accumulator is None:
                return [value[1]]
            accumulator.append(value[1])
            return None if len(accumulator) == 2 else accumulator

        def get_result(self, accumulator):
            return accumulator

    spec = WindowSpec(TumblingEventTimeWindows(10, 0), None, aggregate_function=Odd())
    for make in (TimeWindowOperator, WindowOperator):
        harness = OperatorHarness(make(spec), key_selector=by_field_0)
        harness.process_elements([(("a", n), 1) for n in (1, 2, 3)])
        harness.snapshot()
        harness.process_elements([(("a", 4), 1), (("b", 1), 1), (("b", 2), 1)])
        harness.process_watermark(9)
        assert harness.values() == [None, None]
