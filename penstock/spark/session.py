"""The Spark context that jobs run in: quiet, and set up for many short stages."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

_LOG_PROPERTIES = Path(__file__).with_name("log4j2.properties")

# What makes short stages short. A user's `spark.*` options come after these.
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.locality.wait": "0",
    "spark.python.worker.reuse": "true",
    # Over TCP every exchange with a worker waits for a delayed acknowledgement: 40 ms a task.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
}
# Lines that the JVM itself writes to its standard error; what Python workers print arrives there too.
_JVM_NOISE = ("WARNING: ", "Picked up JAVA_TOOL_OPTIONS", "Using Spark's default log4j", "SLF4J")

_lock = threading.Lock()


def get_context(options: Mapping[str, str] | None = None) -> SparkContext:
    """Return the Spark context of this process, started on first use.

    `options` are the `spark.*` entries of the job's configuration. A context that the user started is used as it is.
    """
    with _lock:
        active = _active()
        return _start(options or {}) if active is None else active


def _active() -> SparkContext | None:
    return SparkContext._active_spark_context  # noqa: SLF001 - there is no public way to ask


def _start(options: Mapping[str, str]) -> SparkContext:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    conf = SparkConf()
    conf.setMaster(os.environ.get("SPARK_MASTER", "local[*,4]"))
    conf.setAppName("penstock")
    java_options = f"-Dlog4j2.configurationFile={_LOG_PROPERTIES.as_uri()} -XX:TieredStopAtLevel=1"
    conf.set("spark.driver.extraJavaOptions", java_options)
    for key, value in {**_DEFAULTS, **options}.items():
        if key == "spark.driver.extraJavaOptions":
            conf.set(key, f"{java_options} {value}")
        else:
            conf.set(key, value)
    gateway = launch_gateway(conf, popen_kwargs={"stderr": subprocess.PIPE})
    _relay(gateway.proc.stderr)
    context = SparkContext(conf=conf, gateway=gateway)
    atexit.register(_stop, context)
    return context


def _stop(context: SparkContext) -> None:
    if context._jsc is not None:  # noqa: SLF001 - already stopped otherwise
        context.stop()


def _relay(stream: IO[bytes]) -> None:
    """Pass on what Python workers print; keep the JVM's own lines away from the terminal."""

    def run() -> None:
        for line in iter(stream.readline, b""):
            text = line.decode(errors="replace")
            if not text.startswith(_JVM_NOISE):
                _write(text)

    threading.Thread(target=run, name="penstock-worker-output", daemon=True).start()


def _write(text: str) -> None:
    out: Any = sys.stdout
    try:
        out.write(text)
        out.flush()
    except (ValueError, OSError):
        """The terminal is gone; there is nobody to tell."""


@contextmanager
def in_job_group(context: SparkContext, group: str, description: str) -> Iterator[None]:
    """Run Spark jobs of this thread under a group, so that `cancel_jobs` finds them."""
    context.setJobGroup(group, description, interruptOnCancel=True)
    try:
        yield
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


def cancel_jobs(group: str) -> None:
    """Cancel the running Spark jobs of a group."""
    context = _active()
    if context is not None:
        context.cancelJobGroup(group)
