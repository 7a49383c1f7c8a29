"""Log scopes of a slot's thread: the subtask that it works for."""

from __future__ import annotations

from collections.abc import Callable

from penstock.graph.deployment import JobSettings
from penstock.logs.scope import LogScope, Provider
from penstock.runtime.task.shared.subtask import Subtask


def scope_of(settings: JobSettings, attempt: int, subtask: Subtask) -> LogScope:
    """Return the log scope of a subtask."""
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
    """Return a provider of the log scope for a thread that works for several subtasks."""
    job = LogScope(settings.job_id, settings.job_name)

    def provide() -> LogScope:
        subtask = current()
        return job if subtask is None else scope_of(settings, attempt, subtask)

    return provide
