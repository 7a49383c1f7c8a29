"""A standalone cluster of Spark on this machine: a master and a worker for each host, from the pip package.

Hosts are addresses of this machine, or network namespaces (`network.py`): then what slots send to each other crosses a (virtual) network.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import psutil
from network import Host

_TIMEOUT_S = 240.0
_LISTENS_AT = re.compile(r"Starting Spark master at (spark://\S+)")
_IS_SEEN_AT = re.compile(r"MasterWebUI.* started at (http://\S+)")

T = TypeVar("T")


class StandaloneCluster:
    """A master, and a worker with one core on each host."""

    def __init__(self, directory: Path, master: Host, workers: Sequence[Host]) -> None:
        import pyspark

        self._directory = directory
        self._home = Path(pyspark.__file__).parent
        self._master = master
        self._hosts = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> Self:
        try:
            web = self.start_master()
            for number in range(len(self._hosts)):
                self.start_worker(number)
            self._wait_for(web, "aliveworkers", len(self._hosts))
        except BaseException:
            self.__exit__()
            raise
        return self

    def start_master(self) -> str:
        """Start the master, where it was if there was one; return the address of its page."""
        port = self.url.rpartition(":")[2] or "0"
        where = ["--host", self._master.address, "--port", port, "--webui-port", "0"]
        self._start("master", self._master, "master.Master", where)
        self.url = self._said_by_master(_LISTENS_AT)
        web = self._said_by_master(_IS_SEEN_AT)
        self._wait_for(web, "status", "ALIVE")
        return web

    def kill_master(self) -> None:
        """Kill the master; the workers go on."""
        master = self._processes.pop(0)
        for child in psutil.Process(master.pid).children(recursive=True):
            child.kill()
        master.kill()
        master.wait()

    def kill_worker(self, number: int) -> None:
        """Kill a worker with its executor, as if its machine had died."""
        worker = self._processes.pop(1 + number)
        for child in psutil.Process(worker.pid).children(recursive=True):
            child.kill()
        worker.kill()
        worker.wait()

    def start_worker(self, number: int) -> None:
        """Start a worker."""
        host = self._hosts[number]
        where = ["--host", host.address, "--webui-port", "0", "-c", "1", "-m", "1g"]
        work = ["-d", str(self._directory / f"work{number}"), self.url]
        self._start(f"worker{number}", host, "worker.Worker", [*where, *work])

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in psutil.Process(process.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        child.send_signal(signal.SIGKILL)
            process.kill()
            process.wait()

    def executors(self) -> list[psutil.Process]:
        """The JVMs that run tasks."""
        return [
            child
            for process in self._processes
            for child in psutil.Process(process.pid).children(recursive=True)
            if any("CoarseGrainedExecutorBackend" in word for word in _command_line(child))
        ]

    def _start(self, name: str, host: Host, what: str, arguments: Sequence[str]) -> None:
        environment = {
            **os.environ,
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": host.address,
            "SPARK_LOCAL_HOSTNAME": host.address,
            "SPARK_DAEMON_MEMORY": "256m",
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        self._directory.mkdir(parents=True, exist_ok=True)
        spark_class = str(self._home / "bin" / "spark-class")
        with (self._directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*host.prefix, spark_class, f"org.apache.spark.deploy.{what}", *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes.insert(0 if name == "master" else len(self._processes), process)

    def _said_by_master(self, pattern: re.Pattern[str]) -> str:
        """Wait until the master has said where it is."""

        def look() -> str | None:
            log = (self._directory / "master.log").read_text(errors="replace")
            found = pattern.search(log)
            return found[1] if found else None

        return self._until(look)

    def _wait_for(self, web: str, name: str, value: Any) -> None:
        """Wait until the master's page tells something."""

        def look() -> bool:
            try:
                with urllib.request.urlopen(f"{web}/json/", timeout=60) as answer:
                    return bool(json.load(answer)[name] == value)
            except (OSError, ValueError):
                return False

        self._until(look)

    def _until(self, look: Callable[[], T | None]) -> T:
        """Look again and again until something is found."""
        deadline = time.monotonic() + _TIMEOUT_S
        while not (found := look()):
            assert time.monotonic() < deadline, self._story()
            time.sleep(0.1)
        return found

    def _story(self) -> str:
        logs = sorted(self._directory.glob("*.log"))
        return "\n".join(f"--- {log}\n{log.read_text(errors='replace')[-2000:]}" for log in logs)


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
