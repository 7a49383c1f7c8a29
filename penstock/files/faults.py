"""Where tests make calls of file systems fail: one hook for all of a process."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Protocol, TypeVar

from penstock.common.file_errors import Action

_T = TypeVar("_T")

FAULTS_VARIABLE = "PENSTOCK_STORAGE_FAULTS"


class FaultHook(Protocol):
    """Stands between a call and the file system."""

    def __call__(self, action: Action, path: str, call: Callable[[], _T]) -> _T:
        """Return what `call` returns, or raise OSError before or after it."""


def set_fault_hook(hook: FaultHook | None) -> FaultHook | None:
    """Let every call to a file system of this process go through `hook`; return the one before. For tests."""
    global _hook  # one for all file systems, also those that were opened before
    before, _hook = _hook, hook
    return before


def through_hook(action: Action, path: str, call: Callable[[], _T]) -> _T:
    """Return what `call` returns, unless a test wants it to fail."""
    return call() if _hook is None else _hook(action, path, call)


def _hook_from_environment(action: Action, path: str, call: Callable[[], _T]) -> _T:
    # By name: nothing of the engine imports what is made for tests, unless a test asks for it.
    faults = importlib.import_module("penstock.testing.storage_faults")
    hook: FaultHook = faults.from_environment()
    set_fault_hook(hook)
    return hook(action, path, call)


_hook: FaultHook | None = _hook_from_environment if os.environ.get(FAULTS_VARIABLE) else None
