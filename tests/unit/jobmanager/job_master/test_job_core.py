"""What a JobMaster decides, without threads, clocks and storage."""

from __future__ import annotations

import pytest

from penstock.checkpoint.handles import DamagedStateError
from penstock.common.job_status import JobStatus
from penstock.errors import (
    ArgumentError,
    CheckpointError,
    FencedError,
    PenstockError,
    RestoreRefusedError,
    SuppressRestartsError,
    suppresses_restarts,
)
from penstock.jobmanager.failover.restart_strategies import NoFurtherRestart, Restart
from penstock.jobmanager.job_master.job_core import JobCore, JobPhase
from penstock.jobmanager.job_master.job_messages import (
    Acquire,
    Acquired,
    Advance,
    AnnounceRestart,
    AnswerRescaled,
    Cancelled,
    CheckpointCompleted,
    CheckTarget,
    Delay,
    DelayElapsed,
    End,
    ExecutionFailed,
    Interrupted,
    JobRestored,
    QuarantineCheckpoint,
    RefuseRequest,
    RequestTaken,
    RescaleJob,
    RescaleRefused,
    ResetLoadStatistics,
    RestoreJob,
    SavepointWritten,
    SetStatus,
    Start,
    Suspended,
    TakeRequest,
    TargetChecked,
    TolerateFailedCheckpoint,
    WriteSavepoint,
)
from penstock.jobmanager.job_master.mailbox import Mailbox
from penstock.jobmanager.requests import RescaleRequest, SavepointRequest
from penstock.jobmanager.running.driver import ExecutionFailedError

S = JobStatus
SAVEPOINT = SavepointRequest("target")
STOP = SavepointRequest("target", stops=True)
DRAIN = SavepointRequest("target", stops=True, drains=True)
RESCALING = RescaleRequest((4,))
FINISHED = [End(S.FINISHED)]
CANCELED = [End(S.CANCELED)]


class Strategy:
    """Restarts after 2 s as often as it is told to, and keeps when it was asked."""

    def __init__(self, restarts: int = 100) -> None:
        self.left = restarts
        self.asked: list[int] = []

    def on_failure(self, now_ms: int) -> Restart | NoFurtherRestart:
        self.asked.append(now_ms)
        self.left -= 1
        return Restart(2000) if self.left >= 0 else NoFurtherRestart("enough")


def failed(
    cause: Exception | None = None, at_s: float = 10.0, *, at_start: bool = False
) -> ExecutionFailed:
    cause = cause or ValueError("user code")
    permanent = suppresses_restarts(cause)
    return ExecutionFailed(
        ExecutionFailedError("epoch 3 failed"), cause, at_s, at_start, permanent=permanent
    )


def reported(core: JobCore, *events):
    """Hand over events; return the instructions for the last one."""
    instructions: list = []
    for event in events:
        instructions = core.handle(event)
    return instructions


def started(*events, strategy=None, **options):
    """A job that has been restored and looks for requests, after which come these events."""
    core = JobCore(strategy or Strategy(), **options)
    reported(core, Start(), Acquired(), JobRestored(), *events)
    return core


def running(*events, **options):
    """A job that runs on to a checkpoint, after which come these events."""
    return started(RequestTaken(None), *events, **options)


def restarting(error: ExecutionFailedError, number: int = 1):
    return [
        ResetLoadStatistics(),
        SetStatus(S.FAILING, error),
        SetStatus(S.RESTARTING),
        AnnounceRestart(number, 2000, error),
        Delay(2.0),
    ]


# A good life


def test_a_job_is_acquired_restored_and_run_from_checkpoint_to_checkpoint_to_its_end() -> None:
    core = JobCore(Strategy())
    done = CheckpointCompleted(1.0)
    steps = [Start(), Acquired(), JobRestored(), RequestTaken(None), done, RequestTaken(None)]
    assert [core.handle(event) for event in steps] == [
        [Acquire()],
        [SetStatus(S.RUNNING), RestoreJob()],
        [TakeRequest()],
        [Advance()],
        [TakeRequest()],
        [Advance()],
    ]
    assert core.handle(CheckpointCompleted(2.0, finished=True)) == FINISHED
    assert core.phase is JobPhase.ENDED


def test_a_job_whose_last_checkpoint_is_restored_ends_at_once() -> None:
    core = JobCore(Strategy())
    assert reported(core, Start(), Acquired(), JobRestored(finished=True)) == FINISHED


def test_an_interruption_lets_it_look_for_requests() -> None:
    assert running().handle(Interrupted()) == [TakeRequest()]


# Savepoints


