"""Checkpoints and savepoints of a pipelined driver: what it tells slots, and what it makes of what they report."""

from __future__ import annotations

import dataclasses

import pytest

from penstock.graph.stage import HeartbeatSettings
from penstock.jobmanager.requests import SavepointRequest
from penstock.jobmanager.running.driver import ExecutionFailedError
from penstock.runtime.task.pipelined.slot_messages import (
    CancelCheckpoint,
    ConfirmCheckpoint,
    DeclineCheckpoint,
    SlotListening,
    SourceFinished,
    TriggerBarrier,
)
from tests.unit.jobmanager.running.pipelined.scripted_slots import (
    INTERVAL_S,
    NOTES,
    TOLERANT,
    silent,
)


def test_a_checkpoint_is_triggered_in_all_stages_and_all_learn_that_it_is_complete(scripted):
    run = scripted()
    first, second = run.start()
    began = run.slots.now
    assert run.advance()
    for stage in (first, second):
        assert [each.checkpoint for each in run.slots.received(TriggerBarrier, stage)] == [1]
        assert run.slots.received(ConfirmCheckpoint, stage) == [ConfirmCheckpoint(1)]
    assert run.slots.received(CancelCheckpoint) == []
    assert NOTES[-2:] == [("commit", "a", 1), ("commit", "b", 1)]
    assert run.slots.now - began == INTERVAL_S


def test_heartbeats_that_a_job_sets_are_those_of_its_driver_and_of_its_slots(scripted):
    run = scripted(**{"heartbeat.interval": "2 s", "heartbeat.timeout": "7 s"})
    stages = run.start()
    expected = HeartbeatSettings(interval_ms=2000, timeout_ms=7000)
    assert run.slots.heartbeat == expected
    assert [stage.deployment.network.heartbeat for stage in stages] == [expected] * 2


def test_a_checkpoint_that_one_task_declines_is_aborted_in_all_stages(scripted):
    run = scripted(**TOLERANT)
    first, second = run.start()
    run.slots.answers = lambda stage, task, trigger: (
        run.slots.decline(stage, task, trigger) if stage is first else None
    )
    assert not run.advance()
    for stage in (first, second):
        assert run.slots.received(CancelCheckpoint, stage)[0] == CancelCheckpoint(1)
        assert run.slots.received(ConfirmCheckpoint, stage) == []
    assert not [note for note in NOTES if note[0] == "commit"]
    run.slots.answers = run.slots.ack
    assert run.advance()
    assert (
        run.driver.manifest.checkpoint_id == run.slots.received(ConfirmCheckpoint)[0].checkpoint > 1
    )


def test_a_checkpoint_that_is_declined_fails_the_job_if_no_failure_is_tolerated(scripted):
    run = scripted()
    run.start()
    run.slots.answers = run.slots.decline
    with pytest.raises(ExecutionFailedError, match="checkpoint 1 failed"):
        run.advance()


def test_a_checkpoint_that_is_declined_because_a_later_one_came_first_is_not_a_failure(scripted):
    run = scripted()
    first, _ = run.start()
    run.slots.answers = lambda stage, task, trigger: (
        DeclineCheckpoint(trigger.checkpoint, task, "overtaken", failed=False)
        if trigger.checkpoint == 1
        else run.slots.ack(stage, task, trigger)
    )
    assert run.advance()
    assert run.slots.received(CancelCheckpoint, first) == [CancelCheckpoint(1)]
    assert run.slots.received(ConfirmCheckpoint, first) == [ConfirmCheckpoint(2)]


def test_a_checkpoint_that_takes_too_long_is_aborted_in_all_stages(scripted):
    run = scripted(**TOLERANT, **{"execution.checkpointing.timeout": "5 s"})
    first, second = run.start()
    run.slots.answers = silent
    assert not run.advance()
    for stage in (first, second):
        assert run.slots.received(CancelCheckpoint, stage)[0] == CancelCheckpoint(1)
    assert run.driver.manifest is None


def test_an_ack_of_a_checkpoint_that_was_aborted_completes_nothing(scripted):
    run = scripted(**TOLERANT, **{"execution.checkpointing.timeout": "5 s"})
    first, second = run.start()
    run.slots.answers = silent
    run.advance()
    for stage in (first, second):
        late = run.slots.ack(stage, stage.tasks[0], run.slots.received(TriggerBarrier, stage)[0])
        run.slots.report(stage, late)
    assert not run.advance()
    assert run.driver.manifest is None


