"""The CEP operator: order, time, late events, timeouts, state."""

from __future__ import annotations

import pytest

from penstock.cep import (
    Pattern,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
    WithinType,
)
from penstock.datastream import OutputTag
from penstock.errors import RecordError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.key_groups import key_group_of, key_group_range
from penstock.graph.operator_specs import CepSpec
from penstock.testing import ManualClock, OperatorHarness
from tests.unit.runtime.cep.patterns import Has

LATE = OutputTag("late")
TIMED_OUT = OutputTag("timed out")


class Show(PatternProcessFunction):
    def process_match(self, match, ctx):
        yield " ".join(event[1] for events in match.values() for event in events)


class ShowAll(Show, TimedOutPartialMatchHandler):
    def process_timed_out_match(self, match, ctx):
        yield TIMED_OUT, (ctx.get_current_key(), list(match), ctx.timestamp())


def letter(name):
    return lambda event: Has(name)(event[1])


def ab(within=10):
    pattern = Pattern.begin("a").where(letter("a")).followed_by("b").where(letter("b"))
    return pattern if within is None else pattern.within(within)


def harness(pattern=None, function=None, **options):
    names = ("event_time", "comparator", "late_tag", "keyed")
    spec = {name: options.pop(name) for name in names if name in options}
    pattern = ab() if pattern is None else pattern
    return OperatorHarness(
        CepSpec(pattern.build(), function or Show(), **spec), key_selector=lambda e: e[0], **options
    )


def test_events_are_taken_in_order_of_their_timestamps_when_the_watermark_passes():
    test = harness()
    test.process_elements([(("k", "b"), 4), (("k", "a"), 2), (("k", "b0"), 1)])
    assert test.output() == []
    test.process_watermark(3)
    assert test.output() == []
    test.process_watermark(4)
    assert test.output() == [("a b", 4)]
    assert test.watermarks() == [3, 4]


def test_keys_do_not_see_each_other():
    test = harness()
    test.process_elements([(("k", "a"), 1), (("l", "b"), 2), (("k", "b"), 3)])
    test.process_watermark(5)
    assert test.output() == [("a b", 3)]


def by_name(x, y):
    return (x[1] > y[1]) - (x[1] < y[1])


def test_a_comparator_orders_events_of_the_same_time():
    events = [(("k", "b"), 1), (("k", "a"), 1)]
    plain, ordered = harness(), harness(comparator=by_name)
    for test in (plain, ordered):
        test.process_elements(events)
        test.process_watermark(1)
    assert (plain.values(), ordered.values()) == ([], ["a b"])


@pytest.mark.parametrize(
    ("timestamp", "late"), [(4, True), (5, True), (6, False)], ids=["before", "at", "after"]
)
def test_an_event_at_the_watermark_is_late(timestamp, late):
    test = harness(late_tag="late")
    test.process_watermark(5)
    test.process_element(("k", "a"), timestamp)
    assert test.side_output(LATE) == ([(("k", "a"), timestamp)] if late else [])
    test.process_watermark(timestamp + 1)
    assert ("cep/runs" in test.state_entries()) is not late


def test_late_events_without_a_side_output_are_counted():
    test = harness()
    test.process_watermark(5)
    test.process_elements([(("k", "a"), 1), (("k", "a"), 2)])
    metrics = test.metrics.report()
    assert metrics["numLateRecordsDropped"][1] == 2
    assert metrics["lateRecordsLatenessMs"][1] == {"sum": 7, "count": 2, "min": 3, "max": 4}


def test_a_record_without_a_timestamp_is_refused():
    with pytest.raises(RecordError, match="without a timestamp"):
        harness().process_element(("k", "a"))


def test_partial_matches_time_out_when_the_watermark_passes():
    test = harness(function=ShowAll())
    test.process_elements([(("k", "a"), 1), (("l", "a"), 2)])
    test.process_watermark(10)
    assert test.side_output(TIMED_OUT) == []
    test.process_watermark(11)
    assert test.side_output(TIMED_OUT) == [(("k", ["a"], 11), 11)]
    test.process_watermark(50)
    assert test.side_output(TIMED_OUT)[1:] == [(("l", ["a"], 12), 12)]


def test_a_partial_match_times_out_before_the_event_that_comes_too_late():
    test = harness(function=ShowAll())
    test.process_elements([(("k", "a"), 1), (("k", "b"), 11)])
    test.process_watermark(20)
    assert (test.values(), len(test.side_output(TIMED_OUT))) == ([], 1)


