"""Runs whole programs in this process, without Spark."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from penstock import options
from penstock.client import executors
from penstock.client.executors import PipelineExecutor
from penstock.dependencies.python_dependencies import add_to_this_process, set_log_levels
from penstock.errors import ArgumentError
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.job_creation import create_job
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.jobmanager.metrics.progress import Progress, QuietProgress
from penstock.jobmanager.modes import AUTO, EPOCHS, MODES
from penstock.jobmanager.running.checkpoints import StepHook
from penstock.jobmanager.running.thread_cluster import ThreadCluster
from penstock.logs.setup import log_in_jobmanager
from penstock.options.configuration import Configuration

_DEFAULT_MODE = "the default without Spark"
_GIVEN_MODE = "the mode of the MiniCluster"


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
        self._before: PipelineExecutor | None = None
        self._import_paths: list[str] = []  # what jobs added to the path of imports

    def __enter__(self) -> Self:
        self._before = executors.set_executor(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        executors.set_executor(self._before)
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
            job = replace(
                job,
                mode=EPOCHS if job.settings.batch_mode else self.mode,
                mode_origin=_DEFAULT_MODE if self.mode == EPOCHS else _GIVEN_MODE,
            )
        job = replace(job, leader=leader)
        progress = self.create_progress(job.name, configuration)
        master = JobMaster(job, progress, ThreadCluster(), step_hooks)
        self.masters.append(master)
        return master

    def create_progress(self, job_name: str, configuration: Configuration) -> Progress:
        """Return what shows the progress of a job: in tests, only its restarts."""
        return QuietProgress()
