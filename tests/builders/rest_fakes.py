"""A controller that does what a test says."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.graph.stage import BarrierSettings
from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointStatistics
from penstock.jobmanager.diagnosis.diagnosable_job import examine
from penstock.jobmanager.execution.execution_graph import Execution, ExecutionVertex
from penstock.jobmanager.execution.execution_state import ExecutionState
from penstock.jobmanager.job import CheckpointSettings
from penstock.jobmanager.job_view import (
    CheckpointingView,
    JobView,
    Lazy,
    OperatorView,
    SubtaskReport,
    VertexView,
)

NOW = 1_700_000_060_000
TOKEN = "the token"


class FakeController:
    """A job of two vertices. Futures of `answers` decide results; without them calls succeed at once."""

    def __init__(self, name="clicks", job_id=None, status=JobStatus.RUNNING):
        self.job_id = JobID(job_id)
        self.name = name
        self.status = status
        self.calls = []
        self.answers = {}
        self.savepoint = None
        self.more = {}  # fields of its view
        self.statistics = CheckpointStatistics()
        self.vertices = [
            self.vertex("v1", "Source: clicks", 2, [("o1", "clicks", "Source: clicks")]),
            self.vertex(
                "v2", "Map -> Sink", 3, [("o2", "count", "Map"), ("o3", None, "Sink: Print")]
            ),
        ]

    @staticmethod
    def vertex(vertex_id, name, parallelism, operators, **more):
        attempt = Execution(
            1,
            ExecutionState.RUNNING,
            ((ExecutionState.DEPLOYING, NOW - 50_000), (ExecutionState.RUNNING, NOW - 40_000)),
            checkpoint=7,
            acknowledged_ms=NOW - 1_000,
        )
        vertex = VertexView(
            id=vertex_id,
            name=name,
            parallelism=parallelism,
            max_parallelism=128,
            state=ExecutionState.RUNNING,
            start_ms=NOW - 50_000,
            subtasks=tuple(ExecutionVertex(number, attempt) for number in range(parallelism)),
            operators=tuple(OperatorView(*operator) for operator in operators),
        )
        return replace(vertex, **more)

    def change_vertex(self, number, **changes):
        """Change fields of one of its vertices."""
        self.vertices[number] = replace(self.vertices[number], **changes)

    def report(self, number, *reports):
        """Give the subtasks of one of its vertices their last reports."""
        self.change_vertex(number, reports=tuple(map(SubtaskReport, reports)))

    def get_job_id(self):
        return self.job_id

    def get_job_status(self):
        return self.status

    def _answer(self, method, arguments, result):
        self.calls.append((method, *arguments))
        answer = self.answers.get(method, result)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Future):
            return answer
        future = Future()
        future.set_result(answer)
        return future

    def inspect(self, target, request):
        return self._answer("inspect", (target, request), None)

    def slots(self):
        return []

    def split_times(self):
        return {}

    def backlogs(self):
        return {}

    def diagnose(self, now_ms):
        return examine(self, now_ms)

    def trigger_savepoint(self, directory):
        return self._answer("trigger_savepoint", (directory,), f"{directory}/savepoint-1")

    def stop_with_savepoint(self, drain, directory):
        return self._answer("stop_with_savepoint", (drain, directory), f"{directory}/savepoint-2")

    def cancel(self):
        self.status = JobStatus.CANCELED
        return self._answer("cancel", (), None)

    def rescale(self, *parallelism):
        return self._answer("rescale", parallelism, {"Source: clicks": 2, "Map -> Sink": 4})

    def view(self):
        view = JobView(
            id=str(self.job_id),
            name=self.name,
            status=self.status,
            start_ms=NOW - 60_000,
            end_ms=NOW - 10_000 if self.status.is_terminal_state() else None,
            checkpoint_id=7,
            restarts=1,
            checkpoint_directory=f"/chk/{self.job_id}",
            savepoint=self.savepoint,
            timestamps=(
                (JobStatus.CREATED, NOW - 60_000),
                (JobStatus.RUNNING, NOW - 55_000),
            ),
            checkpointing=Lazy.of(
                CheckpointingView(
                    CheckpointSettings(f"/chk/{self.job_id}", temporary=False, interval_ms=1000),
                    BarrierSettings(),
                    "hashmap",
                )
            ),
            checkpoints=Lazy(self.statistics.snapshot),
            vertices=Lazy(lambda: tuple(self.vertices)),
        )
        return replace(view, **self.more)
