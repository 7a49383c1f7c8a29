"""Starts the JVM that Spark runs in.

On a local master the JVM is started directly. That leaves out spark-submit's shell script and the second JVM that only
composes the first one's command line, and it can use a class archive: together they take the start from about 7 s to
2 s. On any other master PySpark starts it in its usual way, through spark-submit.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from penstock.dependencies.distribution import install_command
from penstock.errors import ConfigurationError, PenstockError
from penstock.logs.standard_output import write_out
from penstock.processes import temporary

if TYPE_CHECKING:
    from pyspark import SparkConf

_log = logging.getLogger(__name__)

_MAIN_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
# A JVM takes a second or two to start, but minutes where many other processes have the processors.
_START_TIMEOUT_S = 600.0
_SLOW_S = 30.0
# Without it, the JVM writes some reasons why it cannot start to its standard output.
ERRORS_TOGETHER = "-XX:+DisplayVMOutputToStderr"
_LOG_PROPERTIES = Path(__file__).with_name("log4j2.properties")

# Spark on Java 17 and later reaches into these packages (org.apache.spark.launcher.JavaModuleOptions).
_OPENED_PACKAGES = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
# Lines that the JVM itself writes to its standard error; what Python workers print arrives there too.
_JVM_NOISE = (
    "WARNING: Using incubator modules",
    "Picked up JAVA_TOOL_OPTIONS",
    "Picked up _JAVA_OPTIONS",
    "Using Spark's default log4j",
    "SLF4J",
    "[warning][cds",
)
# How Java, and Spark's readers of options, say that an option has a wrong value
_WRONG_OPTIONS = (
    "Could not create the Java Virtual Machine",
    "Too small maximum heap",
    "OutOfMemoryError: Java heap space",
    "OutOfMemoryError thrown from the UncaughtExceptionHandler",  # no memory even for the message
    "IllegalArgumentException",
    "NumberFormatException",
)
_UNCAUGHT = 'Exception in thread "main" '
_LAST_LINES = 5
_HELD_LINES = 1000  # enough for the stack trace of any exception
_ENDS_S = 10.0  # how long the output of a process that has ended is waited for


class JavaNotFoundError(PenstockError, RuntimeError):
    """Java was not found."""


def quiet_java_options() -> list[str]:
    """Return the JVM options that keep Spark's log off the terminal.

    The driver moves bytes and schedules: compiling with C1 only saves 1.5 s of CPU at start and nothing is slower.
    """
    return [
        f"-Dlog4j2.configurationFile={_LOG_PROPERTIES.as_uri()}",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
    ]


def find_java() -> str:
    """Return the java program: that of JAVA_HOME, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if java.is_file():
            return str(java)
    found = shutil.which("java")
    if found is None:
        raise JavaNotFoundError(
            "Java not found, which Spark needs",
            detail="there is no java executable in JAVA_HOME or on the PATH",
            hint="install a JDK, version 17 or later: apt-get install openjdk-17-jdk-headless, or brew install openjdk@17",
        )
    return found


def spark_home() -> Path:
    """Return the directory of the installed pyspark package."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PenstockError("pyspark is not installed", hint=install_command())
    return Path(spec.origin).parent


def class_archive() -> Path:
    """Return the path of the class archive of this Java and this Spark, which may not exist yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "penstock"
    made_for = [str(Path(find_java()).resolve()), _class_path(), *quiet_java_options()]
    digest = hashlib.sha256("\n".join(made_for).encode()).hexdigest()
    return cache / f"spark-{digest[:16]}.jsa"


def _class_path() -> str:
    return os.pathsep.join(sorted(map(str, (spark_home() / "jars").glob("*.jar"))))


