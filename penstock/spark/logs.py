"""Where the processes of tasks send their log lines: the driver listens for them, once it has a context."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.graph.deployment import JobSettings
from penstock.logs.sending import LineReceiver
from penstock.logs.setup import take_line
from penstock.spark.executors import executor_of

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 2.0  # in which Spark has noted on which executor a task runs
_POLL_S: Final = 0.05
_UNKNOWN: Final = "unknown"

_lock = threading.Lock()
_processes: dict[int, str] = {}  # of tasks, with the executors that they belong to
_receivers: dict[
    str, LineReceiver | None
] = {}  # by the address of a driver, None if it cannot listen


def with_address(context: SparkContext, settings: JobSettings) -> JobSettings:
    """Return the settings of a job with the address that its tasks send their lines to."""
    if not settings.logs.collected:
        return settings
    receiver = _receiver(context)
    if receiver is None:
        return settings
    return replace(settings, logs=replace(settings.logs, address=receiver.address))


def _receiver(context: SparkContext) -> LineReceiver | None:
    conf = context.getConf()
    host = conf.get("spark.driver.host") or "127.0.0.1"
    with _lock:
        if host not in _receivers:
            listens_at = conf.get("spark.driver.bindAddress") or host
            try:
                _receivers[host] = LineReceiver(host, listens_at, take_line, taskmanager_of)
            except OSError as error:
                _log.warning("task logs are not collected: cannot listen at %s: %s", host, error)
                _receivers[host] = None
        return _receivers[host]


def taskmanager_of(hello: Mapping[str, Any]) -> str:
    """Return the id of the executor that a task runs on."""
    until = time.monotonic() + _TIMEOUT_S
    while True:
        found = executor_of(int(hello.get("stage", -1)), int(hello.get("task", -1)))
        if found is not None:
            _processes[int(hello.get("process") or 0)] = found
            return found
        if time.monotonic() > until:
            return _UNKNOWN
        time.sleep(_POLL_S)


def taskmanager_of_process(process: int) -> str | None:
    """Return the id of the executor that a process of tasks belongs to, if it has sent a line; the last one of that number."""
    return _processes.get(process)
