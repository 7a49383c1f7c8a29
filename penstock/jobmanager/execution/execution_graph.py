"""The ExecutionGraph: the running job, its subtasks and their attempts.

Compared with the JobGraph, every vertex has its subtasks and every subtask its attempts. The graph is frozen: each change
returns a new graph that shares unchanged parts.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.common.job_status import JobStatus
from penstock.errors import ArgumentError
from penstock.graph.job_graph import JobGraph, JobVertex
from penstock.jobmanager.execution.execution_state import (
    ExecutionState,
    check_status_transition,
    check_transition,
)
from penstock.jobmanager.execution.failure_history import FailureEntry, FailureHistory

_NOT_DEPLOYED = (ExecutionState.CREATED, ExecutionState.SCHEDULED)
_GOOD_LIFE = (
    ExecutionState.CREATED,
    ExecutionState.SCHEDULED,
    ExecutionState.DEPLOYING,
    ExecutionState.RUNNING,
    ExecutionState.FINISHED,
)
HISTORY = 16  # number of former attempts that are kept per subtask


@dataclass(frozen=True, slots=True)
class Execution:
    """One attempt to run one subtask. `timestamps` holds when each state was entered, in epoch milliseconds.

    `checkpoint` is the last one that it acknowledged, `acknowledged_ms` is when.
    """

    attempt: int
    state: ExecutionState
    timestamps: tuple[tuple[ExecutionState, int], ...]
    failure: str | None = None
    checkpoint: int | None = None
    acknowledged_ms: int | None = None

    @classmethod
    def create(cls, attempt: int, now_ms: int) -> Execution:
        """Return a new attempt in state CREATED."""
        return cls(attempt, ExecutionState.CREATED, ((ExecutionState.CREATED, now_ms),))

    def to(self, state: ExecutionState, now_ms: int, *, failure: str | None = None) -> Execution:
        """Return this attempt in its next state; reject an illegal transition."""
        check_transition(self.state, state, f"attempt {self.attempt}")
        return dataclasses.replace(
            self,
            state=state,
            timestamps=(*self.timestamps, (state, now_ms)),
            failure=failure if failure is not None else self.failure,
        )

    def advanced(self, state: ExecutionState, now_ms: int) -> Execution:
        """Return this attempt advanced through all regular states up to `state`; unchanged if it is already beyond."""
        if self.state not in _GOOD_LIFE:
            return self
        execution = self
        for following in _GOOD_LIFE[_GOOD_LIFE.index(self.state) + 1 : _GOOD_LIFE.index(state) + 1]:
            execution = execution.to(following, now_ms)
        return execution

    def acknowledged(self, checkpoint: int, now_ms: int) -> Execution:
        """Return this attempt after it acknowledged a checkpoint, which implies that it is RUNNING."""
        running = self.advanced(ExecutionState.RUNNING, now_ms)
        return dataclasses.replace(running, checkpoint=checkpoint, acknowledged_ms=now_ms)

    def timestamp(self, state: ExecutionState) -> int | None:
        """Return when the attempt entered a state, or None if it never did."""
        return dict(self.timestamps).get(state)

    def to_json(self) -> dict[str, Any]:
        """Return the attempt as JSON values."""
        return {
            "attempt": self.attempt,
            "state": self.state.name,
            "timestamps": {state.name: time for state, time in self.timestamps},
            "failure": self.failure,
            "checkpoint": self.checkpoint,
            "acknowledged_ms": self.acknowledged_ms,
        }


@dataclass(frozen=True, slots=True)
class ExecutionVertex:
    """One subtask: its current attempt and its former attempts, oldest first."""

    subtask: int
    current: Execution
    history: tuple[Execution, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the subtask as JSON values."""
        return {
            "subtask": self.subtask,
            "current": self.current.to_json(),
            "history": [execution.to_json() for execution in self.history],
        }


@dataclass(frozen=True, slots=True)
class ExecutionJobVertex:
    """A vertex of the job with its subtasks."""

    job_vertex: JobVertex
    subtasks: tuple[ExecutionVertex, ...]

    @property
    def id(self) -> str:
        """The id of the job vertex."""
        return self.job_vertex.id

    def state_counts(self) -> dict[ExecutionState, int]:
        """Return the number of subtasks in each state, including states without subtasks."""
        counts = Counter(subtask.current.state for subtask in self.subtasks)
        return {state: counts[state] for state in ExecutionState}

    def span(self) -> tuple[int | None, int | None]:
        """Return when the first of the current attempts was deployed, and when the last of them ended."""
        attempts = [subtask.current for subtask in self.subtasks]
        starts = [each.timestamp(ExecutionState.DEPLOYING) for each in attempts]
        ends = [each.timestamps[-1][1] for each in attempts if each.state.is_terminal]
        return (
            min((start for start in starts if start is not None), default=None),
            max(ends) if len(ends) == len(attempts) else None,
        )

    @property
    def state(self) -> ExecutionState:
        """The aggregated state of the vertex: the most severe one, else RUNNING from the first to the last subtask."""
        counts = self.state_counts()
        for state in (ExecutionState.FAILED, ExecutionState.CANCELING, ExecutionState.CANCELED):
            if counts[state]:
                return state
        if counts[ExecutionState.FINISHED] == len(self.subtasks):
            return ExecutionState.FINISHED
        if counts[ExecutionState.RUNNING] or counts[ExecutionState.FINISHED]:
            return ExecutionState.RUNNING
        for state in (ExecutionState.DEPLOYING, ExecutionState.SCHEDULED):
            if counts[state]:
                return state
        return ExecutionState.CREATED

    def to_json(self) -> dict[str, Any]:
        """Return the vertex as JSON values."""
        return {
            "id": self.id,
            "name": self.job_vertex.name,
            "parallelism": self.job_vertex.parallelism,
            "max_parallelism": self.job_vertex.max_parallelism,
            "state": self.state.name,
            "subtasks": [subtask.to_json() for subtask in self.subtasks],
        }


