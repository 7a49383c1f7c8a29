"""The state machine of a JobMaster: a pure core.

`handle(event)` returns instructions; the caller carries them out in order and reports back with events. There are no threads, clocks
or files here, and nothing specific to epoch mode or pipelined mode. A job's life cycle:

    acquire -> restore -> [take a request -> serve it] -> run to the next checkpoint -> take a request -> ... -> end

After a failure the restart strategy decides: wait and restore, or fail. A started savepoint or rescaling survives failures, until it
is done or the job has ended; its request gets a result in any case.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.checkpoint.handles import DamagedStateError
from penstock.common.job_status import JobStatus
from penstock.errors import FencedError, JobCancelledError, PenstockError, RestoreRefusedError
from penstock.jobmanager.checkpointing.checkpoint_failures import CheckpointFailures
from penstock.jobmanager.failover.restart_strategies import NoFurtherRestart, RestartStrategyLogic
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
    JobMasterEvent,
    JobMasterInstruction,
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
from penstock.jobmanager.requests import RescaleRequest, SavepointRequest
from penstock.jobmanager.running.driver import ExecutionFailedError


class JobPhase(enum.Enum):
    """What the job waits for; in parentheses the expected events, besides ExecutionFailed and Cancelled."""

    CREATED = "created"  # (Start)
    ACQUIRING = "acquiring its directory"  # (Acquired)
    RESTORING = "being restored"  # (JobRestored)
    CHOOSING = "looking for requests"  # (RequestTaken)
    CHECKING = "checking a savepoint's target"  # (TargetChecked)
    RESCALING = "being rescaled"  # (JobRestored, RescaleRefused)
    ADVANCING = "running to the next checkpoint"  # (CheckpointCompleted, Interrupted)
    SAVING = "writing its last savepoint"  # (SavepointWritten)
    DELAYED = "waiting to be restored"  # (DelayElapsed)
    ENDED = "over"


_STORY = 20


class JobCore:
    """Decides what happens next to one job, and completes its requests."""

    def __init__(
        self,
        restart_strategy: RestartStrategyLogic,
        *,
        tolerable_failures: int = 0,
        interval_s: float = 0.0,
        elected: bool = False,
    ) -> None:
        self._restart_strategy = restart_strategy
        self._checkpoint_failures = CheckpointFailures(tolerable_failures)
        #: Delay before a failed checkpoint is tried again
        self._interval_s = interval_s
        #: Whether another JobManager resumes the job if this one is fenced off
        self._elected = elected
        self.phase = JobPhase.CREATED
        #: Set by a cancellation and when this JobManager gives the job up; from then on nothing restarts it
        self.cancelled = False
        #: Whether this JobManager gives the job up, for another one to resume; then it is `cancelled`, too
        self.suspended = False
        #: Restarts after failures; a rescaling is none
        self.restarts = 0
        #: From each failure to the first checkpoint completed after it, in seconds
        self.recovery_seconds: list[float] = []
        #: The first failure since the last completed checkpoint; None if there is none
        self._failed_at: float | None = None
        #: The status that was reported last
        self._status = JobStatus.CREATED
        #: Whether the job was restored once: later failures may be temporary storage errors
        self._has_run = False
        #: Whether the current checkpoint is the job's last
        self._finished = False
        #: The savepoint for which the next checkpoint is taken; set until that checkpoint is completed
        self._savepoint: SavepointRequest | None = None
        #: The started rescaling; set until a plan is restored: the new one, or the previous one if the new one failed
        self._rescaling: RescaleRequest | None = None
        #: The last events and phases, for errors
        self._story: deque[str] = deque(maxlen=_STORY)
        self._handlers: dict[type[JobMasterEvent], Callable[[Any], list[JobMasterInstruction]]] = {
            Start: self._start,
            Acquired: self._acquired,
            JobRestored: self._restored,
            RequestTaken: self._asked,
            TargetChecked: self._target_checked,
            RescaleRefused: self._rescale_refused,
            Interrupted: self._interrupted,
            CheckpointCompleted: self._checkpoint_completed,
            SavepointWritten: self._savepoint_written,
            DelayElapsed: self._delay_over,
            ExecutionFailed: self._failed,
            Cancelled: self._cancel,
            Suspended: self._suspend,
        }

    def handle(self, event: JobMasterEvent) -> list[JobMasterInstruction]:
        """Process an event; return the instructions to carry out."""
        instructions = self._handlers[type(event)](event)
        self._story.append(f"{type(event).__name__} -> {self.phase.value}")
        return instructions

    # Normal operation

    def _start(self, event: Start) -> list[JobMasterInstruction]:
        self._leave(event, JobPhase.CREATED)
        self.phase = JobPhase.ACQUIRING
        return [Acquire()]

    def _acquired(self, event: Acquired) -> list[JobMasterInstruction]:
        self._leave(event, JobPhase.ACQUIRING)
        return self._restore()

    def _restore(self) -> list[JobMasterInstruction]:
        self.phase = JobPhase.RESTORING
        return [*self._set_status(JobStatus.RUNNING), RestoreJob()]

    def _restored(self, event: JobRestored) -> list[JobMasterInstruction]:
        self._leave(event, JobPhase.RESTORING, JobPhase.RESCALING)
        self._has_run = True
        self._finished = event.finished
        answers: list[JobMasterInstruction] = []
        if self._rescaling is not None:
            answers.append(AnswerRescaled(self._rescaling))
            self._rescaling = None
        if self._finished:  # no further checkpoint will be taken for a pending savepoint
            return [*answers, *self._take_savepoint()]
        return [*answers, *self._go_on()]

    def _go_on(self) -> list[JobMasterInstruction]:
        """Decide what comes next between two checkpoints."""
        if self._finished:
            return self._end(JobStatus.FINISHED)
        if self.cancelled:
            return self._end(JobStatus.CANCELED)
        if self._savepoint is not None:  # one at a time: the next request is taken after this one
            return self._advance()
        self.phase = JobPhase.CHOOSING
        return [TakeRequest()]

    def _advance(self) -> list[JobMasterInstruction]:
        self.phase = JobPhase.ADVANCING
        return [Advance(self._savepoint)]

    def _interrupted(self, event: Interrupted) -> list[JobMasterInstruction]:
        self._leave(event, JobPhase.ADVANCING)
        return self._go_on()

    def _checkpoint_completed(self, event: CheckpointCompleted) -> list[JobMasterInstruction]:
        self._leave(event, JobPhase.ADVANCING)
        self._finished = event.finished
        self._checkpoint_failures.on_success()
        if self._failed_at is not None:
            self.recovery_seconds.append(event.at_s - self._failed_at)
            self._failed_at = None
        return self._take_savepoint()

    def _take_savepoint(self) -> list[JobMasterInstruction]:
        """Write the pending savepoint, if there is one, from the current checkpoint."""
        savepoint, self._savepoint = self._savepoint, None
        if savepoint is None:
            return self._go_on()
        if savepoint.stops:
            self.phase = JobPhase.SAVING
            return [WriteSavepoint(savepoint, in_background=False)]
        return [WriteSavepoint(savepoint, in_background=True), *self._go_on()]

    def _savepoint_written(self, event: SavepointWritten) -> list[JobMasterInstruction]:
        """End the job with the savepoint; if it could not be written, a job that can continue does."""
        self._leave(event, JobPhase.SAVING)
        if event.error is not None and not self._finished:
            return self._go_on()
        return self._end(JobStatus.FINISHED)

    # Requests

    def _asked(self, event: RequestTaken) -> list[JobMasterInstruction]:
        self._leave(event, JobPhase.CHOOSING)
        match event.request:
            case None:
                return self._advance()
            case RescaleRequest() as rescaling:
                self._rescaling = rescaling
                self.phase = JobPhase.RESCALING
                return [RescaleJob(rescaling)]
            case SavepointRequest() as savepoint:
                self._savepoint = savepoint
                if not savepoint.drains:
                    return self._advance()
                # Draining cannot be undone: check the target directory of the savepoint before.
                self.phase = JobPhase.CHECKING
                return [CheckTarget(savepoint)]

    def _target_checked(self, event: TargetChecked) -> list[JobMasterInstruction]:
        self._leave(event, JobPhase.CHECKING)
        if event.error is None:
            return self._advance()
        savepoint, self._savepoint = self._savepoint, None
        assert savepoint is not None
        return [RefuseRequest(savepoint, event.error), *self._go_on()]

    def _rescale_refused(self, event: RescaleRefused) -> list[JobMasterInstruction]:
        self._leave(event, JobPhase.RESCALING)
        rescaling, self._rescaling = self._rescaling, None
        assert rescaling is not None
        return [RefuseRequest(rescaling, event.error), *self._go_on()]

    # Failing and ending

    def _failed(self, event: ExecutionFailed) -> list[JobMasterInstruction]:
        if self.phase is JobPhase.ENDED:
            raise self._out_of_order(event)
        if event.at_start and not self._has_run:
            if self.cancelled and isinstance(event.cause, JobCancelledError):
                return self._end(JobStatus.CANCELED)
            return self._end(
                JobStatus.FAILED, event.error, fenced=isinstance(event.cause, FencedError)
            )
        damaged = isinstance(event.cause, DamagedStateError)
        first: list[JobMasterInstruction] = [QuarantineCheckpoint(event.cause)] if damaged else []
        return [*first, *self._after_failure(event)]

    def _after_failure(self, event: ExecutionFailed) -> list[JobMasterInstruction]:
        if self.cancelled:
            return self._end(JobStatus.CANCELED)
        if self._failed_at is None:
            self._failed_at = event.at_s
        if isinstance(event.cause, FencedError):
            return self._end(JobStatus.FAILED, event.error, fenced=True)
        if event.permanent:
            # A refusal explains itself.
            refused = isinstance(event.cause, RestoreRefusedError)
            verdict = None if refused else "a restart cannot fix it"
            return self._end(JobStatus.FAILED, event.error, verdict)
        if not event.counted and self._checkpoint_failures.tolerates(event.cause):
            self.phase = JobPhase.DELAYED
            return [
                ResetLoadStatistics(),
                TolerateFailedCheckpoint(event.error, event.cause),
                Delay(self._interval_s),
            ]
        failing = [ResetLoadStatistics(), *self._set_status(JobStatus.FAILING, event.error)]
        decision = self._restart_strategy.on_failure(int(event.at_s * 1000))
        if isinstance(decision, NoFurtherRestart):
            return [*failing, *self._end(JobStatus.FAILED, event.error, decision.reason)]
        self.restarts += 1
        self.phase = JobPhase.DELAYED
        return [
            *failing,
            *self._set_status(JobStatus.RESTARTING),
            AnnounceRestart(self.restarts, decision.delay_ms, event.error),
            Delay(decision.delay_ms / 1000),
        ]

    def _delay_over(self, event: DelayElapsed) -> list[JobMasterInstruction]:
        self._leave(event, JobPhase.DELAYED)
        return self._end(JobStatus.CANCELED) if self.cancelled else self._restore()

    def _cancel(self, _: Cancelled) -> list[JobMasterInstruction]:
        self.cancelled = True
        return []

    def _suspend(self, _: Suspended) -> list[JobMasterInstruction]:
        self.cancelled = self.suspended = True
        return []

    def _end(
        self,
        status: JobStatus,
        error: ExecutionFailedError | None = None,
        verdict: str | None = None,
        *,
        fenced: bool = False,
    ) -> list[JobMasterInstruction]:
        self.phase = JobPhase.ENDED
        if (self.suspended and status is not JobStatus.FINISHED) or (fenced and self._elected):
            # The next leader decides how it ends.
            status, verdict, fenced = JobStatus.SUSPENDED, None, self._elected
        unanswered = tuple(each for each in (self._savepoint, self._rescaling) if each is not None)
        self._savepoint = self._rescaling = None
        return [End(status, error, verdict, fenced, unanswered)]

    def abandon(self) -> list[JobMasterInstruction]:
        """End in any phase, after an unexpected error."""
        return [] if self.phase is JobPhase.ENDED else self._end(JobStatus.FAILED)

    def _set_status(
        self, status: JobStatus, error: ExecutionFailedError | None = None
    ) -> list[JobMasterInstruction]:
        if self._status is status:
            return []
        self._status = status
        return [SetStatus(status, error)]

    def _leave(self, event: JobMasterEvent, *phases: JobPhase) -> None:
        if self.phase not in phases:
            raise self._out_of_order(event)

    def _out_of_order(self, event: JobMasterEvent) -> PenstockError:
        return PenstockError(
            f"unexpected event {type(event).__name__}: the job is {self.phase.value}",
            detail="; ".join(self._story) or "no events before",
            hint="this is a bug in Penstock: please report it with the detail above",
        )
