"""Failures of stages and slots in a pipelined driver: what goes back, and what is kept."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from penstock.connectors.base.source import SourceAssignment
from penstock.errors import CheckpointError, PenstockError
from penstock.graph.task_id import TaskId
from penstock.jobmanager.running.driver import ExecutionFailedError
from penstock.jobmanager.running.journal import list_records, read_record, record_name
from penstock.runtime.inspection.requests import ThreadDump
from penstock.runtime.network.driver_endpoint import ConnectionLost
from penstock.runtime.task.pipelined.slot_messages import (
    AssignSplits,
    CancelCheckpoint,
    ConfirmCheckpoint,
    Connect,
    OutputTaken,
    SinkOutput,
    SlotListening,
    SlotReport,
    SlotTraced,
    SplitsFinished,
    StopSlot,
    TriggerBarrier,
)
from penstock.runtime.time.decisions import ClockLog, PackedRuns, SlotTrace, SubtaskTrace
from tests.unit.jobmanager.running.pipelined.scripted_slots import (
    NOTES,
    REFUSED,
    TOLERANT,
    Scripted,
    Stage,
    silent,
)


def failing(run: Scripted, stage: Stage) -> ExecutionFailedError:
    """Let a stage fail, and return what the driver makes of it."""
    run.slots.fail(stage)
    with pytest.raises(ExecutionFailedError) as failed:
        run.advance()
    return failed.value


@pytest.fixture
def at_one(scripted: Callable[..., Scripted]) -> Scripted:
    """A job that has completed its first checkpoint."""
    run = scripted()
    run.start()
    assert run.advance()
    return run


def test_the_failure_of_a_region_gives_up_only_its_tasks(at_one):
    first, second = at_one.slots.stages
    error = failing(at_one, first)
    assert set(error.tasks) == set(first.tasks)
    assert "boom" in str(error)
    assert at_one.slots.received(StopSlot, first) == [StopSlot(failed=True)]
    assert at_one.slots.received(StopSlot, second) == []


def trace_of(stage: Stage, slot: int) -> SlotTrace:
    clock, empty = ClockLog(), PackedRuns()
    traces = tuple(
        SubtaskTrace(task, clock, clock, {}, empty)
        for task, where in stage.deployment.placement.items()
        if where == slot
    )
    return SlotTrace(-1, -1, PackedRuns(), traces)


def traced_tasks(run: Scripted) -> set[TaskId]:
    """Return the tasks with a trace in the record of the failed interval."""
    storage = run.store.storage
    (number,) = (number for number, failed in list_records(storage) if failed)
    record = read_record(storage, record_name(number, failed=True), run.store.signer)
    return {part.task for trace in record.traces for part in trace.subtasks}


@pytest.fixture
def slow_to_end(scripted: Callable[..., Scripted]) -> Scripted:
    """A job of two regions with two slots each; the slots of the first do not end when they are told to."""
    run = scripted(2)
    first, _ = run.start()
    assert run.advance()
    first.obeys = False
    return run


def test_the_record_of_a_failure_waits_for_the_traces_of_the_other_slots(slow_to_end, caplog):
    first, _ = slow_to_end.slots.stages
    nothing_yet = [lambda: None] * 100  # turns in which a busy machine does nothing
    report = SlotTraced(1, trace_of(first, 1))
    slow_to_end.slots.when_idle += [
        *nothing_yet,
        lambda: slow_to_end.slots.report(first, report, 1),
    ]
    failing(slow_to_end, first)
    assert traced_tasks(slow_to_end) == {task for task in first.tasks if task.subtask == 1}
    assert "1 of the 2 slots of stage 0" in caplog.text, "the failing slot has reported none"


def test_what_is_missing_in_the_record_of_a_failure_is_logged(slow_to_end, caplog):
    first, _ = slow_to_end.slots.stages
    failing(slow_to_end, first)
    assert traced_tasks(slow_to_end) == set()
    assert (
        "no final trace of 2 of the 2 slots of stage 0: 1 ended without one, 1 did not"
        in caplog.text
    )


def test_slots_that_are_lost_are_not_waited_for(slow_to_end):
    first, _ = slow_to_end.slots.stages
    slow_to_end.slots.fail(first)
    slow_to_end.slots.report(first, ConnectionLost(), 1)
    began = slow_to_end.slots.now
    with pytest.raises(ExecutionFailedError):
        slow_to_end.advance()
    assert slow_to_end.slots.now == began


def test_reports_of_other_regions_are_kept_while_traces_are_awaited(slow_to_end):
    first, second = slow_to_end.slots.stages
    report = SlotReport(0, {})
    slow_to_end.slots.when_idle += [
        lambda: slow_to_end.slots.report(second, report),
        lambda: slow_to_end.slots.report(first, ConnectionLost(), 1),
    ]
    failing(slow_to_end, first)
    slow_to_end.driver.restore(slow_to_end.driver.manifest, attempt=1, at_once=False)
    assert slow_to_end.advance()
    assert slow_to_end.watching.reported is report


def test_a_region_that_fails_while_traces_are_awaited_is_restored_too(slow_to_end):
    first, second = slow_to_end.slots.stages
    slow_to_end.slots.when_idle += [
        lambda: slow_to_end.slots.fail(second),
        lambda: slow_to_end.slots.report(first, ConnectionLost(), 1),
    ]
    assert failing(slow_to_end, first).tasks is None


def test_commands_to_a_region_that_starts_while_traces_are_awaited_are_sent_once(slow_to_end):
    first, second = slow_to_end.slots.stages
    slow_to_end.slots.starts = False
    slow_to_end.slots.report(first, ConnectionLost(), 1)
    failing(slow_to_end, first)
    slow_to_end.driver.restore(slow_to_end.driver.manifest, attempt=1, at_once=False)
    starting = slow_to_end.slots.stages[-1]
    second.obeys = False

    def listen() -> None:
        for slot in range(2):
            report = SlotListening(slot, f"tcp://{slot}", 1)
            slow_to_end.slots.report(starting, report, slot)

    slow_to_end.slots.when_idle += [
        listen,
        lambda: slow_to_end.slots.report(second, ConnectionLost(), 1),
    ]
    failing(slow_to_end, second)
    slow_to_end.slots.starts = True
    slow_to_end.driver.restore(slow_to_end.driver.manifest, attempt=2, at_once=False)
    assert slow_to_end.advance()
    assert len(slow_to_end.slots.received(Connect, starting)) == 2


def test_if_all_regions_fail_all_tasks_are_given_up(at_one):
    first, second = at_one.slots.stages
    at_one.slots.fail(second)
    assert failing(at_one, first).tasks is None


def test_a_failure_aborts_the_checkpoint_under_way_in_the_region_that_goes_on(at_one):
    first, second = at_one.slots.stages
    at_one.slots.answers = silent
    assert not at_one.advance()
    under_way = at_one.slots.received(TriggerBarrier, second)[-1].checkpoint
    failing(at_one, first)
    assert at_one.slots.received(CancelCheckpoint, second) == [CancelCheckpoint(under_way)]
    assert at_one.slots.received(CancelCheckpoint, first) == [], (
        "it is told to leave, and nothing else"
    )
    assert at_one.driver.checkpoints.pending == []


def test_a_region_that_failed_goes_back_alone_to_the_checkpoint_the_others_go_on_from(at_one):
    first, second = at_one.slots.stages
    failing(at_one, first)
    NOTES.clear()
    at_one.driver.restore(at_one.driver.manifest, attempt=1, at_once=False)
    again = at_one.slots.stages[2:]
    assert [stage.tasks for stage in again] == [first.tasks]
    assert at_one.slots.closed == [first.token]
    assert at_one.watching.deployed[-1] == set(first.tasks)
    assert NOTES == [("abandon", "a", [0]), ("enumerate", "a", True)]
    (deployment,) = (stage.deployment for stage in again)
    assert (deployment.attempt_number, deployment.next_checkpoint) == (1, 2)
    assert list(deployment.restore)
    assert not second.ended
    assert at_one.advance()
    assert at_one.slots.received(ConfirmCheckpoint, second)[-1] == ConfirmCheckpoint(2)


def test_all_regions_go_back_if_the_commits_of_the_last_checkpoint_are_not_done(at_one):
    first, second = at_one.slots.stages
    REFUSED.add("b")
    at_one.slots.answers = lambda stage, task, trigger: (
        at_one.slots.ack(stage, task, trigger)
        if stage is first
        else at_one.slots.fail(first) or at_one.slots.ack(stage, task, trigger)
    )
    with pytest.raises(ExecutionFailedError, match="away"):
        at_one.advance()
    REFUSED.clear()
    at_one.slots.answers = at_one.slots.ack
    at_one.driver.restore(at_one.store.read_all()[-1], attempt=1, at_once=False)
    assert [stage.tasks for stage in at_one.slots.stages[2:]] == [first.tasks, second.tasks]
    assert ("commit", "b", 2) in NOTES


def test_after_all_have_gone_back_a_region_may_go_back_alone_again(at_one):
    first, _ = at_one.slots.stages
    at_one.driver.settle()
    at_one.driver.restore(at_one.driver.manifest, attempt=1, at_once=False)
    assert at_one.advance()
    failing(at_one, at_one.slots.stages[2])
    at_one.driver.restore(at_one.driver.manifest, attempt=2, at_once=False)
    assert [stage.tasks for stage in at_one.slots.stages[4:]] == [first.tasks]


@pytest.mark.parametrize("completed", [0, 1], ids=["the first", "a later one"])
def test_all_regions_go_back_if_a_newer_checkpoint_is_durable_than_they_know_of(
    scripted, completed
):
    """The answer to writing it was lost, so it was aborted, and its manifest is there all the same."""
    run = scripted(**TOLERANT)
    first, second = run.start()
    for _ in range(completed):
        assert run.advance()
    write = run.store.write

    def write_and_lose_the_answer(manifest):
        write(manifest)
        run.slots.answers = silent
        raise CheckpointError("storage does not answer")

    run.store.write = write_and_lose_the_answer
    assert not run.advance()
    run.store.write = write
    run.slots.answers = run.slots.ack
    known, newest = run.driver.manifest, run.store.read_all()[-1]
    assert newest.checkpoint_id > (0 if known is None else known.checkpoint_id)
    failing(run, first)
    run.driver.restore(newest, attempt=1, at_once=False)
    again = run.slots.stages[2:]
    assert [stage.tasks for stage in again] == [first.tasks, second.tasks]
    assert set(run.slots.closed) == {first.token, second.token}
    assert run.slots.received(StopSlot, second) == [StopSlot(failed=False)]
    assert run.driver.manifest == newest
    assert run.advance()


def test_all_regions_go_back_after_a_checkpoint_that_was_to_be_the_last(at_one):
    first, second = at_one.slots.stages
    at_one.slots.answers = lambda stage, task, trigger: (
        at_one.slots.fail(stage) if stage is first else None
    )
    with pytest.raises(ExecutionFailedError):
        at_one.driver.settle()
    at_one.slots.answers = at_one.slots.ack
    at_one.driver.restore(at_one.driver.manifest, attempt=1, at_once=False)
    assert [stage.tasks for stage in at_one.slots.stages[2:]] == [first.tasks, second.tasks]


def test_what_an_attempt_tells_that_is_over_is_not_taken_for_another_one(at_one):
    first, second = at_one.slots.stages
    failing(at_one, first)
    at_one.driver.restore(at_one.driver.manifest, attempt=1, at_once=False)
    again = at_one.slots.stages[2]
    at_one.slots.fail(first)
    at_one.slots.report(first, ConnectionLost())
    at_one.slots.answers = lambda stage, task, trigger: (
        at_one.slots.report(first, at_one.slots.ack(stage, task, trigger))
        if stage is again
        else at_one.slots.ack(stage, task, trigger)
    )
    assert not at_one.advance(), "the ACK came from an attempt that is over"
    assert at_one.slots.received(TriggerBarrier, again)
    assert at_one.slots.received(StopSlot, again) == at_one.slots.received(StopSlot, second) == []


def test_messages_of_an_unknown_stage_are_ignored(at_one):
    first, _ = at_one.slots.stages
    stranger = Stage(at_one.slots, first.deployment, lambda _: None)
    stranger.token = "nobody"
    at_one.slots.fail(stranger)
    at_one.slots.report(stranger, ConnectionLost())
    assert at_one.advance()


def test_a_stage_that_ends_by_itself_has_failed(at_one):
    first, _ = at_one.slots.stages
    first.end()
    at_one.slots.report(first, ConnectionLost())
    with pytest.raises(ExecutionFailedError) as failed:
        at_one.advance()
    assert set(failed.value.tasks) == set(first.tasks)


def test_a_stage_that_ends_without_a_word_has_failed_after_a_while(at_one):
    first, _ = at_one.slots.stages
    first.end(ValueError("executor lost"))
    with pytest.raises(ExecutionFailedError, match="executor lost") as failed:
        at_one.advance()
    assert set(failed.value.tasks) == set(first.tasks)


def test_what_a_slot_reported_before_its_stage_ended_is_the_cause(at_one):
    first, _ = at_one.slots.stages
    first.end(ValueError("executor lost"))
    at_one.slots.when_idle.append(lambda: at_one.slots.fail(first))  # it was under way
    with pytest.raises(ExecutionFailedError, match="boom"):
        at_one.advance()


def test_a_stage_whose_slots_do_not_leave_is_cancelled(at_one):
    first, second = at_one.slots.stages
    first.obeys = False
    at_one.driver.restore(at_one.driver.manifest, attempt=1, at_once=False)
    assert (first.cancelled, second.cancelled) == (True, False)
    assert len(at_one.slots.stages) == 4


def test_a_question_to_a_task_whose_stage_ends_is_answered_with_an_error(at_one):
    first, _ = at_one.slots.stages
    answer = at_one.driver.inspect(first.tasks[0], ThreadDump())
    assert at_one.advance()
    assert not answer.done()
    failing(at_one, first)
    at_one.driver.restore(at_one.driver.manifest, attempt=1, at_once=False)
    assert isinstance(answer.exception(0), PenstockError)


def test_a_stage_of_which_not_all_slots_listen_is_cancelled(scripted):
    run = scripted()
    run.slots.starts = False
    first, _ = run.start()
    run.driver.restore(None, attempt=1, at_once=False)
    assert first.cancelled
    assert run.slots.received(StopSlot, first) == []


def test_what_a_sink_puts_out_here_is_shown_and_its_task_may_send_as_much_again(at_one):
    first, _ = at_one.slots.stages
    shown: list[bytes] = []
    at_one.driver._sinks["printing"] = SimpleNamespace(put_streamed=shown.append)
    at_one.slots.report(first, SinkOutput(first.tasks[0], "printing", b"hello"))
    assert at_one.advance()
    assert shown == [b"hello"]
    assert at_one.slots.received(OutputTaken, first) == [OutputTaken(first.tasks[0], "printing", 5)]


def test_a_subtask_without_splits_is_not_idle_any_more_when_the_others_have_read_theirs(scripted):
    """While others read, its time does not count; when no source reads, it holds back none of them."""
    run = scripted(parallelism=2)
    first, _ = run.start()
    reading, other = sorted(
        first.tasks, key=lambda task: not first.deployment.assignments[task].splits
    )
    assert first.deployment.assignments[other].idle
    run.slots.report(first, SplitsFinished(reading, ("one",)))
    assert run.advance()
    assert run.slots.received(AssignSplits, first) == [AssignSplits(other, (), idle=False)]


def test_splits_for_a_task_that_does_not_run_yet_wait_until_it_does(scripted):
    run = scripted()
    run.slots.starts = False
    first, second = run.start()
    task = first.tasks[0]
    run.driver._assign({task: SourceAssignment([], no_more_splits=True)})
    assert run.slots.received(AssignSplits) == []
    for stage in (first, second):
        run.slots.report(stage, SlotListening(0, "tcp://0", 1))
    assert run.advance()
    assert run.slots.received(AssignSplits, first) == [AssignSplits(task, (), no_more_splits=True)]


def test_a_driver_that_closes_lets_all_slots_go(at_one):
    first, second = at_one.slots.stages
    at_one.driver.close()
    for stage in (first, second):
        assert at_one.slots.received(StopSlot, stage) == [StopSlot(failed=False)]
        assert not stage.cancelled
    assert set(at_one.slots.closed) == {first.token, second.token}
