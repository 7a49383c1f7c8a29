"""Runs a program up to its first `execute` and keeps that job, for commands that only show it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Self

from penstock.cli.run import RunOptions, run
from penstock.client import executors
from penstock.datastream._unexecuted import forget_unexecuted
from penstock.errors import InvalidProgramError
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.options.configuration import Configuration


@dataclass(frozen=True, slots=True)
class CapturedProgram:
    """The first job of a program, as the program submitted it."""

    transformations: tuple[Transformation, ...]
    settings: GraphSettings
    configuration: Configuration
    job_name: str


class _Handed(BaseException):
    """Ends a program at `execute`; a BaseException, so that an `except Exception` of the program does not catch it."""


class _Capturing:
    """An executor that keeps the first job and runs none."""

    def __init__(self) -> None:
        self.program: CapturedProgram | None = None
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = executors.set_executor(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        executors.set_executor(self._before)

    def submit(
        self,
        transformations: Sequence[Transformation],
        settings: GraphSettings,
        configuration: Configuration,
        job_name: str,
        *,
        step_hooks: Sequence[executors.StepHook] = (),
    ) -> NoReturn:
        """Keep a job; called by the environment."""
        if self.program is None:
            self.program = CapturedProgram(
                tuple(transformations), settings, configuration, job_name
            )
        raise _Handed


def capture(given: RunOptions) -> CapturedProgram | int:
    """Return the first job of a program, or its exit code if it failed before. The program's output goes to standard error."""
    capturing = _Capturing()
    try:
        code = run(given, contextlib.redirect_stdout(sys.stderr), capturing)
    except _Handed:
        assert capturing.program is not None
        return capturing.program
    finally:
        forget_unexecuted()  # only the first job matters
    if capturing.program is not None:  # the program has caught the exception
        return capturing.program
    if code:
        return code
    raise InvalidProgramError(
        f"the program {given.script} does not execute a job",
        detail="it ended without calling execute()",
        hint="pass the arguments with which it runs a job",
    )