def test_a_savepoint_is_made_of_a_checkpoint_taken_for_it_while_the_job_goes_on() -> None:
    core = started()
    assert core.handle(RequestTaken(SAVEPOINT)) == [Advance(SAVEPOINT)]
    assert core.handle(CheckpointCompleted(1.0)) == [
        WriteSavepoint(SAVEPOINT, in_background=True),
        TakeRequest(),
    ]
    assert core.handle(RequestTaken(None)) == [Advance(None)]


def test_a_job_ends_with_the_savepoint_that_stops_it() -> None:
    core = started(RequestTaken(STOP))
    assert core.handle(CheckpointCompleted(1.0)) == [WriteSavepoint(STOP, in_background=False)]
    assert core.handle(SavepointWritten()) == FINISHED


def test_a_job_goes_on_if_its_last_savepoint_cannot_be_written() -> None:
    core = started(RequestTaken(STOP), CheckpointCompleted(1.0))
    assert core.handle(SavepointWritten(CheckpointError("no space"))) == [TakeRequest()]


def test_a_job_that_was_drained_ends_even_if_its_savepoint_cannot_be_written() -> None:
    core = started(RequestTaken(DRAIN), TargetChecked(), CheckpointCompleted(1.0, finished=True))
    assert core.handle(SavepointWritten(CheckpointError("no space"))) == FINISHED


def test_a_job_is_drained_only_if_there_is_a_place_for_the_savepoint() -> None:
    core = started()
    assert core.handle(RequestTaken(DRAIN)) == [CheckTarget(DRAIN)]
    assert core.handle(TargetChecked()) == [Advance(DRAIN)]
    core, error = started(RequestTaken(DRAIN)), CheckpointError("read only")
    assert core.handle(TargetChecked(error)) == [RefuseRequest(DRAIN, error), TakeRequest()]
    assert core.handle(RequestTaken(None)) == [Advance(None)]


def test_a_savepoint_that_is_asked_for_when_all_is_read_is_still_written() -> None:
    core = started(RequestTaken(SAVEPOINT))
    assert core.handle(CheckpointCompleted(1.0, finished=True)) == [
        WriteSavepoint(SAVEPOINT, in_background=True),
        *FINISHED,
    ]


@pytest.mark.parametrize("cause", [ValueError("user code"), CheckpointError("storage")], ids=str)
def test_a_savepoint_is_taken_after_a_failure_before_anything_else_is_served(cause) -> None:
    core = started(RequestTaken(SAVEPOINT), failed(cause), tolerable_failures=1)
    assert reported(core, DelayElapsed(), JobRestored()) == [Advance(SAVEPOINT)]


@pytest.mark.parametrize("savepoint", [SAVEPOINT, STOP, DRAIN])
def test_a_savepoint_whose_checkpoint_was_the_last_is_taken_of_it_although_its_commits_failed(
    savepoint,
) -> None:
    core = started(
        RequestTaken(savepoint), *[TargetChecked()] * savepoint.drains, failed(), DelayElapsed()
    )
    instructions = reported(core, JobRestored(finished=True))
    assert instructions[0] == WriteSavepoint(savepoint, in_background=not savepoint.stops)
    if savepoint.stops:
        instructions = reported(core, SavepointWritten())
    assert instructions[-1] == End(S.FINISHED)


def test_no_savepoint_is_taken_twice() -> None:
    core = started(RequestTaken(SAVEPOINT), CheckpointCompleted(1.0), RequestTaken(None), failed())
    assert reported(core, DelayElapsed(), JobRestored()) == [TakeRequest()]


# Rescaling


def test_a_rescaling_is_answered_when_the_new_plan_is_restored() -> None:
    core = started()
    assert core.handle(RequestTaken(RESCALING)) == [RescaleJob(RESCALING)]
    assert core.handle(JobRestored()) == [AnswerRescaled(RESCALING), TakeRequest()]
    assert core.handle(RequestTaken(None)) == [Advance(None)]


def test_a_rescaling_that_is_refused_leaves_the_job_as_it_is() -> None:
    core, error = started(RequestTaken(RESCALING)), ArgumentError("no such operator")
    assert core.handle(RescaleRefused(error)) == [RefuseRequest(RESCALING, error), TakeRequest()]


def test_a_rescaling_whose_plan_cannot_be_restored_is_answered_when_it_can() -> None:
    core = started(RequestTaken(RESCALING), failed(OSError("away")))
    assert core.handle(DelayElapsed()) == [SetStatus(S.RUNNING), RestoreJob()]
    assert core.handle(JobRestored()) == [AnswerRescaled(RESCALING), TakeRequest()]
    assert reported(core, RequestTaken(None), CheckpointCompleted(1.0)) == [TakeRequest()]


