"""Runs a program up to its first `execute`, and keeps what it would have run: for commands that only look."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Self

from penstock.cli.run import RunOptions, run
from penstock.common.configuration import Configuration
from penstock.datastream import _execution
from penstock.datastream._unexecuted import forget_unexecuted
from penstock.errors import InvalidProgramError
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation


@dataclass(frozen=True, slots=True)
class CapturedProgram:
    """A program as it was handed over."""

    transformations: tuple[Transformation, ...]
    settings: GraphSettings
    configuration: Configuration
    job_name: str


class _Handed(BaseException):
    """Ends a program at `execute`: no `except Exception` of its own takes it."""


class _Capturing:
    """What programs are handed to: keeps the first, and runs none."""

    def __init__(self) -> None:
        self.program: CapturedProgram | None = None
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = _execution.set_executor(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _execution.set_executor(self._before)

    def submit(
        self,
        transformations: Sequence[Transformation],
        settings: GraphSettings,
        configuration: Configuration,
        job_name: str,
        *,
        step_hooks: Sequence[_execution.StepHook] = (),
    ) -> NoReturn:
        """Keep a program; called by the environment."""
        if self.program is None:
            self.program = CapturedProgram(
                tuple(transformations), settings, configuration, job_name
            )
        raise _Handed


def capture(given: RunOptions) -> CapturedProgram | int:
    """Return what a program would run first, or its exit code if it failed before that. What it prints goes to standard error."""
    capturing = _Capturing()
    try:
        code = run(given, contextlib.redirect_stdout(sys.stderr), capturing)
    except _Handed:
        assert capturing.program is not None
        return capturing.program
    finally:
        forget_unexecuted()  # only the first job is looked at
    if capturing.program is not None:  # the program has taken the exception
        return capturing.program
    if code:
        return code
    raise InvalidProgramError(
        f"the program {given.script} executes nothing",
        detail="it ended without a call of execute()",
        hint="give it the arguments with which it runs a job",
    )
