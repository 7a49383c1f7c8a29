"""Updates the ExecutionGraph with the events of a job. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from penstock.common.job_status import JobStatus
from penstock.errors import PenstockError
from penstock.graph.job_graph import JobGraph
from penstock.graph.task_id import TaskId
from penstock.jobmanager.execution.execution_graph import ExecutionGraph
from penstock.jobmanager.execution.execution_state import ExecutionState, status_may_follow
from penstock.jobmanager.execution.failure_history import FailureEntry
from penstock.jobmanager.job_master.failures import explain_exception
from penstock.jobmanager.running.driver import ExecutionFailedError
from penstock.runtime.network.messages import TaskAck, TaskFailedError, TaskFailure

_RAISED = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|[A-Z]\w*))(?::|$)")
# Intermediate statuses between RUNNING and a terminal status.
_BEFORE = {JobStatus.CANCELED: JobStatus.CANCELLING, JobStatus.FAILED: JobStatus.FAILING}


def follow(
    graph: ExecutionGraph, status: JobStatus, now_ms: int, error: ExecutionFailedError | None = None
) -> ExecutionGraph:
    """Return the graph after the job changed to `status`, through the intermediate status if one is needed.

    `error` is the failure: the subtask that caused it is FAILED, the others are CANCELED.
    """
    if error is not None and graph.status is not JobStatus.FAILING:  # the failure ends the job
        graph = graph.with_failure(_entry(graph, error, now_ms))
    if status in _BEFORE and not status_may_follow(graph.status, status):
        graph = graph.with_status(_BEFORE[status], now_ms)
    failure = None if error is None else str(error.__cause__ or error)
    graph = graph.with_status(status, now_ms, failure=failure)
    match status:
        case JobStatus.RUNNING:
            return _scheduled(graph, now_ms)
        case JobStatus.FAILING if error is not None and error.tasks is not None:
            return graph  # the rest keeps running
        case JobStatus.FAILING | JobStatus.FAILED:
            return _canceled(_failed(graph, error, now_ms), now_ms)
        case JobStatus.CANCELED | JobStatus.SUSPENDED:
            return _canceled(graph, now_ms)
        case JobStatus.FINISHED:  # also subtasks that finished in an earlier run of the job
            return graph.advance_all(ExecutionState.FINISHED, now_ms)
        case _:  # the other statuses leave executions as they are
            return graph


def replanned(graph: ExecutionGraph, job_graph: JobGraph, now_ms: int) -> ExecutionGraph:
    """Return the graph after the job switched to another plan."""
    graph = graph.replanned(job_graph, now_ms)
    return _scheduled(graph, now_ms) if graph.status is JobStatus.RUNNING else graph


def deployed(
    graph: ExecutionGraph, now_ms: int, tasks: Collection[TaskId] | None = None
) -> ExecutionGraph:
    """Return the graph after subtasks (default: all) were deployed; running ones keep running."""
    if tasks is None:
        return graph.advance_all(ExecutionState.DEPLOYING, now_ms)
    return _advanced(graph, tasks, ExecutionState.DEPLOYING, now_ms)


def running(graph: ExecutionGraph, tasks: Collection[TaskId], now_ms: int) -> ExecutionGraph:
    """Return the graph after subtasks were opened and connected."""
    return _advanced(graph, tasks, ExecutionState.RUNNING, now_ms)


def _advanced(
    graph: ExecutionGraph, tasks: Collection[TaskId], state: ExecutionState, now_ms: int
) -> ExecutionGraph:
    for task in tasks:
        execution = graph.execution(*task).advanced(state, now_ms)
        graph = graph.with_execution(*task, execution)
    return graph


def restarted(
    graph: ExecutionGraph,
    tasks: Collection[TaskId],
    failure: TaskFailure | None,
    now_ms: int,
) -> ExecutionGraph:
    """Return the graph after a part of the job was cancelled for a restart, while the rest keeps running.

    The subtask that caused `failure` is FAILED, the others of the part are CANCELED. FINISHED subtasks run again, too.
    """
    if failure is not None and failure.task in tasks:
        graph = _failed_with(graph, failure, now_ms)
    for task in tasks:
        graph = graph.canceled(*task, now_ms).restarted(*task, now_ms)
    return _advanced(graph, tasks, ExecutionState.SCHEDULED, now_ms)


def acknowledged(
    graph: ExecutionGraph, checkpoint_id: int, ack: TaskAck, now_ms: int
) -> ExecutionGraph:
    """Return the graph after a subtask acknowledged a checkpoint."""
    execution = graph.execution(*ack.task).acknowledged(checkpoint_id, now_ms)
    return graph.with_execution(*ack.task, execution)


def completed(graph: ExecutionGraph, acks: Sequence[TaskAck], now_ms: int) -> ExecutionGraph:
    """Return the graph after a checkpoint was completed: subtasks without further input are FINISHED."""
    for ack in acks:
        if ack.finished and not graph.execution(*ack.task).state.is_terminal:
            graph = graph.transition(*ack.task, ExecutionState.FINISHED, now_ms)
    return graph


def _scheduled(graph: ExecutionGraph, now_ms: int) -> ExecutionGraph:
    if all(each.current.state.is_terminal for vertex in graph.vertices for each in vertex.subtasks):
        graph = graph.restart_all(now_ms)
    return graph.advance_all(ExecutionState.SCHEDULED, now_ms)


def _entry(graph: ExecutionGraph, error: ExecutionFailedError, now_ms: int) -> FailureEntry:
    """Return the history entry of a failure."""
    cause = error.__cause__ or error
    tasks = None if error.tasks is None else len(error.tasks)
    if not isinstance(cause, TaskFailedError):
        message = str(cause) if isinstance(cause, PenstockError) else explain_exception(cause)
        return FailureEntry(now_ms, _class_name(cause), message, tasks=tasks)
    failure = cause.failure
    text = failure.all_frames.rstrip() or failure.traceback.rstrip() or failure.message
    name = _raised_class(text) or "TaskFailedError"
    if failure.task is None:
        return FailureEntry(now_ms, name, text, tasks=tasks)
    vertex, subtask = failure.task
    execution, parallelism = graph.execution(vertex, subtask), len(graph.vertex(vertex).subtasks)
    return FailureEntry(
        now_ms,
        name,
        text,
        vertex,
        subtask,
        execution.attempt,
        f"{graph.vertex(vertex).job_vertex.name} ({subtask + 1}/{parallelism})",
        tasks,
    )


def _class_name(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _raised_class(stacktrace: str) -> str | None:
    """Return the exception class of a traceback: it is in the last line that is not indented.

    >>> _raised_class(chr(10).join(["Traceback:", "  File 'a.py'", "shop.NoStock: none left", "  at all"]))
    'shop.NoStock'
    """
    for line in reversed(stacktrace.splitlines()):
        found = _RAISED.match(line)
        if found is not None:
            return found[1]
    return None


def _failed(
    graph: ExecutionGraph, error: ExecutionFailedError | None, now_ms: int
) -> ExecutionGraph:
    """Return the graph in which the subtask that caused an error is FAILED, if it is known."""
    cause = None if error is None else error.__cause__
    return (
        _failed_with(graph, cause.failure, now_ms) if isinstance(cause, TaskFailedError) else graph
    )


def _failed_with(graph: ExecutionGraph, failure: TaskFailure, now_ms: int) -> ExecutionGraph:
    task = failure.task
    if task is None or graph.execution(*task).state.is_terminal:
        return graph
    text = failure.traceback.rstrip() or failure.message
    return graph.transition(*task, ExecutionState.FAILED, now_ms, failure=text)


def _canceled(graph: ExecutionGraph, now_ms: int) -> ExecutionGraph:
    graph = graph.mark_all(ExecutionState.CANCELING, now_ms)
    return graph.mark_all(ExecutionState.CANCELED, now_ms)
