"""Aggregation in two stages gives the results of one stage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidProgramError, RecordError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import GlobalAggregateSpec, LocalAggregateSpec, WindowSpec
from penstock.runtime.operators.windows import local_aggregate
from penstock.runtime.operators.windows.time_window import TimeWindowOperator
from penstock.testing import OperatorHarness
from tests.builders.examples import examples
from tests.builders.two_stages import ASSIGNERS, TUMBLING, Total, add_up, key_of

MAX = 2**63 - 1


def local_of(assigner=TUMBLING, **functions):
    functions = functions or {"aggregate_function": Total()}
    return OperatorHarness(LocalAggregateSpec(WindowSpec(assigner, None, **functions), key_of))


def global_of(assigner=TUMBLING, snapshots=(), **functions):
    functions = functions or {"aggregate_function": Total()}
    return OperatorHarness(
        GlobalAggregateSpec(WindowSpec(assigner, None, **functions)),
        key_selector=key_of,
        snapshots=snapshots,
    )


# The first stage


def test_the_first_stage_sends_one_accumulator_per_key_and_window_before_the_watermark():
    harness = local_of()
    harness.process_elements([(("a", 1), 0), (("a", 2), 4), (("b", 1), 1), (("a", 3), 5)])
    assert harness.output() == []
    harness.process_watermark(1)
    assert harness.output() == [
        (("a", 0, ["a", 3, 2]), 4), (("b", 0, ["b", 1, 1]), 4), (("a", 5, ["a", 3, 1]), 9),
    ]  # fmt: skip
    assert harness.watermarks() == [1]
    harness.process_watermark(2)
    assert len(harness.output()) == 3


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(lambda harness: harness.process_watermark(3), id="a watermark"),
        pytest.param(lambda harness: harness.process_status(True), id="a status"),
        pytest.param(lambda harness: harness.snapshot(), id="a barrier"),
        pytest.param(lambda harness: harness.finish(), id="the end"),
    ],
)
def test_the_first_stage_keeps_nothing_over(event):
    harness = local_of()
    harness.process_element(("a", 1), 0)
    event(harness)
    assert len(harness.output()) == 1
    assert harness.state_entries() == {}


def test_the_first_stage_sends_when_it_has_many(monkeypatch):
    monkeypatch.setattr(local_aggregate, "MAX_PARTIALS", 3)
    harness = local_of()
    harness.process_elements([((key, 1), 0) for key in "aabb"])
    assert harness.output() == []
    harness.process_elements([(("c", 1), 0)])
    assert len(harness.output()) == 3


def test_the_first_stage_refuses_records_without_timestamps():
    with pytest.raises(RecordError, match="timestamp"):
        local_of().process_element(("a", 1), None)


def test_an_error_of_the_key_selector_shows_the_record():
    with pytest.raises(UserCodeError, match="TypeError") as caught:
        local_of().process_element(5, 1)
    assert "record 5" in caught.value.detail


# The second stage


def test_the_second_stage_drops_accumulators_of_late_windows():
    harness = global_of()
    harness.process_element(("a", 0, ["a", 1, 1]), 4)
    harness.process_watermark(4)
    harness.process_element(("a", 0, ["a", 7, 1]), 4)
    harness.process_element(("a", 5, ["a", 2, 1]), 9)
    harness.process_watermark(MAX)
    assert harness.output() == [(("a", 1, 1), 4), (("a", 2, 1), 9)]
    assert harness.metrics.report()["numLateRecordsDropped"][1] == 1
    assert harness.state_entries() == {}


def test_the_second_stage_merges_over_a_restore():
    harness = global_of()
    harness.process_element(("a", 0, ["a", 1, 1]), 4)
    restored = global_of(snapshots=[harness.snapshot()])
    restored.process_element(("a", 0, ["a", 2, 3]), 4)
    restored.process_watermark(4)
    assert restored.values() == [("a", 3, 4)]


def test_a_merge_that_gives_nothing_is_refused():
    class Forgets(Total):
        def merge(self, acc_a, acc_b):
            acc_a[1] += acc_b[1]

    harness = global_of(aggregate_function=Forgets())
    harness.process_element(("a", 0, ["a", 1, 1]), 4)
    with pytest.raises(InvalidProgramError, match=r"merge\(\) returned None"):
        harness.process_element(("a", 0, ["a", 1, 1]), 4)


# Both stages against one

steps = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.sampled_from("abc"), st.integers(-8, 40)),
        st.tuples(st.just("watermark"), st.integers(-8, 40)),
        st.just(("barrier",)),
    ),
    max_size=50,
)


@settings(max_examples=examples(300), deadline=None)
@given(steps, st.sampled_from(ASSIGNERS), st.booleans())
def test_two_stages_give_the_results_of_one(script, assigner, aggregates):
    """Any records, late ones too, any watermarks, any barriers: same results after the same watermarks."""
    functions = {"aggregate_function": Total()} if aggregates else {"reduce_function": add_up}
    one = OperatorHarness(
        TimeWindowOperator(WindowSpec(assigner, None, **functions)), key_selector=key_of
    )
    local, final = local_of(assigner, **functions), global_of(assigner, **functions)
    watermark = -(2**63)

    def pass_on():
        final.process_elements(local.output())
        local.clear()

    for number, step in enumerate([*script, ("watermark", MAX)]):
        match step:
            case ("record", key, time):
                one.process_element((key, number), time)
                local.process_element((key, number), time)
            case ("watermark", time):
                watermark = max(watermark, time)
                one.process_watermark(watermark)
                local.process_watermark(watermark)
                pass_on()
                final.process_watermark(watermark)
            case _:
                one.snapshot()
                local.snapshot()
                pass_on()
                final = global_of(assigner, snapshots=[final.snapshot()], **functions)
                one.clear()
        assert sorted(final.output()) == sorted(one.output())
    assert final.state_entries() == {}


# Programs
