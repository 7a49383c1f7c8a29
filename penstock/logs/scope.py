"""What a thread works for at this moment: a job, a vertex of it, a subtask. Log lines take it from here.

A thread that works for several subtasks in turn says once how to find out for which. Nothing is done per record.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LogScope:
    """What a line is about; what is not known is None."""

    job_id: str | None = None
    job_name: str | None = None
    vertex_id: str | None = None
    vertex: str | None = None
    subtask: int | None = None
    parallelism: int | None = None
    attempt: int | None = None
    taskmanager: str | None = None  # where the task runs, by its id
    process: int | None = None  # of the task, as its machine numbers it

    def to_json(self) -> dict[str, Any]:
        """Return the scope as JSON values."""
        return {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LogScope:
        """Return the scope that became these JSON values."""
        return cls(**{name: _typed(name, data.get(name)) for name in _FIELDS})

    def __str__(self) -> str:
        parts = []
        if self.job_id is not None:
            parts.append(f"job {self.job_id}")
        if self.vertex is not None:
            parts.append(f"vertex {self.vertex_id} {self.vertex}")
        if self.subtask is not None:
            parts.append(f"subtask {self.subtask + 1}/{self.parallelism}, attempt {self.attempt}")
        return ", ".join(parts)


_FIELDS = tuple(LogScope.__dataclass_fields__)
_NUMBERS = ("subtask", "parallelism", "attempt", "process")


def _typed(name: str, value: Any) -> Any:
    if value is None:
        return None
    return int(value) if name in _NUMBERS else str(value)


Provider = Callable[[], LogScope]
NOWHERE = LogScope()

_thread = threading.local()
# For threads that say nothing, in a process that works for one job at a time: a task's worker.
_process_scope = NOWHERE


def current_scope() -> LogScope:
    """Return what the calling thread works for."""
    provider: Provider | None = getattr(_thread, "provider", None)
    if provider is None:
        return _process_scope
    try:
        return provider()
    except Exception:  # noqa: BLE001 - a line is worth more than what it is about
        return _process_scope


@contextlib.contextmanager
def working_for(provider: Provider) -> Iterator[None]:
    """Let lines of the calling thread be about what `provider` returns at their moment."""
    before = getattr(_thread, "provider", None)
    _thread.provider = provider
    try:
        yield
    finally:
        _thread.provider = before


def set_process_scope(scope: LogScope) -> None:
    """Say what threads of this process work for that do not say it themselves."""
    global _process_scope
    _process_scope = scope
