"""Output of commands: tables for people, JSON for programs, progress in a terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from penstock.errors import PenstockError

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_S = 0.1
_QUIET_S = 0.3  # shorter operations show no progress


def print_line(line: str) -> None:
    """Print a line of the result."""
    sys.stdout.write(f"{line}\n")


def print_json(value: object) -> None:
    """Print the result as JSON."""
    print_line(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows of text in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print_line("  ".join(cells).rstrip())


def report(error: PenstockError, *, as_json: bool) -> None:
    """Print an error: as text, or as a JSON object for programs."""
    if as_json:
        fields = {"message": error.message, "detail": error.detail, "hint": error.hint}
        sys.stderr.write(json.dumps({"error": fields}, ensure_ascii=False) + "\n")
    else:
        sys.stderr.write(f"penstock: {error}\n")


class WaitIndicator:
    """Shows in a terminal what a command waits for and for how long; elsewhere nothing."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def wait(self, seconds: float) -> None:
        """Sleep for this long and show progress meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._show()
            time.sleep(min(left, _FRAME_S))

    def _show(self) -> None:
        waited = time.monotonic() - self._began
        if waited < _QUIET_S or not sys.stderr.isatty():
            return
        frame = _FRAMES[int(waited * 10) % len(_FRAMES)]
        sys.stderr.write(f"\r\x1b[K{frame} {self._what} ({waited:.0f} s)")
        sys.stderr.flush()
        self._shown = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