def test_the_last_checkpoint_is_aligned_and_comes_when_all_sources_have_read_all(scripted):
    run = scripted()
    first, second = run.start()
    began = run.slots.now
    for stage in (first, second):
        run.slots.report(stage, SourceFinished(stage.tasks[0]))
    assert run.advance()
    (trigger,) = run.slots.received(TriggerBarrier, first)
    assert (trigger.aligned, trigger.stop, trigger.drain) == (True, False, False)
    assert run.slots.now == began, "the interval is not waited for"


def test_the_last_checkpoint_is_not_begun_again_while_it_is_under_way(scripted):
    run = scripted()
    first, second = run.start()
    run.slots.answers = silent
    for stage in (first, second):
        run.slots.report(stage, SourceFinished(stage.tasks[0]))
    assert not run.advance()
    assert len(run.slots.received(TriggerBarrier, first)) == 1


def test_the_last_checkpoint_waits_for_the_slowest_source(scripted):
    run = scripted()
    first, _ = run.start()
    began = run.slots.now
    run.slots.report(first, SourceFinished(first.tasks[0]))
    assert run.advance()
    assert run.slots.now - began == INTERVAL_S
    assert not run.slots.received(TriggerBarrier)[0].aligned


def test_a_checkpoint_that_settles_the_job_stops_its_sources(scripted):
    run = scripted()
    first, _ = run.start()
    run.driver.settle()
    (trigger,) = run.slots.received(TriggerBarrier, first)
    assert (trigger.stop, trigger.drain, trigger.aligned) == (True, False, False)


@pytest.mark.parametrize(
    ("stops", "drains"), [(False, False), (True, False), (True, True), (False, True)]
)
def test_a_savepoint_is_aligned_comes_at_once_and_ends_the_sources_if_it_is_to(
    scripted, stops, drains
):
    run = scripted()
    first, second = run.start()
    began = run.slots.now
    assert run.driver.advance(SavepointRequest("/sp", stops=stops, drains=drains))
    (trigger,) = run.slots.received(TriggerBarrier, first)
    assert (trigger.aligned, trigger.stop, trigger.drain) == (True, stops, drains)
    assert run.slots.now == began
    assert NOTES[-2:] == [("publish", "a", 1), ("publish", "b", 1)]
    assert run.advance()
    again = run.slots.stages[2:]
    stopped = stops or drains  # nothing would be read any more, so all begin from the savepoint
    assert [stage.tasks for stage in again] == ([first.tasks, second.tasks] if stopped else [])


def test_a_savepoint_that_is_declined_is_tried_again(scripted):
    run = scripted(**TOLERANT)
    first, _ = run.start()
    run.slots.answers = lambda stage, task, trigger: (
        run.slots.decline(stage, task, trigger)
        if trigger.checkpoint == 1
        else run.slots.ack(stage, task, trigger)
    )
    assert run.driver.advance(SavepointRequest("/sp"))
    assert run.slots.received(ConfirmCheckpoint, first) == [ConfirmCheckpoint(2)]
    assert [each.aligned for each in run.slots.received(TriggerBarrier, first)] == [True, True]


def test_a_savepoint_is_over_when_the_job_comes_to_its_end_before_it(scripted):
    run = scripted()
    stages = run.start()
    run.slots.answers = silent
    for stage in stages:
        run.slots.report(stage, SourceFinished(stage.tasks[0]))
    assert not run.advance()

    def finish() -> None:
        for stage in stages:
            message = run.slots.ack(
                stage, stage.tasks[0], run.slots.received(TriggerBarrier, stage)[0]
            )
            done = dataclasses.replace(message.ack, finished=True)
            run.slots.report(stage, dataclasses.replace(message, ack=done))

    run.slots.when_idle.append(finish)
    run.slots.idle_turns = 0
    assert run.driver.advance(SavepointRequest("/sp"))
    assert run.driver.finished
    assert run.driver.manifest.checkpoint_id == 1


def test_the_checkpoint_before_the_first_restart_waits_for_its_interval(scripted):
    run = scripted()
    run.driver.restore(None, attempt=0, at_once=True)
    began = run.slots.now
    assert run.advance()
    assert run.slots.now - began == INTERVAL_S


def test_after_a_restart_the_first_checkpoint_comes_at_once_if_it_may(scripted):
    run = scripted()
    run.start()
    run.driver.restore(None, attempt=1, at_once=True)
    began = run.slots.now
    assert run.advance()
    assert run.slots.now == began


def test_slots_that_do_not_run_yet_are_not_triggered(scripted):
    run = scripted()
    run.slots.starts = False
    first, second = run.start()
    run.slots.report(first, SlotListening(0, "tcp://0", 1))
    assert not run.advance()
    assert run.slots.received(TriggerBarrier) == []
    run.slots.report(second, SlotListening(0, "tcp://0", 1))
    assert run.advance()
    assert len(run.slots.received(TriggerBarrier)) == 2
