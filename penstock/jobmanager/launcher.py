"""From a program to a running job: compile, configure, hand over to a JobMaster."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock import pyflink_compat
from penstock.checkpoint.manifest_store import METADATA, ManifestStore
from penstock.checkpoint.storage import CheckpointStorage
from penstock.common import options
from penstock.common.autoscaler_settings import AutoscalerSettings
from penstock.common.configuration import Configuration
from penstock.common.job_id import JobID
from penstock.common.python_dependencies import split_python_files
from penstock.common.restart_strategy import from_configuration
from penstock.common.temporary import create_directory
from penstock.files.paths import split_path
from penstock.graph.compiler import compile_program
from penstock.graph.deploy import deploy
from penstock.graph.deployment import JobSettings
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.job import CheckpointSettings, Job, Program
from penstock.jobmanager.job_master import JobMaster
from penstock.jobmanager.progress import create_progress
from penstock.jobmanager.running.epochs.runner import StepHook
from penstock.runtime.state.backends import backend_settings
from penstock.savepoint.reader import is_savepoint
from penstock.spark.pipe import SparkPipe

_log = logging.getLogger(__name__)


def submit(
    transformations: Sequence[Transformation],
    settings: GraphSettings,
    configuration: Configuration,
    job_name: str,
    *,
    step_hooks: Sequence[StepHook] = (),
) -> LocalJobController:
    """Start a program as a job of this process; tests watch the steps of its checkpoints with hooks."""
    from penstock.rest.publish import publish

    job = create_job(transformations, settings, configuration, job_name)
    progress = create_progress(job.name, configuration.get(options.PROGRESS))
    pipe = SparkPipe(job.spark_options, job.python_files)
    controller = LocalJobController(JobMaster(job, progress, pipe, step_hooks))
    publish(controller, configuration)
    controller.start()
    return controller


def create_job(
    transformations: Sequence[Transformation],
    settings: GraphSettings,
    configuration: Configuration,
    job_name: str,
) -> Job:
    """Compile a program and gather all that its JobMaster must know."""
    state_backend = backend_settings(configuration)
    autoscaler = AutoscalerSettings.from_configuration(configuration)
    restart_strategy = from_configuration(
        configuration,
        checkpointing_enabled=configuration.get(options.CHECKPOINT_INTERVAL) is not None,
    )
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
        program=Program(tuple(transformations), settings),
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
            state_backend=state_backend,
            pyflink_names=pyflink_compat.is_installed(),
            log_level=configuration.get(options.PYTHON_LOG_LEVEL),
            log_overrides=dict(configuration.get(options.PYTHON_LOG_OVERRIDES)),
            journal=configuration.get(options.REPLAY_JOURNAL) and not checkpoints.temporary,
        ),
        checkpoints=checkpoints,
        restart_strategy=restart_strategy,
        epoch_interval_ms=configuration.get(options.EPOCH_INTERVAL).to_millis(),
        spark_options=options.spark_options(configuration),
        autoscaler=autoscaler,
        python_files=split_python_files(configuration.get(options.PYTHON_FILES)),
    )


def _checkpoint_settings(configuration: Configuration) -> tuple[CheckpointSettings, str]:
    """Return where checkpoints go, and the job's id.

    A job that is told to recover from the directory of a job is that job again: it goes on under the same id, in the same
    directory. Recovering from a savepoint or from one checkpoint (`.../chk-7`) starts a new job from it.
    """
    interval = configuration.get(options.CHECKPOINT_INTERVAL)
    directory = configuration.get(options.CHECKPOINT_DIR)
    recover = configuration.get(options.RECOVERY_PATH)
    job_id = str(JobID())
    if recover is not None:
        parent, name = split_path(recover)
        one = name.startswith("chk-") or name == METADATA
        if not one and not is_savepoint(recover):
            job_id, directory, recover = name, parent, None
            if not ManifestStore(CheckpointStorage(directory), job_id).list_epochs():
                _log.warning(
                    "there is no checkpoint in '%s' of '%s': the job starts from nothing, under this id",
                    name,
                    parent,
                )
    temporary = directory is None
    if directory is None:
        directory = create_directory("checkpoints")
    return (
        CheckpointSettings(
            directory=directory,
            temporary=temporary,
            interval_ms=None if interval is None else interval.to_millis(),
            retained=configuration.get(options.CHECKPOINTS_RETAINED),
            inline_threshold=configuration.get(options.STATE_INLINE_THRESHOLD),
            restore_path=recover,
            retain_on_cancel=_retains_on_cancel(configuration),
            claimed=configuration.get(options.RECOVERY_CLAIM_MODE) == "CLAIM",
            ignore_unclaimed_state=configuration.get(options.RECOVERY_IGNORE_UNCLAIMED),
            savepoint_directory=configuration.get(options.SAVEPOINT_DIR),
            min_pause_ms=configuration.get(options.CHECKPOINT_MIN_PAUSE).to_millis(),
            timeout_ms=None
            if interval is None
            else configuration.get(options.CHECKPOINT_TIMEOUT).to_millis(),
            tolerable_failures=configuration.get(options.CHECKPOINT_TOLERABLE_FAILURES),
        ),
        job_id,
    )


def _retains_on_cancel(configuration: Configuration) -> bool:
    """Whether a cancelled job leaves its checkpoints: unless it was told to delete them, in either of Flink's words."""
    retention = configuration.get(options.CHECKPOINT_RETENTION)
    return retention == "RETAIN_ON_CANCELLATION" or not configuration.contains(
        options.CHECKPOINT_RETENTION
    )
