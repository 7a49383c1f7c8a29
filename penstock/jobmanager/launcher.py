"""From a program to a running job: compile, configure, hand over to a JobMaster."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import PurePosixPath

from penstock import pyflink_compat
from penstock.checkpoint.storage import CheckpointStorage
from penstock.common import options
from penstock.common.configuration import Configuration
from penstock.common.job_id import JobID
from penstock.common.restart_strategy import from_configuration
from penstock.errors import UnsupportedOperationError
from penstock.graph.compiler import compile_program
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.job import CheckpointSettings, Job
from penstock.jobmanager.job_master import JobMaster
from penstock.jobmanager.progress import create_progress
from penstock.runtime.deployment import JobSettings
from penstock.spark.deploy import deploy
from penstock.spark.pipe import SparkPipe


def submit(
    transformations: Sequence[Transformation],
    settings: GraphSettings,
    configuration: Configuration,
    job_name: str,
) -> LocalJobController:
    """Start a program as a job of this process."""
    job = create_job(transformations, settings, configuration, job_name)
    progress = create_progress(job.name, configuration.get(options.PROGRESS))
    controller = LocalJobController(
        JobMaster(job, progress, SparkPipe(job.spark_options, job.python_files))
    )
    controller.start()
    return controller


def create_job(
    transformations: Sequence[Transformation],
    settings: GraphSettings,
    configuration: Configuration,
    job_name: str,
) -> Job:
    """Compile a program and gather all that its JobMaster must know."""
    _check_available(configuration)
    plans = compile_program(transformations, settings)
    checkpoints, job_id = _checkpoint_settings(configuration)
    batch = plans.stage_plan.runtime_mode == "BATCH"
    interval = configuration.get(options.AUTO_WATERMARK_INTERVAL).to_millis()
    for vertex in plans.stage_plan.vertices:
        source = getattr(vertex.operators[0].spec, "source", None)
        if source is not None and hasattr(source, "attach_storage"):
            staging = CheckpointStorage(checkpoints.directory).child(job_id)
            source.attach_storage(staging.path(f"input/{vertex.id}"))
    return Job(
        job_id=job_id,
        name=job_name,
        plan=plans.stage_plan,
        job_graph=plans.job_graph,
        deployments=deploy(plans.stage_plan),
        settings=JobSettings(
            job_id=job_id,
            job_name=job_name,
            auto_watermark_interval=interval,
            batch_mode=batch,
            buffer_bytes=configuration.get(options.BUFFER_BYTES),
            check_order=configuration.get(options.DEBUG_CHECK_ORDER),
            job_parameters=dict(configuration.get(options.GLOBAL_JOB_PARAMETERS)),
            pyflink_names=pyflink_compat.is_installed(),
        ),
        checkpoints=checkpoints,
        restart_strategy=from_configuration(
            configuration, checkpointing_enabled=checkpoints.interval_ms is not None
        ),
        epoch_interval_ms=configuration.get(options.EPOCH_INTERVAL).to_millis(),
        spark_options=options.spark_options(configuration),
        python_files=tuple(
            path for path in configuration.get_string("python.files", "").split(",") if path
        ),
    )


def _check_available(configuration: Configuration) -> None:
    """Refuse what is accepted in a configuration but cannot run yet, rather than do something else in silence."""
    backend = configuration.get(options.STATE_BACKEND)
    if backend != "hashmap":
        raise UnsupportedOperationError(
            f"state backend '{backend}' is not available yet",
            hint="leave state.backend.type out, or set it to hashmap: state is then kept in memory",
        )


def _checkpoint_settings(configuration: Configuration) -> tuple[CheckpointSettings, str]:
    """Return where checkpoints go, and the job's id.

    A job that is told to recover from the directory of a job is that job again: it goes on under the same id, in the same
    directory. Recovering from one checkpoint (`.../chk-7`) starts a new job from it.
    """
    interval = configuration.get(options.CHECKPOINT_INTERVAL)
    directory = configuration.get(options.CHECKPOINT_DIR)
    recover = configuration.get(options.RECOVERY_PATH)
    job_id = str(JobID())
    if recover is not None:
        path = PurePosixPath(recover.rstrip("/"))
        if not path.name.startswith("chk-") and path.name != "_metadata":
            job_id, directory, recover = path.name, recover.rstrip("/")[: -len(path.name) - 1], None
    temporary = directory is None
    if directory is None:
        directory = tempfile.mkdtemp(prefix="penstock-")
    retention = configuration.get(options.CHECKPOINT_RETENTION)
    return (
        CheckpointSettings(
            directory=directory,
            temporary=temporary,
            interval_ms=None if interval is None else interval.to_millis(),
            retained=configuration.get(options.CHECKPOINTS_RETAINED),
            inline_threshold=configuration.get(options.STATE_INLINE_THRESHOLD),
            restore_path=recover,
            retain_on_cancel=retention != "DELETE_ON_CANCELLATION",
        ),
        job_id,
    )
