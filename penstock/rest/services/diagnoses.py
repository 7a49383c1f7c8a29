"""Diagnoses of jobs, cached for some seconds, so that many web pages do not sample the subtasks many times."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.rest.services.published_jobs import Controller

FRESH_MS: Final = 5_000
_KEPT: Final = 100


@dataclass(slots=True)
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    made_ms: int | None = None
    content: dict[str, Any] = field(default_factory=dict)


class Diagnoses:
    """The last diagnosis of each job. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def get(self, controller: Controller, now_ms: int) -> dict[str, Any]:
        """Return the diagnosis of a job, from the cache if it is recent enough."""
        with self._lock:
            entry = self._entries.setdefault(str(controller.get_job_id()), _Entry())
            while len(self._entries) > _KEPT:
                del self._entries[next(iter(self._entries))]
        with entry.lock:
            if entry.made_ms is None or not 0 <= now_ms - entry.made_ms <= FRESH_MS:
                found = controller.diagnose(now_ms)
                entry.content, entry.made_ms = {"timestamp": now_ms, **found}, now_ms
            return entry.content
