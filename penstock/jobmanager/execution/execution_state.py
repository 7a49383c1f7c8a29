"""The states of executions and jobs, and their legal transitions."""

from __future__ import annotations

import enum

from penstock.common.job_status import JobStatus
from penstock.errors import ArgumentError


class ExecutionState(enum.Enum):
    """The state of one attempt to run one subtask.

    CREATED -> SCHEDULED -> DEPLOYING -> RUNNING -> FINISHED is the regular path. An attempt that was not deployed yet becomes
    CANCELED directly, a deployed one is CANCELING first. Every state except a terminal one may become FAILED.
    """

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        """Whether no state follows this one."""
        return not _EXECUTION_TRANSITIONS[self]


_E, _J = ExecutionState, JobStatus

_EXECUTION_TRANSITIONS: dict[ExecutionState, frozenset[ExecutionState]] = {
    _E.CREATED: frozenset({_E.SCHEDULED, _E.CANCELED, _E.FAILED}),
    _E.SCHEDULED: frozenset({_E.DEPLOYING, _E.CANCELED, _E.FAILED}),
    _E.DEPLOYING: frozenset({_E.RUNNING, _E.CANCELING, _E.FAILED}),
    _E.RUNNING: frozenset({_E.FINISHED, _E.CANCELING, _E.FAILED}),
    _E.CANCELING: frozenset({_E.CANCELED, _E.FAILED}),
    _E.FINISHED: frozenset(),
    _E.CANCELED: frozenset(),
    _E.FAILED: frozenset(),
}

_ENDED = frozenset({_J.CANCELLING, _J.FAILING, _J.SUSPENDED})
_JOB_TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    _J.CREATED: frozenset({_J.RUNNING, _J.FAILED, _J.CANCELED}) | _ENDED,
    _J.RUNNING: frozenset({_J.FINISHED, _J.RESTARTING}) | _ENDED,
    _J.FAILING: frozenset({_J.FAILED, _J.RESTARTING, _J.CANCELLING, _J.SUSPENDED}),
    _J.RESTARTING: frozenset({_J.CREATED, _J.RUNNING, _J.FAILED, _J.CANCELED}) | _ENDED,
    _J.CANCELLING: frozenset({_J.CANCELED, _J.FAILED}),
    _J.SUSPENDED: frozenset(),
    _J.RECONCILING: frozenset({_J.RUNNING}) | _ENDED,
    _J.FAILED: frozenset(),
    _J.CANCELED: frozenset(),
    _J.FINISHED: frozenset(),
}


def may_follow(state: ExecutionState, following: ExecutionState) -> bool:
    """Whether the transition from one execution state to another is legal.

    >>> may_follow(ExecutionState.RUNNING, ExecutionState.FINISHED)
    True
    >>> may_follow(ExecutionState.FINISHED, ExecutionState.RUNNING)
    False
    """
    return following in _EXECUTION_TRANSITIONS[state]


def status_may_follow(status: JobStatus, following: JobStatus) -> bool:
    """Whether the transition from one job status to another is legal."""
    return following in _JOB_TRANSITIONS[status]


def check_transition(state: ExecutionState, following: ExecutionState, what: str) -> None:
    """Reject an illegal transition of an execution."""
    if not may_follow(state, following):
        raise _no_step(what, state.name, following.name, _EXECUTION_TRANSITIONS[state])


def check_status_transition(status: JobStatus, following: JobStatus, what: str) -> None:
    """Reject an illegal transition of a job."""
    if not status_may_follow(status, following):
        raise _no_step(what, status.name, following.name, _JOB_TRANSITIONS[status])


def _no_step(
    what: str,
    state: str,
    following: str,
    allowed: frozenset[ExecutionState] | frozenset[JobStatus],
) -> ArgumentError:
    names = sorted(choice.name for choice in allowed)
    return ArgumentError(
        f"{what} cannot go from {state} to {following}",
        detail="possible next states: " + (" or ".join(names) if names else "none"),
    )