@dataclass(frozen=True, slots=True)
class ExecutionGraph:
    """The running job. `timestamps` holds when the job entered each status, the latest entry last."""

    job_id: str
    job_name: str
    status: JobStatus
    timestamps: tuple[tuple[JobStatus, int], ...]
    vertices: tuple[ExecutionJobVertex, ...]
    failure: str | None = None
    failures: FailureHistory = dataclasses.field(default_factory=FailureHistory)

    def vertex(self, vertex_id: str) -> ExecutionJobVertex:
        """Return the vertex with this id."""
        return self.vertices[self._place(vertex_id)]

    def _place(self, vertex_id: str) -> int:
        for place, vertex in enumerate(self.vertices):
            if vertex.id == vertex_id:
                return place
        raise ArgumentError(
            f"unknown vertex {vertex_id!r} in the job",
            hint="vertex ids are: " + ", ".join(vertex.id for vertex in self.vertices),
        )

    def execution(self, vertex_id: str, subtask: int) -> Execution:
        """Return the current attempt of a subtask."""
        vertex = self.vertex(vertex_id)
        _check_subtask(vertex, subtask)
        return vertex.subtasks[subtask].current

    def with_execution(self, vertex_id: str, subtask: int, execution: Execution) -> ExecutionGraph:
        """Return a graph with `execution` as the current attempt of a subtask.

        It must be the same attempt as before, in the same or a following state; `restart_all` creates new ones.
        """
        before = self.execution(vertex_id, subtask)
        if execution.attempt != before.attempt:
            raise ArgumentError(
                f"attempt {execution.attempt} of subtask {subtask} is not the current one",
                detail=f"the current attempt is {before.attempt}",
                hint="start new attempts with restart_all()",
            )
        if execution.state is not before.state:
            check_transition(before.state, execution.state, f"attempt {before.attempt}")
        return self._with_subtask(
            vertex_id, subtask, lambda old: dataclasses.replace(old, current=execution)
        )

    def transition(
        self,
        vertex_id: str,
        subtask: int,
        state: ExecutionState,
        now_ms: int,
        *,
        failure: str | None = None,
    ) -> ExecutionGraph:
        """Return a graph with the current attempt of a subtask in its next state."""
        moved = self.execution(vertex_id, subtask).to(state, now_ms, failure=failure)
        return self.with_execution(vertex_id, subtask, moved)

    def restart_all(self, now_ms: int) -> ExecutionGraph:
        """Return a graph with a new attempt of every subtask; the former attempts must have ended."""
        return self._with_all(lambda old: _next_attempt(old, now_ms))

    def restarted(self, vertex_id: str, subtask: int, now_ms: int) -> ExecutionGraph:
        """Return a graph with a new attempt of one subtask; the former attempt must have ended."""
        self.execution(vertex_id, subtask)
        return self._with_subtask(vertex_id, subtask, lambda old: _next_attempt(old, now_ms))

    def canceled(self, vertex_id: str, subtask: int, now_ms: int) -> ExecutionGraph:
        """Return a graph with the current attempt of one subtask CANCELED, unless it has ended."""
        self.execution(vertex_id, subtask)
        return self._with_subtask(
            vertex_id,
            subtask,
            lambda old: dataclasses.replace(old, current=_canceled(old.current, now_ms)),
        )

    def mark_all(self, state: ExecutionState, now_ms: int) -> ExecutionGraph:
        """Return a graph with every attempt that has not ended in `state`.

        Attempts that are in this state already stay unchanged. With CANCELING, attempts that were never deployed become
        CANCELED directly.
        """
        return self._with_all(
            lambda old: dataclasses.replace(old, current=_marked(old.current, state, now_ms))
        )

    def advance_all(self, state: ExecutionState, now_ms: int) -> ExecutionGraph:
        """Return a graph with every regular attempt in `state` or a later one."""
        return self._with_all(
            lambda old: dataclasses.replace(old, current=old.current.advanced(state, now_ms))
        )

    def replanned(self, job_graph: JobGraph, now_ms: int) -> ExecutionGraph:
        """Return the graph of the same job with another plan: deployed attempts are CANCELED, and all subtasks start again."""
        known = {vertex.id: vertex.subtasks for vertex in self.vertices}
        return dataclasses.replace(
            self,
            vertices=tuple(
                ExecutionJobVertex(
                    vertex,
                    tuple(
                        _taken_over(known.get(vertex.id, ()), subtask, now_ms)
                        for subtask in range(vertex.parallelism)
                    ),
                )
                for vertex in job_graph.vertices
            ),
        )

    def with_status(
        self, status: JobStatus, now_ms: int, *, failure: str | None = None
    ) -> ExecutionGraph:
        """Return a graph with the job in its next status."""
        check_status_transition(self.status, status, f"the job '{self.job_name}'")
        return dataclasses.replace(
            self,
            status=status,
            timestamps=(*self.timestamps, (status, now_ms)),
            failure=failure if failure is not None else self.failure,
        )

    def with_failure(self, entry: FailureEntry) -> ExecutionGraph:
        """Return a graph with one more failure of the job."""
        return dataclasses.replace(self, failures=self.failures.with_entry(entry))

    def timestamp(self, status: JobStatus) -> int | None:
        """Return when the job last entered a status, or None if it never did."""
        return dict(self.timestamps).get(status)

    def _with_subtask(
        self, vertex_id: str, subtask: int, change: Callable[[ExecutionVertex], ExecutionVertex]
    ) -> ExecutionGraph:
        place = self._place(vertex_id)
        vertex = self.vertices[place]
        subtasks = list(vertex.subtasks)
        subtasks[subtask] = change(subtasks[subtask])
        changed = dataclasses.replace(vertex, subtasks=tuple(subtasks))
        vertices = (*self.vertices[:place], changed, *self.vertices[place + 1 :])
        return dataclasses.replace(self, vertices=vertices)

    def _with_all(self, change: Callable[[ExecutionVertex], ExecutionVertex]) -> ExecutionGraph:
        return dataclasses.replace(
            self,
            vertices=tuple(
                dataclasses.replace(vertex, subtasks=tuple(map(change, vertex.subtasks)))
                for vertex in self.vertices
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the graph as JSON values."""
        return {
            "job_id": self.job_id,
            "job_name": self.job_name,
            "status": self.status.name,
            "timestamps": [[status.name, time] for status, time in self.timestamps],
            "failure": self.failure,
            "vertices": [vertex.to_json() for vertex in self.vertices],
        }


def generate(job_graph: JobGraph, *, job_id: str, now_ms: int) -> ExecutionGraph:
    """Create the ExecutionGraph of a new job: attempt 0 of every subtask."""
    return ExecutionGraph(
        job_id=job_id,
        job_name=job_graph.job_name,
        status=JobStatus.CREATED,
        timestamps=((JobStatus.CREATED, now_ms),),
        vertices=tuple(
            ExecutionJobVertex(
                vertex,
                tuple(
                    ExecutionVertex(subtask, Execution.create(0, now_ms))
                    for subtask in range(vertex.parallelism)
                ),
            )
            for vertex in job_graph.vertices
        ),
    )


def _check_subtask(vertex: ExecutionJobVertex, subtask: int) -> None:
    if not 0 <= subtask < len(vertex.subtasks):
        raise ArgumentError(
            f"'{vertex.job_vertex.name}' has no subtask {subtask}",
            detail=f"its subtasks are 0 to {len(vertex.subtasks) - 1}",
        )


def _next_attempt(vertex: ExecutionVertex, now_ms: int) -> ExecutionVertex:
    before = vertex.current
    if not before.state.is_terminal:
        raise ArgumentError(
            f"attempt {before.attempt} of subtask {vertex.subtask} is still {before.state.name}",
            hint="cancel it or let it fail before the next attempt",
        )
    history = (*vertex.history, before)[-HISTORY:]
    return ExecutionVertex(vertex.subtask, Execution.create(before.attempt + 1, now_ms), history)


def _taken_over(
    subtasks: tuple[ExecutionVertex, ...], subtask: int, now_ms: int
) -> ExecutionVertex:
    if subtask >= len(subtasks):
        return ExecutionVertex(subtask, Execution.create(0, now_ms))
    old = subtasks[subtask]
    if old.current.state in _NOT_DEPLOYED:
        return dataclasses.replace(old, current=Execution.create(old.current.attempt, now_ms))
    ended = _canceled(old.current, now_ms)
    return _next_attempt(dataclasses.replace(old, current=ended), now_ms)


def _canceled(execution: Execution, now_ms: int) -> Execution:
    canceling = _marked(execution, ExecutionState.CANCELING, now_ms)
    return _marked(canceling, ExecutionState.CANCELED, now_ms)


def _marked(execution: Execution, state: ExecutionState, now_ms: int) -> Execution:
    if execution.state is state or execution.state.is_terminal:
        return execution
    if state is ExecutionState.CANCELING and execution.state in _NOT_DEPLOYED:
        state = ExecutionState.CANCELED
    return execution.to(state, now_ms)
