"""A server that runs as a process of ours."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self


class MissingServerError(RuntimeError):
    """A server is not installed; the message says what installs it."""


_given: set[int] = set()  # ports of servers of this process


def free_port() -> int:
    """Return an unused port of the loopback address.

    It is none of those that the system gives to clients: a client must not get it while its server is not yet, or not any more, there. Even one that
    connects to a server which is away would get it now and then, and be connected to itself.
    """
    ports = _ports_of_servers()
    for _ in range(1000):
        port = secrets.choice(ports)
        if port not in _given:
            with socket.socket() as listener, suppress(OSError):
                listener.bind(("127.0.0.1", port))
                _given.add(port)
                return port
    raise RuntimeError(f"there is no free port in {ports}")


def _ports_of_servers() -> range:
    """Return ports that no client gets, as far as the system tells."""
    known = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(known.read_text().split()[0]) if known.exists() else 49_152
    return range(10_000, max(first, 20_000))


def accepts(port: int) -> bool:
    """Whether a server listens on a port of the loopback address."""
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0


class ServerProcess:
    """A process that serves until it is stopped. It may be killed and started again, on the same data.

    A server is a subclass that says what to run (`command`), and when it answers (`is_ready`).
    """

    name = "server"
    start_timeout_s = 120.0
    stop_signal = signal.SIGTERM
    environment: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix=f"penstock-{self.name}-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def command(self) -> Sequence[str]:
        """Return the program and its arguments."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Make what the first start needs: data directories, configuration."""

    def is_ready(self) -> bool:
        """Whether it answers."""
        return accepts(self.port)

    @property
    def log(self) -> Path:
        """What it prints."""
        return self.directory / "log"

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it and wait until it answers."""
        if not (self.directory / ".prepared").exists():
            self.prepare()
            (self.directory / ".prepared").touch()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        self._wait_for(self.is_ready)
        return self

    def _wait_for(self, ready: Callable[[], bool]) -> None:
        end = time.monotonic() + self.start_timeout_s
        while not ready():
            if not self.running or time.monotonic() > end:
                state = "does not answer" if self.running else "has ended"
                tail = self.log.read_text(errors="replace")[-3000:]
                self.close()
                raise RuntimeError(f"the {self.name} {state}:\n{tail}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Let it end in order."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def close(self) -> None:
        """Stop it and delete its data."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
