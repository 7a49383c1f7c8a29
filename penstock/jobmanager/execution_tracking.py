"""Keeps the ExecutionGraph in step with the job's status."""

from __future__ import annotations

from penstock.common.job_status import JobStatus
from penstock.graph.execution_graph import ExecutionGraph
from penstock.graph.execution_state import ExecutionState, status_may_follow

_STARTING = (ExecutionState.SCHEDULED, ExecutionState.DEPLOYING, ExecutionState.RUNNING)

# What lies between a running job and an end that it did not reach by itself.
_BEFORE = {JobStatus.CANCELED: JobStatus.CANCELLING, JobStatus.FAILED: JobStatus.FAILING}


def follow(graph: ExecutionGraph, status: JobStatus, now_ms: int) -> ExecutionGraph:
    """Return the graph after the job went to `status`, by way of the status before it where one is needed."""
    if status in _BEFORE and not status_may_follow(graph.status, status):
        graph = graph.with_status(_BEFORE[status], now_ms)
    graph = graph.with_status(status, now_ms)
    match status:
        case JobStatus.RUNNING:
            if all(v.current.state.is_terminal for job in graph.vertices for v in job.subtasks):
                graph = graph.restart_all(now_ms)
            for state in _STARTING:
                graph = graph.mark_all(state, now_ms)
        case JobStatus.FAILING | JobStatus.FAILED:
            graph = graph.mark_all(ExecutionState.FAILED, now_ms)
        case JobStatus.CANCELED:
            graph = graph.mark_all(ExecutionState.CANCELING, now_ms)
            graph = graph.mark_all(ExecutionState.CANCELED, now_ms)
        case JobStatus.FINISHED:
            graph = graph.mark_all(ExecutionState.FINISHED, now_ms)
        case _:
            """The other statuses leave executions as they are."""
    return graph
