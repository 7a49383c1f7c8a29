"""From a program to a running job: compile, configure, hand over to a JobMaster."""

from __future__ import annotations

import importlib.util
import re
import tempfile
from collections.abc import Sequence
from pathlib import PurePosixPath

from penstock import pyflink_compat
from penstock.checkpoint.manifest_store import METADATA
from penstock.checkpoint.storage import CheckpointStorage
from penstock.common import options
from penstock.common.autoscaler_settings import AutoscalerSettings
from penstock.common.configuration import Configuration
from penstock.common.job_id import JobID
from penstock.common.restart_strategy import from_configuration
from penstock.errors import UnsupportedOperationError
from penstock.graph.compiler import compile_program
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.job import CheckpointSettings, Job, Program
from penstock.jobmanager.job_master import JobMaster
from penstock.jobmanager.progress import create_progress
from penstock.runtime.deployment import JobSettings
from penstock.runtime.state.rocksdb_settings import RocksDBSettings
from penstock.savepoint.reader import is_savepoint
from penstock.spark.deploy import deploy
from penstock.spark.pipe import SparkPipe


def submit(
    transformations: Sequence[Transformation],
    settings: GraphSettings,
    configuration: Configuration,
    job_name: str,
) -> LocalJobController:
    """Start a program as a job of this process."""
    from penstock.rest.publish import publish

    job = create_job(transformations, settings, configuration, job_name)
    progress = create_progress(job.name, configuration.get(options.PROGRESS))
    controller = LocalJobController(
        JobMaster(job, progress, SparkPipe(job.spark_options, job.python_files))
    )
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
    rocksdb = _rocksdb_settings(configuration)
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
            rocksdb=rocksdb,
            pyflink_names=pyflink_compat.is_installed(),
            journal=configuration.get(options.REPLAY_JOURNAL) and not checkpoints.temporary,
        ),
        checkpoints=checkpoints,
        restart_strategy=from_configuration(
            configuration, checkpointing_enabled=checkpoints.interval_ms is not None
        ),
        epoch_interval_ms=configuration.get(options.EPOCH_INTERVAL).to_millis(),
        spark_options=options.spark_options(configuration),
        autoscaler=AutoscalerSettings.from_configuration(configuration),
        python_files=tuple(
            path for path in configuration.get_string("python.files", "").split(",") if path
        ),
    )


def _rocksdb_settings(configuration: Configuration) -> RocksDBSettings | None:
    """Return what the rocksdb backend is told, or None if state is kept in memory."""
    if configuration.get(options.STATE_BACKEND) != "rocksdb":
        return None
    if importlib.util.find_spec("rocksdict") is None:
        raise UnsupportedOperationError(
            "state backend 'rocksdb' needs the package rocksdict, which is not installed",
            hint="pip install rocksdict, here and on the executors; or set state.backend.type to hashmap",
        )
    directories = configuration.get(options.ROCKSDB_LOCAL_DIR) or ""
    style = configuration.get(options.ROCKSDB_COMPACTION_STYLE)
    return RocksDBSettings(
        local_dirs=tuple(path for path in re.split(r"[,|:]", directories) if path),
        block_cache_size=configuration.get(options.ROCKSDB_BLOCK_CACHE_SIZE),
        block_size=configuration.get(options.ROCKSDB_BLOCK_SIZE),
        write_buffer_size=configuration.get(options.ROCKSDB_WRITE_BUFFER_SIZE),
        write_buffer_count=configuration.get(options.ROCKSDB_WRITE_BUFFER_COUNT),
        open_files=configuration.get(options.ROCKSDB_OPEN_FILES),
        background_threads=configuration.get(options.ROCKSDB_THREADS),
        compaction_style="LEVEL" if style == "LEVEL" else "UNIVERSAL",
        bloom_filter=configuration.get(options.ROCKSDB_BLOOM_FILTER),
        partitioned=configuration.get(options.ROCKSDB_PARTITIONED),
        incremental=configuration.get(options.CHECKPOINT_INCREMENTAL),
        transfer_threads=configuration.get(options.ROCKSDB_TRANSFER_THREADS),
        spill_entries=configuration.get(options.STATE_SPILL_ENTRIES),
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
        path = PurePosixPath(recover.rstrip("/"))
        one = path.name.startswith("chk-") or path.name == METADATA
        if not one and not is_savepoint(recover):
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
