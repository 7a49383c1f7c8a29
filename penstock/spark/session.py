"""The Spark context that jobs run in: quiet, and set up for many short stages."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigurationError, PenstockError
from penstock.pickling import cloudpickling
from penstock.processes import temporary
from penstock.processes.exit_status import expected_exit_code
from penstock.spark import submitted
from penstock.spark.application_watch import end_process, warn_if_slow, watch_application
from penstock.spark.gateway import (
    ERRORS_TOGETHER,
    LocalJvm,
    SubmitError,
    has_wrong_options,
    launch_by_submit,
    quiet_java_options,
    stopping,
)
from penstock.spark.masters import MASTER_FORMS, check_master
from penstock.spark.worker_sockets import socket_options

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

# What makes short stages short. A user's `spark.*` options come after these.
_DEFAULTS = {
    "spark.app.name": "penstock",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.locality.wait": "0",
    "spark.python.worker.reuse": "true",
    # Over TCP every exchange with a worker waits for a delayed acknowledgement: 40 ms a task.
    "spark.python.unix.domain.socket.enabled": "true",
    # By default the Java serializer keeps a hundred buffers alive for each open partition.
    "spark.serializer.objectStreamReset": "10",
    "spark.sql.adaptive.enabled": "false",
}
# Additional settings of pipelined mode. By default Spark checks for their slots every 15 s. A failed stage is not retried: the driver
# starts another, from its last checkpoint; on a local master no other stage is ever tried again.
_BARRIER_DEFAULTS = {
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.stage.maxConsecutiveAttempts": "1",
}
# If the first job of the process has such stages: a task that does not end by itself when it is cancelled is ended soon.
STAGE_DEFAULTS = {**_BARRIER_DEFAULTS, "spark.python.task.killTimeout": "500ms"}
_LOCAL_DEFAULTS = {
    **_BARRIER_DEFAULTS,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "penstock.spark.worker_daemon",
}
# A worker process that dies does not fail the epoch: Spark retries the task. There is only one executor.
_DEFAULT_MASTER = "local[{cores},4]"
# On a cluster, whose driver may share a machine with those of others
_CLUSTER_DEFAULTS = {
    "spark.ui.enabled": "true",
    "spark.port.maxRetries": "100",
    # An executor that is cut off is lost after 30 s, by default after 120 to 180 s. One that dies is lost at once.
    "spark.executor.heartbeatInterval": "3s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "30s",
    "spark.network.timeoutInterval": "5s",
}
# YARN calls an application successful whose driver was killed, unless this is set.
_YARN_DEFAULTS = {"spark.yarn.clientModeTreatDisconnectAsFailed": "true"}
# Spark's messages for an invalid master address: from spark-submit, and from the context
_NO_MASTER = (
    "Master must either be",
    "Could not parse Master URL",
    "Invalid master URL",
    "Asked to run locally with",
)

_lock = threading.Lock()


def get_context(options: Mapping[str, str] | None = None) -> SparkContext:
    """Return the Spark context of this process, started on first use.

    `options` are the `spark.*` entries of the job's configuration. A context that the user started is used as it is.
    """
    with _lock:
        active = _active()
        if active is not None and _has_died(active):
            _forget(active)
            active = None
        return _start(options or {}) if active is None else active


def start_recording_classes(archive: Path) -> SparkContext:
    """Start a local context whose JVM writes the classes that it loaded to `archive` when it ends."""
    with _lock:
        return _start(
            {"spark.master": "local[2]"}, [f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"]
        )


def active_context() -> SparkContext | None:
    """Return the Spark context of this process, if one was started and its JVM lives."""
    active = _active()
    return None if active is None or _has_died(active) else active


def _active() -> SparkContext | None:
    pyspark = sys.modules.get("pyspark")
    if pyspark is None:
        return None
    active: SparkContext | None = pyspark.SparkContext._active_spark_context  # noqa: SLF001 - no public API
    return active


def _has_died(context: SparkContext) -> bool:
    """Whether the JVM of a context is gone, or the context in it: Spark stops one whose application a cluster has ended."""
    process = _process_of(context)
    if process is None and not submitted.is_submitted():
        return False
    if process is not None and process.poll() is not None:
        return True
    try:
        return not is_local(context) and bool(context._jsc.sc().isStopped())  # noqa: SLF001
    except Exception:  # noqa: BLE001 - it ends just now
        return True


def _process_of(context: SparkContext) -> subprocess.Popen[bytes] | None:
    """Return the JVM's process, if this process has started it."""
    process: subprocess.Popen[bytes] | None = getattr(context._gateway, "proc", None)  # noqa: SLF001 - PySpark keeps it there too
    return process


