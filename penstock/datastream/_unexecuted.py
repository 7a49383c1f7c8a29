"""Tracks operations that were defined and not executed, to warn at the end of the process: usually `execute()` was forgotten."""

from __future__ import annotations

import atexit
import builtins
import logging
import os
import sys
from collections.abc import Iterable
from itertools import count
from typing import Final

from penstock.graph.transformations import Transformation

_log = logging.getLogger(__name__)

_SHOWN: Final = 5
_TEST_RUNNERS: Final = frozenset({"doctest", "pytest", "unittest"})
_numbers = count()
_testing = False  # whether the support of tests is loaded


class Definitions:
    """Unexecuted operators of an environment, or statements; `kind` is the name of their owner in the warning."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._number = next(_numbers)

    def add(self, name: str, key: int | None = None) -> None:
        """Record a definition. One with a `key` may also be executed by another owner: `executed`."""
        _registry.add(self, ("step", key) if key is not None else ("own", next(_numbers)), name)

    def done(self) -> None:
        """Record that all of them are executed, or need not be: the program looked at its plan, or discarded it."""
        _registry.remove_of(self)


def executed(steps: Iterable[Transformation]) -> None:
    """Record that a job contains these steps, and all those before them."""
    waiting, seen = list(steps), set()
    while waiting:
        step = waiting.pop()
        if step.id not in seen:
            seen.add(step.id)
            waiting += step.inputs
    _registry.remove(("step", each) for each in seen)


def used_by_tables(stream: Transformation) -> None:
    """Record that a stream became a table, or was one: a view or stream without readers has no effect."""
    executed([stream])


def renamed(step: Transformation) -> None:
    """Record a step's new name."""
    _registry.rename(("step", step.id), step.name)


class _Registry:
    """All unexecuted definitions of this process."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], tuple[Definitions, str]] = {}
        self._process: int | None = None

    def add(self, owner: Definitions, key: tuple[str, int], name: str) -> None:
        self._found[key] = owner, name
        if self._process is None:
            self._process = os.getpid()
            atexit.register(self.on_exit)

    def rename(self, key: tuple[str, int], name: str) -> None:
        if key in self._found:
            self._found[key] = self._found[key][0], name

    def remove(self, keys: Iterable[tuple[str, int]]) -> None:
        for key in keys:
            self._found.pop(key, None)

    def remove_of(self, owner: Definitions) -> None:
        self.remove([key for key, (own, _) in self._found.items() if own is owner])

    def on_exit(self) -> None:
        # A forked process is not the program. A program that failed did not get to its execute().
        failed = getattr(sys, "last_value", None) is not None
        if os.getpid() == self._process and not (failed or is_interactive() or is_test()):
            self.warn()

    def warn(self) -> None:
        if self._found:
            _log.warning("%s", _message(list(self._found.values())))
            self.clear()

    def clear(self) -> None:
        self._found = {}


def _message(found: list[tuple[Definitions, str]]) -> str:
    names = [f"'{name}'" for _, name in found]
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    owners = {owner: owner.kind for owner, _ in found}
    kinds = list(owners.values())
    where = " and ".join(
        f"{kinds.count(kind)} {kind}{'' if kinds.count(kind) == 1 else 's'}"
        for kind in dict.fromkeys(kinds)
    )
    what = "1 operation was" if len(names) == 1 else f"{len(names)} operations were"
    return (
        f"the program ends without executing everything it defined: {what} never executed, in {where} ({shown}). "
        "Call execute(), or close() of an environment if nothing should run"
    )


_registry = _Registry()


def warn_of_unexecuted() -> None:
    """Log a warning about unexecuted operations, at the end of a program whose process continues."""
    _registry.warn()


def forget_unexecuted() -> None:
    """Suppress the warning about unexecuted operations: the program has failed."""
    _registry.clear()


def is_interactive() -> bool:
    """Whether statements are entered interactively: at a prompt, or in a notebook."""
    return (
        hasattr(sys, "ps1")
        or bool(sys.flags.interactive)
        or hasattr(builtins, "__IPYTHON__")
        or "ipykernel" in sys.modules
    )


def expect_tests() -> None:
    """Let this process count as one of tests."""
    global _testing
    _testing = True


def is_test() -> bool:
    """Whether this is a test process: tests define programs without executing them."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    runner = "" if spec is None else spec.name.partition(".")[0]
    if runner in _TEST_RUNNERS or "pytest" in sys.modules or _testing:
        return True
    case = getattr(
        sys.modules.get("unittest"), "TestCase", None
    )  # a test file that is run directly
    return case is not None and any(
        isinstance(each, type) and issubclass(each, case) for each in vars(main).values()
    )
