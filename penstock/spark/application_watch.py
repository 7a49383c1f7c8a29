"""Watches over the application of this process on a cluster: whether it has executors, and whether its master still knows it.

A standalone master that was killed and started again does not know its applications, unless it keeps them (`spark.deploy.recoveryMode`). It ends their
executors and never gives them others, and Spark's driver does not notice. So an application without executors asks its master. If that
does not know it, the JVM of the application is ended: jobs that run in it fail, and start again in a new application, from their last checkpoint.
A JVM that was there before the program (spark-submit) is kept, and the application in it is stopped.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from penstock.spark.masters import STANDALONE, MasterNotFoundError, check_master

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 2.0
_STARTS_S: Final = 30.0
_ENDS_S: Final = 10.0  # how long a JVM may take to end by itself


class ApplicationState(Enum):
    """The master's view of an application."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    SILENT = "silent"  # it does not answer


@dataclass(slots=True)
class ApplicationWatch:
    """Decides what to say, and when an application is lost (a pure core). `timeout_s` is how long executors may take to come."""

    master: str
    timeout_s: float
    #: Since when there have been no executors
    since: float | None = None
    #: For which answers of the master something was said about that
    said: set[ApplicationState] = field(default_factory=set)

    def look(
        self, moment: float, executors: int, ask: Callable[[], ApplicationState]
    ) -> tuple[bool, str | None]:
        """Return whether the application is lost, and what to say, if anything. `ask` asks the master, if that is of interest."""
        if executors:
            was_missing = bool(self.said)
            self.since = None
            self.said.clear()
            return False, f"Spark has executors again: {executors}" if was_missing else None
        if self.since is None:
            self.since = moment
        standing = ask()
        if standing is ApplicationState.UNKNOWN:
            return True, (
                f"the Spark master at {self.master} was restarted and does not know this application: a new application is started, and jobs resume from"
                " their last checkpoints. With spark.deploy.recoveryMode a master keeps its applications"
            )
        if standing is ApplicationState.SILENT:
            return False, self._once(
                standing,
                f"Spark has no executors, and the Spark master at {self.master} does not answer: restart it. Jobs wait until it is available",
            )
        if moment - self.since < self.timeout_s:
            return False, None
        return False, self._once(
            standing,
            f"Spark has had no executors for {moment - self.since:.0f} s: jobs wait for them. Check whether the cluster ({self.master}) has machines with enough free memory and cores"
            " (spark.executor.memory, spark.executor.cores), or whether other applications use them",
        )

    def _once(self, standing: ApplicationState, text: str) -> str | None:
        if standing in self.said:
            return None
        self.said.add(standing)
        return text


@contextlib.contextmanager
def warn_if_slow(master: str, timeout_s: float = _STARTS_S) -> Iterator[None]:
    """Say so if starting an application takes long: on YARN Spark waits, without a word, until the ResourceManager has started it."""
    timer = threading.Timer(
        timeout_s,
        _log.warning,
        (
            "Spark has waited %g s for its application to start on the cluster (%s): check whether it has machines, and whether the queue has enough free memory",
            timeout_s,
            master,
        ),
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def watch_application(
    context: SparkContext, process: subprocess.Popen[bytes] | None, timeout_s: float
) -> None:
    """Watch a context in a thread of its own, until its JVM ends or it is stopped. `process`: its JVM, if this process has started it."""
    watch = ApplicationWatch(str(context.master), timeout_s)
    java = context._jsc.sc()  # noqa: SLF001 - no Python API counts executors

    def run() -> None:
        while process is None or process.poll() is None:
            try:
                if java.isStopped():
                    return
                executors = java.getExecutorMemoryStatus().size() - 1  # the driver counts, too
                lost, text = watch.look(
                    time.monotonic(), executors, lambda: _standing(context, java)
                )
            except Exception as error:  # noqa: BLE001 - a JVM that ends raises various errors
                _log.debug("cannot watch the Spark application: %s", error)
                lost, text, executors = False, None, 0
            if text is not None:
                _log.log(logging.INFO if executors else logging.WARNING, "%s", text)
            if lost:
                if process is None:
                    java.stop()
                else:
                    end_process(process)
                return
            waiting.wait(_LOOK_EVERY_S)

    waiting = threading.Event()
    threading.Thread(target=run, name="penstock-application", daemon=True).start()


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End a JVM, by force if it does not end by itself."""
    process.terminate()
    try:
        process.wait(_ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _standing(context: SparkContext, java: object) -> ApplicationState:
    """Query the masters about the application; masters that cannot be queried, as on YARN and Kubernetes, count as knowing it."""
    master = str(context.master)
    if not master.startswith(STANDALONE):
        return ApplicationState.KNOWN
    try:
        check_master(master)
    except MasterNotFoundError:
        return ApplicationState.SILENT
    states = [_ask(context, java, each) for each in master.removeprefix(STANDALONE).split(",")]
    alive = [known for known in states if known is not None]
    if not alive:
        return ApplicationState.SILENT
    return ApplicationState.KNOWN if any(alive) else ApplicationState.UNKNOWN


def _ask(context: SparkContext, java: Any, address: str) -> bool | None:
    """Return whether a master knows the application; None if it does not answer, or does not lead."""
    jvm: Any = context._jvm  # noqa: SLF001 - only possible with Spark's internal messages
    parts = urlsplit(f"//{address}")
    try:
        place = jvm.org.apache.spark.rpc.RpcAddress.apply(parts.hostname, parts.port or 7077)
        endpoint = java.schedulerBackend().rpcEnv().setupEndpointRef(place, "Master")
        request = _module(jvm, "org.apache.spark.deploy.DeployMessages$RequestMasterState$")
        state = endpoint.askSync(request, _module(jvm, "scala.reflect.ClassTag$").Any())
    except Exception as error:  # noqa: BLE001 - it is gone in many ways
        _log.debug("the Spark master at %s does not answer: %s", address, error)
        return None
    if str(state.status().toString()) != "ALIVE":
        return None
    return any(each.id() == context.applicationId for each in state.activeApps())


def _module(jvm: object, name: str) -> Any:
    """Return an object of Scala."""
    return getattr(getattr(jvm, name), "MODULE$")
