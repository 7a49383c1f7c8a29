"""Aggregation in two stages gives the results of one stage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Time
from penstock.datastream import AggregateFunction, OutputTag, ProcessWindowFunction
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
)
from penstock.errors import InvalidProgramError, RecordError
from penstock.graph.operator_specs import GlobalAggregateSpec, LocalAggregateSpec, WindowSpec
from penstock.runtime.operators import local_aggregate
from penstock.runtime.operators.time_window import TimeWindowOperator
from penstock.runtime.user_code import UserCodeError
from penstock.testing import OperatorHarness
from penstock.testing.faults import StepFault, protocol_faults
from penstock.testing.mini_cluster import MiniCluster
from penstock.windowing import SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.builders.scripted import MONOTONOUS, collect, environment, read

MAX = 2**63 - 1
TUMBLING = TumblingEventTimeWindows(5, 0)
ASSIGNERS = [
    TUMBLING,
    TumblingEventTimeWindows(7, 3),
    SlidingEventTimeWindows(6, 2, 0),
    SlidingEventTimeWindows(5, 3, 1),
    SlidingEventTimeWindows(2, 5, 0),
]


def key_of(value):
    return value[0]


class Total(AggregateFunction):
    """(key, sum, count) with a list as accumulator, which add() and merge() change in place."""

    def create_accumulator(self):
        return [None, 0, 0]

    def add(self, value, accumulator):
        accumulator[0] = value[0]
        accumulator[1] += value[1]
        accumulator[2] += 1
        return accumulator

    def get_result(self, accumulator):
        return tuple(accumulator)

    def merge(self, acc_a, acc_b):
        acc_a[1] += acc_b[1]
        acc_a[2] += acc_b[2]
        return acc_a


def add_up(first, second):
    return first[0], first[1] + second[1]


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


@settings(max_examples=300, deadline=None)
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

EVENTS = [(f"k{n % 3}", n) for n in range(90)]


def events(env, late=()):
    """Two splits of many batches, one batch per epoch; elements that are too late come at the end of the first."""
    values = [[(e, e[1]) for e in EVENTS[n::2]] for n in range(2)]
    splits = [[part[at : at + 10] for at in range(0, len(part), 10)] for part in values]
    splits[0].append([(e, e[1]) for e in late] or splits[0].pop())
    return read(env, *splits, strategy=MONOTONOUS)


class Stamp(ProcessWindowFunction):
    def process(self, key, context, elements):
        (total,) = elements
        yield key, context.window().start, total


def build(stream, assigner, kind, **options):
    windows = stream.key_by(key_of).window(assigner)
    if kind == "reduce":
        return windows.reduce(add_up, **options)
    if kind == "aggregate":
        return windows.aggregate(Total(), **options)
    return windows.aggregate(Total(), Stamp(), **options)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("kind", ["reduce", "aggregate", "window function"])
@pytest.mark.parametrize("assigner", [ASSIGNERS[0], ASSIGNERS[2]], ids=["tumbling", "sliding"])
def test_programs_give_the_same_in_one_stage_and_two(assigner, kind, parallelism):
    found = []
    for local_global in (False, True):
        with MiniCluster():
            env = environment(parallelism, checkpoints=10)
            late = [("k0", 1), ("k1", 2)]
            stream = build(events(env, late), assigner, kind, local_global=local_global)
            found.append(sorted(collect(stream)))
    assert found[0] == found[1]
    assert len(found[0]) > 20


def test_a_program_in_two_stages_survives_a_crash():
    expected = sorted(
        (f"k{k}", sum(mine), len(mine))
        for k in range(3)
        for start in range(0, 90, 5)
        for mine in [[n for n in range(start, start + 5) if n % 3 == k]]
        if mine
    )
    fault = StepFault("before write_manifest", 3)
    with MiniCluster(), protocol_faults(fault) as faults:
        stream = build(
            events(environment(3, checkpoints=10)), TUMBLING, "aggregate", local_global=True
        )
        assert sorted(collect(stream)) == expected
    assert faults.struck == [fault]


def test_only_accumulators_cross_the_exchange():
    with MiniCluster() as cluster:
        env = environment(2)
        collect(
            build(events(env), TumblingEventTimeWindows(1000, 0), "aggregate", local_global=True)
        )
    (job,) = cluster.masters
    sent = {
        operator.name: job.metrics[operator.operator_id]["numRecordsOut"][1]
        for vertex in job.job.job_graph.vertices
        for operator in vertex.operators
    }
    assert sent["Source: in"] == 90
    assert sent["Local TumblingEventTimeWindows"] <= 6
    assert sent["TumblingEventTimeWindows"] == 3


def test_the_first_stage_is_chained_to_what_comes_before_whatever_its_parallelism():
    env = environment(3)
    timed = MONOTONOUS.with_timestamp_assigner(lambda value, _: value[1])
    stream = env.from_collection([("a", 1)]).assign_timestamps_and_watermarks(timed)
    stream.set_parallelism(1)
    with MiniCluster() as cluster:
        collect(build(stream, TUMBLING, "aggregate", local_global=True))
    names = [vertex.name for vertex in cluster.masters[0].job.job_graph.vertices]
    assert names[0] == (
        "Source: Collection Source -> Timestamps/Watermarks -> Local TumblingEventTimeWindows"
    )


def test_a_uid_is_given_to_both_stages():
    env = environment(2)
    result = build(events(env), TUMBLING, "aggregate", local_global=True).uid("totals")
    local = result.transformation.inputs[0].inputs[0]
    assert (result.transformation.uid, local.uid) == ("totals", "totals/local")


class Unmerged(Total):
    def merge(self, acc_a, acc_b):
        pass


class Documented(Total):
    def merge(self, acc_a, acc_b):
        """Merge is not needed here."""


class Raising(Total):
    def merge(self, acc_a, acc_b):
        raise NotImplementedError("sessions are not supported")


@pytest.mark.parametrize(
    ("use", "why"),
    [
        pytest.param(lambda w: w.trigger(CountTrigger.of(2)).aggregate(Total(), local_global=True), "CountTrigger", id="a trigger"),
        pytest.param(lambda w: w.evictor(CountEvictor.of(2)).reduce(add_up, local_global=True), "evictor", id="an evictor"),
        pytest.param(lambda w: w.allowed_lateness(5).aggregate(Total(), local_global=True), "lateness", id="allowed lateness"),
        pytest.param(lambda w: w.side_output_late_data(OutputTag("late")).reduce(add_up, local_global=True), "late", id="a side output for late elements"),
        pytest.param(lambda w: w.aggregate(Unmerged(), local_global=True), "merge", id="an empty merge"),
        pytest.param(lambda w: w.aggregate(Documented(), local_global=True), "merge", id="an empty merge with a docstring"),
        pytest.param(lambda w: w.aggregate(Raising(), local_global=True), "merge", id="a merge that raises"),
    ],
)  # fmt: skip
def test_what_cannot_be_the_same_in_two_stages_is_refused(use, why):
    windows = events(environment()).key_by(key_of).window(TUMBLING)
    with pytest.raises(InvalidProgramError, match="two stages") as caught:
        use(windows)
    assert why in caught.value.detail
    assert "local_global" in caught.value.hint


def test_other_windows_are_refused():
    stream = events(environment())
    sessions = stream.key_by(key_of).window(EventTimeSessionWindows.with_gap(Time.seconds(1)))
    with pytest.raises(InvalidProgramError, match="two stages"):
        sessions.reduce(add_up, local_global=True)
    with pytest.raises(InvalidProgramError, match="two stages"):
        stream.window_all(TUMBLING).reduce(add_up, local_global=True)


def test_the_default_trigger_may_be_named():
    windows = events(environment()).key_by(key_of).window(TUMBLING)
    stream = windows.trigger(EventTimeTrigger.create()).reduce(add_up, local_global=True)
    assert stream.get_name() == "TumblingEventTimeWindows"
