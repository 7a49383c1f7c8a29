"""What the core of a JobMaster is told (events) and what it asks for (instructions)."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common.job_status import JobStatus
from penstock.jobmanager.requests import Request, RescaleRequest, SavepointRequest
from penstock.jobmanager.running.driver import EpochFailedError


class Event:
    """Base of what happens to a job."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Start(Event):
    """Run the job."""


@dataclass(frozen=True, slots=True)
class Acquired(Event):
    """The job's directory belongs to this driver."""


@dataclass(frozen=True, slots=True)
class Restored(Event):
    """The plan in force starts from the last checkpoint; `finished` says that nothing is left to do."""

    finished: bool = False


@dataclass(frozen=True, slots=True)
class Asked(Event):
    """The oldest request that waits, or None if none does."""

    request: Request | None


@dataclass(frozen=True, slots=True)
class TargetChecked(Event):
    """Whether a savepoint can be written where it is wanted; if not, `error` says why."""

    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class RescaleRefused(Event):
    """The plan that was asked for cannot be made, or cannot go on from the last checkpoint."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Interrupted(Event):
    """Somebody wants something before the next checkpoint was begun."""


@dataclass(frozen=True, slots=True)
class CheckpointCompleted(Event):
    """A checkpoint is complete, its output is committed. `finished` says that it is the job's last."""

    at_s: float  # on a clock that never goes back
    finished: bool = False


@dataclass(frozen=True, slots=True)
class SavepointWritten(Event):
    """The savepoint that the job is to end with was written, or could not be."""

    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class DelayOver(Event):
    """The time that was to be waited is over, or the job was cancelled meanwhile."""


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """Something went wrong: `error` as it was raised, `cause` what was behind it.

    `at_start` says that it was raised while the job was acquired or restored, and by no epoch: before the job has run, the
    same would happen again. `counted`: whoever reports has tolerated as many failed checkpoints as there may be. `permanent`: no
    restart can help.
    """

    error: EpochFailedError
    cause: BaseException
    at_s: float
    at_start: bool = False
    counted: bool = False
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Suspended(Event):
    """This JobManager leads no more. May come at any time."""


@dataclass(frozen=True, slots=True)
class Cancelled(Event):
    """Somebody wants the job to end; it does at the next decision."""


class Instruction:
    """Base of what the core asks for. Instructions are carried out in the order they come."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SetStatus(Instruction):
    """Tell that the job has another status; `error` is why, if it fails."""

    status: JobStatus
    error: EpochFailedError | None = None


@dataclass(frozen=True, slots=True)
class Acquire(Instruction):
    """Make the job's directory this driver's; report Acquired or Failed."""


@dataclass(frozen=True, slots=True)
class Restore(Instruction):
    """Go back to the last checkpoint that storage has; report Restored or Failed."""


@dataclass(frozen=True, slots=True)
class TakeRequest(Instruction):
    """Take the oldest request that waits; report Asked."""


@dataclass(frozen=True, slots=True)
class CheckTarget(Instruction):
    """See whether a savepoint can be written where it is wanted; report TargetChecked."""

    request: SavepointRequest


@dataclass(frozen=True, slots=True)
class Rescale(Instruction):
    """Make another plan and restore it from the last checkpoint; report Restored, RescaleRefused or Failed."""

    request: RescaleRequest


@dataclass(frozen=True, slots=True)
class Advance(Instruction):
    """Run on to the next checkpoint; report CheckpointCompleted, Interrupted or Failed.

    With a savepoint the checkpoint is taken at once, and in the way that the savepoint needs.
    """

    savepoint: SavepointRequest | None = None


@dataclass(frozen=True, slots=True)
class WriteSavepoint(Instruction):
    """Make a savepoint of the last checkpoint and answer whoever asked.

    `beside`: the job goes on meanwhile. If not, report SavepointWritten.
    """

    request: SavepointRequest
    beside: bool


@dataclass(frozen=True, slots=True)
class AnswerRescaled(Instruction):
    """Tell whoever asked that the job goes on with the parallelism that it has now."""

    request: RescaleRequest


@dataclass(frozen=True, slots=True)
class Refuse(Instruction):
    """Tell whoever asked why it is not done."""

    request: Request
    error: Exception


@dataclass(frozen=True, slots=True)
class SetAsideCheckpoint(Instruction):
    """Leave the last checkpoint, whose state cannot be read, for the one before."""

    cause: BaseException


@dataclass(frozen=True, slots=True)
class ForgetLoad(Instruction):
    """Forget what was measured of the job's load."""


@dataclass(frozen=True, slots=True)
class Tolerate(Instruction):
    """Tell that a checkpoint failed and is tried again."""

    error: EpochFailedError
    cause: BaseException


@dataclass(frozen=True, slots=True)
class TellRestart(Instruction):
    """Tell why the job is started again, for which time, and when."""

    restarts: int
    delay_ms: int
    error: EpochFailedError


@dataclass(frozen=True, slots=True)
class Delay(Instruction):
    """Wait, unless the job is cancelled; report DelayOver."""

    seconds: float


@dataclass(frozen=True, slots=True)
class End(Instruction):
    """Let go of everything and tell how the job ended. Nothing follows.

    `error` is what it failed with; `verdict` is why it was not started again, None if that was out of the question. A
    `fenced` job belongs to another driver: nothing of it may be touched. `unanswered` get to know that the job is over.
    """

    status: JobStatus
    error: EpochFailedError | None = None
    verdict: str | None = None
    fenced: bool = False
    unanswered: tuple[Request, ...] = ()