def test_nothing_is_left_in_the_state_after_within():
    test = harness()
    test.process_elements([((key, "a"), time) for key in range(20) for time in (1, 5)])
    test.process_watermark(6)
    assert test.state_entries() == {"cep/runs": 20}
    test.process_watermark(11)
    assert test.state_entries() == {"cep/runs": 20}
    test.process_watermark(15)
    assert test.state_entries() == {}
    assert test.operator.engine.live == {}
    assert not test.operator.engine._deadlines
    assert not test.operator.engine._scheduled


def test_a_match_that_waits_for_its_time_is_emitted_with_it():
    pattern = Pattern.begin("a").where(letter("a")).not_followed_by("n").where(letter("n"))
    test = harness(pattern.within(10))
    test.process_elements([(("k", "a"), 1), (("l", "a"), 1), (("l", "n"), 2)])
    test.process_watermark(100)
    assert test.output() == [("a", 11)]


def test_events_that_begin_nothing_cost_one_call_and_no_state():
    calls = []
    pattern = (
        Pattern.begin("a").where(lambda e: calls.append("a") or False)
        .followed_by("b").where(lambda e: calls.append("b"))
    )  # fmt: skip
    test = harness(pattern)
    test.process_elements([((i, "x"), i) for i in range(100)])
    test.process_watermark(200)
    assert calls == ["a"] * 100
    test.operator.barrier()
    assert not test.keyed_state.snapshot()


def test_the_state_is_written_once_an_epoch_and_only_for_changed_keys():
    test = harness(ab(None))
    test.process_elements([(("k", "a"), 1), (("l", "a"), 1)])
    test.process_watermark(2)
    test.snapshot()
    test.process_elements([(("k", "x"), 3), (("l", "b"), 3)])
    test.process_watermark(4)
    test.operator.barrier()
    (delta,) = test.keyed_state.snapshot().values()
    assert (delta.written, delta.removed) == ({}, ["l"])


def test_waiting_events_and_partial_matches_survive_a_restore():
    test = harness()
    test.process_elements([(("k", "a"), 1), (("k", "b"), 8), (("k", "x"), 9)])
    test.process_watermark(5)
    snapshot = test.snapshot()
    again = OperatorHarness.restore(
        CepSpec(ab().build(), Show()), [snapshot], key_selector=lambda e: e[0]
    )
    assert again.state_entries() == {"cep/runs": 1, "cep/queue": 1}
    again.process_watermark(9)
    assert again.output() == [("a b", 8)]
    assert again.state_entries() == {}


def test_a_restored_partial_match_times_out():
    test = harness(function=ShowAll())
    test.process_element(("k", "a"), 1)
    test.process_watermark(2)
    snapshot = test.snapshot()
    again = OperatorHarness.restore(
        CepSpec(ab().build(), ShowAll()), [snapshot], key_selector=lambda e: e[0]
    )
    again.process_watermark(30)
    assert len(again.side_output(TIMED_OUT)) == 1
    assert again.state_entries() == {}


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2), (2, 2)])
def test_matches_are_the_same_at_any_parallelism(before, after):
    keys = [f"k{i}" for i in range(30)]

    def feed(tests, parallelism, records, watermark):
        for subtask, test in enumerate(tests):
            mine = key_group_range(subtask, parallelism, 128)
            test.process_elements([r for r in records if key_group_of(r[0][0], 128) in mine])
            test.process_watermark(watermark)

    first = [harness(subtask=i, parallelism=before) for i in range(before)]
    feed(first, before, [((k, "a"), 1) for k in keys] + [((k, "b"), 9) for k in keys[:5]], 5)
    snapshots = [test.snapshot() for test in first]
    second = [
        OperatorHarness.restore(
            CepSpec(ab().build(), Show()), snapshots, i, after, key_selector=lambda e: e[0]
        )
        for i in range(after)
    ]
    feed(second, after, [((k, "b"), 8) for k in keys[5:]], 20)
    assert sorted(t for test in second for _, t in test.output()) == [8] * 25 + [9] * 5
    assert [test.state_entries() for test in second] == [{}] * after