# Failures


def test_after_a_failure_the_job_waits_and_is_restored() -> None:
    strategy = Strategy()
    core, event = running(strategy=strategy), failed(at_s=12.5)
    assert core.handle(event) == restarting(event.error)
    assert (core.restarts, strategy.asked) == (1, [12500])
    assert core.handle(DelayElapsed()) == [SetStatus(S.RUNNING), RestoreJob()]
    assert core.handle(JobRestored()) == [TakeRequest()]


def test_the_restart_strategy_has_the_last_word() -> None:
    core, event = running(strategy=Strategy(restarts=1)), failed()
    reported(core, event, DelayElapsed(), JobRestored(), RequestTaken(None))
    assert core.handle(event) == [
        ResetLoadStatistics(),
        SetStatus(S.FAILING, event.error),
        End(S.FAILED, event.error, "enough"),
    ]
    assert core.restarts == 1


@pytest.mark.parametrize("events", [[], [Acquired()]], ids=["acquiring", "restoring"])
def test_what_fails_at_the_first_start_would_fail_again(events) -> None:
    strategy = Strategy()
    core, event = JobCore(strategy), failed(OSError("gone"), at_start=True)
    reported(core, Start(), *events)
    assert core.handle(event) == [End(S.FAILED, event.error)]
    assert strategy.asked == []


def test_an_epoch_that_fails_at_the_first_start_is_a_failure_like_any_other() -> None:
    core, event = JobCore(Strategy()), failed()  # such as an output that cannot be committed again
    assert reported(core, Start(), Acquired(), event) == restarting(event.error)


def test_what_fails_at_a_later_start_may_be_storage() -> None:
    event = failed(OSError("away"), at_start=True)
    assert running(failed(), DelayElapsed()).handle(event) == [
        ResetLoadStatistics(),
        SetStatus(S.FAILING, event.error),
        SetStatus(S.RESTARTING),
        AnnounceRestart(2, 2000, event.error),
        Delay(2.0),
    ]


@pytest.mark.parametrize(
    ("cause", "fenced"),
    [
        (FencedError("taken over"), True),
        (RestoreRefusedError("does not fit"), False),
        (SuppressRestartsError("the records are gone"), False),
    ],
    ids=["fenced", "refused", "permanent"],
)
@pytest.mark.parametrize("at_start", [False, True])
def test_what_never_will_be_better_ends_the_job_and_a_job_of_others_is_left_alone(
    cause, fenced, at_start
) -> None:
    event = failed(cause, at_start=at_start)
    speaks_for_itself = isinstance(cause, FencedError | RestoreRefusedError)
    verdict = None if speaks_for_itself else "a restart cannot fix it"
    assert running().handle(event) == [End(S.FAILED, event.error, verdict, fenced=fenced)]
    core = JobCore(Strategy())
    first = None if at_start else verdict
    assert reported(core, Start(), event) == [End(S.FAILED, event.error, first, fenced=fenced)]


def test_failed_checkpoints_are_tried_again_as_often_as_they_are_tolerated() -> None:
    cause = CheckpointError("storage")
    core, event = running(tolerable_failures=1, interval_s=5.0), failed(cause)
    assert core.handle(event) == [
        ResetLoadStatistics(),
        TolerateFailedCheckpoint(event.error, cause),
        Delay(5.0),
    ]
    assert core.handle(DelayElapsed()) == [RestoreJob()]  # it has been running all the time
    reported(core, JobRestored(), RequestTaken(None))
    assert core.handle(event) == restarting(event.error)


def test_a_completed_checkpoint_in_between_makes_failed_ones_tolerable_again() -> None:
    event, again = (
        failed(CheckpointError("storage")),
        [DelayElapsed(), JobRestored(), RequestTaken(None)],
    )
    core = running(
        event, *again, CheckpointCompleted(1.0), RequestTaken(None), tolerable_failures=1
    )
    assert TolerateFailedCheckpoint(event.error, event.cause) in core.handle(event)
    assert core.restarts == 0


def test_a_checkpoint_whose_state_cannot_be_read_is_left_for_the_one_before() -> None:
    cause = DamagedStateError("checksum")
    core, event = running(tolerable_failures=9), failed(cause)
    assert core.handle(event) == [QuarantineCheckpoint(cause), *restarting(event.error)]


