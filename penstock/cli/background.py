"""Background processes, which outlive the command that starts them: their log file, and waiting until they are up."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from penstock.errors import JobRequestError
from penstock.rest import processes
from penstock.rest.processes import ProcessRecord

_POLL_S = 0.05
_SHOWN_BYTES = 4000


class BackgroundProcess:
    """A process in a session of its own, whose output goes to a file below `~/.penstock/logs`."""

    def __init__(
        self,
        command: Sequence[str],
        name: str,
        *,
        given: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder = processes.directory().parent / "logs"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        self.log = folder / f"{name}-{stamp}-{os.getpid()}.log"
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "wb") as output:
            self.process = subprocess.Popen(  # noqa: S603 - our own command line
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(given)
            self.process.stdin.close()
        except BrokenPipeError:
            """The process has ended already; `wait_until` reports it."""

    def wait_until(
        self, is_there: Callable[[ProcessRecord], bool], what: str, timeout_s: float
    ) -> ProcessRecord | None:
        """Wait for the record of the process and return it; None if the process has ended with exit code 0.

        Any other exit code, or no record within `timeout_s`, is an error.
        """
        until = time.monotonic() + timeout_s
        while True:
            code = self.process.poll()
            if code == 0:
                return None
            if code is not None:
                raise JobRequestError(
                    f"{what} ended with exit code {code}", detail=self._log_tail()
                )
            for record in processes.read_all():
                if record.pid == self.process.pid and is_there(record):
                    return record
            if time.monotonic() > until:
                raise JobRequestError(
                    f"{what} did not answer within {timeout_s:g} s",
                    detail=f"pid {self.process.pid}, output in {self.log}",
                )
            time.sleep(_POLL_S)

    def _log_tail(self) -> str:
        tail = _tail(self.log)
        return f"{tail}\n(full output: {self.log})" if tail else f"output: {self.log}"


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _SHOWN_BYTES))
        return file.read().decode(errors="replace").strip()
