"""Libraries that only some programs need: loaded when they are used, named with the command that installs them when they are missing."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.dependencies.distribution import install_command
from penstock.errors import PenstockError


def optional_module(name: str, *, extra: str, needed_by: str) -> Any:
    """Import a module of a library that comes with an extra of Penstock.

    >>> optional_module("json", extra="web", needed_by="the web").dumps([])
    '[]'
    >>> optional_module("no_such_library.client", extra="web", needed_by="the web")
    Traceback (most recent call last):
    penstock.errors.PenstockError: no_such_library is not installed
    detail: the web needs it, on the driver and on the executors
    hint: pip install 'penstock-stream[web]'
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        library = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != library:
            raise  # the library is there, and something that it needs is not
        raise PenstockError(
            f"{library} is not installed",
            detail=f"{needed_by} needs it, on the driver and on the executors",
            hint=install_command(extra),
        ) from None
