"""What the thread of a slot works for, for its log lines."""

from __future__ import annotations

from collections.abc import Callable

from penstock.common.logs.scope import LogScope, Provider
from penstock.graph.deployment import JobSettings
from penstock.runtime.task.subtask import Subtask


def scope_of(settings: JobSettings, attempt: int, subtask: Subtask) -> LogScope:
    """Return what lines of a subtask are about."""
    vertex = subtask.deployment
    return LogScope(
        settings.job_id,
        settings.job_name,
        vertex.id,
        vertex.name,
        subtask.index,
        vertex.parallelism,
        attempt,
    )


def following(
    settings: JobSettings, attempt: int, current: Callable[[], Subtask | None]
) -> Provider:
    """Return how to find out what a thread works for that works for several subtasks in turn."""
    job = LogScope(settings.job_id, settings.job_name)

    def provide() -> LogScope:
        subtask = current()
        return job if subtask is None else scope_of(settings, attempt, subtask)

    return provide
