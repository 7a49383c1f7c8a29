"""Creates the job of a program: compiles it and reads its options."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import options, pyflink_compat
from penstock.checkpoint.signing import Signer
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.common.job_id import JobID
from penstock.common.restart_strategy import from_configuration
from penstock.dependencies.python_dependencies import dependencies_of
from penstock.errors import ArgumentError, ConfigurationError
from penstock.graph.compiler import compile_program
from penstock.graph.deploy import deploy
from penstock.graph.deployment import JobSettings
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.jobmanager.job import CheckpointSettings, Job, Program
from penstock.jobmanager.network_settings import barrier_settings, network_settings
from penstock.jobmanager.restoring.starting_point import find_recovery
from penstock.logs.setup import LogSettings
from penstock.options.autoscaler_settings import AutoscalerSettings
from penstock.options.configuration import Configuration
from penstock.processes.temporary import create_directory
from penstock.runtime.state.backends import backend_settings


def create_job(
    transformations: Sequence[Transformation],
    settings: GraphSettings,
    configuration: Configuration,
    job_name: str,
    *,
    job_id: str | None = None,
) -> Job:
    """Compile a program and create the Job for its JobMaster.

    `job_id` is used if the options set none, neither by penstock.job-id nor by the checkpoints of a job to resume.
    """
    state_backend = backend_settings(configuration)
    autoscaler = AutoscalerSettings.from_configuration(configuration)
    restart_strategy = from_configuration(
        configuration,
        checkpointing_enabled=configuration.get(options.CHECKPOINT_INTERVAL) is not None,
    )
    plans = compile_program(transformations, settings)
    checkpoints, job_id = _checkpoint_settings(configuration, job_id)
    batch = plans.stage_plan.runtime_mode == "BATCH"
    interval = configuration.get(options.AUTO_WATERMARK_INTERVAL).to_millis()
    for vertex in plans.stage_plan.vertices:
        source = getattr(vertex.operators[0].spec, "source", None)
        if source is not None and hasattr(source, "attach_storage"):
            staging = CheckpointFileSystem(checkpoints.directory).child(job_id)
            source.attach_storage(staging.path(f"input/{vertex.id}"))
    return Job(
        job_id=job_id,
        name=job_name,
        program=Program(tuple(transformations), settings),
        plan=plans.stage_plan,
        job_graph=plans.job_graph,
        deployments=deploy(plans.stage_plan),
        settings=JobSettings(
            checkpointed=checkpoints.interval_ms is not None,
            job_id=job_id,
            job_name=job_name,
            classes=settings.classes,
            auto_watermark_interval=interval,
            batch_mode=batch,
            buffer_bytes=configuration.get(options.BUFFER_BYTES),
            check_order=configuration.get(options.DEBUG_CHECK_ORDER),
            job_parameters=dict(configuration.get(options.GLOBAL_JOB_PARAMETERS)),
            state_backend=state_backend,
            pyflink_names=pyflink_compat.is_installed(),
            logs=LogSettings(
                level=configuration.get(options.PYTHON_LOG_LEVEL),
                overrides=dict(configuration.get(options.PYTHON_LOG_OVERRIDES)),
                form=configuration.get(options.LOG_FORMAT),
                collected=configuration.get(options.LOG_COLLECT),
            ),
            journal=configuration.get(options.REPLAY_JOURNAL) and not checkpoints.temporary,
        ),
        checkpoints=checkpoints,
        restart_strategy=restart_strategy,
        epoch_interval_ms=configuration.get(options.EPOCH_INTERVAL).to_millis(),
        spark_options=options.spark_options(configuration),
        autoscaler=autoscaler,
        dependencies=dependencies_of(configuration.to_dict()),
        environments_directory=configuration.get(options.PYTHON_ENVIRONMENTS_DIR),
        mode=configuration.get(options.EXECUTION_MODE),
        network=network_settings(configuration),
        barriers=barrier_settings(configuration),
        slot_timeout_s=_slot_timeout_s(configuration),
    )


def _slot_timeout_s(configuration: Configuration) -> float | None:
    timeout = configuration.get(options.SLOT_REQUEST_TIMEOUT)
    return None if timeout is None else timeout.to_millis() / 1000


def _checkpoint_settings(
    configuration: Configuration, given_id: str | None
) -> tuple[CheckpointSettings, str]:
    """Return the checkpoint settings and the job id."""
    interval = configuration.get(options.CHECKPOINT_INTERVAL)
    directory = configuration.get(options.CHECKPOINT_DIR)
    recover = configuration.get(options.RECOVERY_PATH)
    job_id = _configured_job_id(configuration)
    if recover is not None:
        found = find_recovery(recover)
        recover = found.snapshot
        if found.job_id is not None:
            if job_id not in {None, found.job_id}:
                raise ConfigurationError(
                    f"penstock.job-id is {job_id}, but execution.state-recovery.path belongs to job {found.job_id}",
                    hint="remove one of them",
                )
            job_id, directory = found.job_id, found.directory
    temporary = directory is None
    if directory is None:
        directory = create_directory("checkpoints")
    return (
        CheckpointSettings(
            directory=directory,
            temporary=temporary,
            interval_ms=None if interval is None else interval.to_millis(),
            retained=configuration.get(options.CHECKPOINTS_RETAINED),
            history=configuration.get(options.CHECKPOINT_HISTORY),
            inline_threshold=configuration.get(options.STATE_INLINE_THRESHOLD),
            restore_path=recover,
            retain_on_cancel=_retains_on_cancel(configuration),
            claimed=configuration.get(options.RECOVERY_CLAIM_MODE) == "CLAIM",
            ignore_unclaimed_state=configuration.get(options.RECOVERY_IGNORE_UNCLAIMED),
            signer=Signer.from_configuration(configuration),
            allow_fallback=configuration.get(options.RECOVERY_ALLOW_FALLBACK),
            restart_changed_operators=configuration.get(options.RECOVERY_ON_CHANGED_QUERY)
            == "restart-operator",
            savepoint_directory=configuration.get(options.SAVEPOINT_DIR),
            max_concurrent=configuration.get(options.CHECKPOINT_MAX_CONCURRENT),
            min_pause_ms=configuration.get(options.CHECKPOINT_MIN_PAUSE).to_millis(),
            timeout_ms=None
            if interval is None
            else configuration.get(options.CHECKPOINT_TIMEOUT).to_millis(),
            tolerable_failures=configuration.get(options.CHECKPOINT_TOLERABLE_FAILURES),
        ),
        job_id or given_id or str(JobID()),
    )


def _configured_job_id(configuration: Configuration) -> str | None:
    """Return the configured job id, if there is one."""
    job_id = configuration.get(options.JOB_ID)
    if job_id is None:
        return None
    if configuration.get(options.CHECKPOINT_DIR) is None:
        raise ConfigurationError(
            "penstock.job-id needs a checkpoint directory",
            hint="set execution.checkpointing.dir too: the job resumes from the checkpoints under its id",
        )
    try:
        return str(JobID.from_hex_string(job_id))
    except ArgumentError as error:
        raise ConfigurationError(f"invalid penstock.job-id '{job_id}'", hint=error.hint) from error


def _retains_on_cancel(configuration: Configuration) -> bool:
    """Whether a cancelled job retains its checkpoints: the default, unless one of Flink's two options says otherwise."""
    retention = configuration.get(options.CHECKPOINT_RETENTION)
    return retention == "RETAIN_ON_CANCELLATION" or not configuration.contains(
        options.CHECKPOINT_RETENTION
    )
