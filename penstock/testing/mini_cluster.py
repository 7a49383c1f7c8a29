"""Runs whole programs in this process, without Spark: for tests of users' jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from penstock.common.configuration import Configuration
from penstock.common.python_dependencies import add_to_import_path, set_log_levels
from penstock.datastream import _execution
from penstock.graph.deployment import LevelDeployment
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.job_master import JobMaster
from penstock.jobmanager.launcher import create_job
from penstock.jobmanager.progress import QuietProgress
from penstock.jobmanager.running.checkpoints import StepHook
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.task.local_pipe import run_pipe_locally


class MiniCluster:
    """While it is open, programs of this process run here instead of on Spark.

    Plans, operators, state, checkpoints and recovery are the real ones; only the exchange between levels is a list.

    >>> from penstock.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> with MiniCluster():
    ...     sorted(env.from_collection([1, 2, 3]).map(lambda x: x * x).execute_and_collect())
    [1, 4, 9]
    """

    def __init__(self) -> None:
        self.masters: list[JobMaster] = []
        self._before: Any = None
        self._import_paths: list[str] = []  # what jobs added to the path of imports

    def __enter__(self) -> Self:
        self._before = _execution.set_executor(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _execution.set_executor(self._before)
        sys.path[:] = [path for path in sys.path if path not in self._import_paths]
        self._import_paths = []

    def submit(
        self,
        transformations: Sequence[Transformation],
        settings: GraphSettings,
        configuration: Configuration,
        job_name: str,
        *,
        step_hooks: Sequence[StepHook] = (),
    ) -> LocalJobController:
        """Start a program; called by the environment."""
        job = create_job(transformations, settings, configuration, job_name)
        self._import_paths += add_to_import_path(job.python_files)
        set_log_levels(job.settings.log_level, job.settings.log_overrides)
        master = JobMaster(job, QuietProgress(), _LocalPipe(), step_hooks)
        self.masters.append(master)
        controller = LocalJobController(master)
        controller.start()
        return controller


class _LocalPipe:
    def run(
        self,
        job_id: str,
        name: str,
        levels: Sequence[LevelDeployment],
        on_ack: Callable[[TaskAck], None],
    ) -> None:
        run_pipe_locally(levels, on_ack)

    def map(
        self, job_id: str, name: str, function: Callable[[Any], Any], items: Sequence[Any]
    ) -> list[Any]:
        return [function(item) for item in items]

    def cancel(self, job_id: str, *, epoch_only: bool = False) -> None:
        """An epoch under way is completed; the JobMaster stops after it."""

    def cores(self) -> int | None:
        """Subtasks run one after another, however many there are: that says nothing about a job."""
        return None
