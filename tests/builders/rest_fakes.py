"""A controller that does what a test says."""

from __future__ import annotations

from concurrent.futures import Future

from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointStatistics
from penstock.jobmanager.diagnosis.diagnosable_job import examine

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
        self.more = {}  # of its description
        self.statistics = CheckpointStatistics()
        self.vertices = [
            self.vertex("v1", "Source: clicks", 2, [("o1", "clicks", "Source: clicks")]),
            self.vertex(
                "v2", "Map -> Sink", 3, [("o2", "count", "Map"), ("o3", None, "Sink: Print")]
            ),
        ]

    @staticmethod
    def vertex(vertex_id, name, parallelism, operators):
        return {
            "id": vertex_id,
            "name": name,
            "parallelism": parallelism,
            "max_parallelism": 128,
            "state": "RUNNING",
            "start_ms": NOW - 50_000,
            "end_ms": None,
            "subtasks": [
                {
                    "subtask": number,
                    "current": {
                        "attempt": 1,
                        "state": "RUNNING",
                        "timestamps": {"DEPLOYING": NOW - 50_000, "RUNNING": NOW - 40_000},
                        "failure": None,
                        "checkpoint": 7,
                        "acknowledged_ms": NOW - 1_000,
                    },
                }
                for number in range(parallelism)
            ],
            "operators": [
                {"id": operator, "uid": uid, "name": name} for operator, uid, name in operators
            ],
        }

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
        return examine(self, now_ms).to_json()

    def trigger_savepoint(self, directory):
        return self._answer("trigger_savepoint", (directory,), f"{directory}/savepoint-1")

    def stop_with_savepoint(self, drain, directory):
        return self._answer("stop_with_savepoint", (drain, directory), f"{directory}/savepoint-2")

    def cancel(self):
        self.status = JobStatus.CANCELED
        return self._answer("cancel", (), None)

    def rescale(self, *parallelism):
        return self._answer("rescale", parallelism, {"Source: clicks": 2, "Map -> Sink": 4})

    def describe(self):
        return {
            "id": str(self.job_id),
            "name": self.name,
            "status": self.status.name,
            "start_ms": NOW - 60_000,
            "end_ms": NOW - 10_000 if self.status.is_terminal_state() else None,
            "checkpoint_id": 7,
            "restarts": 1,
            "checkpoints": f"/chk/{self.job_id}",
            "savepoint": self.savepoint,
            "checkpoint_statistics": self.statistics.to_json(),
            "checkpoint_config": {"mode": "exactly_once", "interval": 1000},
            "status_times": {"CREATED": NOW - 60_000, "RUNNING": NOW - 55_000},
            "failure": None,
            "vertices": self.vertices,
            **self.more,
        }