def _forget(context: SparkContext) -> None:
    """Let go of a context that is gone, with its JVM, so that a new one can be started."""
    process = _process_of(context)
    if process is not None:
        end_process(process)
    elif submitted.in_cluster_mode(submitted.submitted_options()):
        raise submitted.ended()
    context._jsc = None  # noqa: SLF001 - there is nothing left to stop
    _forget_gateway()


def _forget_gateway() -> None:
    """Let the next context have a gateway of its own: PySpark keeps the one that it had, also if its JVM is gone."""
    from pyspark import SparkContext

    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def _start(options: Mapping[str, str], java_options: list[str] | None = None) -> SparkContext:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    given = dict(submitted.submitted_options()) if submitted.is_submitted() else {}
    master = master_of(options)
    check_master(master)
    is_local = _is_local(master)
    properties = {**_DEFAULTS, **_defaults_of(master), **given}
    properties |= submitted.without_submits(options, given) if given else options
    properties["spark.master"] = master
    properties |= socket_options(properties)
    jvm = LocalJvm(properties, java_options) if is_local and not given else None
    # Importing pyspark takes 0.2 s, in which the JVM starts.
    from pyspark import SparkConf, SparkContext

    process = None if jvm is None else jvm.process
    try:
        if jvm is not None:
            gateway = jvm.connect()
            conf = SparkConf(_jvm=gateway.jvm)
        elif given:
            gateway, conf = None, SparkConf()
        else:
            conf = SparkConf()
            own = properties.get("spark.driver.extraJavaOptions", "")
            java = [*quiet_java_options(), ERRORS_TOGETHER, own]
            properties["spark.driver.extraJavaOptions"] = " ".join(java)
            conf.setAll(list(properties.items()))
            gateway = launch_by_submit(conf)
            process = gateway.proc
        conf.setAll(list(properties.items()))
        with warn_if_slow(master):
            context = SparkContext(conf=conf, gateway=gateway)
    except BaseException as error:
        reason = _reason(error)  # needs the JVM, so before it is stopped
        _forget_gateway()
        code = None if process is None else _end(process)
        if not isinstance(error, Exception):
            raise
        if isinstance(error, PenstockError) and not isinstance(error, SubmitError):
            raise
        raise _not_started(master, code, reason) from _cause(error)
    if is_local:
        # The JVM ends by itself when this process does; stopping the context first takes 0.8 s more.
        atexit.register(stopping.set)
    else:
        atexit.register(lambda: _stop(context, expected_exit_code()))
        _ship_package(context)
        watch_application(context, process, registration_s(context))
    if context.uiWebUrl:
        _log.info("Spark's UI is at %s", context.uiWebUrl)
    return context


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _defaults_of(master: str) -> dict[str, str]:
    if _is_local(master):
        return _LOCAL_DEFAULTS
    return {**_CLUSTER_DEFAULTS, **(_YARN_DEFAULTS if master.startswith("yarn") else {})}


def master_of(options: Mapping[str, str]) -> str:
    """Return the master of a context with these options."""
    if submitted.is_submitted():
        return submitted.submitted_options()["spark.master"]
    given = options.get("spark.master") or os.environ.get("SPARK_MASTER")
    return given or _DEFAULT_MASTER.format(cores=options.get("spark.executor.cores", "*"))


def master_in_use(options: Mapping[str, str]) -> str:
    """Return the master of the context that this process has, or of the one that these options would make."""
    active = _active()
    return master_of(options) if active is None else str(active.master)


def _end(process: subprocess.Popen[bytes]) -> int | None:
    """End a JVM in which no context could be made: the next attempt starts another one. Return its exit code if it ended itself."""
    try:
        return process.wait(1)  # its connections go before it does
    except subprocess.TimeoutExpired:
        process.kill()
        return None


def _reason(error: BaseException) -> str:
    """Return why no context could be made, in the words of the innermost exception of the JVM if it was one of its own."""
    if isinstance(error, SubmitError):
        return error.message
    java = getattr(error, "java_exception", None)
    try:
        while java is not None and java.getCause() is not None:
            java = java.getCause()
        return f"{type(error).__name__}: {error}" if java is None else str(java.toString())
    except Exception:  # noqa: BLE001 - the JVM is gone, and with it what it would say
        return type(error).__name__


def _cause(error: Exception) -> Exception | None:
    """Return an error as the cause of another; None if it has no further information, or belongs to a JVM that has ended."""
    return None if hasattr(error, "java_exception") or isinstance(error, SubmitError) else error


