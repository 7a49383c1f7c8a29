"""The exit code of this process, as far as it is known before the process has ended: a cluster asks how a program ended."""

from __future__ import annotations

import sys

_noted: int | None = None


def note_exit_code(code: int) -> None:
    """Note the code that this process is going to exit with."""
    global _noted  # one for the whole process
    _noted = code


def expected_exit_code() -> int:
    """Return the code that this process exits with; 1 if an exception has ended the program. Called while Python ends.

    A program that calls `sys.exit(3)` by itself counts as successful: Python does not announce it.
    """
    if _noted is not None:
        return _noted
    interactive = hasattr(sys, "ps1") or sys.flags.interactive
    # Python sets it when it prints the traceback of an uncaught exception.
    return 1 if not interactive and getattr(sys, "last_value", None) is not None else 0
