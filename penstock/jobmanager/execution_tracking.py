"""Keeps the ExecutionGraph in step with what happens to a job. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.common.job_status import JobStatus
from penstock.graph.execution_graph import ExecutionGraph
from penstock.graph.execution_state import ExecutionState, status_may_follow
from penstock.graph.job_graph import JobGraph
from penstock.jobmanager.running.driver import EpochFailedError
from penstock.runtime.network.messages import TaskAck, TaskFailedError

# What lies between a running job and an end that it did not reach by itself.
_BEFORE = {JobStatus.CANCELED: JobStatus.CANCELLING, JobStatus.FAILED: JobStatus.FAILING}


def follow(
    graph: ExecutionGraph, status: JobStatus, now_ms: int, error: EpochFailedError | None = None
) -> ExecutionGraph:
    """Return the graph after the job went to `status`, by way of the status before it where one is needed.

    `error` is what it failed with: the subtask that it came from has FAILED, the others are CANCELED.
    """
    if status in _BEFORE and not status_may_follow(graph.status, status):
        graph = graph.with_status(_BEFORE[status], now_ms)
    failure = None if error is None else str(error.__cause__ or error)
    graph = graph.with_status(status, now_ms, failure=failure)
    match status:
        case JobStatus.RUNNING:
            return _scheduled(graph, now_ms)
        case JobStatus.FAILING | JobStatus.FAILED:
            return _canceled(_failed(graph, error, now_ms), now_ms)
        case JobStatus.CANCELED:
            return _canceled(graph, now_ms)
        case JobStatus.FINISHED:  # also what an earlier run of the job has done to the end
            return graph.advance_all(ExecutionState.FINISHED, now_ms)
        case _:  # the other statuses leave executions as they are
            return graph


def replanned(graph: ExecutionGraph, job_graph: JobGraph, now_ms: int) -> ExecutionGraph:
    """Return the graph after the job took up another plan."""
    graph = graph.replanned(job_graph, now_ms)
    return _scheduled(graph, now_ms) if graph.status is JobStatus.RUNNING else graph


def deployed(graph: ExecutionGraph, now_ms: int) -> ExecutionGraph:
    """Return the graph after all subtasks were handed to processes; those that run already go on."""
    return graph.advance_all(ExecutionState.DEPLOYING, now_ms)


def acknowledged(graph: ExecutionGraph, epoch: int, ack: TaskAck, now_ms: int) -> ExecutionGraph:
    """Return the graph after a subtask acknowledged a checkpoint."""
    execution = graph.execution(*ack.task).acknowledged(epoch, now_ms)
    return graph.with_execution(*ack.task, execution)


def completed(graph: ExecutionGraph, acks: Sequence[TaskAck], now_ms: int) -> ExecutionGraph:
    """Return the graph after a checkpoint was completed: subtasks that had nothing left to do have FINISHED."""
    for ack in acks:
        if ack.finished and not graph.execution(*ack.task).state.is_terminal:
            graph = graph.transition(*ack.task, ExecutionState.FINISHED, now_ms)
    return graph


def _scheduled(graph: ExecutionGraph, now_ms: int) -> ExecutionGraph:
    if all(each.current.state.is_terminal for vertex in graph.vertices for each in vertex.subtasks):
        graph = graph.restart_all(now_ms)
    return graph.advance_all(ExecutionState.SCHEDULED, now_ms)


def _failed(graph: ExecutionGraph, error: EpochFailedError | None, now_ms: int) -> ExecutionGraph:
    """Return the graph in which the subtask that an error came from has FAILED, if it is known."""
    cause = None if error is None else error.__cause__
    task = cause.failure.task if isinstance(cause, TaskFailedError) else None
    if task is None or graph.execution(*task).state.is_terminal:
        return graph
    assert isinstance(cause, TaskFailedError)
    text = cause.failure.traceback.rstrip() or cause.failure.message
    return graph.transition(*task, ExecutionState.FAILED, now_ms, failure=text)


def _canceled(graph: ExecutionGraph, now_ms: int) -> ExecutionGraph:
    graph = graph.mark_all(ExecutionState.CANCELING, now_ms)
    return graph.mark_all(ExecutionState.CANCELED, now_ms)
