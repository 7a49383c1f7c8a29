"""Runs of the job `jobs/crossing.py` in a driver of its own, and what happens to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from fault_harness import ROOT

from penstock.errors import FileError
from penstock.files.file_system import resolve
from penstock.files.paths import join_path

JOB = Path(__file__).parent / "jobs" / "crossing.py"
sys.path.insert(0, str(JOB.parent))

import crossing  # noqa: E402 - the job itself, for its expected output

RECORDS = 6000
TIMEOUT_S = 240
FAILED = "job failed, restart"
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class Run:
    """The job's driver, a process. `storage`: where its checkpoints and its output are, if not in its directory.

    `before`: what runs a command at the driver's host, or submits it. `logs`: what was printed elsewhere.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str],
        mode: str = "pipelined",
        *,
        held: bool = False,
        storage: str | None = None,
        before: Sequence[str] = (),
        python: Sequence[str] = (sys.executable,),
        environment: Mapping[str, str] = {},
        logs: Callable[[], str] = lambda: "",
    ) -> None:
        self.directory = directory
        directory.mkdir()
        self._log = directory / "driver.log"
        self._logs = logs
        self._storage = storage or str(directory)
        self._released = directory / "released"
        options: dict[str, Any] = {"directory": str(directory), "storage": self._storage}
        options |= {"mode": mode, "settings": dict(settings), "records": RECORDS}
        if held:
            options["released"] = str(self._released)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*before, *python, str(JOB), json.dumps(options)],
                env={**os.environ, **ENVIRONMENT, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"it took too long\n{self.story()}"
            assert self._process.poll() is None or condition(), self.story()
            time.sleep(0.02)

    def checkpoints(self) -> int:
        """The number of the last completed checkpoint."""
        numbers = [
            int(PurePosixPath(name).parent.name[4:])
            for name in self._files("checkpoints")
            if PurePosixPath(name).name == "_metadata"
        ]
        return max(numbers, default=0)

    def wait_for_checkpoints(self, count: int) -> None:
        target = self.checkpoints() + count
        self.until(lambda: self.checkpoints() >= target)

    def said(self) -> str:
        """All that the driver has printed."""
        return self._log.read_text(errors="replace") + self._logs()

    def story(self) -> str:
        """What the driver has printed last."""
        return self.said()[-8000:]

    def lines(self) -> list[str]:
        """The output, sorted."""
        files, _ = resolve(self._storage)
        return sorted(
            line
            for name in self._files("counts")
            if not PurePosixPath(name).name.startswith((".", "_"))
            for line in files.read(name).decode().splitlines(keepends=True)
        )

    def listening(self) -> list[str]:
        """Where the processes of slots listen, over all attempts."""
        return self._reported("slots")

    def interpreters(self) -> list[str]:
        """The interpreters of slots, over all attempts."""
        return self._reported("interpreters")

    def _reported(self, what: str) -> list[str]:
        return sorted({path.read_text() for path in (self.directory / what).iterdir()})

    def release(self) -> None:
        """Let a source that was held back read all that is left."""
        self._released.touch()

    def finish(self) -> None:
        """Wait for the end, and judge the output."""
        assert self._process.wait(TIMEOUT_S) == 0, self.story()
        assert self.lines() == crossing.expected(RECORDS)

    def kill(self) -> None:
        """End the driver at once."""
        self._process.kill()
        self._process.wait()

    def _files(self, name: str) -> list[str]:
        files, path = resolve(join_path(self._storage, name))
        try:
            return [each.path for each in files.walk(path)]
        except FileError:
            return []  # a directory was deleted while it was listed
