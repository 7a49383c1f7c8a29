"""The order of a subtask's calls: noted, packed, and given back."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from penstock.graph.task_id import TaskId
from penstock.runtime.time import call_log
from penstock.runtime.time.call_log import CallKind, CallLog, RecordedCall, joined
from penstock.runtime.time.decisions import RecordedDecisions

with_channel = st.sampled_from([CallKind.WATERMARK, CallKind.STATUS, CallKind.END])
alone = st.sampled_from(
    [CallKind.WAKEUP, CallKind.FINISH, CallKind.BARRIER, CallKind.COMPLETED, CallKind.DRAIN]
)
single = st.one_of(
    st.builds(RecordedCall, st.just(CallKind.RECORDS), st.integers(0, 500), st.integers(0, 2**20)),
    st.builds(RecordedCall, with_channel, st.integers(0, 500), st.integers(-(2**63), 2**63 - 1)),
    st.builds(RecordedCall, alone, st.just(0), st.integers(0, 2**40)),
)


def note(log, each):
    if each.call is CallKind.RECORDS:
        log.records(each.channel, each.value)
    else:
        log.note(each.call, each.value, each.channel)


@given(st.lists(single))
def test_calls_come_back_in_order(noted):
    log = CallLog()
    for each in noted:
        note(log, each)
    assert list(pickle.loads(pickle.dumps(log.pack()))) == noted


def test_calls_that_say_nothing_but_that_they_were_made_are_counted():
    log = CallLog()
    for _ in range(3):
        log.note(CallKind.POLL)
    log.records(1, 7)
    log.note(CallKind.POLL)
    assert list(log.pack()) == [
        RecordedCall(CallKind.POLL, 0, 3),
        RecordedCall(CallKind.RECORDS, 1, 7),
        RecordedCall(CallKind.POLL, 0, 1),
    ]


def test_records_of_one_channel_stay_the_batches_that_they_were():
    log = CallLog()
    log.records(0, 5)
    log.records(0, 5)
    assert [each.value for each in log.pack()] == [5, 5]


def test_taken_log_is_independent_of_later_calls():
    log = CallLog()
    log.records(0, 1)
    log.keep(CallKind.SPLITS, "some")
    taken = log.take()
    log.records(0, 2)
    log.keep(CallKind.SPLITS, "more")
    first, second = taken.pack(), log.pack()
    assert joined([first, second]) == [
        (RecordedCall(CallKind.RECORDS, 0, 1), None),
        (RecordedCall(CallKind.SPLITS, 0, 0), "some"),
        (RecordedCall(CallKind.RECORDS, 0, 2), None),
        (RecordedCall(CallKind.SPLITS, 0, 0), "more"),
    ]


def test_a_log_does_not_grow_without_bound_and_says_that_it_was_cut(monkeypatch):
    monkeypatch.setattr(call_log, "MAX_CALLS", 2)
    log = CallLog()
    for count in range(4):
        log.records(0, count)
    log.note(CallKind.TIME)
    packed = log.pack()
    assert ([each.value for each in packed], packed.cut) == ([0, 1], True)


def test_readings_of_the_clock_that_decide_nothing_leave_no_trace():
    shown = iter([1, 1, 2, 3, 3, 4])
    decisions = RecordedDecisions(lambda: next(shown))
    decisions.begin_interval()
    decisions.clock()
    with decisions.unnoted():
        decisions.clock()
        decisions.clock()
        decisions.clock()
    decisions.clock()
    decisions.clock()
    assert decisions.trace(TaskId("v", 0)).clock.runs() == [(1, 1), (3, 1), (4, 1)]
