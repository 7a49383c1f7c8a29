"""Executors: each turns a program into a job. `execution.target` chooses one, unless `set_executor` has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from penstock import options
from penstock.client.modules_being_imported import release_modules_being_imported
from penstock.client.serialization_check import check_serializable
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.options.configuration import Configuration
from penstock.pickling import program_classes

_LOCAL = "local"  # as the value of execution.target


# Called as (step, checkpoint): "before run_pipe", "after write_manifest", ...
StepHook: TypeAlias = Callable[[str, int], None]


class PipelineExecutor(Protocol):
    """Runs programs."""

    def submit(
        self,
        transformations: Sequence[Transformation],
        settings: GraphSettings,
        configuration: Configuration,
        job_name: str,
        *,
        step_hooks: Sequence[StepHook] = (),
    ) -> Any:
        """Start a program and return the controller of its job; hooks are called around the steps of its checkpoints."""


_executor: PipelineExecutor | None = None
_step_hooks: tuple[StepHook, ...] = ()


def set_executor(executor: PipelineExecutor | None) -> PipelineExecutor | None:
    """Make `executor` run programs instead of the default one (None: restore it); return the previous one."""
    global _executor
    before, _executor = _executor, executor
    return before


@contextmanager
def watched_steps(*hooks: StepHook) -> Iterator[None]:
    """Pass these hooks to all jobs that are submitted meanwhile."""
    global _step_hooks
    before, _step_hooks = _step_hooks, (*_step_hooks, *hooks)
    try:
        yield
    finally:
        _step_hooks = before


def submit(
    transformations: Sequence[Transformation],
    settings: GraphSettings,
    configuration: Configuration,
    job_name: str,
) -> Any:
    """Start a program and return the controller of its job."""
    release_modules_being_imported()
    sent = check_serializable(transformations)
    settings = replace(settings, classes=program_classes.pickled_classes(sent))
    return executor_for(configuration).submit(
        transformations, settings, configuration, job_name, step_hooks=_step_hooks
    )


def executor_for(configuration: Configuration) -> PipelineExecutor:
    """Return the executor of a program: the one that was set, a session, or this process."""
    executor = _executor
    if executor is None and configuration.get(options.EXECUTION_TARGET) != _LOCAL:
        from penstock.client import remote_executor

        executor = remote_executor
    if executor is None:
        from penstock.client import spark_executor

        executor = spark_executor
    return executor
