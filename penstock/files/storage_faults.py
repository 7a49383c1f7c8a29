"""File systems that fail on command: of checkpoints, and of connectors.

In this process:

    with storage_faults(StorageFaults(every=3)) as faults:
        env.execute()
    assert faults.struck

In all processes of a job, Spark's Python workers too, by an environment variable that each reads once:

    environment = StorageFaults(full=True, while_exists="/tmp/disk-is-full").environment()
    subprocess.Popen([...], env={**os.environ, **environment})

Every process counts for itself. A call that storage tries again counts again. Without a rule nothing of this is loaded.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from penstock.errors import ArgumentError, ConfigurationError
from penstock.errors.file_errors import Action
from penstock.files.faults import FAULTS_VARIABLE, set_fault_hook

_T = TypeVar("_T")
ACTIONS = ("write", "read", "look for", "list", "delete")


@dataclass(frozen=True, slots=True)
class StorageFaults:
    """A rule: which calls of file systems fail, and how.

    A call counts if its action is `action` and its path contains `path`, while the file `while_exists` exists if that is
    given. Of those that count, each `every`-th fails, or those from number `first` to number `last`, or all. The failure is an
    i/o error that may pass, or with `full` that there is no space. With `after` the call is carried out first, as if its answer
    was lost. `slow_s` seconds pass before every call that counts; alone, it lets none fail.
    """

    every: int | None = None
    first: int | None = None
    last: int | None = None
    full: bool = False
    after: bool = False
    slow_s: float = 0.0
    action: str = "write"
    path: str = ""
    while_exists: str = ""

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ArgumentError(
                f"unknown storage fault action {self.action!r}",
                hint=f"use one of {', '.join(ACTIONS)}",
            )
        for name in ("every", "first", "last"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ArgumentError(
                    f"{name}={value} is not a call number: calls are counted from 1"
                )
        if self.every is not None and not (self.first is None and self.last is None):
            raise ArgumentError("a rule has either every, or first and last")
        if any("," in text for text in (self.path, self.while_exists)):
            raise ArgumentError("a path in a rule of storage faults cannot have a comma in it")

    def strikes(self, number: int) -> bool:
        """Whether the call with this number, of those that count, fails."""
        if self.every is not None:
            return number % self.every == 0
        if self.first is not None or self.last is not None:
            return (self.first or 1) <= number <= (self.last or number)
        return self.full or self.after or not self.slow_s

    def error(self, path: str) -> OSError:
        """Return the failure."""
        code = errno.ENOSPC if self.full else errno.EIO
        return OSError(code, f"injected fault: {os.strerror(code)}", path)

    def environment(self) -> dict[str, str]:
        """Return the environment variable that lets this rule hold in a process and all that it starts."""
        default = StorageFaults()
        parts = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != getattr(default, field.name):
                parts.append(f"{field.name}={int(value) if isinstance(value, bool) else value}")
        return {FAULTS_VARIABLE: ",".join(parts) or "every=1"}

    @classmethod
    def parse(cls, text: str) -> StorageFaults:
        """Return the rule that `environment` has written.

        >>> StorageFaults.parse("every=3,path=chk-").every
        3
        """
        kinds: dict[str, Callable[[str], Any]] = {
            "every": int,
            "first": int,
            "last": int,
            "full": lambda value: bool(int(value)),
            "after": lambda value: bool(int(value)),
            "slow_s": float,
            "action": str,
            "path": str,
            "while_exists": str,
        }
        values = {}
        for part in text.split(","):
            name, equals, value = part.partition("=")
            try:
                if not equals:
                    raise KeyError(name)
                values[name] = kinds[name](value)
            except (KeyError, ValueError):
                raise ConfigurationError(
                    f"{FAULTS_VARIABLE}={text!r} is not a valid storage fault rule",
                    detail=f"invalid part {part!r}",
                    hint=f"name=value, separated by commas; the names are {', '.join(kinds)}",
                ) from None
        return cls(**values)


class StorageFaultHook:
    """Counts the calls of this process's file systems and lets those fail that a rule names."""

    def __init__(self, rule: StorageFaults) -> None:
        self.rule = rule
        self.struck: list[tuple[Action, str]] = []
        self.counted = 0
        self._lock = threading.Lock()  # state is written by several threads

    def __call__(self, action: Action, path: str, call: Callable[[], _T]) -> _T:
        """Return what `call` returns, or fail."""
        rule = self.rule
        if action != rule.action or rule.path not in path:
            return call()
        if rule.while_exists and not Path(rule.while_exists).exists():
            return call()
        with self._lock:
            self.counted += 1
            strikes = rule.strikes(self.counted)
            if strikes:
                self.struck.append((action, path))
        if rule.slow_s:
            time.sleep(rule.slow_s)
        if not strikes:
            return call()
        if rule.after:
            call()
        raise rule.error(path)


@contextmanager
def storage_faults(rule: StorageFaults) -> Iterator[StorageFaultHook]:
    """Let a rule hold for all file systems of this process meanwhile."""
    hook = StorageFaultHook(rule)
    before = set_fault_hook(hook)
    try:
        yield hook
    finally:
        set_fault_hook(before)


def from_environment() -> StorageFaultHook:
    """Return the hook of the rule in the environment variable; storage calls this once in a process."""
    return StorageFaultHook(StorageFaults.parse(os.environ[FAULTS_VARIABLE]))
