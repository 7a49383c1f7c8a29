"""`penstock run --json`: reports at the end which jobs a program has run, and their final states."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from penstock.client import executors
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.options.configuration import Configuration


class JobRecording:
    """Records the jobs that a program starts; its output goes to standard error meanwhile."""

    def __init__(self) -> None:
        self._jobs: list[tuple[str, Any]] = []  # names and controllers
        self._before: executors.PipelineExecutor | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        self._before = executors.set_executor(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        executors.set_executor(self._before)
        self._stack.close()

    def submit(
        self,
        transformations: Sequence[Transformation],
        settings: GraphSettings,
        configuration: Configuration,
        job_name: str,
        *,
        step_hooks: Sequence[executors.StepHook] = (),
    ) -> Any:
        """Submit a job to the previous executor and record it."""
        executors.set_executor(self._before)
        try:
            controller = executors.executor_for(configuration).submit(
                transformations, settings, configuration, job_name, step_hooks=step_hooks
            )
        finally:
            executors.set_executor(self)
        self._jobs.append((job_name, controller))
        return controller

    def to_json(self, exit_code: int) -> dict[str, Any]:
        """Return the jobs and the exit code of the program."""
        jobs = [
            {
                "jid": str(controller.get_job_id()),
                "name": name,
                "state": controller.get_job_status().name,
            }
            for name, controller in self._jobs
        ]
        return {"exit-code": exit_code, "jobs": jobs}
