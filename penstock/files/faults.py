"""The process-wide hook around file system calls, through which tests let them fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol, TypeVar

from penstock.errors.file_errors import Action

_T = TypeVar("_T")

FAULTS_VARIABLE = "PENSTOCK_STORAGE_FAULTS"


class FaultHook(Protocol):
    """Wraps a call to the file system."""

    def __call__(self, action: Action, path: str, call: Callable[[], _T]) -> _T:
        """Return what `call` returns, or raise OSError before or after it."""


def set_fault_hook(hook: FaultHook | None) -> FaultHook | None:
    """Route every file system call of this process through `hook`; return the previous hook. For tests."""
    global _hook  # shared by all file systems, including those opened earlier
    before, _hook = _hook, hook
    return before


def through_hook(action: Action, path: str, call: Callable[[], _T]) -> _T:
    """Return the result of `call`, unless a test makes it fail."""
    return call() if _hook is None else _hook(action, path, call)


def _hook_from_environment(action: Action, path: str, call: Callable[[], _T]) -> _T:
    from penstock.files.storage_faults import from_environment

    hook: FaultHook = from_environment()
    set_fault_hook(hook)
    return hook(action, path, call)


_hook: FaultHook | None = _hook_from_environment if os.environ.get(FAULTS_VARIABLE) else None
