"""Runs whole programs in this process, without Spark: for tests of users' jobs."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from penstock import options
from penstock.datastream import _execution
from penstock.dependencies.python_dependencies import add_to_this_process, set_log_levels
from penstock.errors import ArgumentError
from penstock.graph.deployment import LevelDeployment
from penstock.graph.settings import GraphSettings
from penstock.graph.stage import ClusterCapacity, SlotDemand, StageDeployment
from penstock.graph.transformations import Transformation
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.jobmanager.launcher import create_job
from penstock.jobmanager.metrics.progress import QuietProgress
from penstock.jobmanager.modes import AUTO, EPOCHS, MODES
from penstock.jobmanager.resources.resource_manager import ResourceManager
from penstock.jobmanager.running.checkpoints import StepHook
from penstock.jobmanager.running.cluster import OnEnd
from penstock.logs.setup import log_in_jobmanager
from penstock.options.configuration import Configuration
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.task.epochs.local_pipe import run_pipe_locally
from penstock.runtime.task.pipelined.local_stage import run_stage_locally
from penstock.runtime.task.pipelined.pipelined_slot import StopSignal

_ENDING_S = 2.0  # how long the end of the process waits for the slots of its jobs


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
                f"unknown mode {mode!r} of a MiniCluster", hint=f"use one of {', '.join(MODES)}"
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
        master = self.create_master(
            transformations, settings, configuration, job_name, step_hooks=step_hooks
        )
        controller = LocalJobController(master)
        controller.start()
        return controller

    def create_master(
        self,
        transformations: Sequence[Transformation],
        settings: GraphSettings,
        configuration: Configuration,
        job_name: str,
        *,
        step_hooks: Sequence[StepHook] = (),
        job_id: str | None = None,
        leader: int | None = None,
    ) -> JobMaster:
        """Compile a program and return what runs it here; `leader` is the token of an elected leader."""
        job = create_job(transformations, settings, configuration, job_name, job_id=job_id)
        self._import_paths += add_to_this_process(job.dependencies)
        log_in_jobmanager(job.settings.logs.form, configuration.get(options.LOG_DIR))
        set_log_levels(job.settings.logs.level, job.settings.logs.overrides)
        if job.mode == AUTO:
            job = replace(job, mode=EPOCHS if job.settings.batch_mode else self.mode)
        job = replace(job, leader=leader)
        master = JobMaster(job, QuietProgress(), ThreadCluster(), step_hooks)
        self.masters.append(master)
        return master


class ThreadCluster:
    """This process as a cluster: in epoch mode one slot after another, in pipelined mode slots as threads.

    `slots` limits the number of slots for all jobs that share `resources`.
    """

    def __init__(self, slots: int | None = None, resources: ResourceManager | None = None) -> None:
        self._slots = slots
        self._resources = resources or ResourceManager()
        self._stages: list[_LocalStage] = []
        self._cancelled = threading.Event()  # set to end the epoch under way

    def run(
        self,
        job_id: str,
        name: str,
        levels: Sequence[LevelDeployment],
        on_ack: Callable[[TaskAck], None],
    ) -> None:
        """Run one epoch."""
        self._cancelled = cancelled = threading.Event()
        run_pipe_locally(levels, on_ack, cancelled.is_set)

    def watching(
        self,
        job_id: str,
        on_started: Callable[[int, int, int], None],
    ) -> contextlib.AbstractContextManager[None]:
        """Tell nothing: an epoch is over before anybody could look."""
        return contextlib.nullcontext()

    def map(
        self, job_id: str, name: str, function: Callable[[Any], Any], items: Sequence[Any]
    ) -> list[Any]:
        """Call a function with each item."""
        return [function(item) for item in items]

    def cancel(self, job_id: str, *, epoch_only: bool = False) -> None:
        """Cancel the running epoch as soon as the user's functions return, and cancel pipelined stages."""
        self._cancelled.set()
        for stage in list(self._stages):
            stage.cancel()

    def cores(self) -> int | None:
        """Unknown: subtasks run one after another, so there is no meaningful number."""
        return None

    def capacity(self, demand: SlotDemand, interrupted: Callable[[], bool]) -> ClusterCapacity:
        """Give a job slots, if there is a limit; else there is room for all."""
        if self._slots is None:
            return ClusterCapacity(None)
        slots = self._slots
        return ClusterCapacity(self._resources.acquire(demand, lambda: slots, interrupted))

    def release(self, job_id: str) -> None:
        """Take back the slots of a job."""
        self._resources.release(job_id)

    def host(self) -> str:
        """Return the address of this process."""
        return "127.0.0.1"

    def listens_at(self) -> str:
        """Return the address that this process listens at."""
        return "127.0.0.1"

    def start_stage(
        self, job_id: str, name: str, deployment: StageDeployment, on_end: OnEnd
    ) -> _LocalStage:
        """Start a stage in threads."""
        stage = _LocalStage(deployment, on_end)
        self._stages.append(stage)
        stage.start()
        return stage


# Threads that are in a library of C++ when the interpreter ends would abort the process.
_stages: weakref.WeakSet[_LocalStage] = weakref.WeakSet()


def _end_stages() -> None:
    stages = list(_stages)
    for stage in stages:
        stage.cancel()
    until = time.monotonic() + _ENDING_S
    for stage in stages:
        stage.join(max(0.0, until - time.monotonic()))


atexit.register(_end_stages)


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
        _stages.add(self)
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
        except BaseException as error:  # noqa: BLE001 - passed to `on_end`
            failure = error
        self._on_end(failure)
