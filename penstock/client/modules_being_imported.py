"""Lets the threads of a job use a module that runs the job while it is imported."""

from __future__ import annotations

import sys
from types import FrameType


def release_modules_being_imported() -> None:
    """Mark the modules that the calling thread is importing as imported.

    A module that runs a job at its top level is still being imported meanwhile. Python makes other threads that import it wait for
    the end of the import, also those that unpickle its functions and classes: the tasks of the job, for which the module waits.
    What the job needs of the module is defined by now, so tasks may use it as it is, as they do with a script.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way to find the modules of this thread alone
    while frame is not None:
        spec = frame.f_globals.get("__spec__") if frame.f_code.co_name == "<module>" else None
        if spec is not None and getattr(spec, "_initializing", False):
            spec._initializing = False  # noqa: SLF001 - the import sets it, too, when it ends
        frame = frame.f_back
