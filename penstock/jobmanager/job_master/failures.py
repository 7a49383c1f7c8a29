"""The error that a failed job raises: the user's own exception first, then where it happened."""

from __future__ import annotations

import pickle
import traceback

from penstock.errors import JobExecutionError, PenstockError, suppresses_restarts
from penstock.jobmanager.failover.java_errors import explain_java
from penstock.jobmanager.job import Job
from penstock.jobmanager.running.driver import ExecutionFailedError
from penstock.runtime.network.messages import TaskFailedError, TaskFailure


def root_cause(error: ExecutionFailedError) -> BaseException:
    """Return the user's own exception if it could be pickled, else the failure of the job."""
    cause = error.__cause__
    if cause is None:
        return error
    if isinstance(cause, TaskFailedError) and cause.failure.error is not None:
        restored: BaseException = pickle.loads(cause.failure.error)
        return restored
    return cause


def is_permanent(error: ExecutionFailedError) -> bool:
    """Whether a restart cannot fix a failure."""
    cause = error.__cause__
    if isinstance(cause, TaskFailedError):
        return cause.failure.permanent
    return suppresses_restarts(cause)


def explain_failure(
    job: Job, error: ExecutionFailedError, verdict: str | None = None
) -> JobExecutionError:
    """Return the error of a failed job; `verdict` is why it is not restarted."""
    cause = error.__cause__
    if isinstance(cause, TaskFailedError):
        message = _explain_task(job, cause.failure)
    elif isinstance(cause, PenstockError):
        message = str(cause)
    elif cause is not None:
        message = explain_exception(cause)
    else:
        message = error.detail or error.message
    detail = f"job '{job.name}' ({job.job_id}): {error.message}"
    if verdict:
        detail += f"; {verdict}"
    explained = JobExecutionError(message, detail=detail)
    if isinstance(cause, TaskFailedError):
        explained.all_frames = cause.failure.all_frames
    return explained


def _explain_task(job: Job, failure: TaskFailure) -> str:
    where = failure.detail or ""
    if not where and failure.task is not None:
        names = {vertex.id: vertex.name for vertex in job.plan.vertices}
        where = f"in '{names[failure.task.vertex]}', subtask {failure.task.subtask + 1}"
    return f"{failure.traceback.rstrip()}\n{where}".rstrip()


def explain_exception(error: BaseException) -> str:
    """Describe an exception that is not Penstock's; the whole is in `__cause__`."""
    java = getattr(error, "java_exception", None)
    if java is not None:
        return explain_java(str(java))
    return "".join(traceback.format_exception_only(type(error), error)).strip()
