"""Runs whole programs in this process, without Spark: for tests of users' jobs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from penstock.common.configuration import Configuration
from penstock.common.python_dependencies import add_to_import_path, set_log_levels
from penstock.datastream import _execution
from penstock.errors import ArgumentError
from penstock.graph.deployment import LevelDeployment
from penstock.graph.settings import GraphSettings
from penstock.graph.stage import Room, StageDeployment
from penstock.graph.transformations import Transformation
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.job_master import JobMaster
from penstock.jobmanager.launcher import create_job
from penstock.jobmanager.progress import QuietProgress
from penstock.jobmanager.running.checkpoints import StepHook
from penstock.jobmanager.running.cluster import OnEnd
from penstock.jobmanager.running.modes import AUTO, EPOCHS, MODES
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.task.local_pipe import run_pipe_locally
from penstock.runtime.task.local_stage import run_stage_locally
from penstock.runtime.task.slot_loop import StopSignal


class MiniCluster:
    """While it is open, programs of this process run here instead of on Spark.

    Plans, operators, state, checkpoints and recovery are the real ones. In epochs only the exchange between levels is a list; in
    pipelined mode the slots are threads, with the network that they have on a cluster. `mode` is for jobs that do not set
    `penstock.execution.mode` themselves: "epochs", "pipelined" (BATCH jobs run in epochs all the same), or "auto", as on Spark.

    >>> from penstock.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> with MiniCluster():
    ...     sorted(env.from_collection([1, 2, 3]).map(lambda x: x * x).execute_and_collect())
    [1, 4, 9]
    """

    def __init__(self, mode: str = EPOCHS) -> None:
        if mode not in MODES:
            raise ArgumentError(
                f"a MiniCluster has no mode {mode!r}", hint=f"use one of {', '.join(MODES)}"
            )
        self.mode = mode
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
        if job.mode == AUTO:
            job = replace(job, mode=EPOCHS if job.settings.batch_mode else self.mode)
        master = JobMaster(job, QuietProgress(), _LocalCluster(), step_hooks)
        self.masters.append(master)
        controller = LocalJobController(master)
        controller.start()
        return controller


class _LocalCluster:
    """This process as a place for jobs: epochs slot after slot, stages that stay as threads."""

    def __init__(self) -> None:
        self._stages: list[_LocalStage] = []

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
        """An epoch under way is completed, and the JobMaster stops after it; stages that stay end."""
        for stage in list(self._stages):
            stage.cancel()

    def cores(self) -> int | None:
        """Subtasks run one after another, however many there are: that says nothing about a job."""
        return None

    def room(self, wanted: int, interrupted: Callable[[], bool]) -> Room:
        return Room(None)

    def host(self) -> str:
        return "127.0.0.1"

    def listens_at(self) -> str:
        return "127.0.0.1"

    def start_stage(
        self, job_id: str, name: str, deployment: StageDeployment, on_end: OnEnd
    ) -> _LocalStage:
        stage = _LocalStage(deployment, on_end)
        self._stages.append(stage)
        stage.start()
        return stage


class _LocalStage:
    """A stage whose slots are threads. A slot that user code keeps cannot be ended."""

    def __init__(self, deployment: StageDeployment, on_end: OnEnd) -> None:
        self._deployment = deployment
        self._on_end = on_end
        self._stop = StopSignal()
        self._thread = threading.Thread(
            target=self._run, name=f"penstock-stage-{deployment.stage}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        self._stop.set()

    def join(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            run_stage_locally(self._deployment, self._stop)
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            failure = error
        self._on_end(failure)