def _not_started(master: str, code: int | None, reason: str) -> PenstockError:
    if code is not None:
        return PenstockError(
            f"the JVM for Spark ended with exit code {code} while the SparkContext was created",
            detail=reason,
        )
    if any(words in reason for words in _NO_MASTER):
        return ConfigurationError(
            f"invalid Spark master '{master}'",
            detail=reason,
            hint=f"set option -m of 'penstock run', or spark.master, to one of these: {MASTER_FORMS}",
        )
    if "HADOOP_CONF_DIR" in reason:
        return ConfigurationError(
            f"Spark cannot start on master '{master}': it has no Hadoop configuration",
            detail=reason,
            hint="set HADOOP_CONF_DIR to the directory with the cluster's core-site.xml and yarn-site.xml",
        )
    kind = ConfigurationError if has_wrong_options(reason) else PenstockError
    return kind(
        f"Spark cannot start on master '{master}'",
        detail=reason,
        hint="check the spark.* options ('penstock config --key spark'); on YARN, see also the application's diagnostics"
        if master.startswith("yarn")
        else "check the spark.* options: 'penstock config --key spark'",
    )


def _ship_package(context: SparkContext) -> None:
    """Send this package to the executors: they need Python and pyspark, and nothing of ours installed."""
    # Executors fetch the file when they start, even late, so it exists as long as this process.
    directory = temporary.create_directory("ship")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    archive = Path(directory, "penstock.zip")
    pack_package(archive)
    context.addPyFile(str(archive))


def pack_package(archive: Path) -> None:
    """Write this package to an archive that Python imports from, with the driver's version of cloudpickle."""
    package = Path(__file__).parents[1]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for source in sorted(package.rglob("*.py")):
            packed.write(source, source.relative_to(package.parent))
        for source in cloudpickling.source_files():
            packed.write(source, f"penstock/pickling/cloudpickling/{source.name}")


def _stop(context: SparkContext, code: int = 0) -> None:
    if context._jsc is not None and not _has_died(context):  # noqa: SLF001 - already stopped otherwise
        stopping.set()
        if code:
            context._jsc.sc().stop(code)  # noqa: SLF001 - Python cannot say that it has failed
        context.stop()


def stop_context() -> None:
    """Stop the Spark context of this process, if there is one: its executors are free for others."""
    with _lock:
        context = _active()
        if context is not None:
            _stop(context)


@contextlib.contextmanager
def in_job_group(context: SparkContext, group: str, description: str, pool: str) -> Iterator[None]:
    """Run Spark jobs of this thread under a group, so that `cancel_jobs` finds them.

    Where Spark schedules fairly (spark.scheduler.mode), each pool has an equal share of the cores.
    """
    context.setJobGroup(group, description, interruptOnCancel=True)
    context.setLocalProperty("spark.scheduler.pool", pool)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # the JVM is gone, and what it had of this thread
            for key in ("spark.jobGroup.id", "spark.job.description", "spark.scheduler.pool"):
                context.setLocalProperty(key, None)


def cancel_jobs(group: str) -> None:
    """Cancel the Spark jobs of a group, also one that is to start only now."""
    context = getattr(_active(), "_jsc", None)  # None also while it is being started
    if context is not None:
        context.sc().cancelJobGroupAndFutureJobs(group)  # Python has it not


def is_local(context: SparkContext) -> bool:
    """Whether Spark runs its tasks in the JVM's own process group on this machine."""
    return _is_local(str(context.master))


def has_dynamic_allocation(context: SparkContext) -> bool:
    """Whether Spark gets and gives back executors as it goes: it runs no barrier stages then."""
    return bool(context.getConf().get("spark.dynamicAllocation.enabled") == "true")


def count_tasks(context: SparkContext) -> int:
    """Return how many tasks can run at once on the current executors."""
    backend = context._jsc.sc()  # noqa: SLF001 - no public API
    profile = backend.resourceProfileManager().defaultResourceProfile()
    tasks: int = backend.maxNumConcurrentTasks(profile)
    return tasks


def registration_s(context: SparkContext) -> float:
    """Return how long executors may take to come: as long as Spark itself waits for them."""
    if is_local(context):
        return 0.0
    conf = context._jsc.sc().conf()  # noqa: SLF001 - it knows Spark's units of time
    name = "spark.scheduler.maxRegisteredResourcesWaitingTime"
    milliseconds: int = conf.getTimeAsMs(name, "30s")
    return milliseconds / 1000


def count_cores() -> int | None:
    """Return how many tasks Spark can run at once; None if it is not started, or if it gets executors as it needs them."""
    context = _active()
    if context is None:
        return None
    conf = context.getConf()
    if conf.get("spark.dynamicAllocation.enabled") == "true":
        return None
    if conf.contains("spark.default.parallelism"):  # Spark would report this value only
        return None
    cores: int = context.defaultParallelism
    return max(1, cores // int(conf.get("spark.task.cpus", "1") or 1))