def java_command(properties: Mapping[str, str], extra: list[str] | None = None) -> list[str]:
    """Return the command line of the JVM; `properties` are Spark's options."""
    archive = class_archive()
    shared = (
        [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable"]
        if archive.is_file()
        else []
    )
    return [
        find_java(),
        "-cp",
        _class_path(),
        ERRORS_TOGETHER,
        f"-Xmx{properties.get('spark.driver.memory', '1g')}",
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dio.netty.allocator.type=pooled",
        *quiet_java_options(),
        *(shared if extra is None else extra),
        *properties.get("spark.driver.extraJavaOptions", "").split(),
        *(f"-D{key}={value}" for key, value in properties.items()),
        _MAIN_CLASS,
    ]


class SubmitError(PenstockError, RuntimeError):
    """spark-submit exited before its JVM could be reached. The message is its output."""


def launch_by_submit(conf: SparkConf) -> Any:
    """Start the JVM through spark-submit and return the gateway to it."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    # A pipe of our own: PySpark keeps the process to itself, and what it said, if it ends at once.
    reading, writing = os.pipe()
    output = _Output(os.fdopen(reading, "rb"))
    try:
        gateway = launch_gateway(conf, popen_kwargs={"stderr": writing})
    except PySparkRuntimeError as error:
        os.close(writing)
        raise SubmitError(_reason(output.wait()) or str(error)) from error
    except BaseException:
        os.close(writing)
        raise
    os.close(writing)
    output.release()
    return gateway


class _Output:
    """The standard error of a JVM. It is read from the start, because the JVM blocks once the pipe is full.

    The lines are held back until the JVM answers. If it never does, they say why. What Python workers print arrives there too, and is passed on.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        #: The last lines that were held back; None once they are passed on
        self._held: deque[str] | None = deque()
        self._thread = threading.Thread(
            target=self._run, name="penstock-worker-output", daemon=True
        )
        self._thread.start()

    def release(self) -> None:
        """Pass on the lines that were held back, and all that follow."""
        with self._lock:
            for line in self._held or ():
                _relay(line)
            self._held = None

    def wait(self) -> list[str]:
        """Return the last lines of a process that has ended."""
        self._thread.join(_ENDS_S)
        with self._lock:
            return list(self._held or ())

    def _run(self) -> None:
        for line in iter(self._stream.readline, b""):
            text = line.decode(errors="replace")
            with self._lock:
                if self._held is None:
                    _relay(text)
                    continue
                self._held.append(text)
                if len(self._held) > _HELD_LINES:
                    _relay(self._held.popleft())
        self._stream.close()


def _reason(output: Sequence[str]) -> str:
    """Return why a JVM ended, from what it wrote: the sentence of its exception, else its last lines."""
    lines = [
        line
        for line in map(str.rstrip, output)
        if line and not any(noise in line for noise in _JVM_NOISE)
    ]
    for line in lines:
        if line.startswith(_UNCAUGHT):
            return line.removeprefix(_UNCAUGHT).removeprefix("org.apache.spark.SparkException: ")
    return "\n".join(lines[-_LAST_LINES:])


class LocalJvm:
    """A JVM of our own that serves Spark to this process. Ends when this process does: it reads our end of its stdin."""

    def __init__(self, properties: Mapping[str, str], extra: list[str] | None = None) -> None:
        self._directory = temporary.create_directory("jvm")
        self._info = Path(self._directory, "connection")
        environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
        environment["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(self._info)
        environment["SPARK_CONNECT_MODE"] = "0"
        # Workers get the import path of this process, including the directory of the user's script.
        environment["PYTHONPATH"] = os.pathsep.join(
            str(Path(entry).resolve()) for entry in sys.path
        )
        # In a session of its own, so that Ctrl-C reaches the driver only, which decides what to do.
        self.process = subprocess.Popen(  # noqa: S603 - our own command line
            java_command(properties, extra),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        assert self.process.stderr is not None
        stopping.clear()
        self._output = _Output(self.process.stderr)

    def connect(self) -> Any:
        """Wait until the JVM answers and return the gateway to it."""
        from pyspark.java_gateway import launch_gateway

        port, secret = self._wait_for_connection()
        self._output.release()
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = secret
        try:
            gateway = launch_gateway()
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        gateway.proc = self.process
        return gateway

    def _wait_for_connection(self) -> tuple[int, str]:
        started = time.monotonic()
        is_slow = False
        try:
            while (waited := time.monotonic() - started) < _START_TIMEOUT_S:
                if self._info.is_file():
                    data = self._info.read_bytes()
                    port, length = struct.unpack("!ii", data[:8])
                    return port, data[8 : 8 + length].decode()
                if self.process.poll() is not None:
                    raise self._ended(self.process.returncode)
                if waited >= _SLOW_S and not is_slow:
                    is_slow = True
                    _log.warning(
                        "the JVM for Spark has not answered for %g s: waiting for it up to %g s",
                        _SLOW_S,
                        _START_TIMEOUT_S,
                    )
                time.sleep(0.005)
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
        self.process.kill()
        raise PenstockError(f"the JVM for Spark did not answer within {_START_TIMEOUT_S:.0f} s")

    def _ended(self, code: int) -> PenstockError:
        reason = _reason(self._output.wait())
        kind = ConfigurationError if has_wrong_options(reason) else PenstockError
        return kind(
            f"the JVM for Spark ended at once with exit code {code}",
            detail=reason or None,
            hint="check the options spark.driver.memory and spark.driver.extraJavaOptions",
        )


def has_wrong_options(reason: str) -> bool:
    """Whether a JVM ended because of its options, so that it would end again.

    >>> has_wrong_options("Error: Could not create the Java Virtual Machine."), has_wrong_options("java.net.UnknownHostException: x")
    (True, False)
    >>> has_wrong_options("java.lang.OutOfMemoryError: Java heap space")
    True
    """
    return any(words in reason for words in _WRONG_OPTIONS)


stopping = threading.Event()  # set before Spark is stopped: what its processes say then is dropped


def _relay(text: str) -> None:
    """Pass on a line that Python workers print; keep the JVM's own lines away from the terminal.

    An idle worker that loses its connection while Spark stops prints a traceback, which is not relevant.
    """
    if stopping.is_set() or any(noise in text for noise in _JVM_NOISE):
        return
    try:
        write_out(sys.stdout, [text])
    except (ValueError, OSError):
        """The terminal is closed."""