def test_a_recovery_lasts_from_the_first_failure_to_the_next_completed_checkpoint() -> None:
    again = [DelayElapsed(), JobRestored(), RequestTaken(None)]
    core = running(failed(at_s=10.0), *again, failed(at_s=12.0), *again)
    reported(core, CheckpointCompleted(17.0), RequestTaken(None), CheckpointCompleted(19.0))
    assert core.recovery_seconds == [7.0]
    reported(core, RequestTaken(None), failed(at_s=30.0), *again, CheckpointCompleted(31.0))
    assert core.recovery_seconds == [7.0, 1.0]


# Cancelling


@pytest.mark.parametrize(
    ("before", "event"),
    [
        pytest.param([], JobRestored(), id="while it starts"),
        pytest.param(
            [JobRestored(), RequestTaken(None)], Interrupted(), id="while it waits for work"
        ),
        pytest.param(
            [JobRestored(), RequestTaken(None)], CheckpointCompleted(1.0), id="while it runs"
        ),
        pytest.param([JobRestored(), RequestTaken(None)], failed(), id="so that an epoch fails"),
        pytest.param(
            [JobRestored(), RequestTaken(None), failed()], DelayElapsed(), id="before a restart"
        ),
        pytest.param([failed()], DelayElapsed(), id="before it ever ran"),
    ],
)
def test_a_cancelled_job_ends_at_the_next_decision(before, event) -> None:
    core = JobCore(Strategy())
    reported(core, Start(), Acquired(), *before)
    assert core.handle(Cancelled()) == []
    assert core.handle(event) == CANCELED


def test_a_job_that_is_done_when_it_is_cancelled_has_finished() -> None:
    core = running(Cancelled())
    assert core.handle(CheckpointCompleted(1.0, finished=True)) == FINISHED


def test_a_damaged_checkpoint_is_set_aside_even_if_the_job_is_cancelled() -> None:
    core, cause = running(Cancelled()), DamagedStateError("checksum")
    assert core.handle(failed(cause)) == [QuarantineCheckpoint(cause), *CANCELED]


# The caller gets an answer


@pytest.mark.parametrize(
    "request_", [SAVEPOINT, STOP, RESCALING], ids=["savepoint", "stop", "rescale"]
)
def test_what_was_begun_when_the_job_ends_is_answered(request_) -> None:
    event = failed()
    (*_, end) = started(RequestTaken(request_), strategy=Strategy(0)).handle(event)
    assert end == End(S.FAILED, event.error, "enough", unanswered=(request_,))
    (end,) = reported(started(RequestTaken(request_), Cancelled()), event)
    assert end == End(S.CANCELED, unanswered=(request_,))
    core = started(RequestTaken(request_))
    assert core.abandon() == [End(S.FAILED, unanswered=(request_,))]
    assert core.abandon() == []


def test_a_savepoint_that_was_written_is_not_answered_again() -> None:
    core = started(RequestTaken(SAVEPOINT), CheckpointCompleted(1.0), Cancelled())
    assert core.handle(RequestTaken(None)) == [Advance(None)]
    assert core.handle(Interrupted()) == CANCELED


def test_an_event_that_does_not_belong_is_refused_with_the_story() -> None:
    with pytest.raises(PenstockError, match="unexpected event DelayElapsed") as caught:
        running().handle(DelayElapsed())
    assert (
        "JobRestored -> looking for requests; RequestTaken -> running to the next checkpoint"
        in caught.value.detail
    )
    with pytest.raises(PenstockError, match="the job is over"):
        reported(running(CheckpointCompleted(1.0, finished=True)), failed())


# Where a leader is elected


def test_a_job_that_is_suspended_ends_at_the_next_decision_and_nothing_of_it_is_touched() -> None:
    core = running(elected=True)
    assert core.handle(Suspended()) == []
    assert core.handle(Interrupted()) == [End(S.SUSPENDED, fenced=True)]


def test_a_job_that_was_about_to_finish_when_it_is_suspended_has_finished() -> None:
    core = running(elected=True)
    core.handle(Suspended())
    assert core.handle(CheckpointCompleted(2.0, finished=True)) == FINISHED


def test_a_leader_that_finds_another_in_its_place_suspends_the_job() -> None:
    core, event = running(elected=True), failed(FencedError("another driver"))
    assert core.handle(event) == [End(S.SUSPENDED, event.error, None, True)]


def test_a_job_that_gets_two_requests_to_stop_here_is_suspended_and_not_cancelled() -> None:
    mailbox = Mailbox()
    mailbox.suspend()
    mailbox.suspend()
    assert mailbox.suspended
    cancelled = Mailbox()
    cancelled.cancel()
    cancelled.suspend()
    assert not cancelled.suspended, "it ends for good"
