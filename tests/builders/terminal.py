"""A program in a real terminal: a pty, in which keys are pressed and the screen is read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

TIMEOUT_S = 240.0
_CONTROL = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[=>()][A-Z0-9]?)")


def _sit_down() -> None:
    """Let the keys of the terminal be those of the program, also if what runs the tests ignores Ctrl-C: in the background of a shell."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A program that believes to be in front of a person."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self._master, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        self.process = subprocess.Popen(
            command,
            stdin=child,
            stdout=child,
            stderr=child,
            env={**os.environ, "TERM": "xterm", **(environment or {})},
            cwd=directory,
            start_new_session=True,
            preexec_fn=_sit_down,
        )
        os.close(child)
        self.raw = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """What was written so far, without what moves the cursor and sets colours."""
        return _CONTROL.sub("", self.raw).replace("\r\n", "\n")

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def until(self, wanted: str, after: int = 0) -> None:
        """Wait until something was written, behind so many letters."""
        self.until_it_shows(lambda: wanted in self.text[after:], wanted)

    def until_it_shows(self, condition: Callable[[], bool], what: str = "it") -> None:
        """Wait until what was written fulfils a condition."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"{what!r} never came:\n{self.text}"
            assert self._read(), f"it ended without {what!r}:\n{self.text}"

    def end(self) -> int:
        """Wait for its end; return the exit code."""
        deadline = time.monotonic() + TIMEOUT_S
        while self._read():
            assert time.monotonic() < deadline, f"it goes on:\n{self.text}"
        return self.process.wait(TIMEOUT_S)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], 0.2)
        if not ready:
            return True
        try:
            found = os.read(self._master, 65536)
        except OSError:  # the other end was closed
            return False
        self.raw += found.decode(errors="replace")
        return bool(found)
