"""What is known of an attempt of a stage, and what follows from what its slots tell."""

from __future__ import annotations

import dataclasses

import pytest

from penstock.graph.placement import StageLayout
from penstock.graph.task_id import TaskId
from penstock.jobmanager.running.pipelined.stage_watch import (
    SendCommand,
    SlotLostError,
    StageEndedError,
    StageFailed,
    StagePhase,
    StageRunning,
    StageWatch,
)
from penstock.runtime.network.messages import TaskFailedError, TaskFailure
from penstock.runtime.task.pipelined.slot_messages import (
    Connect,
    SlotFailed,
    SlotListening,
    SlotRunning,
    SlotTraced,
    SourceFinished,
    StopSlot,
)

SOURCES = [TaskId("source", 0), TaskId("source", 1)]
PLACEMENT = {**{task: task.subtask for task in SOURCES}, TaskId("sum", 0): 0, TaskId("sum", 1): 1}
FAILURE = TaskFailure(TaskId("sum", 1), "boom", None, "Traceback", None)


def watch(slots=2):
    return StageWatch(StageLayout(0, ("source", "sum"), slots, PLACEMENT), SOURCES)


def running():
    stage = watch()
    for slot in range(2):
        stage.on_listening(SlotListening(slot, f"tcp://{slot}", 100 + slot))
    for slot in range(2):
        stage.on_running(SlotRunning(slot, 100 + slot, "host"))
    assert stage.phase is StagePhase.RUNNING
    return stage


def test_slots_get_each_others_addresses_when_all_have_started():
    stage = watch()
    assert stage.on_listening(SlotListening(1, "tcp://b", 2)) == []
    addresses = Connect(("tcp://a", "tcp://b"))
    assert stage.on_listening(SlotListening(0, "tcp://a", 1)) == [
        SendCommand(0, addresses),
        SendCommand(1, addresses),
    ]
    assert stage.listening == {0, 1}


def test_a_stage_runs_when_all_its_slots_run():
    stage = watch()
    for slot in range(2):
        stage.on_listening(SlotListening(slot, "tcp://x", 1))
    assert stage.on_running(SlotRunning(1, 2, "host")) == [
        StageRunning((TaskId("source", 1), TaskId("sum", 1)))
    ]
    assert stage.phase is StagePhase.STARTING
    stage.on_running(SlotRunning(0, 1, "host"))
    assert stage.phase is StagePhase.RUNNING


@pytest.mark.parametrize("make", [watch, running], ids=["while it starts", "while it runs"])
def test_a_slot_that_is_started_twice_fails_the_stage(make):
    stage = make()
    if make is watch:
        stage.on_listening(SlotListening(1, "tcp://b", 2))
    (failed,) = stage.on_listening(SlotListening(1, "tcp://c", 3))
    assert isinstance(failed, StageFailed)
    assert "slot 1 of stage 0 was started twice" in str(failed.cause)
    assert stage.phase is StagePhase.FAILED


def test_all_sources_have_finished_when_the_last_one_has():
    stage = running()
    assert stage.source_slots == [0, 1]
    stage.on_source_finished(SourceFinished(SOURCES[0]))
    stage.on_source_finished(SourceFinished(SOURCES[0]))
    assert not stage.sources_finished
    stage.on_source_finished(SourceFinished(SOURCES[1]))
    assert stage.sources_finished


@pytest.mark.parametrize(
    ("happen", "cause"),
    [
        pytest.param(
            lambda s: s.on_slot_failed(SlotFailed(1, FAILURE)), TaskFailedError, id="reported"
        ),
        pytest.param(lambda s: s.on_lost(1), SlotLostError, id="lost"),
        pytest.param(lambda s: s.on_ended(None), StageEndedError, id="ended"),
        pytest.param(lambda s: s.on_ended(ValueError("spark")), ValueError, id="spark says so"),
    ],
)
def test_the_first_failure_is_the_one_that_counts(happen, cause):
    stage = running()
    (failed,) = happen(stage)
    assert isinstance(failed.cause, cause)
    assert stage.cause is failed.cause
    assert stage.on_lost(0) == []
    assert stage.on_ended(ValueError("later")) == []
    assert stage.cause is failed.cause


def test_what_happens_on_the_way_out_is_not_a_failure():
    stage = running()
    stage.leave()
    assert stage.on_lost(0) == []
    assert stage.on_ended(None) == []
    assert stage.phase is StagePhase.LEAVING


@pytest.mark.parametrize(
    "end", [lambda s: s.on_lost(0), lambda s: s.leave()], ids=["failed", "left"]
)
def test_a_slot_that_is_started_again_after_the_end_is_sent_away(end):
    stage = running()
    end(stage)
    assert stage.on_listening(SlotListening(0, "tcp://again", 9)) == [SendCommand(0, StopSlot())]


def test_a_failed_stage_that_is_let_go_stays_failed():
    stage = running()
    stage.on_lost(0)
    stage.leave()
    assert stage.phase is StagePhase.FAILED


def test_a_stage_has_nothing_more_to_tell_when_all_slots_have_failed_or_are_lost():
    stage = running()
    stage.on_slot_failed(SlotFailed(1, FAILURE))
    assert (stage.gone, stage.all_gone) == ({1}, False)
    stage.on_lost(0)
    assert stage.all_gone


def test_a_failed_stage_owes_traces_until_each_slot_has_reported_one_or_is_lost():
    stage = running()
    stage.on_slot_failed(SlotFailed(1, dataclasses.replace(FAILURE, trace="of the cause")))
    assert (stage.without_trace, stage.owes_traces) == ({0}, True)
    stage.on_traced(SlotTraced(0, "at the stop"))
    assert (stage.without_trace, stage.owes_traces) == (set(), False)
    assert stage.traces == {0: "at the stop"}, "the cause has its own"


def test_a_slot_that_fails_after_its_final_trace_has_one_trace():
    stage = running()
    stage.on_slot_failed(SlotFailed(1, FAILURE))
    stage.on_traced(SlotTraced(0, "at the stop"))
    stage.on_slot_failed(SlotFailed(0, dataclasses.replace(FAILURE, trace="all of it")))
    assert stage.traces == {0: "all of it"}


def test_a_lost_slot_has_no_trace_and_owes_none():
    stage = running()
    stage.on_slot_failed(SlotFailed(1, dataclasses.replace(FAILURE, trace="of the cause")))
    stage.on_lost(0)
    assert (stage.without_trace, stage.owes_traces) == ({0}, False)
