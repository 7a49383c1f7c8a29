"""The executor of programs whose JobManager is in this process and whose tasks are in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock import options
from penstock.client.launching import launch
from penstock.dependencies.python_dependencies import add_to_import_path, local_path
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.job import Job
from penstock.jobmanager.job_creation import create_job
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.jobmanager.metrics.progress_displays import create_progress
from penstock.jobmanager.modes import prefers_pipelined
from penstock.jobmanager.resources.resource_manager import resource_manager
from penstock.jobmanager.running.checkpoints import StepHook
from penstock.logs.setup import log_in_jobmanager
from penstock.options.configuration import Configuration
from penstock.rest.publish import when_served
from penstock.spark import session
from penstock.spark.dependencies import WorkerEnvironment
from penstock.spark.pipe import SparkPipe


def submit(
    transformations: Sequence[Transformation],
    settings: GraphSettings,
    configuration: Configuration,
    job_name: str,
    *,
    step_hooks: Sequence[StepHook] = (),
) -> LocalJobController:
    """Start a program as a job in this process; `step_hooks` let tests observe the steps of checkpoints."""
    log_in_jobmanager(configuration.get(options.LOG_FORMAT), configuration.get(options.LOG_DIR))

    def create(given: Configuration, job_id: str | None, leader: int | None) -> JobMaster:
        job = create_job(transformations, settings, given, job_name, job_id=job_id)
        # Enumerators and committers run in this process and may import the tasks' dependencies.
        add_to_import_path(path for path in job.dependencies.files if local_path(path) is not None)
        where = f"on Spark ({session.master_in_use(job.spark_options)})"
        progress = create_progress(job.name, given, where, when_served)
        job = replace(job, leader=leader)
        return JobMaster(job, progress, spark_of(job), step_hooks)

    return launch(create, configuration)


def spark_of(job: Job) -> SparkPipe:
    """Return Spark as the cluster of a job; the first job starts Spark with the settings that its mode needs."""
    stays = prefers_pipelined(job.mode, batch=job.settings.batch_mode, bounded=job.bounded)
    defaults = session.STAGE_DEFAULTS if stays else {}
    environment = WorkerEnvironment(job.dependencies, job.environments_directory)
    return SparkPipe({**defaults, **job.spark_options}, resource_manager(), environment)