def test_end_of_input_times_out_only_limited_matches():
    pattern = ab(within=None).followed_by("c").where(letter("c"))
    pattern = pattern.within(5, WithinType.PREVIOUS_AND_CURRENT)
    test = harness(pattern, ShowAll())
    test.process_elements([(("k", "a"), 1), (("k", "b"), 2), (("k", "a"), 3), (("l", "a"), 3)])
    test.finish()
    assert test.side_output(TIMED_OUT) == [(("k", ["a", "b"], 7), 7)]


class TestProcessingTime:
    def test_events_are_taken_as_they_come(self):
        test = harness(event_time=False)
        test.process_elements([(("k", "a"), None), (("k", "b"), None)])
        assert test.output() == [("a b", None)]

    def test_the_wall_clock_times_out(self):
        clock = ManualClock(100)
        test = harness(function=ShowAll(), event_time=False, clock=clock)
        test.process_element(("k", "a"))
        assert test.operator.next_wakeup() == 110
        test.advance_processing_time(9)
        assert test.side_output(TIMED_OUT) == []
        test.advance_processing_time(1)
        assert test.side_output(TIMED_OUT) == [(("k", ["a"], 110), None)]
        assert (test.operator.next_wakeup(), test.state_entries()) == (None, {})

    def test_a_comparator_orders_the_events_of_a_millisecond(self):
        clock = ManualClock(100)
        test = harness(ab(None), event_time=False, comparator=by_name, clock=clock)
        for name in "ba":  # two batches
            test.process_element(("k", name))
        assert (test.values(), test.operator.next_wakeup()) == ([], 101)
        test.advance_processing_time(1)
        assert test.output() == [("a b", None)]
        assert test.operator.next_wakeup() is None

    def test_events_of_the_next_millisecond_come_behind(self):
        clock = ManualClock(100)
        test = harness(event_time=False, comparator=by_name, clock=clock)
        test.process_element(("k", "b"))
        clock.advance(1)
        test.process_element(("k", "a"))
        test.advance_processing_time(1)
        assert test.values() == []
        test.process_element(("k", "b"))
        test.advance_processing_time(1)
        assert test.values() == ["a b"]

    def test_events_that_wait_for_their_millisecond_are_state(self):
        clock = ManualClock(100)
        test = harness(event_time=False, comparator=by_name, clock=clock)
        test.process_element(("k", "b"))
        snapshot = test.snapshot()
        again = harness(
            event_time=False, comparator=by_name, clock=clock, snapshots=[snapshot], pattern=ab()
        )
        again.process_element(("k", "a"))
        again.advance_processing_time(1)
        assert again.values() == ["a b"]

    def test_the_end_of_the_input_ends_the_millisecond(self):
        test = harness(event_time=False, comparator=by_name)
        test.process_element(("k", "b"))
        test.process_element(("k", "a"))
        test.finish()
        assert test.values() == ["a b"]

    def test_the_end_of_the_input_does_not_move_the_wall_clock(self):
        test = harness(function=ShowAll(), event_time=False)
        test.process_element(("k", "a"))
        test.finish()
        assert test.side_output(TIMED_OUT) == []


@pytest.mark.parametrize(
    ("pattern", "record"),
    [
        pytest.param(Pattern.begin("a").where(lambda e: 1 / 0), "('k', 'a')", id="first condition"),
        pytest.param(
            ab().followed_by("c").where(lambda e, ctx: 1 / 0), "('k', 'b2')", id="iterative"
        ),
    ],
)
def test_an_error_of_a_condition_names_the_event(pattern, record):
    test = harness(pattern)
    test.process_elements([(("k", "a"), 1), (("k", "b"), 2), (("k", "b2"), 3)])
    with pytest.raises(UserCodeError, match="ZeroDivisionError") as error:
        test.process_watermark(10)
    assert f"record {record}" in error.value.detail


def test_an_error_of_the_function_names_match_and_key():
    class Fails(PatternProcessFunction):
        def process_match(self, match, ctx):
            raise LookupError("no")

    test = harness(Pattern.begin("a"), Fails())
    test.process_element(("k", "a"), 1)
    with pytest.raises(UserCodeError, match="LookupError") as error:
        test.process_watermark(1)
    assert "key 'k'" in error.value.detail


def test_conditions_and_functions_are_opened_and_closed():
    log = []

    class Rich:
        def open(self, ctx):
            log.append("open")

        def close(self):
            log.append("close")

        def filter(self, event):
            return True

    test = harness(Pattern.begin("a").where(Rich()))
    test.operator.close()
    assert log == ["open", "close"]
