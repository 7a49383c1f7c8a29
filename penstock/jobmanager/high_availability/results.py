"""Results of ended jobs on storage: a standby that becomes the leader does not run them again.

```
<storageDir>/<cluster id>/results/<job id>.json
```
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointError, JobCancelledError, JobExecutionError, PenstockError
from penstock.time import clock

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended, and when."""

    status: str
    ended_ms: int
    runtime_ms: int = 0
    accumulators: dict[str, Any] = field(default_factory=dict)
    failure: str = ""

    @classmethod
    def finished(cls, result: JobExecutionResult) -> JobResult:
        """Return the result of a job that ran to its end."""
        found = {
            name: value
            for name, value in result.get_all_accumulator_results().items()
            if isinstance(value, int | float | str | bool)
        }
        return cls(JobStatus.FINISHED.name, clock.now_ms(), result.get_net_runtime(), found)

    @classmethod
    def failed(cls, error: BaseException) -> JobResult:
        """Return the result of a job that failed or was cancelled."""
        cancelled = isinstance(error, JobCancelledError)
        status = JobStatus.CANCELED if cancelled else JobStatus.FAILED
        message = (
            str(error) if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"
        )
        return cls(status.name, clock.now_ms(), failure=message)

    def reached(self, job_id: str, name: str) -> JobExecutionResult:
        """Return the result of the job, or raise its error."""
        if self.status == JobStatus.FINISHED.name:
            return JobExecutionResult(JobID(job_id), self.runtime_ms, self.accumulators)
        kind = JobCancelledError if self.status == JobStatus.CANCELED.name else JobExecutionError
        raise kind(
            f"job '{name}' has ended under the previous leader: {self.status.lower()}",
            detail=self.failure or None,
        )


class JobResults:
    """The results of a cluster's jobs. Writing is best effort: without a result the next leader runs the job from its last checkpoint."""

    def __init__(self, storage: CheckpointFileSystem) -> None:
        self._storage = storage.child("results")

    def write(self, job_id: str, result: JobResult) -> None:
        """Write the result of a job."""
        try:
            self._storage.write_atomic(f"{job_id}.json", json.dumps(asdict(result)).encode())
        except CheckpointError as error:
            _log.warning("cannot write the result of job %s: %s", job_id, error.message)

    def read(self, job_id: str, *, since_ms: int) -> JobResult | None:
        """Return the result of a job that ended after a time; a job that is submitted after its end shall run again."""
        try:
            found = JobResult(**json.loads(self._storage.read(f"{job_id}.json")))
        except CheckpointError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        except (TypeError, ValueError):
            _log.warning("cannot read the result of job %s", job_id)
            return None
        return found if found.ended_ms >= since_ms else None
