"""The events and instructions of a JobMaster's core."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common.job_status import JobStatus
from penstock.jobmanager.requests import Request, RescaleRequest, SavepointRequest
from penstock.jobmanager.running.driver import ExecutionFailedError


class JobMasterEvent:
    """Base of events."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Start(JobMasterEvent):
    """Start the job."""


@dataclass(frozen=True, slots=True)
class Acquired(JobMasterEvent):
    """The job's directory belongs to this driver."""


@dataclass(frozen=True, slots=True)
class JobRestored(JobMasterEvent):
    """The current plan was restored from the last checkpoint; `finished` if nothing is left to do."""

    finished: bool = False


@dataclass(frozen=True, slots=True)
class RequestTaken(JobMasterEvent):
    """The oldest pending request, or None."""

    request: Request | None


@dataclass(frozen=True, slots=True)
class TargetChecked(JobMasterEvent):
    """Whether the target directory of a savepoint is writable; if not, `error` is the reason."""

    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class RescaleRefused(JobMasterEvent):
    """The requested plan cannot be compiled, or cannot be restored from the last checkpoint."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Interrupted(JobMasterEvent):
    """A request or cancellation arrived before the next checkpoint was triggered."""


@dataclass(frozen=True, slots=True)
class CheckpointCompleted(JobMasterEvent):
    """A checkpoint was completed and its output committed. `finished` if it is the job's last."""

    at_s: float  # on a monotonic clock
    finished: bool = False


@dataclass(frozen=True, slots=True)
class SavepointWritten(JobMasterEvent):
    """The final savepoint of the job was written, or failed."""

    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class DelayElapsed(JobMasterEvent):
    """The restart delay has elapsed, or the job was cancelled meanwhile."""


@dataclass(frozen=True, slots=True)
class ExecutionFailed(JobMasterEvent):
    """A failure: `error` as it was raised, and its `cause`.

    `at_start`: it was raised while the job was acquired or restored; before the job has run once, it would happen again. `counted`:
    the driver has already counted tolerable failed checkpoints. `permanent`: a restart cannot fix it.
    """

    error: ExecutionFailedError
    cause: BaseException
    at_s: float
    at_start: bool = False
    counted: bool = False
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Suspended(JobMasterEvent):
    """This JobManager lost leadership. May arrive at any time."""


@dataclass(frozen=True, slots=True)
class Cancelled(JobMasterEvent):
    """The job was cancelled; it ends at the next decision."""


class JobMasterInstruction:
    """Base of instructions, which are carried out in order."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SetStatus(JobMasterInstruction):
    """Change the status of the job; `error` is the failure, if it fails."""

    status: JobStatus
    error: ExecutionFailedError | None = None


@dataclass(frozen=True, slots=True)
class Acquire(JobMasterInstruction):
    """Acquire the lease of the job's directory; report Acquired or ExecutionFailed."""


@dataclass(frozen=True, slots=True)
class RestoreJob(JobMasterInstruction):
    """Restore the last checkpoint on storage; report JobRestored or ExecutionFailed."""


@dataclass(frozen=True, slots=True)
class TakeRequest(JobMasterInstruction):
    """Take the oldest pending request; report RequestTaken."""


@dataclass(frozen=True, slots=True)
class CheckTarget(JobMasterInstruction):
    """Check that the target directory of a savepoint is writable; report TargetChecked."""

    request: SavepointRequest


@dataclass(frozen=True, slots=True)
class RescaleJob(JobMasterInstruction):
    """Compile another plan and restore it from the last checkpoint; report JobRestored, RescaleRefused or ExecutionFailed."""

    request: RescaleRequest


@dataclass(frozen=True, slots=True)
class Advance(JobMasterInstruction):
    """Run to the next checkpoint; report CheckpointCompleted, Interrupted or ExecutionFailed.

    For a savepoint the checkpoint is triggered at once, with the settings of the savepoint.
    """

    savepoint: SavepointRequest | None = None


@dataclass(frozen=True, slots=True)
class WriteSavepoint(JobMasterInstruction):
    """Write a savepoint of the last checkpoint and complete its request.

    `beside`: in the background, while the job continues. Otherwise report SavepointWritten.
    """

    request: SavepointRequest
    in_background: bool


@dataclass(frozen=True, slots=True)
class AnswerRescaled(JobMasterInstruction):
    """Complete a rescale request with the current parallelism."""

    request: RescaleRequest


@dataclass(frozen=True, slots=True)
class RefuseRequest(JobMasterInstruction):
    """Complete a request with an error."""

    request: Request
    error: Exception


@dataclass(frozen=True, slots=True)
class QuarantineCheckpoint(JobMasterInstruction):
    """Quarantine the last checkpoint, whose state cannot be read, and fall back to the one before."""

    cause: BaseException


@dataclass(frozen=True, slots=True)
class ResetLoadStatistics(JobMasterInstruction):
    """Reset the load statistics."""


@dataclass(frozen=True, slots=True)
class TolerateFailedCheckpoint(JobMasterInstruction):
    """Log that a checkpoint failed and is tried again."""

    error: ExecutionFailedError
    cause: BaseException


@dataclass(frozen=True, slots=True)
class AnnounceRestart(JobMasterInstruction):
    """Announce a restart: the reason, the number, and the delay."""

    restarts: int
    delay_ms: int
    error: ExecutionFailedError


@dataclass(frozen=True, slots=True)
class Delay(JobMasterInstruction):
    """Wait for the delay, unless the job is cancelled; report DelayElapsed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class End(JobMasterInstruction):
    """Release all resources and publish the result of the job. Nothing follows.

    `error` is the failure; `verdict` is why the job was not restarted, None if a restart was never possible. A `fenced` job belongs to
    another driver: its files must not be touched. `unanswered` requests fail because the job has ended.
    """

    status: JobStatus
    error: ExecutionFailedError | None = None
    verdict: str | None = None
    fenced: bool = False
    unanswered: tuple[Request, ...] = ()
